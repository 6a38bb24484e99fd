#include "vendors/nvidia/policy/topology.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct cards {
    const struct gs_nvidia_facts *facts;
    uint32_t first;
    const struct gs_pick *pick;
    size_t n;
};

static int64_t score(const struct cards *c, size_t from, size_t to)
{
    uint32_t a = c->pick[from].dev - c->first, b = c->pick[to].dev - c->first;

    if (c->facts == NULL || c->facts->score == NULL)
        return 0;
    return c->facts->score[a * c->facts->n + b];
}

static size_t loneliest(const struct cards *c)
{
    int64_t least = 0;
    size_t best = 0;

    for (size_t i = 0; i < c->n; i++) {
        int64_t sum = 0;

        for (size_t j = 0; j < c->n; j++)
            sum += j != i ? score(c, i, j) : 0;
        if (i == 0 || sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

/* Are there at most GS_NVIDIA_SETS_MAX sets of `want` of `n`? */
static bool are_few(size_t n, size_t want)
{
    size_t k = want < n - want ? want : n - want;
    uint64_t sets = 1;

    for (size_t i = 1; i <= k; i++) {
        sets = sets * (n - k + i) / i; /* a binomial itself, hence whole; below 20000 * 4096 */
        if (sets > GS_NVIDIA_SETS_MAX)
            return false;
    }
    return true;
}

/* The next set of indexes in the order of lists: where it first differs from the last one; `want`
 * behind the last. */
static size_t advance(size_t *set, size_t n, size_t want)
{
    size_t i = want, changed;

    while (i > 0 && set[i - 1] == n - want + i - 1)
        i--;
    if (i == 0)
        return want;
    changed = i - 1;
    set[changed]++;
    for (; i < want; i++)
        set[i] = set[i - 1] + 1;
    return changed;
}

/* Sums over the pairs of the first 1, 2, ... members, from member `from` on. */
static void add_up(const struct cards *c, const size_t *set, size_t from, size_t want, int64_t *sum)
{
    for (size_t i = from; i < want; i++) {
        sum[i] = i > 0 ? sum[i - 1] : 0;
        for (size_t j = 0; j < i; j++)
            sum[i] += score(c, set[j], set[i]);
    }
}

/* `set`, `best` and `sum` have room for `want`. */
static void try_all(const struct cards *c, size_t want, size_t *set, size_t *best, int64_t *sum)
{
    size_t from = 0;
    int64_t most;

    for (size_t i = 0; i < want; i++)
        set[i] = best[i] = i;
    add_up(c, set, 0, want, sum);
    most = sum[want - 1];
    while ((from = advance(set, c->n, want)) < want) {
        add_up(c, set, from, want, sum);
        if (sum[want - 1] > most) {
            most = sum[want - 1];
            memcpy(best, set, want * sizeof(set[0]));
        }
    }
}

static bool holds(const size_t *set, size_t n, size_t one)
{
    for (size_t i = 0; i < n; i++)
        if (set[i] == one)
            return true;
    return false;
}

static void nearest_pair(const struct cards *c, size_t *best)
{
    best[0] = 0;
    best[1] = 1;
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = i + 1; j < c->n; j++)
            if (score(c, i, j) > score(c, best[0], best[1])) {
                best[0] = i;
                best[1] = j;
            }
}

/* `near` has room for all cards: the sum of each one's scores to those chosen so far. */
static void grow(const struct cards *c, size_t want, size_t *best, int64_t *near)
{
    nearest_pair(c, best);
    for (size_t i = 0; i < c->n; i++)
        near[i] = score(c, best[0], i) + score(c, best[1], i);
    for (size_t n = 2; n < want; n++) {
        size_t next = c->n;

        for (size_t i = 0; i < c->n; i++)
            if (!holds(best, n, i) && (next == c->n || near[i] > near[next]))
                next = i;
        best[n] = next;
        for (size_t i = 0; i < c->n; i++)
            near[i] += score(c, next, i);
    }
}

int gs_nvidia_topology_choose(const struct gs_nvidia_facts *facts, uint32_t first,
                              struct gs_pick *pick, size_t n, size_t want, struct gs_arena *arena)
{
    struct cards cards = {facts, first, pick, n};
    size_t *set = GS_ARENA_ARRAY(arena, want, size_t), *best = GS_ARENA_ARRAY(arena, want, size_t);
    struct gs_pick *chosen = GS_ARENA_ARRAY(arena, want, struct gs_pick);
    int64_t *near = GS_ARENA_ARRAY(arena, n, int64_t);

    if (gs_arena_check(arena) < 0)
        return -ENOMEM;
    if (want == 1)
        best[0] = loneliest(&cards);
    else if (are_few(n, want))
        try_all(&cards, want, set, best, near);
    else
        grow(&cards, want, best, near);
    for (size_t i = 0; i < want; i++)
        chosen[i] = pick[best[i]];
    memcpy(pick, chosen, want * sizeof(pick[0]));
    return 0;
}
