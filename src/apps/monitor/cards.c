#include "apps/monitor/cards.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "net/loop.h"

#define WATCH_NS    500000000u
#define STOP_WAIT_S 2

/** What one card's processes did. */
struct use_news {
    char uuid[96];
    int n;
    struct gs_probe_use use[GS_CARDS_USES];
};

/** A card that is watched; the thread's own. */
struct eye {
    char uuid[96];
    const struct gs_probe_vendor *vendor;
    struct gs_probe_watch *watch; /**< NULL: the driver cannot say */
};

struct gs_cards {
    /* set once */
    struct gs_loop *loop;
    const struct gs_probe_vendor *const *vendor;
    size_t n_vendors;
    struct gs_cards_fns fns;
    void *user;
    pthread_t thread;
    pthread_cond_t cond;
    struct gs_loop_task task;
    /* the thread's own */
    struct eye eye[GS_PROBE_CARDS];
    size_t n_eyes;
    struct eye
        anchor; /**< keeps the driver's library begun between probes, which is the dear part */
    /* under the lock */
    pthread_mutex_t lock;
    bool is_stopping, is_asked;
    char wanted[GS_PROBE_CARDS][96];
    size_t n_wanted;
    struct gs_probe *probe; /**< an answer that is not handed over yet */
    struct gs_err why;
    bool has_answer;
    struct use_news *news[GS_PROBE_CARDS]; /**< likewise */
};

/* ---- the loop's side ---- */

static void on_news(void *user)
{
    struct gs_cards *c = user;
    struct use_news *news[GS_PROBE_CARDS];
    struct gs_probe *probe;
    struct gs_err why;
    bool has_answer;

    (void)pthread_mutex_lock(&c->lock); /* cannot fail on this kind of lock */
    probe = c->probe;
    why = c->why;
    has_answer = c->has_answer;
    memcpy(news, c->news, sizeof(news));
    c->probe = NULL;
    c->has_answer = false;
    memset(c->news, 0, sizeof(c->news));
    (void)pthread_mutex_unlock(&c->lock);
    if (has_answer)
        c->fns.probed(c->user, probe, &why);
    for (size_t i = 0; i < GS_PROBE_CARDS; i++) {
        if (news[i] != NULL)
            c->fns.watched(c->user, news[i]->uuid, news[i]->use, news[i]->n);
        free(news[i]);
    }
    gs_probe_fini(probe);
    free(probe);
}

void gs_cards_ask(struct gs_cards *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->is_asked = true;
    (void)pthread_cond_signal(&c->cond);
    (void)pthread_mutex_unlock(&c->lock);
}

void gs_cards_watch(struct gs_cards *c, const char *const *uuid, size_t n)
{
    (void)pthread_mutex_lock(&c->lock);
    c->n_wanted = n < GS_PROBE_CARDS ? n : GS_PROBE_CARDS;
    for (size_t i = 0; i < c->n_wanted; i++) {
        memset(c->wanted[i], 0, sizeof(c->wanted[i]));
        memcpy(c->wanted[i], uuid[i], strnlen(uuid[i], sizeof(c->wanted[i]) - 1));
    }
    if (n > 0)
        (void)pthread_cond_signal(&c->cond);
    (void)pthread_mutex_unlock(&c->lock);
}

/* ---- the thread ---- */

static void close_eye(struct eye *e)
{
    if (e->watch != NULL)
        e->watch = e->vendor->watch_free(e->watch);
}

static void close_all(struct gs_cards *c)
{
    for (size_t i = 0; i < c->n_eyes; i++)
        close_eye(&c->eye[i]);
    c->n_eyes = 0;
    close_eye(&c->anchor);
}

static void open_eye(struct gs_cards *c, const char *uuid, struct eye *e)
{
    *e = (struct eye){.watch = NULL};
    memcpy(e->uuid, uuid, sizeof(e->uuid));
    for (size_t i = 0; i < c->n_vendors && e->watch == NULL; i++) {
        e->vendor = c->vendor[i];
        if (c->vendor[i]->watch_new == NULL || c->vendor[i]->watch_new(uuid, &e->watch, NULL) < 0)
            e->watch = NULL;
    }
}

/** Called without the lock. */
static void probe(struct gs_cards *c)
{
    struct gs_probe *p = calloc(1, sizeof(*p));
    struct gs_err why = {0};
    int rc = p == NULL ? gs_err_set(&why, -ENOMEM, "out of memory")
                       : gs_probe_read(c->vendor, c->n_vendors, p, &why);

    if (rc < 0) {
        /* it may be restarting: let it go, and begin anew next time */
        close_all(c);
        gs_probe_fini(p);
        free(p);
        p = NULL;
    } else if (c->anchor.watch == NULL) {
        open_eye(c, p->card[0].uuid, &c->anchor);
    }
    (void)pthread_mutex_lock(&c->lock);
    if (c->probe != NULL) {
        gs_probe_fini(c->probe); /* nobody took it in time */
        free(c->probe);
    }
    c->probe = p;
    c->why = why;
    c->has_answer = true;
    (void)pthread_mutex_unlock(&c->lock);
    gs_loop_post(c->loop, &c->task, on_news, c);
}

