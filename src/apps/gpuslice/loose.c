#include "apps/gpuslice/loose.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "contract/ledger.h"
#include "core/size.h"
#include "core/str.h"

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

static void fill_quota(const struct gs_ledger_snapshot *snapshot, struct gs_slice *slice)
{
    struct gs_quota *quota = &slice->quota;

    quota->n_devices = snapshot->n_devices;
    for (uint32_t i = 0; i < snapshot->n_devices; i++) {
        const struct gs_ledger_books *from = &snapshot->device[i];
        struct gs_quota_device *d = &quota->device[i];

        (void)snprintf(d->uuid, sizeof(d->uuid), "%s", from->uuid);
        d->limit_bytes = from->limit_bytes;
        d->core_pct = from->core_pct;
        d->policy = from->policy;
        slice->used_bytes[i] = from->used_bytes;
    }
}

static void free_slice(struct gs_slice **slice)
{
    gs_slice_fini(*slice);
    free(*slice);
    *slice = NULL;
}

/* The ledger of a user in the folder of that user's slices. Returns 1; 0 there is none with a live
 * process; -ENOMEM. */
static int read_loose(const char *base, uid_t uid, struct gs_slice **ret_slice)
{
    GS_CLEANUP(free_snapshot) struct gs_ledger_snapshot *snapshot = malloc(sizeof(*snapshot));
    GS_CLEANUP(free_slice) struct gs_slice *slice = malloc(sizeof(*slice));
    GS_CLEANUP(gs_file_close) int fd = -1;

    if (slice)
        gs_slice_init(slice);
    if (!snapshot || !slice)
        return -ENOMEM;
    slice->dir_fd = gs_file_open_private(AT_FDCWD, base, uid, NULL);
    if (slice->dir_fd < 0)
        return 0; /* nor may another user's be read */
    fd = openat(slice->dir_fd, GS_LOOSE_LEDGER, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || gs_ledger_read(fd, snapshot) != 0 || !has_live(snapshot))
        return 0;
    memcpy(slice->name, GS_LOOSE_NAME, sizeof(GS_LOOSE_NAME));
    (void)snprintf(slice->base, sizeof(slice->base), "%s", base);
    slice->uid = uid;
    slice->state = GS_SLICE_RUNNING;
    slice->created_ns = snapshot->created_ns;
    fill_quota(snapshot, slice);
    *ret_slice = GS_STEAL(slice);
    return 1;
}

static int add(struct gs_slices *slices, const char *base, uid_t uid)
{
    GS_CLEANUP(free_slice) struct gs_slice *slice = NULL;
    int rc = read_loose(base, uid, &slice);
    struct gs_slice **p;

    if (rc <= 0 || !slice)
        return rc;
    p = realloc(slices->p, (slices->n + 1) * sizeof(struct gs_slice *));
    if (!p)
        return -ENOMEM;
    slices->p = p;
    p[slices->n++] = GS_STEAL(slice);
    return 0;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

/* Folders gpuslice-<uid> of any user. */
static int add_all(struct gs_slices *slices)
{
    GS_CLEANUP(close_dir) DIR *dir = opendir("/tmp");
    struct dirent *entry;
    int rc = 0;

    while (dir && rc == 0 && (entry = readdir(dir)) != NULL) {
        struct gs_str number = gs_str_of(entry->d_name);
        char base[PATH_MAX];
        uint64_t uid;

        if (!gs_str_skip(&number, GS_STR("gpuslice-")) || gs_size_parse_u64(number, &uid) != 0 ||
            uid >= (uid_t)-1)
            continue;
        (void)snprintf(base, sizeof(base), "/tmp/%s", entry->d_name);
        rc = add(slices, base, (uid_t)uid);
    }
    return rc;
}

int gs_loose_list(const struct gs_proc_table *procs, struct gs_slices *ret_slices,
                  struct gs_err *err)
{
    int rc = gs_slices_list(procs, true, ret_slices, err);

    if (rc != 0 || add_all(ret_slices) == 0)
        return rc;
    gs_slices_fini(ret_slices);
    return gs_err_set(err, -ENOMEM, "out of memory");
}

bool gs_loose_is(const struct gs_slice *slice)
{
    return strcmp(slice->name, GS_LOOSE_NAME) == 0;
}
