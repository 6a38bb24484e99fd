#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"

/** Events fetched at once; more of them wait for the next round. */
#define BATCH 128

struct watch {
    gs_loop_fd_fn *fn; /**< NULL: not watched */
    void *user;
    uint32_t generation; /**< tells a reused descriptor from the one an old event was for */
};

struct gs_loop {
    const struct gs_clock *clock;
    int epoll;
    int wake;            /**< eventfd */
    struct watch *watch; /**< by descriptor */
    size_t n_watch;
    struct gs_loop_timer *timers; /**< root of the heap */
    uint64_t timer_seq;
    pthread_mutex_t lock; /**< guards the tasks and what they hold; no callback under it */
    struct gs_loop_task *tasks, **tasks_end; /**< queued, in order */
    struct gs_loop_task *running;            /**< taken by the current round, not yet called */
    int stop;                                /**< atomic, relaxed: the eventfd carries the order */
    int signals;                             /**< signalfd, -1 */
    sigset_t signal_set;
    gs_loop_signal_fn *signal_fn;
    void *signal_user;
};

const struct gs_clock *gs_loop_clock(const struct gs_loop *loop)
{
    return loop->clock;
}

uint64_t gs_loop_now_ns(const struct gs_loop *loop)
{
    return gs_clock_mono_ns(loop->clock);
}

int64_t gs_loop_now_ms(const struct gs_loop *loop)
{
    return (int64_t)(gs_loop_now_ns(loop) / GS_CLOCK_MS);
}

int64_t gs_loop_unix_us(const struct gs_loop *loop)
{
    return (int64_t)(gs_clock_real_ns(loop->clock) / 1000);
}

/* ---- descriptors ---- */

static int grow_watches(struct gs_loop *loop, size_t n)
{
    size_t cap = loop->n_watch ? loop->n_watch : 64;

    while (cap < n)
        cap *= 2;
    struct watch *p = reallocarray(loop->watch, cap, sizeof(*p));
    if (!p)
        return -ENOMEM;
    memset(p + loop->n_watch, 0, (cap - loop->n_watch) * sizeof(*p));
    loop->watch = p;
    loop->n_watch = cap;
    return 0;
}

static struct watch *find_watch(const struct gs_loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->n_watch || !loop->watch[fd].fn)
        return NULL;
    return &loop->watch[fd];
}

