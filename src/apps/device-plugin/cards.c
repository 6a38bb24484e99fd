#include "apps/device-plugin/cards.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "net/loop.h"
#include "node/probe.h"

#define WAIT_MS 1000u
#define TICK_MS 1000u
#define RETRY_S 5
#define NOTES   (GS_INVENTORY_CARDS + 8)

/* What the thread has to say; freed by whoever is told. */
struct news {
    struct gs_loop_task task;
    struct gs_cards *cards;
    struct news *next; /* of all that are on their way; the thread's */
    struct gs_inventory inv;
    bool has_inv;
    struct gs_err why; /* code < 0: the driver cannot be asked */
    size_t n;
    struct gs_note note[NOTES];
};

struct gs_cards {
    struct gs_cards_opt opt;
    pthread_t thread;
    bool has_thread;
    /* Relaxed: nothing but the end hangs on it. */
    atomic_bool is_ending;
    pthread_mutex_t lock; /* of `pending`, taken last */
    struct news *pending; /* posted and not taken */
    struct gs_inventory inv;
    struct gs_health *health; /* NULL: no inventory yet */
    struct gs_loop_timer tick;
};

/* ---- the loop's side ---- */

static void unlink_news(struct gs_cards *cards, struct news *news)
{
    pthread_mutex_lock(&cards->lock);
    for (struct news **at = &cards->pending; *at != NULL; at = &(*at)->next) {
        if (*at == news) {
            *at = news->next;
            break;
        }
    }
    pthread_mutex_unlock(&cards->lock);
}

static void free_news(struct news *news)
{
    gs_inventory_fini(&news->inv);
    free(news);
}

static void tell(struct gs_cards *cards)
{
    cards->opt.changed(cards->opt.arg, &cards->inv, cards->health);
}

static void take_inventory(struct gs_cards *cards, struct news *news)
{
    if (cards->health == NULL)
        cards->health = calloc(1, sizeof(*cards->health));
    if (cards->health == NULL)
        return; /* the next one will do */
    gs_inventory_fini(&cards->inv);
    cards->inv = news->inv;
    memset(&news->inv, 0, sizeof(news->inv));
    gs_health_init(cards->health, cards->inv.n, gs_loop_now_ns(cards->opt.loop));
    tell(cards);
}

static void on_news(void *user)
{
    struct news *news = user;
    struct gs_cards *cards = news->cards;
    bool is_other = false;

    unlink_news(cards, news);
    if (news->why.code < 0)
        cards->opt.trouble(cards->opt.arg, &news->why);
    if (news->has_inv)
        take_inventory(cards, news);
    for (size_t i = 0; cards->health != NULL && i < news->n; i++)
        is_other |= gs_health_take(cards->health, &news->note[i], gs_loop_now_ns(cards->opt.loop));
    if (is_other)
        tell(cards);
    free_news(news);
}

static void on_tick(void *user)
{
    struct gs_cards *cards = user;

    if (cards->health != NULL && gs_health_tick(cards->health, gs_loop_now_ns(cards->opt.loop)))
        tell(cards);
    gs_loop_timer_in(cards->opt.loop, &cards->tick, TICK_MS, on_tick, cards);
}

/* ---- the thread's side ---- */

static bool is_ending(const struct gs_cards *cards)
{
    return atomic_load_explicit(&cards->is_ending, memory_order_relaxed);
}

static void post(struct gs_cards *cards, struct news *news)
{
    pthread_mutex_lock(&cards->lock);
    news->next = cards->pending;
    cards->pending = news;
    pthread_mutex_unlock(&cards->lock);
    gs_loop_post(cards->opt.loop, &news->task, on_news, news);
}

static struct news *make_news(struct gs_cards *cards)
{
    struct news *news = calloc(1, sizeof(*news));

    if (news != NULL)
        news->cards = cards;
    return news;
}

