#include "fake_ledger.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/owner.h"

static char folder[64];

int fake_folder(void)
{
    int fd;

    (void)strcpy(folder, "/tmp/gpuslice-unit-XXXXXX");
    assert_non_null(mkdtemp(folder));
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

const char *fake_folder_path(void)
{
    return folder;
}

void fake_folder_remove(int dir_fd)
{
    char command[96];

    (void)close(dir_fd);
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

struct fake_ledger fake_ledger(int dir_fd, const char *name, uint32_t n_devices)
{
    struct fake_ledger f = {.bytes = gs_ledger_file_bytes(n_devices)};
    int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct stat st;
    char *base;

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)f.bytes), 0);
    assert_int_equal(fstat(fd, &st), 0);
    f.dev = st.st_dev;
    f.ino = st.st_ino;
    base = mmap(NULL, f.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(base != MAP_FAILED);
    (void)close(fd);
    f.ledger = (struct gs_ledger *)(void *)(base + GS_LEDGER_OFFSET);
    f.device = (struct gs_ledger_device *)(void *)(f.ledger + 1);
    f.ledger->head.magic = GS_LEDGER_MAGIC;
    f.ledger->head.version = GS_LEDGER_VERSION;
    f.ledger->head.n_devices = n_devices;
    f.ledger->head.file_bytes = f.bytes;
    for (uint32_t i = 0; i < n_devices; i++)
        (void)snprintf(f.device[i].uuid, sizeof(f.device[i].uuid), "GPU-%u", i);
    return f;
}

void fake_ledger_drop(struct fake_ledger *f)
{
    (void)munmap((char *)f->ledger - GS_LEDGER_OFFSET, f->bytes);
    f->ledger = NULL;
}

void fake_process(struct fake_ledger *f, uint32_t slot, int alive)
{
    struct gs_owner owner;

    assert_int_equal(gs_owner_self(&owner), 0);
    if (!alive)
        owner.start_ticks -= 1; /* our pid, but of somebody before us */
    f->ledger->slot[slot].owner = gs_owner_word(&owner);
    f->ledger->slot[slot].pid = owner.pid;
    f->ledger->slot[slot].start_ticks = owner.start_ticks;
    if (f->ledger->head.slot_high <= slot)
        f->ledger->head.slot_high = slot + 1;
}

void fake_bin(struct fake_ledger *f, uint32_t slot, uint64_t at_ns, uint64_t ns)
{
    uint64_t epoch = at_ns / GS_LEDGER_BIN_NS;

    f->device[0].use[slot].bin[epoch % GS_LEDGER_BINS] = epoch << GS_LEDGER_BIN_BITS | ns;
}
