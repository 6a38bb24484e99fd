#include "hook/board.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "contract/env.h"
#include "core/atomics.h"
#include "hook/self.h"
#include "hook/spin.h"
#include "hook/sys.h"

/* Read, not mapped: a file that somebody cuts short would kill the reader of a mapping. */

/** A board is read again after so long: a tenth of a tick, and less often than launches pass. */
#define READ_NS 2000000u
/** One that is absent, stale or damaged. */
#define LOOK_NS 100000000u

struct view {
    uint64_t look_ns; /**< when the file is read next; moved by who reads it */
    uint64_t spin;    /**< of what follows */
    uint64_t beat_ns; /**< 0 nothing was read so far */
    int rc;           /**< 0, or why we are not on the board */
    struct gs_board_slice entry;
};

static struct {
    struct view view[GS_LEDGER_DEVICES];
    struct gs_board copy; /**< of the thread that reads */
    uint64_t is_reading;
    uint64_t stage;   /**< of choosing the folder: STAGE_* */
    char folder[512]; /**< empty: none */
} state;

static bool is_folder(const char *path)
{
    int fd = gs_sys_openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

    if (fd < 0)
        return fd != -ENOENT && fd != -ENOTDIR; /* there, though not for us: ours does not count */
    gs_sys_close(fd);
    return true;
}

enum { STAGE_NONE, STAGE_CHOOSING, STAGE_CHOSEN };

/** True when the name can be read. */
static bool choose_folder(void)
{
    uint64_t stage = STAGE_NONE;
    struct gs_str_out out;
    const char *path;

    /* acquire on failure: the name, where it is chosen; pairs with the release below */
    if (!gs_atomic_cas(&state.stage, &stage, STAGE_CHOOSING, __ATOMIC_ACQ_REL))
        return stage == STAGE_CHOSEN;
    path = is_folder(GS_BOARD_DIR) ? GS_BOARD_DIR : getenv(GS_ENV_BOARD_DIR);
    gs_str_out_init(&out, state.folder, sizeof(state.folder));
    if (path != NULL && path[0] == '/' && strlen(path) < sizeof(state.folder))
        gs_str_put_c(&out, path);
    gs_atomic_store(&state.stage, STAGE_CHOSEN, __ATOMIC_RELEASE);
    return true;
}

/** The card's file in the folder, or -errno. */
static int open_board(const char *uuid)
{
    char path[sizeof(state.folder) + sizeof(gs_self.uuid[0]) + 1];
    struct gs_str_out out;

    if (!choose_folder() || state.folder[0] == '\0' || uuid[0] == '\0' || uuid[0] == '.' ||
        strchr(uuid, '/') != NULL)
        return -ENOENT;
    gs_str_out_init(&out, path, sizeof(path));
    gs_str_put_c(&out, state.folder);
    gs_str_put_char(&out, '/');
    gs_str_put_c(&out, uuid);
    if (out.cut)
        return -ENAMETOOLONG;
    return gs_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK,
                         0);
}

/** Read the card's file. What cannot be read changes nothing: what was read last counts until its
 *  beat is too old. */
static void take(struct view *view, const char *uuid, uint64_t now_ns)
{
    struct gs_board_slice entry = {0};
    int rc, fd = open_board(uuid);

    if (fd < 0)
        return;
    rc = gs_board_read(fd, &state.copy);
    gs_sys_close(fd);
    if (rc == 0)
        rc = gs_board_find(&state.copy, gs_self.file_dev, gs_self.file_ino, now_ns, &entry);
    if (rc != 0 && rc != -ENOENT)
        return;
    gs_spin_lock(&view->spin);
    view->beat_ns = state.copy.beat_ns;
    view->rc = rc;
    view->entry = entry;
    gs_spin_unlock(&view->spin);
}

static bool is_fresh(uint64_t beat_ns, uint64_t now_ns)
{
    return beat_ns != 0 &&
           (beat_ns <= now_ns ? now_ns - beat_ns : beat_ns - now_ns) <= GS_BOARD_STALE_NS;
}

/** Read the file where that is due, unless another thread is at one. */
static void look(uint32_t dev, uint64_t now_ns)
{
    struct view *view = &state.view[dev];
    uint64_t next = gs_atomic_load(&view->look_ns, __ATOMIC_RELAXED), idle = 0;
    int saved_errno = errno;
    bool fresh;

    /* a clock that went back must not keep us from looking */
    if (now_ns < next && next - now_ns <= LOOK_NS)
        return;
    if (!gs_atomic_cas(&state.is_reading, &idle, 1, __ATOMIC_ACQUIRE))
        return;
    take(view, gs_self.uuid[dev], now_ns);
    fresh = is_fresh(view->beat_ns, now_ns); /* only who reads writes it */
    gs_atomic_store(&view->look_ns, now_ns + (fresh ? READ_NS : LOOK_NS), __ATOMIC_RELAXED);
    gs_atomic_store(&state.is_reading, 0, __ATOMIC_RELEASE);
    errno = saved_errno;
}

int gs_hook_board(uint32_t dev, uint64_t now_ns, struct gs_board_slice *ret)
{
    struct gs_board_slice entry;
    struct view *view;
    uint64_t beat;
    int rc;

    if (dev >= gs_self.n_devices)
        return -ENOENT;
    look(dev, now_ns);
    view = &state.view[dev];
    gs_spin_lock(&view->spin);
    beat = view->beat_ns;
    rc = view->rc;
    entry = view->entry;
    gs_spin_unlock(&view->spin);
    if (beat == 0)
        return -ENOENT;
    if (!is_fresh(beat, now_ns))
        return -ESTALE;
    if (rc == 0)
        *ret = entry;
    return rc;
}

void gs_hook_board_forget(void)
{
    memset(&state, 0, sizeof(state));
}