static struct epoll_event event_of(int fd, uint32_t events, uint32_t generation)
{
    return (struct epoll_event){.events = events,
                                .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
}

int gs_loop_fd_add(struct gs_loop *loop, int fd, uint32_t events, gs_loop_fd_fn *fn, void *user)
{
    if (fd < 0)
        return -EBADF;
    if (find_watch(loop, fd))
        return -EEXIST;
    if ((size_t)fd >= loop->n_watch) {
        int rc = grow_watches(loop, (size_t)fd + 1);
        if (rc < 0)
            return rc;
    }
    struct watch *w = &loop->watch[fd];
    struct epoll_event event = event_of(fd, events, w->generation + 1);
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    w->generation++;
    w->fn = fn;
    w->user = user;
    return 0;
}

int gs_loop_fd_set(struct gs_loop *loop, int fd, uint32_t events)
{
    const struct watch *w = find_watch(loop, fd);

    if (!w)
        return -ENOENT;
    struct epoll_event event = event_of(fd, events, w->generation);
    return epoll_ctl(loop->epoll, EPOLL_CTL_MOD, fd, &event) < 0 ? -errno : 0;
}

void gs_loop_fd_del(struct gs_loop *loop, int fd)
{
    struct watch *w = find_watch(loop, fd);

    if (!w)
        return;
    w->fn = NULL;
    w->generation++;
    /* Fails only where the descriptor was closed before, against the rule: then epoll forgot it. */
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- timers: a pairing heap whose nodes the callers own, so that arming cannot fail ---- */

static bool is_before(const struct gs_loop_timer *a, const struct gs_loop_timer *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

/** One tree of two; both are roots without siblings. */
static struct gs_loop_timer *merge(struct gs_loop_timer *a, struct gs_loop_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (is_before(b, a)) {
        struct gs_loop_timer *t = a;
        a = b;
        b = t;
    }
    b->next = a->child;
    if (b->next)
        b->next->prev = &b->next;
    b->prev = &a->child;
    a->child = b;
    return a;
}

/** One tree of a list of siblings: pairs from the left, then all from the right. */
static struct gs_loop_timer *merge_siblings(struct gs_loop_timer *first)
{
    struct gs_loop_timer *pairs = NULL, *all = NULL;

    while (first) {
        struct gs_loop_timer *a = first, *b = a->next;
        first = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = merge(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct gs_loop_timer *a = pairs;
        pairs = a->next;
        a->next = NULL;
        all = merge(all, a);
    }
    return all;
}

static void set_root(struct gs_loop *loop, struct gs_loop_timer *root)
{
    loop->timers = root;
    if (root) {
        root->next = NULL;
        root->prev = &loop->timers;
    }
}

void gs_loop_timer_cancel(struct gs_loop *loop, struct gs_loop_timer *timer)
{
    if (!timer->prev)
        return;
    struct gs_loop_timer *children = merge_siblings(timer->child);
    *timer->prev = timer->next;
    if (timer->next)
        timer->next->prev = timer->prev;
    timer->child = timer->next = NULL;
    timer->prev = NULL;
    set_root(loop, merge(loop->timers, children));
}

void gs_loop_timer_at(struct gs_loop *loop, struct gs_loop_timer *timer, uint64_t at_ns,
                      gs_loop_fn *fn, void *user)
{
    gs_loop_timer_cancel(loop, timer);
    *timer =
        (struct gs_loop_timer){.at_ns = at_ns, .seq = loop->timer_seq++, .fn = fn, .user = user};
    set_root(loop, merge(loop->timers, timer));
}

void gs_loop_timer_in(struct gs_loop *loop, struct gs_loop_timer *timer, uint64_t delay_ms,
                      gs_loop_fn *fn, void *user)
{
    uint64_t delay_ns, at_ns;

    if (__builtin_mul_overflow(delay_ms, GS_CLOCK_MS, &delay_ns) ||
        __builtin_add_overflow(gs_loop_now_ns(loop), delay_ns, &at_ns))
        at_ns = UINT64_MAX;
    gs_loop_timer_at(loop, timer, at_ns, fn, user);
}

/** Call what is due now; what these set for now waits for the next round. */
static int run_timers(struct gs_loop *loop)
{
    int n = 0;

    if (!loop->timers)
        return 0;
    uint64_t now = gs_loop_now_ns(loop), limit = loop->timer_seq;
    while (loop->timers && loop->timers->at_ns <= now && loop->timers->seq < limit) {
        struct gs_loop_timer *t = loop->timers;
        gs_loop_timer_cancel(loop, t);
        t->fn(t->user);
        n++;
    }
    return n;
}

/* ---- tasks ---- */

static void wake(struct gs_loop *loop)
{
    uint64_t one = 1;

    /* Fails only when the count would overflow, and then the loop is awake. */
    if (write(loop->wake, &one, sizeof(one)) < 0)
        return;
}

static bool queue_task(struct gs_loop *loop, struct gs_loop_task *task, gs_loop_fn *fn, void *user)
{
    pthread_mutex_lock(&loop->lock);
    bool is_new = !task->queued;
    if (is_new) {
        *task = (struct gs_loop_task){.fn = fn, .user = user, .queued = true};
        *loop->tasks_end = task;
        loop->tasks_end = &task->next;
    }
    pthread_mutex_unlock(&loop->lock);
    return is_new;
}

void gs_loop_defer(struct gs_loop *loop, struct gs_loop_task *task, gs_loop_fn *fn, void *user)
{
    (void)queue_task(loop, task, fn, user); /* queued already is as good */
}

void gs_loop_post(struct gs_loop *loop, struct gs_loop_task *task, gs_loop_fn *fn, void *user)
{
    if (queue_task(loop, task, fn, user))
        wake(loop);
}

static bool unlink_task(struct gs_loop_task **at, const struct gs_loop_task *task,
                        struct gs_loop_task ***end)
{
    for (; *at; at = &(*at)->next) {
        if (*at == task) {
            *at = task->next;
            if (end && !*at)
                *end = at;
            return true;
        }
    }
    return false;
}

void gs_loop_task_cancel(struct gs_loop *loop, struct gs_loop_task *task)
{
    pthread_mutex_lock(&loop->lock);
    if (task->queued) {
        if (!unlink_task(&loop->running, task, NULL))
            (void)unlink_task(&loop->tasks, task, &loop->tasks_end);
        task->queued = false;
        task->next = NULL;
    }
    pthread_mutex_unlock(&loop->lock);
}

static bool has_tasks(struct gs_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    bool any = loop->tasks != NULL;
    pthread_mutex_unlock(&loop->lock);
    return any;
}

static int run_tasks(struct gs_loop *loop)
{
    int n = 0;

    pthread_mutex_lock(&loop->lock);
    loop->running = loop->tasks;
    loop->tasks = NULL;
    loop->tasks_end = &loop->tasks;
    while (loop->running) {
        struct gs_loop_task *t = loop->running;
        gs_loop_fn *fn = t->fn;
        void *user = t->user;
        loop->running = t->next;
        t->next = NULL;
        t->queued = false; /* it may be queued again, or freed, by its own call */
        pthread_mutex_unlock(&loop->lock);
        fn(user);
        n++;
        pthread_mutex_lock(&loop->lock);
    }
    pthread_mutex_unlock(&loop->lock);
    return n;
}

/* ---- the loop ---- */

static void on_wake(void *user, int fd, uint32_t events)
{
    uint64_t count;

    (void)user;
    (void)events;
    if (read(fd, &count, sizeof(count)) < 0)
        return; /* somebody's wake-up was taken already */
}

static int init(struct gs_loop *loop)
{
    int rc = pthread_mutex_init(&loop->lock, NULL);

    if (rc != 0)
        return -rc;
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0)
        return -errno;
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake < 0)
        return -errno;
    return gs_loop_fd_add(loop, loop->wake, EPOLLIN, on_wake, loop);
}

int gs_loop_new(const struct gs_clock *clock, struct gs_loop **ret_loop)
{
    GS_CLEANUP(gs_loop_free_p) struct gs_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    loop->clock = clock ? clock : gs_clock_real();
    loop->epoll = loop->wake = loop->signals = -1;
    loop->tasks_end = &loop->tasks;
    /* A peer that goes away is an error of one write, not the end of the daemon. */
    (void)signal(SIGPIPE, SIG_IGN);
    int rc = init(loop);
    if (rc < 0)
        return rc;
    *ret_loop = GS_STEAL(loop);
    return 0;
}

static void close_signals(struct gs_loop *loop)
{
    if (loop->signals < 0)
        return;
    close(loop->signals);
    (void)pthread_sigmask(SIG_UNBLOCK, &loop->signal_set, NULL); /* the set is valid */
}

struct gs_loop *gs_loop_free(struct gs_loop *loop)
{
    if (!loop)
        return NULL;
    close_signals(loop);
    if (loop->wake >= 0)
        close(loop->wake);
    if (loop->epoll >= 0)
        close(loop->epoll);
    pthread_mutex_destroy(&loop->lock);
    free(loop->watch);
    free(loop);
    return NULL;
}

void gs_loop_free_p(struct gs_loop **loop)
{
    *loop = gs_loop_free(*loop);
}

/** Milliseconds to wait for events, for epoll_wait; -1 for ever. */
static int wait_time(struct gs_loop *loop, int wait_ms)
{
    if (wait_ms == 0 || has_tasks(loop))
        return 0;
    /* A clock that can skip is asked after a look that does not wait; timers of one that stands
     * still are no reason to wake up. */
    if (!loop->timers || loop->clock->skip)
        return wait_ms;
    uint64_t now = gs_loop_now_ns(loop), at = loop->timers->at_ns;
    uint64_t left_ms = at <= now ? 0 : (at - now - 1) / GS_CLOCK_MS + 1;
    int timer_ms = left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
    return wait_ms < 0 || timer_ms < wait_ms ? timer_ms : wait_ms;
}

/** Under virtual time with nothing ready: go to the next timer. True where time moved or a timer is
 *  due. */
static bool skip_time(struct gs_loop *loop, int wait_ms)
{
    if (!loop->clock->skip || !loop->timers || wait_ms == 0 || has_tasks(loop))
        return false;
    uint64_t now = gs_loop_now_ns(loop), until = loop->timers->at_ns;
    if (until <= now)
        return true;
    if (wait_ms > 0 && until - now > (uint64_t)(unsigned)wait_ms * GS_CLOCK_MS)
        until = now + (uint64_t)(unsigned)wait_ms * GS_CLOCK_MS;
    return loop->clock->skip(loop->clock->user, until);
}

static int wait_events(struct gs_loop *loop, struct epoll_event *events, int wait_ms)
{
    if (loop->clock->skip) {
        int n = epoll_wait(loop->epoll, events, BATCH, 0);
        if (n != 0 || skip_time(loop, wait_ms))
            return n < 0 ? -errno : n;
    }
    int n = epoll_wait(loop->epoll, events, BATCH, wait_time(loop, wait_ms));
    return n < 0 ? -errno : n;
}

int gs_loop_step(struct gs_loop *loop, int wait_ms)
{
    struct epoll_event events[BATCH];
    int calls = 0;
    int n = wait_events(loop, events, wait_ms);

    if (n == -EINTR)
        return 0;
    if (n < 0)
        return n;
    for (int i = 0; i < n; i++) {
        int fd = (int)(uint32_t)events[i].data.u64;
        const struct watch *w = find_watch(loop, fd);
        if (!w || w->generation != events[i].data.u64 >> 32)
            continue; /* taken away by a callback before it in this batch */
        w->fn(w->user, fd, events[i].events);
        calls++;
    }
    calls += run_timers(loop);
    calls += run_tasks(loop);
    return calls;
}

int gs_loop_run(struct gs_loop *loop)
{
    do {
        int rc = gs_loop_step(loop, -1);
        if (rc < 0)
            return rc;
    } while (!__atomic_load_n(&loop->stop, __ATOMIC_RELAXED));
    __atomic_store_n(&loop->stop, 0, __ATOMIC_RELAXED);
    return 0;
}

void gs_loop_stop(struct gs_loop *loop)
{
    __atomic_store_n(&loop->stop, 1, __ATOMIC_RELAXED);
    wake(loop);
}

/* ---- signals ---- */

static void on_signal(void *user, int fd, uint32_t events)
{
    struct gs_loop *loop = user;
    struct signalfd_siginfo info;

    (void)events;
    if (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        loop->signal_fn(loop->signal_user, (int)info.ssi_signo);
}

int gs_loop_signals(struct gs_loop *loop, const int *signos, gs_loop_signal_fn *fn, void *user)
{
    if (loop->signals >= 0)
        return -EEXIST;
    sigemptyset(&loop->signal_set);
    for (; *signos; signos++) {
        if (sigaddset(&loop->signal_set, *signos) < 0)
            return -errno;
    }
    int rc = pthread_sigmask(SIG_BLOCK, &loop->signal_set, NULL);
    if (rc != 0)
        return -rc;
    loop->signal_fn = fn;
    loop->signal_user = user;
    loop->signals = signalfd(-1, &loop->signal_set, SFD_CLOEXEC | SFD_NONBLOCK);
    rc = loop->signals < 0 ? -errno : gs_loop_fd_add(loop, loop->signals, EPOLLIN, on_signal, loop);
    if (rc < 0) {
        if (loop->signals >= 0)
            close(loop->signals);
        loop->signals = -1;
        (void)pthread_sigmask(SIG_UNBLOCK, &loop->signal_set, NULL); /* as it was */
    }
    return rc;
}