static void on_tell(void *user, const char *text)
{
    (void)user;
    GS_LOG_INFO("what the driver does not say of a card", GS_LOG_CSTR("text", text));
}

static const struct gs_inventory_tell teller = {.tell = on_tell};

/* Ask and watch. NULL: the driver cannot be asked, which was told. */
static struct gs_health_watch *begin(struct gs_cards *cards)
{
    const struct gs_health_conf conf = {
        .ignore = getenv("DP_DISABLE_HEALTHCHECKS"),
        .heed = getenv("DP_ENABLE_HEALTHCHECKS"),
        .tell = &teller,
    };
    struct gs_health_watch *watch = NULL;
    struct news *news = make_news(cards);
    int rc;

    if (news == NULL)
        return NULL;
    rc = gs_inventory_read(cards->opt.vendor->inventory, "/sys", &teller, &news->inv, &news->why);
    if (rc == 0 && news->inv.n == 0)
        rc = gs_err_set(&news->why, -ENODEV, "the driver knows of no card");
    if (rc == 0)
        rc = cards->opt.vendor->health->watch_new(&news->inv, &conf, &watch, &news->why);
    if (rc < 0 && news->why.code == 0)
        (void)gs_err_set(&news->why, rc, "%s", strerror(-rc));
    news->has_inv = rc == 0;
    post(cards, news);
    return watch;
}

/* Until there are other cards, or the end. */
static void watch(struct gs_cards *cards, struct gs_health_watch *w)
{
    bool is_other = false;

    while (!is_other && !is_ending(cards)) {
        struct news *news = make_news(cards);

        if (news == NULL)
            return;
        news->n = cards->opt.vendor->health->watch_wait(w, WAIT_MS, news->note, NOTES);
        for (size_t i = 0; i < news->n; i++)
            is_other |= news->note[i].kind == GS_NOTE_OTHER_CARDS;
        if (news->n > 0)
            post(cards, news);
        else
            free_news(news);
    }
}

static void *run(void *arg)
{
    struct gs_cards *cards = arg;

    while (!is_ending(cards)) {
        struct gs_health_watch *w = begin(cards);

        if (w != NULL)
            watch(cards, w);
        cards->opt.vendor->health->watch_free(w);
        for (int i = 0; w == NULL && i < RETRY_S && !is_ending(cards); i++)
            (void)nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* woken early: looks again */
    }
    return NULL;
}

/* ---- life ---- */

int gs_cards_new(const struct gs_cards_opt *opt, struct gs_cards **ret, struct gs_err *err)
{
    struct gs_cards *cards = calloc(1, sizeof(*cards));
    int rc;

    if (cards == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    cards->opt = *opt;
    (void)pthread_mutex_init(&cards->lock, NULL); /* cannot fail without attributes */
    rc = -pthread_create(&cards->thread, NULL, run, cards);
    if (rc < 0) {
        gs_cards_free(cards);
        return gs_err_set(err, rc, "thread that asks the driver: %s", strerror(-rc));
    }
    cards->has_thread = true;
    gs_loop_timer_in(opt->loop, &cards->tick, TICK_MS, on_tick, cards);
    *ret = cards;
    return 0;
}

struct gs_cards *gs_cards_free(struct gs_cards *cards)
{
    if (cards == NULL)
        return NULL;
    atomic_store_explicit(&cards->is_ending, true, memory_order_relaxed);
    if (cards->has_thread)
        (void)pthread_join(cards->thread, NULL);
    while (cards->pending != NULL) {
        struct news *news = cards->pending;

        gs_loop_task_cancel(cards->opt.loop, &news->task);
        cards->pending = news->next;
        free_news(news);
    }
    gs_loop_timer_cancel(cards->opt.loop, &cards->tick);
    (void)pthread_mutex_destroy(&cards->lock);
    gs_inventory_fini(&cards->inv);
    free(cards->health);
    free(cards);
    return NULL;
}
