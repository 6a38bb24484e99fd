/* A ledger with any content: input bytes overwrite a good one, two bytes of place before each run
 * of eight. Reader and text of the events must keep within bounds, end, and print nothing raw. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract/ledger.h"
#include "contract/reason.h"

#define DEVICES 2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *open_file(int *ret_fd)
{
    uint64_t bytes = gs_ledger_file_bytes(DEVICES);
    uint8_t *base;

    *ret_fd = memfd_create("ledger", MFD_CLOEXEC);
    if (*ret_fd < 0 || ftruncate(*ret_fd, (off_t)bytes) != 0)
        abort();
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0);
    if (base == MAP_FAILED)
        abort();
    return base;
}

/** Scatter the input over the head, the first slots, shares and events, and the devices. */
static void scatter(uint8_t *base, const uint8_t *data, size_t size)
{
    static const uint64_t regions[] = {
        GS_LEDGER_OFFSET,
        GS_LEDGER_OFFSET + offsetof(struct gs_ledger, slot),
        GS_LEDGER_OFFSET + offsetof(struct gs_ledger, share),
        GS_LEDGER_OFFSET + offsetof(struct gs_ledger, ring),
        GS_LEDGER_OFFSET + sizeof(struct gs_ledger),
        GS_LEDGER_OFFSET + sizeof(struct gs_ledger) + offsetof(struct gs_ledger_device, held),
        GS_LEDGER_OFFSET + sizeof(struct gs_ledger) +
            offsetof(struct gs_ledger_device, share_bytes),
    };

    for (; size >= 10; data += 10, size -= 10) {
        uint64_t at = regions[data[0] % 7] + 8 * (uint64_t)data[1];

        if (at + 8 <= gs_ledger_file_bytes(DEVICES))
            memcpy(base + at, data + 2, 8);
    }
}

static void read_events(int fd)
{
    static struct gs_ledger_event events[GS_LEDGER_RING];
    uint64_t next;
    int n = gs_ledger_read_events(fd, 0, events, GS_LEDGER_RING, &next);

    for (int i = 0; i < n; i++) {
        char text[400];
        struct gs_str_out out;

        gs_str_out_init(&out, text, sizeof(text));
        gs_reason_put(&out, &events[i]);
        for (size_t c = 0; c < out.n; c++) {
            if (text[c] < ' ' || text[c] > '~')
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_ledger_snapshot snap;
    static uint8_t *base;
    static int fd;
    struct gs_ledger *ledger;

    if (base == NULL)
        base = open_file(&fd);
    memset(base + GS_LEDGER_OFFSET, 0, gs_ledger_file_bytes(DEVICES) - GS_LEDGER_OFFSET);
    ledger = (struct gs_ledger *)(void *)(base + GS_LEDGER_OFFSET);
    ledger->head.magic = GS_LEDGER_MAGIC;
    ledger->head.version = GS_LEDGER_VERSION;
    ledger->head.n_devices = DEVICES;
    ledger->head.file_bytes = gs_ledger_file_bytes(DEVICES);
    scatter(base, data, size);
    if (gs_ledger_read(fd, &snap) == 0) {
        for (uint32_t i = 0; i < snap.n_devices; i++) {
            if (strlen(snap.device[i].uuid) > 95 || snap.device[i].core_pct > 100)
                abort();
        }
    }
    read_events(fd);
    return 0;
}
