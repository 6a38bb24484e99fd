#include "monitor/region.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract/ledger.h"
#include "core/size.h"
#include "core/str.h"

#define UUID_FIELD 96u
#define CHUNK      4u /* slots read at once */
#define SLOT_MAX   1960u
#define HEAD_MAX   1856u /* before the slots */

/** Where things are in one layout. */
struct layout {
    uint32_t n_devices, uuid, limit, sm_limit, slots, slot_bytes, memory_bytes, util, util_bytes,
        status, n_slots, utilization_switch, recent_kernel, priority, last_kernel;
};

static const struct layout layouts[] = {
    [GS_REGION_OLD] = {.n_devices = 48,
                       .uuid = 56,
                       .limit = 1592,
                       .sm_limit = 1720,
                       .slots = 1848,
                       .slot_bytes = 1168,
                       .memory_bytes = 40,
                       .util = 776,
                       .util_bytes = 24,
                       .status = 1160,
                       .n_slots = 1197880,
                       .utilization_switch = 1197884,
                       .recent_kernel = 1197888,
                       .priority = 1197892,
                       .last_kernel = 0},
    [GS_REGION_NEW] = {.n_devices = offsetof(struct gs_hami_region, n_devices),
                       .uuid = offsetof(struct gs_hami_region, uuid),
                       .limit = offsetof(struct gs_hami_region, limit_bytes),
                       .sm_limit = offsetof(struct gs_hami_region, sm_limit_pct),
                       .slots = offsetof(struct gs_hami_region, slot),
                       .slot_bytes = sizeof(struct gs_hami_slot),
                       .memory_bytes = sizeof(struct gs_hami_memory),
                       .util = offsetof(struct gs_hami_slot, util),
                       .util_bytes = sizeof(struct gs_hami_util),
                       .status = offsetof(struct gs_hami_slot, status),
                       .n_slots = offsetof(struct gs_hami_region, n_slots),
                       .utilization_switch = offsetof(struct gs_hami_region, utilization_switch),
                       .recent_kernel = offsetof(struct gs_hami_region, recent_kernel),
                       .priority = offsetof(struct gs_hami_region, priority),
                       .last_kernel = offsetof(struct gs_hami_region, last_kernel_unix_s)},
};
_Static_assert(sizeof(struct gs_hami_slot) == SLOT_MAX, "a chunk fits");
_Static_assert(offsetof(struct gs_hami_region, slot) == HEAD_MAX, "a head fits");
_Static_assert(offsetof(struct gs_hami_region, last_kernel_unix_s) -
                       offsetof(struct gs_hami_region, n_slots) ==
                   16,
               "the tail is in one piece");

