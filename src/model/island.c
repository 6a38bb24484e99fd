#include "model/island.h"

#include <errno.h>
#include <stdlib.h>

struct entry {
    size_t at;    /* where it was */
    size_t first; /* where the first of its island was */
    size_t size;  /* of its island; 0: none */
    int32_t island;
    bool has_island;
};

static int by_island(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->has_island != y->has_island)
        return x->has_island ? -1 : 1;
    if (x->has_island && x->island != y->island)
        return x->island < y->island ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static int by_size(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static void measure(struct entry *entry, size_t n)
{
    size_t to;

    qsort(entry, n, sizeof(entry[0]), by_island);
    for (size_t from = 0; from < n && entry[from].has_island; from = to) {
        for (to = from + 1;
             to < n && entry[to].has_island && entry[to].island == entry[from].island; to++)
            ;
        for (size_t i = from; i < to; i++) {
            entry[i].first = entry[from].at;
            entry[i].size = to - from;
        }
    }
}

int gs_island_sort(const struct gs_node *node, gs_island_of of, struct gs_pick *pick, size_t n,
                   struct gs_arena *arena)
{
    struct entry *entry = GS_ARENA_ARRAY(arena, n, struct entry);
    struct gs_pick *was = GS_ARENA_ARRAY(arena, n, struct gs_pick);

    if (entry == NULL || was == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        was[i] = pick[i];
        entry[i].at = i;
        entry[i].has_island = of(&node->dev[pick[i].dev], &entry[i].island);
    }
    measure(entry, n);
    qsort(entry, n, sizeof(entry[0]), by_size);
    for (size_t i = 0; i < n; i++)
        pick[i] = was[entry[i].at];
    return 0;
}

double gs_island_share(const struct gs_node *node, gs_island_of of, const struct gs_pick *pick,
                       size_t n)
{
    size_t largest = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t mine, other;
        size_t size = 0;

        if (!of(&node->dev[pick[i].dev], &mine))
            return 0;
        for (size_t j = i; j < n; j++)
            size += of(&node->dev[pick[j].dev], &other) && other == mine;
        if (size > largest)
            largest = size;
    }
    return n > 0 ? (double)largest / (double)n : 0;
}
