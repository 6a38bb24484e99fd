#include "net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

#define MS GS_CLOCK_MS

struct fixture {
    struct gs_clock_virtual clock;
    struct gs_loop *loop;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    gs_clock_virtual_init(&f->clock, 0, true);
    *state = f;
    return gs_loop_new(&f->clock.clock, &f->loop);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    f->loop = gs_loop_free(f->loop);
    free(f);
    return 0;
}

/* ---- timers ---- */

static char order[64];

static void note(void *user)
{
    strncat(order, user, sizeof(order) - strlen(order) - 1);
}

static void timers_come_by_time_then_by_turn(void **state)
{
    struct fixture *f = *state;
    struct gs_loop_timer a = {0}, b = {0}, c = {0}, d = {0}, e = {0};
    uint64_t start = f->clock.mono_ns;

    order[0] = '\0';
    gs_loop_timer_in(f->loop, &a, 30, note, "a");
    gs_loop_timer_in(f->loop, &b, 10, note, "b");
    gs_loop_timer_in(f->loop, &c, 20, note, "c");
    gs_loop_timer_in(f->loop, &d, 10, note, "d");
    gs_loop_timer_in(f->loop, &e, 5, note, "e");
    gs_loop_timer_cancel(f->loop, &e);
    gs_loop_timer_cancel(f->loop, &e);
    assert_false(gs_loop_timer_is_set(&e));
    assert_int_equal(gs_loop_step(f->loop, -1), 2); /* both that are due at 10 ms */
    assert_string_equal(order, "bd");
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_string_equal(order, "bdca");
    assert_int_equal(f->clock.mono_ns - start, 30 * MS);
}

static void a_timer_may_be_moved(void **state)
{
    struct fixture *f = *state;
    struct gs_loop_timer a = {0}, b = {0};

    order[0] = '\0';
    gs_loop_timer_in(f->loop, &a, 10, note, "a");
    gs_loop_timer_in(f->loop, &b, 20, note, "b");
    gs_loop_timer_in(f->loop, &a, 30, note, "A");
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_string_equal(order, "bA");
    gs_loop_timer_in(f->loop, &a, UINT64_MAX, note, "never"); /* no overflow into the past */
    assert_int_equal(gs_loop_step(f->loop, 1000), 0);
    gs_loop_timer_cancel(f->loop, &a);
}

static void a_wait_ends_in_time(void **state)
{
    struct fixture *f = *state;
    struct gs_loop_timer a = {0};
    uint64_t start = f->clock.mono_ns;

    order[0] = '\0';
    gs_loop_timer_in(f->loop, &a, 100, note, "a");
    assert_int_equal(gs_loop_step(f->loop, 40), 0);
    assert_int_equal(f->clock.mono_ns - start, 40 * MS);
    assert_int_equal(gs_loop_step(f->loop, 0), 0);
    assert_int_equal(f->clock.mono_ns - start, 40 * MS);
    assert_int_equal(gs_loop_step(f->loop, 400), 1);
    assert_int_equal(f->clock.mono_ns - start, 100 * MS);
}

/** With time that stands still unless moved by hand, timers do not come by themselves. */
static void time_by_hand(void **state)
{
    struct fixture *f = *state;
    struct gs_loop_timer a = {0};

    f->clock.skips = false;
    order[0] = '\0';
    gs_loop_timer_in(f->loop, &a, 10, note, "a");
    assert_int_equal(gs_loop_step(f->loop, 1), 0);
    gs_clock_virtual_advance(&f->clock, 10 * MS - 1);
    assert_int_equal(gs_loop_step(f->loop, 1), 0);
    gs_clock_virtual_advance(&f->clock, 1);
    assert_int_equal(gs_loop_step(f->loop, 1), 1);
    assert_string_equal(order, "a");
}

struct again {
    struct gs_loop *loop;
    struct gs_loop_timer timer;
    int calls;
};

static void set_again(void *user)
{
    struct again *a = user;

    a->calls++;
    gs_loop_timer_in(a->loop, &a->timer, 0, set_again, a);
}

/** A timer that sets itself for now must not keep the loop from everything else. */
static void a_timer_for_now_waits_for_the_next_round(void **state)
{
    struct fixture *f = *state;
    struct again a = {.loop = f->loop};

    gs_loop_timer_in(f->loop, &a.timer, 0, set_again, &a);
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(a.calls, 1);
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(a.calls, 2);
    gs_loop_timer_cancel(f->loop, &a.timer);
}

struct model {
    struct gs_loop_timer timer;
    uint64_t at, turn;
    bool set;
    struct model_book *book;
};
struct model_book {
    struct fixture *f;
    struct model m[200];
    uint64_t turns;
    int fired;
};

static void fire(void *user)
{
    struct model *m = user;
    struct model_book *book = m->book;

    if (!m->set || m->at > book->f->clock.mono_ns)
        fail_msg("a timer came that was not due");
    for (size_t i = 0; i < 200; i++) {
        const struct model *o = &book->m[i];
        if (o != m && o->set && (o->at < m->at || (o->at == m->at && o->turn < m->turn)))
            fail_msg("a timer came before its turn");
    }
    m->set = false;
    book->fired++;
}