int gs_region_check(int fd, enum gs_region_layout *ret_layout)
{
    struct stat st;
    int32_t head[2];
    int rc;

    if (fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EPROTO;
    if (st.st_size == 0)
        return -ENODATA;
    if (st.st_size < GS_REGION_OLD_BYTES)
        return -EPROTO;
    rc = gs_ledger_pread(fd, head, sizeof(head), 0);
    if (rc < 0)
        return rc;
    if (head[0] != GS_HAMI_MAGIC ||
        (st.st_size >= GS_HAMI_REGION_BYTES && head[1] != GS_HAMI_MAJOR))
        return -EPROTO;
    *ret_layout = st.st_size >= GS_HAMI_REGION_BYTES ? GS_REGION_NEW : GS_REGION_OLD;
    return 0;
}

/** What is behind the slots, read in one go: n_slots, the three words a monitor steers by, and when
 * a kernel was launched last. */
struct tail {
    int32_t n_slots;
    struct gs_region_words words;
};

static int read_tail(int fd, const struct layout *l, struct tail *ret)
{
    int32_t word[4];
    int64_t last = 0;
    char bytes[sizeof(word) + sizeof(last)];
    size_t n = l->last_kernel != 0 ? sizeof(bytes) : sizeof(word);
    int rc = gs_ledger_pread(fd, bytes, n, l->n_slots);

    if (rc < 0)
        return rc;
    memcpy(word, bytes, sizeof(word));
    if (l->last_kernel != 0)
        memcpy(&last, bytes + sizeof(word), sizeof(last));
    *ret = (struct tail){.n_slots = word[0],
                         .words = {.utilization_switch = word[1],
                                   .recent_kernel = word[2],
                                   .priority = word[3],
                                   .last_kernel_unix_s = last > 0 ? last : 0}};
    return 0;
}

int gs_region_read_words(int fd, enum gs_region_layout layout, struct gs_region_words *ret)
{
    struct tail tail;
    int rc = read_tail(fd, &layouts[layout], &tail);

    if (rc == 0)
        *ret = tail.words;
    return rc;
}

static int write_word(int fd, uint32_t at, int32_t before, int32_t now)
{
    if (before == now)
        return 0;
    if (pwrite(fd, &now, sizeof(now), (off_t)at) != (ssize_t)sizeof(now))
        return errno != 0 ? -errno : -EIO;
    return 0;
}

int gs_region_write_words(int fd, enum gs_region_layout layout,
                          const struct gs_region_words *before, const struct gs_region_words *now)
{
    const struct layout *l = &layouts[layout];
    int rc = write_word(fd, l->recent_kernel, before->recent_kernel, now->recent_kernel);

    if (rc == 0)
        rc = write_word(fd, l->utilization_switch, before->utilization_switch,
                        now->utilization_switch);
    return rc;
}

static uint64_t word_at(const char *head, uint32_t at)
{
    uint64_t word;

    memcpy(&word, head + at, sizeof(word));
    return word;
}

static int read_devices(int fd, const struct layout *l, struct gs_region *ret)
{
    char head[HEAD_MAX];
    int rc = gs_ledger_pread(fd, head, l->slots, 0);
    uint64_t n;

    if (rc < 0)
        return rc;
    n = word_at(head, l->n_devices);
    ret->n_devices = n < GS_HAMI_DEVICES ? (uint32_t)n : GS_HAMI_DEVICES;
    memset(ret->device, 0, sizeof(ret->device));
    for (uint32_t i = 0; i < ret->n_devices; i++) {
        struct gs_region_device *d = &ret->device[i];
        struct gs_str text = gs_str_of_field(head + l->uuid + i * UUID_FIELD, GS_REGION_UUID);
        uint64_t limit = word_at(head, l->limit + i * 8), sm = word_at(head, l->sm_limit + i * 8);

        if (gs_str_is_word(text))
            memcpy(d->uuid, text.p, text.n);
        d->limit_bytes = limit != 0 ? limit : UINT64_MAX;
        d->core_pct = sm <= 100 ? (uint32_t)sm : 100;
    }
    return 0;
}

static void add_memory(struct gs_region_device *d, const char *at)
{
    uint64_t word[5];

    memcpy(word, at, sizeof(word));
    d->context_bytes = gs_size_add(d->context_bytes, word[0]);
    d->module_bytes = gs_size_add(d->module_bytes, word[1]);
    d->buffer_bytes = gs_size_add(d->buffer_bytes, word[2]);
    d->offset_bytes = gs_size_add(d->offset_bytes, word[3]);
    d->used_bytes = gs_size_add(d->used_bytes, word[4]);
}

static void take_slot(const struct layout *l, const char *slot, struct gs_region *ret)
{
    int32_t status, host_pid;

    memcpy(&status, slot + l->status, sizeof(status));
    memcpy(&host_pid, slot + sizeof(int32_t), sizeof(host_pid));
    if (status == GS_HAMI_DEAD)
        return;
    ret->host_pid[ret->n_processes++] = host_pid > 0 ? host_pid : 0;
    for (uint32_t i = 0; i < ret->n_devices; i++) {
        uint64_t sm;

        add_memory(&ret->device[i], slot + 8 + (size_t)i * l->memory_bytes);
        memcpy(&sm, slot + l->util + (size_t)i * l->util_bytes + 2 * sizeof(uint64_t), sizeof(sm));
        ret->device[i].sm_pct = gs_size_add(ret->device[i].sm_pct, sm);
    }
}

static int read_slots(int fd, const struct layout *l, int32_t n, struct gs_region *ret)
{
    char chunk[CHUNK * SLOT_MAX];
    int rc = 0;

    ret->n_processes = 0;
    if (n > (int32_t)GS_HAMI_SLOTS)
        n = (int32_t)GS_HAMI_SLOTS;
    for (int32_t from = 0; rc == 0 && from < n; from += (int32_t)CHUNK) {
        uint32_t some = n - from < (int32_t)CHUNK ? (uint32_t)(n - from) : CHUNK;

        rc = gs_ledger_pread(fd, chunk, (size_t)some * l->slot_bytes,
                             l->slots + (uint64_t)from * l->slot_bytes);
        for (uint32_t i = 0; rc == 0 && i < some; i++)
            take_slot(l, chunk + (size_t)i * l->slot_bytes, ret);
    }
    return rc;
}

int gs_region_read(int fd, struct gs_region *ret)
{
    const struct layout *l;
    struct tail tail = {0};
    int rc = gs_region_check(fd, &ret->layout);

    if (rc < 0)
        return rc;
    l = &layouts[ret->layout];
    rc = read_devices(fd, l, ret);
    if (rc == 0)
        rc = read_tail(fd, l, &tail);
    if (rc < 0)
        return rc;
    ret->words = tail.words;
    return read_slots(fd, l, tail.n_slots, ret);
}
