#include "apps/gpuslice/loose.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "contract/ledger.h"

static void free_snapshot(struct gs_ledger_snapshot **snapshot)
{
    free(*snapshot);
    *snapshot = NULL;
}

static bool has_live(const struct gs_ledger_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->n_slots; i++)
        if (snapshot->is_live[i])
            return true;
    return false;
}

static void fill_quota(const struct gs_ledger_snapshot *snapshot, struct gs_quota *quota)
{
    quota->n_devices = snapshot->n_devices;
    for (uint32_t i = 0; i < snapshot->n_devices; i++) {
        const struct gs_ledger_books *from = &snapshot->device[i];
        struct gs_quota_device *d = &quota->device[i];

        (void)snprintf(d->uuid, sizeof(d->uuid), "%s", from->uuid);
        d->limit_bytes = from->limit_bytes;
        d->core_pct = from->core_pct;
        d->policy = from->policy;
    }
}

static int append(struct gs_slices *slices, struct gs_slice *slice)
{
    struct gs_slice **p = realloc(slices->p, (slices->n + 1) * sizeof(struct gs_slice *));

    if (!p)
        return -ENOMEM;
    slices->p = p;
    p[slices->n++] = slice;
    return 0;
}

int gs_loose_add(struct gs_slices *slices)
{
    GS_CLEANUP(free_snapshot) struct gs_ledger_snapshot *snapshot = malloc(sizeof(*snapshot));
    GS_CLEANUP(gs_file_close) int dir = -1;
    GS_CLEANUP(gs_file_close) int fd = -1;
    struct gs_slice *slice;
    char base[64];

    if (!snapshot)
        return -ENOMEM;
    (void)snprintf(base, sizeof(base), "/tmp/gpuslice-%u", geteuid());
    dir = gs_file_open_private(AT_FDCWD, base, geteuid(), NULL);
    if (dir < 0)
        return 0;
    fd = openat(dir, GS_LOOSE_LEDGER, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || gs_ledger_read(fd, snapshot) != 0 || !has_live(snapshot))
        return 0;
    slice = malloc(sizeof(*slice));
    if (!slice)
        return -ENOMEM;
    gs_slice_init(slice);
    memcpy(slice->name, GS_LOOSE_NAME, sizeof(GS_LOOSE_NAME));
    memcpy(slice->base, base, sizeof(base));
    slice->uid = geteuid();
    slice->state = GS_SLICE_RUNNING;
    slice->created_ns = snapshot->created_ns;
    fill_quota(snapshot, &slice->quota);
    if (append(slices, slice) != 0) {
        free(slice);
        return -ENOMEM;
    }
    slice->dir_fd = dir;
    dir = -1;
    return 0;
}

bool gs_loose_is(const struct gs_slice *slice)
{
    return strcmp(slice->name, GS_LOOSE_NAME) == 0;
}