/** Random arming, moving and cancelling against a plain list. */
static void timers_agree_with_a_list(void **state)
{
    struct fixture *f = *state;
    struct model_book *book = calloc(1, sizeof(*book));
    const char *given = getenv("GS_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    print_message("GS_SEED=%u\n", seed);
    assert_non_null(book);
    book->f = f;
    for (int step = 0; step < 20000; step++) {
        struct model *m = &book->m[(unsigned)rand_r(&seed) % 200];
        int what = rand_r(&seed) % 10;
        m->book = book;
        if (what < 6) {
            m->at = f->clock.mono_ns + (uint64_t)(rand_r(&seed) % 50) * MS;
            m->turn = book->turns++;
            m->set = true;
            gs_loop_timer_at(f->loop, &m->timer, m->at, fire, m);
        } else if (what < 9) {
            m->set = false;
            gs_loop_timer_cancel(f->loop, &m->timer);
        } else {
            assert_true(gs_loop_step(f->loop, rand_r(&seed) % 5) >= 0);
        }
        assert_int_equal(gs_loop_timer_is_set(&m->timer), m->set);
    }
    for (int i = 0; i < 200 && gs_loop_step(f->loop, 60) > 0; i++)
        continue;
    for (size_t i = 0; i < 200; i++)
        assert_false(book->m[i].set);
    assert_true(book->fired > 100);
    free(book);
}

/* ---- descriptors ---- */

struct pair {
    struct gs_loop *loop;
    int fd[2][2];
    int reads, other;
};

static void read_one(void *user, int fd, uint32_t events)
{
    struct pair *p = user;
    char c;

    assert_true(events & EPOLLIN);
    assert_int_equal(read(fd, &c, 1), 1);
    p->reads++;
}

static void watches_and_forgets(void **state)
{
    struct fixture *f = *state;
    struct pair p = {.loop = f->loop};

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fd[0]), 0);
    int fd = p.fd[0][0];
    assert_int_equal(gs_loop_fd_set(f->loop, fd, EPOLLIN), -ENOENT);
    assert_int_equal(gs_loop_fd_add(f->loop, -1, EPOLLIN, read_one, &p), -EBADF);
    assert_int_equal(gs_loop_fd_add(f->loop, fd, EPOLLIN, read_one, &p), 0);
    assert_int_equal(gs_loop_fd_add(f->loop, fd, EPOLLIN, read_one, &p), -EEXIST);
    assert_int_equal(gs_loop_step(f->loop, 0), 0);
    assert_int_equal(write(p.fd[0][1], "xy", 2), 2);
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(p.reads, 1);
    assert_int_equal(gs_loop_fd_set(f->loop, fd, 0), 0);
    assert_int_equal(gs_loop_step(f->loop, 0), 0);
    assert_int_equal(gs_loop_fd_set(f->loop, fd, EPOLLIN), 0);
    assert_int_equal(gs_loop_step(f->loop, 0), 1);
    gs_loop_fd_del(f->loop, fd);
    gs_loop_fd_del(f->loop, fd);
    gs_loop_fd_del(f->loop, -1);
    assert_int_equal(write(p.fd[0][1], "z", 1), 1);
    assert_int_equal(gs_loop_step(f->loop, 0), 0);
    close(p.fd[0][0]);
    close(p.fd[0][1]);
}

/** Whoever is called first takes the other one away and opens a new descriptor under its number:
 * the event that was fetched for the old one must not reach the new one. */
static void replace_other(void *user, int fd, uint32_t events)
{
    struct pair *p = user;
    int me = fd == p->fd[0][0] ? 0 : 1, other = !me;

    (void)events;
    p->reads++;
    gs_loop_fd_del(p->loop, p->fd[me][0]);
    gs_loop_fd_del(p->loop, p->fd[other][0]);
    int number = p->fd[other][0];
    close(number);
    int quiet[2];
    assert_int_equal(pipe(quiet), 0);
    assert_int_equal(dup2(quiet[0], number), number);
    if (quiet[0] != number)
        close(quiet[0]);
    p->other = quiet[1];
    assert_int_equal(gs_loop_fd_add(p->loop, number, EPOLLIN, replace_other, p), 0);
}

static void an_old_event_does_not_reach_a_new_descriptor(void **state)
{
    struct fixture *f = *state;
    struct pair p = {.loop = f->loop};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p.fd[i]), 0);
        assert_int_equal(write(p.fd[i][1], "x", 1), 1);
        assert_int_equal(gs_loop_fd_add(f->loop, p.fd[i][0], EPOLLIN, replace_other, &p), 0);
    }
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(p.reads, 1);
    assert_int_equal(gs_loop_step(f->loop, 0), 0);
    for (int i = 0; i < 2; i++) {
        gs_loop_fd_del(f->loop, p.fd[i][0]);
        close(p.fd[i][0]);
        close(p.fd[i][1]);
    }
    close(p.other);
}