static void keep_wanted(struct gs_cards *c, const char wanted[][96], size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->n_eyes; i++) {
        bool is_wanted = false;

        for (size_t k = 0; k < n; k++)
            is_wanted |= strcmp(wanted[k], c->eye[i].uuid) == 0;
        if (is_wanted)
            c->eye[kept++] = c->eye[i];
        else
            close_eye(&c->eye[i]);
    }
    c->n_eyes = kept;
    for (size_t k = 0; k < n && c->n_eyes < GS_PROBE_CARDS; k++) {
        bool is_there = false;

        for (size_t i = 0; i < kept; i++)
            is_there |= strcmp(wanted[k], c->eye[i].uuid) == 0;
        if (!is_there)
            open_eye(c, wanted[k], &c->eye[c->n_eyes++]);
    }
}

/** Called without the lock. */
static void watch(struct gs_cards *c)
{
    char wanted[GS_PROBE_CARDS][96];
    size_t n;

    (void)pthread_mutex_lock(&c->lock);
    n = c->n_wanted;
    memcpy(wanted, c->wanted, sizeof(wanted));
    (void)pthread_mutex_unlock(&c->lock);
    keep_wanted(c, (const char(*)[96])wanted, n);
    for (size_t i = 0; i < c->n_eyes; i++) {
        struct use_news *news = malloc(sizeof(*news)), *old;

        if (news == NULL)
            return;
        memcpy(news->uuid, c->eye[i].uuid, sizeof(news->uuid));
        news->n = c->eye[i].watch == NULL
                      ? -ENOTSUP
                      : c->eye[i].vendor->watch_read(c->eye[i].watch, news->use, GS_CARDS_USES);
        (void)pthread_mutex_lock(&c->lock);
        old = c->news[i];
        c->news[i] = news;
        (void)pthread_mutex_unlock(&c->lock);
        free(old);
    }
    gs_loop_post(c->loop, &c->task, on_news, c);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *arg)
{
    struct gs_cards *c = arg;
    uint64_t watch_ns = 0;

    (void)pthread_mutex_lock(&c->lock);
    while (!c->is_stopping) {
        bool is_asked = c->is_asked, is_due = c->n_wanted > 0 && now_ns() >= watch_ns;
        struct timespec until = {(time_t)(watch_ns / 1000000000u), (long)(watch_ns % 1000000000u)};

        if (!is_asked && !is_due) {
            if (c->n_wanted > 0)
                (void)pthread_cond_timedwait(&c->cond, &c->lock, &until);
            else
                (void)pthread_cond_wait(&c->cond, &c->lock);
            continue;
        }
        c->is_asked = false;
        (void)pthread_mutex_unlock(&c->lock);
        if (is_asked)
            probe(c);
        if (is_due) {
            watch(c);
            watch_ns = now_ns() + WATCH_NS;
        }
        (void)pthread_mutex_lock(&c->lock);
    }
    (void)pthread_mutex_unlock(&c->lock);
    close_all(c);
    return NULL;
}

static int init_locks(struct gs_cards *c)
{
    pthread_condattr_t attr;
    int rc = pthread_condattr_init(&attr);

    if (rc != 0)
        return -rc;
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* a clock that every Linux has */
    rc = pthread_cond_init(&c->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return rc != 0 ? -rc : -pthread_mutex_init(&c->lock, NULL);
}

int gs_cards_start(struct gs_loop *loop, const struct gs_probe_vendor *const *vendors, size_t n,
                   const struct gs_cards_fns *fns, void *user, struct gs_cards **ret)
{
    struct gs_cards *c = calloc(1, sizeof(*c));
    sigset_t all, before;
    int rc;

    if (c == NULL)
        return -ENOMEM;
    c->loop = loop;
    c->vendor = vendors;
    c->n_vendors = n;
    c->fns = *fns;
    c->user = user;
    rc = init_locks(c);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    if (rc == 0)
        rc = -pthread_create(&c->thread, NULL, work, c);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc < 0) {
        free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

struct gs_cards *gs_cards_stop(struct gs_cards *c)
{
    struct timespec until;

    if (c == NULL)
        return NULL;
    (void)pthread_mutex_lock(&c->lock);
    c->is_stopping = true;
    (void)pthread_cond_signal(&c->cond);
    (void)pthread_mutex_unlock(&c->lock);
    (void)clock_gettime(CLOCK_REALTIME, &until); /* cannot fail with this clock */
    until.tv_sec += STOP_WAIT_S;
    if (pthread_timedjoin_np(c->thread, NULL, &until) != 0)
        return c;
    gs_loop_task_cancel(c->loop, &c->task);
    gs_probe_fini(c->probe);
    free(c->probe);
    for (size_t i = 0; i < GS_PROBE_CARDS; i++)
        free(c->news[i]);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->cond);
    free(c);
    return NULL;
}
