#include "hook/board.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "contract/env.h"
#include "core/atomics.h"
#include "hook/self.h"
#include "hook/sys.h"

/** A board that is absent, stale or damaged is looked for again after so long. */
#define LOOK_NS 100000000u
/** Mappings of one card's boards that may pile up: a reader may still be in an old one, so none is
 * taken away. A writer replaces its file only after an accident. */
#define MAPS_MAX 256u

struct view {
    uint64_t board;    /**< const struct gs_board *; 0 none so far */
    uint64_t look_ns;  /**< when the file may be looked at next; moved by compare-and-swap */
    uint64_t file_dev; /**< what is mapped; only by who moved look_ns */
    uint64_t file_ino;
    uint32_t n_maps;
};

static struct {
    struct view view[GS_LEDGER_DEVICES];
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

static int map_board(struct view *view, int fd)
{
    struct stat st;
    void *p;
    int rc = gs_sys_fstat(fd, &st);

    if (rc < 0)
        return rc;
    /* a shorter file would kill the reader at its first missing page */
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct gs_board))
        return -ENODATA;
    if (view->board != 0 && view->file_dev == st.st_dev && view->file_ino == st.st_ino)
        return 0;
    if (view->n_maps >= MAPS_MAX)
        return -EMFILE;
    p = mmap(NULL, sizeof(struct gs_board), PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -ENOMEM;
    view->n_maps++;
    view->file_dev = st.st_dev;
    view->file_ino = st.st_ino;
    gs_atomic_store(&view->board, (uint64_t)(uintptr_t)p, __ATOMIC_RELEASE);
    return 0;
}

/** Look for the card's file, unless that was done a moment ago or another thread is at it. */
static void look(uint32_t dev, uint64_t now_ns)
{
    struct view *view = &state.view[dev];
    uint64_t next = gs_atomic_load(&view->look_ns, __ATOMIC_RELAXED);
    int fd, rc, saved_errno = errno;

    /* a clock that went back must not keep us from looking */
    if (now_ns < next && next - now_ns <= LOOK_NS)
        return;
    if (!gs_atomic_cas(&view->look_ns, &next, now_ns + LOOK_NS, __ATOMIC_ACQ_REL))
        return;
    fd = open_board(gs_self.uuid[dev]);
    if (fd >= 0) {
        rc = map_board(view, fd);
        (void)rc; /* no board for now: the slice goes by its own quota */
        gs_sys_close(fd);
    }
    errno = saved_errno;
}

static int find(uint32_t dev, uint64_t now_ns, struct gs_board_slice *ret)
{
    uint64_t board = gs_atomic_load(&state.view[dev].board, __ATOMIC_ACQUIRE);

    if (board == 0)
        return -ENOENT;
    return gs_board_find((const struct gs_board *)(uintptr_t)board, gs_self.file_dev,
                         gs_self.file_ino, now_ns, ret);
}

int gs_hook_board(uint32_t dev, uint64_t now_ns, struct gs_board_slice *ret)
{
    int rc;

    if (dev >= gs_self.n_devices)
        return -ENOENT;
    rc = find(dev, now_ns, ret);
    if (rc == 0 || rc == -EAGAIN)
        return rc;
    look(dev, now_ns);
    return find(dev, now_ns, ret);
}

void gs_hook_board_forget(void)
{
    for (uint32_t i = 0; i < GS_LEDGER_DEVICES; i++) {
        /* the newest; older ones are rests of accidents and small */
        if (state.view[i].board != 0)
            (void)munmap((void *)(uintptr_t)state.view[i].board, sizeof(struct gs_board));
    }
    memset(&state, 0, sizeof(state));
}