/* ---- tasks ---- */

struct chain {
    struct gs_loop *loop;
    struct gs_loop_task a, b, c;
};

static void run_a(void *user)
{
    struct chain *t = user;

    strcat(order, "a");
    gs_loop_task_cancel(t->loop, &t->b);             /* taken by this round already */
    gs_loop_defer(t->loop, &t->a, note, "A");        /* itself again */
    gs_loop_defer(t->loop, &t->a, note, "not this"); /* queued: stays as it is */
}

static void tasks_keep_order_and_rounds(void **state)
{
    struct fixture *f = *state;
    struct chain t = {.loop = f->loop};

    order[0] = '\0';
    gs_loop_defer(f->loop, &t.a, run_a, &t);
    gs_loop_defer(f->loop, &t.b, note, "b");
    gs_loop_defer(f->loop, &t.c, note, "c");
    assert_int_equal(gs_loop_step(f->loop, -1), 2);
    assert_string_equal(order, "ac");
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_string_equal(order, "acA");
    gs_loop_defer(f->loop, &t.b, note, "b");
    gs_loop_defer(f->loop, &t.c, note, "c");
    gs_loop_task_cancel(f->loop, &t.c);
    gs_loop_task_cancel(f->loop, &t.c);
    gs_loop_defer(f->loop, &t.a, note, "a");
    assert_int_equal(gs_loop_step(f->loop, -1), 2);
    assert_string_equal(order, "acAba");
}

#define POSTERS 4
#define POSTS   2000

struct poster {
    struct gs_loop *loop;
    struct gs_loop_task task[POSTS];
    int *count;
};

static void count_one(void *user)
{
    ++*(int *)user;
}

static void *post_many(void *user)
{
    struct poster *p = user;

    for (int i = 0; i < POSTS; i++)
        gs_loop_post(p->loop, &p->task[i], count_one, p->count);
    return NULL;
}

static void threads_post(void **state)
{
    struct fixture *f = *state;
    static struct poster poster[POSTERS];
    pthread_t thread[POSTERS];
    int count = 0;

    memset(poster, 0, sizeof(poster));
    for (int i = 0; i < POSTERS; i++) {
        poster[i].loop = f->loop;
        poster[i].count = &count;
        assert_int_equal(pthread_create(&thread[i], NULL, post_many, &poster[i]), 0);
    }
    while (count < POSTERS * POSTS)
        assert_true(gs_loop_step(f->loop, -1) >= 0);
    for (int i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(count, POSTERS * POSTS);
}

/* ---- running, signals ---- */

static void *stop_it(void *user)
{
    gs_loop_stop(user);
    return NULL;
}

static void another_thread_stops_it(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, stop_it, f->loop), 0);
    assert_int_equal(gs_loop_run(f->loop), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    gs_loop_stop(f->loop); /* before it runs: one round */
    assert_int_equal(gs_loop_run(f->loop), 0);
}

static void on_signal(void *user, int signo)
{
    *(int *)user = signo;
}

static void signals_come_as_calls(void **state)
{
    struct fixture *f = *state;
    static const int signos[] = {SIGHUP, SIGTERM, 0};
    int seen = 0;
    sigset_t mask;

    assert_int_equal(gs_loop_signals(f->loop, signos, on_signal, &seen), 0);
    assert_int_equal(gs_loop_signals(f->loop, signos, on_signal, &seen), -EEXIST);
    assert_int_equal(kill(getpid(), SIGHUP), 0);
    assert_int_equal(gs_loop_step(f->loop, -1), 1);
    assert_int_equal(seen, SIGHUP);
    f->loop = gs_loop_free(f->loop);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    assert_false(sigismember(&mask, SIGHUP));
}

/** The machine's clock: a real timer comes, not before its time. */
static void real_time(void **state)
{
    struct gs_loop *loop = NULL;
    struct gs_loop_timer a = {0};

    (void)state;
    assert_int_equal(gs_loop_new(NULL, &loop), 0);
    order[0] = '\0';
    uint64_t start = gs_loop_now_ns(loop);
    gs_loop_timer_in(loop, &a, 5, note, "a");
    while (gs_loop_timer_is_set(&a))
        assert_true(gs_loop_step(loop, -1) >= 0);
    assert_true(gs_loop_now_ns(loop) - start >= 5 * MS);
    assert_string_equal(order, "a");
    gs_loop_free_p(&loop);
    assert_null(loop);
    gs_loop_free_p(&loop);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(timers_come_by_time_then_by_turn),
        TEST(a_timer_may_be_moved),
        TEST(a_wait_ends_in_time),
        TEST(time_by_hand),
        TEST(a_timer_for_now_waits_for_the_next_round),
        TEST(timers_agree_with_a_list),
        TEST(watches_and_forgets),
        TEST(an_old_event_does_not_reach_a_new_descriptor),
        TEST(tasks_keep_order_and_rounds),
        TEST(threads_post),
        TEST(another_thread_stops_it),
        TEST(signals_come_as_calls),
        TEST(real_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
