#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/stat.h>

#include "hook/share.h"
#include "hook/sys.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/vmm.h"

/* Descriptors that this process exported memory as, each one reference to its memory.
 *
 * GS_OBJ_EXPORT  key = number of the descriptor;  aux = id of the memory;  bytes = hash of the
 * file's identity;  flags = MARKED.
 *
 * Whether a number still means the file that was exported: device and inode tell it where each
 * export is a file of its own. A real driver's exports are all of one device node, like other
 * descriptors that it opens and closes, and numbers return soon. Those are marked with the signal
 * for input readiness (F_SETSIG), which belongs to the open file, starts as 0 and has no effect
 * without O_ASYNC.
 *
 * Not followed: a copy of the descriptor (dup, a forked child's, one that waits in a socket) after
 * the original is closed. An importer in the slice carries the charge itself. */

#define BATCH  64
#define MARKED 1u

static uint32_t n_exports;

struct batch {
    uint32_t skip;
    uint32_t seen;
    uint32_t n;
    uint64_t key[BATCH];
    struct gs_obj obj[BATCH];
};

static int get_mark(int fd)
{
    return (int)GS_SYS(SYS_fcntl, fd, F_GETSIG, 0);
}

/* Identity of the file behind a descriptor; false: there is none to be had. */
static bool identify(int fd, uint64_t *ret_hash, bool *ret_device)
{
    struct stat st;
    uint64_t id[2];

    if (gs_sys_fstat(fd, &st) != 0)
        return false;
    id[0] = st.st_dev;
    id[1] = st.st_ino;
    *ret_hash = gs_share_key_of(id, sizeof(id)).w[0];
    *ret_device = S_ISCHR(st.st_mode);
    return true;
}

static bool is_open(int fd, const struct gs_obj *export)
{
    uint64_t hash;
    bool device;

    return identify(fd, &hash, &device) && hash == export->bytes &&
           ((export->flags & MARKED) == 0 || get_mark(fd) == SIGIO);
}

static int take_same(struct gs_obj *obj, void *arg)
{
    const struct gs_obj *seen = arg;

    /* else the number stands for a newer export by now */
    return obj->aux == seen->aux && obj->bytes == seen->bytes ? GS_TRACK_REMOVE : 0;
}

static void collect(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct batch *b = arg;

    if (b->seen++ < b->skip || b->n == BATCH)
        return;
    b->key[b->n] = key;
    b->obj[b->n++] = *obj;
}

bool gs_vmm_any_export(void)
{
    return __atomic_load_n(&n_exports, __ATOMIC_RELAXED) != 0;
}

void gs_vmm_forget(void)
{
    __atomic_store_n(&n_exports, 0, __ATOMIC_RELAXED);
}

/* An entry is out of the table: end its reference. */
static void end(uint64_t id)
{
    (void)__atomic_fetch_sub(&n_exports, 1, __ATOMIC_RELAXED);
    gs_vmm_unref(id);
}

/* Apart from the test below, which stands on the path of every query: the batch is large. */
__attribute__((noinline)) static void look(void)
{
    struct batch b;

    b.skip = 0;
    do {
        uint32_t kept = 0;

        b.seen = 0;
        b.n = 0;
        gs_track_each(GS_OBJ_EXPORT, collect, &b);
        for (uint32_t i = 0; i < b.n; i++) {
            if (is_open((int)b.key[i], &b.obj[i]))
                kept++;
            else if (gs_track_update(GS_OBJ_EXPORT, b.key[i], take_same, &b.obj[i]) ==
                     GS_TRACK_REMOVE)
                end(b.obj[i].aux);
        }
        b.skip += kept;
    } while (b.n == BATCH);
}

void gs_vmm_look_at_exports(void)
{
    if (GS_UNLIKELY(gs_vmm_any_export()))
        look();
}

void gs_vmm_note_export(int fd, uint64_t id)
{
    struct gs_obj export = {.aux = id, .share = -1, .refs = 1}, old;
    bool device;

    if (fd < 0 || !identify(fd, &export.bytes, &device))
        return;
    /* The driver gave out the number: what it stood for is closed. */
    if (gs_track_take(GS_OBJ_EXPORT, (uint64_t)fd, &old))
        end(old.aux);
    if (device) {
        if (GS_SYS(SYS_fcntl, fd, F_SETSIG, SIGIO) != 0)
            return; /* not to be told from others: better not counted than counted for ever */
        export.flags = MARKED;
    }
    if (!gs_vmm_ref(id, true))
        return; /* released meanwhile: a race of the program with itself */
    (void)__atomic_fetch_add(&n_exports, 1, __ATOMIC_RELAXED);
    if (gs_track_put(GS_OBJ_EXPORT, (uint64_t)fd, &export) != 0)
        end(id); /* no memory for the table: the charge goes with the last handle */
}
