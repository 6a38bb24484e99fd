#include "crash/card.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

static bool is_held(const struct card_object *o)
{
    uint64_t any = 0;

    for (uint32_t i = 0; i < CARD_WORKERS / 64; i++)
        any |= o->holders[i];
    return any != 0;
}

static bool holds(const struct card_object *o, uint32_t w)
{
    return (o->holders[w / 64] >> (w % 64) & 1) != 0;
}

/** A worker died in the middle of a change: `holders` is written last, the rest follows from it. */
static void recount(struct card *card)
{
    for (uint32_t dev = 0; dev < CARD_DEVICES; dev++)
        card->used[dev] = 0;
    for (uint32_t i = 0; i < CARD_OBJECTS; i++) {
        if (is_held(&card->object[i]))
            card->used[card->object[i].dev] += card->object[i].bytes;
    }
}

static void lock(struct card *card)
{
    if (pthread_mutex_lock(&card->lock) == EOWNERDEAD) {
        (void)pthread_mutex_consistent(&card->lock);
        recount(card);
    }
}

static void unlock(struct card *card)
{
    (void)pthread_mutex_unlock(&card->lock);
}

struct card *card_new(uint64_t limit_bytes)
{
    struct card *card =
        mmap(NULL, sizeof(*card), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;

    if (card == MAP_FAILED)
        abort();
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutex_init(&card->lock, &attr);
    for (uint32_t i = 0; i < CARD_WORKERS; i++)
        (void)pthread_mutex_init(&card->life[i], &attr);
    for (uint32_t dev = 0; dev < CARD_DEVICES; dev++)
        card->limit[dev] = limit_bytes;
    return card;
}

static void drop(struct card *card, struct card_object *o, uint32_t w)
{
    o->holders[w / 64] &= ~(UINT64_C(1) << (w % 64));
    if (!is_held(o))
        card->used[o->dev] -= o->bytes;
}

static void sweep_locked(struct card *card)
{
    for (uint32_t w = 0; w < CARD_WORKERS; w++) {
        int rc = pthread_mutex_trylock(&card->life[w]);

        if (rc == EBUSY || rc == EDEADLK)
            continue;
        if (rc == EOWNERDEAD) {
            for (uint32_t i = 0; i < CARD_OBJECTS; i++) {
                if (holds(&card->object[i], w))
                    drop(card, &card->object[i], w);
            }
            /* last: a sweeper killed before this leaves the word for the next */
            (void)pthread_mutex_consistent(&card->life[w]);
        }
        (void)pthread_mutex_unlock(&card->life[w]);
    }
}

void card_sweep(struct card *card)
{
    lock(card);
    sweep_locked(card);
    unlock(card);
}

void card_live(struct card *card, uint32_t w)
{
    lock(card);
    sweep_locked(card); /* what our predecessor held is not ours */
    if (pthread_mutex_lock(&card->life[w]) == EOWNERDEAD)
        (void)pthread_mutex_consistent(&card->life[w]);
    unlock(card);
}

int card_alloc(struct card *card, uint32_t w, uint32_t dev, uint64_t bytes, uint64_t *ret_serial)
{
    int found = -1;

    lock(card);
    if (card->used[dev] + bytes > card->limit[dev])
        sweep_locked(card);
    for (uint32_t i = 0; i < CARD_OBJECTS && found < 0; i++) {
        uint32_t at = (uint32_t)(card->serial + i) % CARD_OBJECTS;

        if (!is_held(&card->object[at]))
            found = (int)at;
    }
    if (found >= 0) {
        struct card_object *o = &card->object[found];

        o->bytes = bytes;
        o->dev = dev;
        o->published = false;
        o->serial = ++card->serial;
        card->used[dev] += bytes;
        o->holders[w / 64] |= UINT64_C(1) << (w % 64);
        if (card->used[dev] > card->limit[dev])
            card->over++;
        if (card->used[dev] > card->peak[dev])
            card->peak[dev] = card->used[dev];
        *ret_serial = o->serial;
    }
    unlock(card);
    return found;
}

void card_free(struct card *card, uint32_t w, int object)
{
    lock(card);
    if (holds(&card->object[object], w))
        drop(card, &card->object[object], w);
    unlock(card);
}

void card_publish(struct card *card, int object)
{
    lock(card);
    card->object[object].published = true;
    unlock(card);
}

int card_find(struct card *card, uint32_t w, uint64_t from, uint64_t *ret_serial)
{
    int found = -1;

    lock(card);
    for (uint32_t i = 0; i < CARD_OBJECTS && found < 0; i++) {
        uint32_t at = (uint32_t)(from + i) % CARD_OBJECTS;
        const struct card_object *o = &card->object[at];

        if (o->published && is_held(o) && !holds(o, w)) {
            found = (int)at;
            *ret_serial = o->serial;
        }
    }
    unlock(card);
    return found;
}

bool card_open(struct card *card, uint32_t w, int object, uint64_t serial)
{
    struct card_object *o = &card->object[object];
    bool ok = false;

    lock(card);
    sweep_locked(card); /* a dead exporter's memory cannot be opened any more */
    if (o->serial == serial && is_held(o)) {
        o->holders[w / 64] |= UINT64_C(1) << (w % 64);
        ok = true;
    }
    unlock(card);
    return ok;
}
