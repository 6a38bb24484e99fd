#pragma once
/* The one loop of a daemon: descriptors (epoll), timers, deferred work, work from other threads,
 * signals.
 *
 * Objects that callers embed (struct gs_loop_timer, struct gs_loop_task) start zeroed and cost no
 * allocation; they must be cancelled before their memory goes.
 * A callback may add and remove anything, itself included. Nothing is called from inside a call
 * that sets it up. One round: ready descriptors, then timers that are due (by time, ties in the
 * order they were set), then tasks (those queued during the round wait for the next one).
 *
 * Threads  all calls from the loop's thread, except gs_loop_post() and gs_loop_stop(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_clock;
struct gs_err;
struct gs_loop;

/** @events  EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP as epoll reports them. */
typedef void gs_loop_fd_fn(void *user, int fd, uint32_t events);
typedef void gs_loop_fn(void *user);
typedef void gs_loop_signal_fn(void *user, int signo);

/** A timer; all fields belong to the loop. */
struct gs_loop_timer {
    uint64_t at_ns; /**< when, in the loop's clock; valid while set */
    uint64_t seq;
    gs_loop_fn *fn;
    void *user;
    struct gs_loop_timer *child, *next, **prev; /**< pairing heap; prev == NULL: not set */
};

/** Work for later; all fields belong to the loop. */
struct gs_loop_task {
    gs_loop_fn *fn;
    void *user;
    struct gs_loop_task *next;
    bool queued;
};

/** @clock  borrowed for the loop's life; NULL: the machine's. SIGPIPE is ignored from here on.
 *  Returns  0; negative errno of epoll, eventfd or memory. */
GS_WUR int gs_loop_new(const struct gs_clock *clock, struct gs_loop **ret_loop);
/** Timers and tasks that are still set are forgotten, descriptors are not closed. */
struct gs_loop *gs_loop_free(struct gs_loop *loop);
/** For GS_CLEANUP. */
void gs_loop_free_p(struct gs_loop **loop);

/** Serve until gs_loop_stop(). Returns 0, or what epoll_wait said. */
GS_WUR int gs_loop_run(struct gs_loop *loop);
/** One round that waits at most `wait_ms` (-1 for ever) for something to do.
 *  Returns  callbacks made, or negative errno. */
GS_WUR int gs_loop_step(struct gs_loop *loop, int wait_ms);
/** gs_loop_run() returns after the current round; before it was called: after its first. Any
 *  thread; also from a signal callback. */
void gs_loop_stop(struct gs_loop *loop);

/** The loop's clock, and its time now (read from the clock at each call). */
const struct gs_clock *gs_loop_clock(const struct gs_loop *loop);
uint64_t gs_loop_now_ns(const struct gs_loop *loop);
int64_t gs_loop_now_ms(const struct gs_loop *loop);
/** Unix time by that clock. */
int64_t gs_loop_unix_us(const struct gs_loop *loop);

/** Watch a descriptor. @events as for epoll_ctl; EPOLLET and EPOLLONESHOT are honoured.
 *  Returns  0; -EEXIST already watched; -ENOMEM; what epoll_ctl said. */
GS_WUR int gs_loop_fd_add(struct gs_loop *loop, int fd, uint32_t events, gs_loop_fd_fn *fn,
                          void *user);
/** Returns 0 or -ENOENT. */
int gs_loop_fd_set(struct gs_loop *loop, int fd, uint32_t events);
/** Before the descriptor is closed. Events of it that are already fetched are dropped. Unwatched
 *  and negative descriptors are accepted. */
void gs_loop_fd_del(struct gs_loop *loop, int fd);

/** (Re)arm: `fn(user)` once, when the clock reaches `at_ns` or in `delay_ms`. */
void gs_loop_timer_at(struct gs_loop *loop, struct gs_loop_timer *timer, uint64_t at_ns,
                      gs_loop_fn *fn, void *user);
void gs_loop_timer_in(struct gs_loop *loop, struct gs_loop_timer *timer, uint64_t delay_ms,
                      gs_loop_fn *fn, void *user);
/** Harmless where it is not set. */
void gs_loop_timer_cancel(struct gs_loop *loop, struct gs_loop_timer *timer);
static inline bool gs_loop_timer_is_set(const struct gs_loop_timer *timer)
{
    return timer->prev != NULL;
}

/** Call `fn(user)` once after the current callbacks. A task that is queued already stays as it is.
 */
void gs_loop_defer(struct gs_loop *loop, struct gs_loop_task *task, gs_loop_fn *fn, void *user);
/** Harmless where it is not queued. Also takes back a posted task; what runs right now has run. */
void gs_loop_task_cancel(struct gs_loop *loop, struct gs_loop_task *task);
/** As gs_loop_defer(), from any thread; wakes the loop. */
void gs_loop_post(struct gs_loop *loop, struct gs_loop_task *task, gs_loop_fn *fn, void *user);

/** Take signals by signalfd: they are blocked in the calling thread (call before others start) and
 *  delivered as callbacks. Once per loop; gs_loop_free() unblocks them.
 *  @signos  ended by 0, for instance (int[]){SIGTERM, SIGINT, SIGHUP, 0}. */
GS_WUR int gs_loop_signals(struct gs_loop *loop, const int *signos, gs_loop_signal_fn *fn,
                           void *user);
