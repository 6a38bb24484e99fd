#include "apps/gpuslice/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/book.h"
#include "apps/gpuslice/home.h"
#include "apps/gpuslice/plan.h"
#include "base/err.h"
#include "base/file.h"
#include "monitor/board.h"
#include "node/probe.h"

/** New slices and new limits are noticed within this. */
#define SCAN_NS 200000000u
/** While another writes, or nobody has to. */
#define SCAN_IDLE_NS 1000000000u
/** How often those who do not write try whether they may: a wake-up costs more than the try. */
#define STAND_BY_NS 40000000u
/** How often the driver is asked for processes that are in no ledger, and for how long its answer
 * counts when it says no more. */
#define WATCH_NS    500000000u
#define STOP_WAIT_S 2

struct card {
    const struct gs_card *card;
    struct gs_board_writer *writer;
    bool is_needed;
    struct gs_probe_watch *watch;
    bool is_unwatchable; /**< the driver cannot, and will not be asked again */
    uint64_t watch_ns;   /**< when it is asked next */
    bool is_told;        /**< that its board cannot be written */
};

struct gs_board_thread {
    pthread_t thread;
    int stop_fd;
    int dir_fd;
    const struct gs_slice *slice; /**< whose base holds the folder of the boards */
    uint64_t mend_ns;             /**< when that is looked for again */
    struct gs_home_bases bases;
    struct card *card;
    size_t n_cards;
    uint64_t scan_ns;      /**< when folders are read next */
    struct gs_quota quota; /**< of the slice that is being looked at */
};

int gs_board_folder(const struct gs_slice *slice, char **ret_path, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int base = -1;
    GS_CLEANUP(gs_file_close) int dir = -1;
    char *path = NULL;

    base = gs_file_open_private(AT_FDCWD, slice->base, slice->uid, err);
    if (base < 0)
        return base;
    dir = gs_file_make_private(base, GS_SLICE_BOARD, err);
    if (dir < 0)
        return gs_err_wrap(err, dir, "no folder for boards in %s", slice->base);
    if (asprintf(&path, "%s/" GS_SLICE_BOARD, slice->base) < 0)
        return gs_err_set(err, -ENOMEM, "out of memory");
    *ret_path = path;
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

/* A slice whose parent is gone counts as long as a process of it is left. */
static bool is_live(int dir_fd)
{
    return gs_slice_is_held(dir_fd) || gs_book_has_live(dir_fd);
}

static void offer(struct gs_board_thread *t, int dir_fd)
{
    if (gs_book_limits(dir_fd, &t->quota) < 0 || !is_live(dir_fd))
        return;
    for (uint32_t i = 0; i < t->quota.n_devices; i++) {
        const struct gs_quota_device *d = &t->quota.device[i];
        const struct gs_ledgers_grant grant = {.core_pct = d->core_pct,
                                               .policy = d->policy,
                                               .priority = t->quota.priority,
                                               .takes_turns = t->quota.oversubscribe != 0};

        for (size_t j = 0; j < t->n_cards; j++)
            if (strcmp(t->card[j].card->uuid, d->uuid) == 0)
                /* one that cannot be read is looked at again next time */
                (void)!gs_ledgers_offer(&t->card[j].writer->ledgers, dir_fd, GS_SLICE_LEDGER,
                                        &grant);
    }
}

static void scan_base(struct gs_board_thread *t, const char *path)
{
    int fd = gs_file_open_private(AT_FDCWD, path, geteuid(), NULL);
    GS_CLEANUP(close_dir) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (fd >= 0 && !dir)
        gs_file_close(&fd);
    while (dir && (entry = readdir(dir)) != NULL) {
        GS_CLEANUP(gs_file_close) int slice = -1;

        if (entry->d_type == DT_REG || !gs_slice_is_name(entry->d_name))
            continue;
        slice = gs_file_open_private(fd, entry->d_name, geteuid(), NULL);
        if (slice >= 0)
            offer(t, slice);
    }
}

/** Which slices there are, and whether any of them needs a board. */
static void scan(struct gs_board_thread *t, uint64_t now)
{
    bool any = false;

    for (size_t i = 0; i < t->n_cards; i++)
        gs_ledgers_begin(&t->card[i].writer->ledgers);
    for (size_t i = 0; i < t->bases.n; i++)
        scan_base(t, t->bases.path[i]);
    for (size_t i = 0; i < t->n_cards; i++) {
        struct card *c = &t->card[i];

        gs_ledgers_end(&c->writer->ledgers);
        c->is_needed = gs_ledgers_is_needed(&c->writer->ledgers);
        any |= c->writer->lock_fd >= 0;
    }
    t->scan_ns = now + (any ? SCAN_NS : SCAN_IDLE_NS);
}

/** Ask the driver who else uses the card. */
static void watch(struct card *c, uint64_t now)
{
    const struct gs_probe_vendor *vendor = c->card->vendor;
    struct gs_probe_use use[GS_BOARD_USED_MAX];
    struct gs_ledgers_used used[GS_BOARD_USED_MAX];
    int n;

    if (now < c->watch_ns || c->is_unwatchable)
        return;
    c->watch_ns = now + WATCH_NS;
    if (!c->watch &&
        (!vendor->watch_new || vendor->watch_new(c->card->uuid, &c->watch, NULL) < 0)) {
        c->is_unwatchable = true;
        return;
    }
    n = vendor->watch_read(c->watch, use, GS_BOARD_USED_MAX);
    for (int i = 0; i < n; i++)
        used[i] = (struct gs_ledgers_used){use[i].pid, use[i].util_pct};
    gs_board_take_used(c->writer, used, n, now);
}

/** A board cannot be written. Has its folder been taken away? Make it anew, and go there. */
static void mend_folder(struct gs_board_thread *t, uint64_t now)
{
    GS_CLEANUP(gs_file_close) int base = -1;
    int dir;

    if (now < t->mend_ns)
        return;
    t->mend_ns = now + SCAN_IDLE_NS;
    base = gs_file_open_private(AT_FDCWD, t->slice->base, t->slice->uid, NULL);
    dir = base < 0 ? base : gs_file_make_private(base, GS_SLICE_BOARD, NULL);
    if (dir < 0)
        return; /* nothing is written until it is private again */
    gs_file_close(&t->dir_fd);
    t->dir_fd = dir;
    for (size_t i = 0; i < t->n_cards; i++) {
        gs_board_resign(t->card[i].writer);
        t->card[i].writer->dir_fd = dir;
    }
}

/** Say so once, until it can be written again. */
static void tell(struct card *c, int rc)
{
    if (rc < 0 && !c->is_told)
        gs_app_say("the board of card %u cannot be written (%s): slices keep to their own shares",
                   c->card->index, strerror(-rc));
    c->is_told = rc < 0;
}

/** One look at every card. Returns when to look again. */
static uint64_t look(struct gs_board_thread *t)
{
    uint64_t now = now_ns();
    uint64_t next = now + SCAN_IDLE_NS;

    if (now >= t->scan_ns)
        scan(t, now);
    for (size_t i = 0; i < t->n_cards; i++) {
        struct card *c = &t->card[i];
        int rc;

        if (!c->is_needed) {
            gs_board_resign(c->writer);
            continue;
        }
        if (next > now + STAND_BY_NS)
            next = now + STAND_BY_NS;
        rc = gs_board_elect(c->writer, now);
        if (rc == 2) { /* the slices are asked anew, this once */
            scan(t, now);
            c->watch_ns = now + WATCH_NS;
        }
        if (rc < 0)
            mend_folder(t, now);
        if (rc > 0) {
            next = now + GS_BOARD_TICK_NS;
            watch(c, now);
            rc = gs_board_tick(c->writer, now);
        }
        tell(c, rc);
    }
    return next;
}

static void *work(void *arg)
{
    struct gs_board_thread *t = arg;
    struct pollfd stop = {.fd = t->stop_fd, .events = POLLIN};

    for (;;) {
        uint64_t next = look(t), now = now_ns(), left = next > now ? next - now : 0;
        struct timespec wait = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};

        if (ppoll(&stop, 1, &wait, NULL) != 0)
            return NULL;
    }
}

