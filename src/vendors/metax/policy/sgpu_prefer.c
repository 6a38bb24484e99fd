#include "vendors/metax/policy/sgpu_prefer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "model/fit.h"
#include "model/policy.h"
#include "vendors/metax/policy/sgpu_card.h"

/* A card among those that serve, with what it is sorted by: smaller is better. */
struct ranked {
    struct gs_pick pick;
    int32_t zone;
    uint32_t size; /* cards of that zone */
    int64_t key[3];
    size_t position;
};

static int by_key(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    for (size_t i = 0; i < 3; i++)
        if (x->key[i] != y->key[i])
            return x->key[i] < y->key[i] ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int by_zone(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->zone != y->zone)
        return x->zone < y->zone ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static int32_t zone_of(const struct gs_device *dev)
{
    const struct gs_sgpu_card *card = dev->custom;

    return card->zone > 0 ? card->zone : 0;
}

static struct ranked *rank(const struct gs_fit *fit, const struct gs_pick *pick, size_t n)
{
    struct ranked *r = GS_ARENA_ARRAY(fit->arena, n, struct ranked);

    for (size_t i = 0; r != NULL && i < n; i++)
        r[i] = (struct ranked){
            .pick = pick[i], .position = i, .zone = zone_of(&fit->node->dev[pick[i].dev])};
    return r;
}

int gs_sgpu_prefer_quiet(const struct gs_fit *fit, struct gs_pick *pick, size_t n)
{
    struct ranked *r = rank(fit, pick, n);

    if (r == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct gs_sgpu_crowd crowd = gs_sgpu_card_crowd(&fit->use[pick[i].dev]);

        r[i].key[0] = crowd.online == 0 && crowd.offline > 0;
        r[i].key[1] = crowd.online;
        r[i].key[2] = crowd.offline;
    }
    qsort(r, n, sizeof(r[0]), by_key);
    for (size_t i = 0; i < n; i++)
        pick[i] = r[i].pick;
    return 0;
}

/* How large the zone of each card is, and which zone came first. Leaves them sorted by zone. */
static void measure_zones(struct ranked *r, size_t n)
{
    size_t end;

    qsort(r, n, sizeof(r[0]), by_zone);
    for (size_t start = 0; start < n; start = end) {
        end = start + 1;
        while (end < n && r[end].zone == r[start].zone)
            end++;
        for (size_t i = start; i < end; i++) {
            r[i].size = (uint32_t)(end - start);
            r[i].key[0] = r[i].zone == 0;
            r[i].key[1] = r[i].size;
            r[i].key[2] = (int64_t)r[start].position;
        }
    }
}

int gs_sgpu_prefer_linked(const struct gs_fit *fit, struct gs_pick *pick, size_t n, size_t wanted)
{
    struct ranked *r = rank(fit, pick, n);
    size_t best = 0;

    if (r == NULL)
        return -ENOMEM;
    measure_zones(r, n);
    qsort(r, n, sizeof(r[0]), by_key);
    while (best < n && (r[best].zone == 0 || r[best].size < wanted))
        best++;
    if (best == n)
        best = 0;
    for (size_t i = 0; i < n; i++)
        pick[i] = r[(best + i) % n].pick;
    return 0;
}

static bool is_picked(const struct gs_assignment *a, uint32_t dev, int32_t min_cores)
{
    for (size_t c = 0; c < a->pod->n_containers; c++)
        for (size_t i = 0; i < a->n_picks[c]; i++)
            if (a->pick[c][i].dev == dev && a->pick[c][i].cores >= min_cores)
                return true;
    return false;
}

int64_t gs_sgpu_prefer_online_score(const struct gs_assignment *a)
{
    int64_t score = 0;

    for (uint32_t i = a->group->first; i < a->group->first + a->group->n; i++) {
        struct gs_sgpu_crowd crowd = gs_sgpu_card_crowd(&a->node->use[i]);

        if (!is_picked(a, i, 0))
            continue;
        if (crowd.online == 0)
            score -= 100 * (int64_t)crowd.offline;
        else
            score -= 20 * (int64_t)crowd.online + 2 * (int64_t)crowd.offline;
    }
    return score;
}

/* Cards per zone. A node has a handful of zones; those beyond the table count as no zone. */
#define ZONES_MAX 64
struct zones {
    int32_t zone[ZONES_MAX];
    int64_t open[ZONES_MAX], given[ZONES_MAX], rest[ZONES_MAX];
    size_t n;
};

static size_t zone_at(struct zones *z, int32_t zone)
{
    size_t i = 0;

    while (i < z->n && z->zone[i] != zone)
        i++;
    if (i == z->n && i < ZONES_MAX)
        z->zone[z->n++] = zone;
    return i;
}

/* Ten for every pair. */
static int64_t links(int64_t cards)
{
    return 10 * (cards * (cards - 1) / 2);
}

int64_t gs_sgpu_prefer_linked_score(const struct gs_assignment *a)
{
    struct zones z = {.n = 0};
    int64_t open = 0, given = 0, rest = 0;

    for (uint32_t i = a->group->first; i < a->group->first + a->group->n; i++) {
        int32_t zone = zone_of(&a->node->dev[i]);
        bool is_given = is_picked(a, i, 100), is_open = a->node->use[i].slots <= 0;
        size_t at = zone > 0 ? zone_at(&z, zone) : ZONES_MAX;

        if (at == ZONES_MAX)
            continue;
        z.given[at] += is_given;
        z.open[at] += is_open;
        z.rest[at] += is_open && !is_given;
    }
    for (size_t i = 0; i < z.n; i++) {
        open += links(z.open[i]);
        given += links(z.given[i]);
        rest += links(z.rest[i]);
    }
    return 10 * given - (open - given - rest);
}