static void free_thread(struct gs_board_thread *t)
{
    for (size_t i = 0; i < t->n_cards; i++) {
        gs_board_free(t->card[i].writer);
        if (t->card[i].watch)
            t->card[i].card->vendor->watch_free(t->card[i].watch);
    }
    gs_file_close(&t->stop_fd);
    gs_file_close(&t->dir_fd);
    free(t->card);
    free(t);
}

static int add_cards(struct gs_board_thread *t, const struct gs_probe *probe,
                     const struct gs_plan *plan)
{
    t->card = calloc(plan->n_cards, sizeof(*t->card));
    if (!t->card)
        return -ENOMEM;
    for (size_t i = 0; i < plan->n_cards; i++) {
        struct card *c = &t->card[t->n_cards];
        int rc;

        c->card = &probe->card[plan->card[i]];
        rc = gs_board_new(t->dir_fd, c->card->uuid, 0600, c->card->total_bytes, &c->writer);
        if (rc < 0)
            return rc;
        t->n_cards++;
    }
    return 0;
}

static int start(struct gs_board_thread *t)
{
    sigset_t all, before;
    int rc;

    (void)sigfillset(&all);
    rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc == 0) {
        rc = pthread_create(&t->thread, NULL, work, t);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL); /* a mask that was ours a moment ago */
    }
    return -rc;
}

int gs_board_start(const struct gs_slice *slice, const struct gs_probe *probe,
                   const struct gs_plan *plan, struct gs_board_thread **ret_thread,
                   struct gs_err *err)
{
    GS_CLEANUP(gs_file_close)
    int base = gs_file_open_private(AT_FDCWD, slice->base, slice->uid, err);
    struct gs_board_thread *t;
    int rc;

    if (base < 0)
        return base;
    t = calloc(1, sizeof(*t));
    if (!t)
        return gs_err_set(err, -ENOMEM, "out of memory");
    t->slice = slice;
    gs_home_own_bases(&t->bases);
    t->dir_fd = gs_file_open_private(base, GS_SLICE_BOARD, slice->uid, err);
    t->stop_fd = eventfd(0, EFD_CLOEXEC);
    rc = t->dir_fd < 0 ? t->dir_fd : t->stop_fd < 0 ? -errno : add_cards(t, probe, plan);
    if (rc == 0)
        rc = start(t);
    if (rc < 0) {
        free_thread(t);
        return gs_err_wrap(err, rc, "no thread for the boards");
    }
    *ret_thread = t;
    return 0;
}

void gs_board_stop(struct gs_board_thread *t)
{
    const uint64_t one = 1;
    struct timespec until;

    if (!t)
        return;
    if (write(t->stop_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        return; /* cannot be; the end of the process stops it as well */
    (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail with this clock */
    until.tv_sec += STOP_WAIT_S;
    if (pthread_timedjoin_np(t->thread, NULL, &until) == 0)
        free_thread(t);
}
