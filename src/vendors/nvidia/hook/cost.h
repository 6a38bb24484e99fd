#pragma once
/* What a launch costs: an estimate of its card time, learnt from samples.
 *
 * One entry for each (card, function or executable graph, block shape, class of dynamic shared
 * memory, quarter octave of the number of blocks). The table has a fixed size and no lock: words
 * are relaxed atomics, a lost update costs one sample. Where an entry finds no room it shares one
 * with everything of its size; handles that the driver uses again carry a wrong estimate until they
 * are measured, which gs_cost_doubt() brings forward.
 *
 * Units: nanoseconds of the whole card. Threads: any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

/** Launches believed to last this long are measured one by one. */
#define GS_COST_LONG_NS 500000u
/** Of unlike length, and believed to last this long on the average: likewise. */
#define GS_COST_SPREAD_NS 100000u
/** Shorter ones are sampled once in about so much of their own estimated time. */
#define GS_COST_SAMPLE_NS 500000u
/** A sample beyond so many times the estimate counts in full only when the one before was, too. */
#define GS_COST_CLIP 16u

struct gs_cost {
    uint64_t key;         /**< 0 free */
    uint64_t est_ns;      /**< 0 not known */
    int64_t countdown_ns; /**< below 0: a sample is due */
    uint16_t samples;     /**< behind the estimate, saturating at the weight of the mean */
    uint16_t spread;      /**< samples since one was far from the mean: counts down; 0 all alike */
    uint16_t outliers;    /**< in a row */
    uint16_t crowded; /**< likewise: samples thrown away because other streams were in between */
};

#define GS_COST_BITS   14u
#define GS_COST_SLOTS  (1u << GS_COST_BITS)
#define GS_COST_PROBES 4u
#define GS_COST_COARSE 256u

#define GS_COST_WORD_BITS 64u

struct gs_cost_table {
    _Alignas(64) struct gs_cost slot[GS_COST_SLOTS + GS_COST_PROBES];
    struct gs_cost coarse[GS_COST_COARSE];
    /** Slots that have a key, a bit each: there are programs that load code for each launch. */
    uint64_t taken[GS_COST_SLOTS / GS_COST_WORD_BITS + 1];
};
extern struct gs_cost_table gs_cost_table __attribute__((visibility("hidden")));

/** Number of the quarter octave: 0 for 0, equal for numbers within about 19 %, below 256. */
static inline uint32_t gs_cost_quarter(uint64_t n)
{
    uint32_t octave;

    if (n < 4)
        return (uint32_t)n;
    octave = 63u - (uint32_t)__builtin_clzll(n);
    return octave * 4u + (uint32_t)((n >> (octave - 2u)) & 3u);
}

/** Blocks of a grid; saturates instead of wrapping. */
static inline uint64_t gs_cost_blocks(unsigned int x, unsigned int y, unsigned int z)
{
    uint64_t blocks;

    return __builtin_mul_overflow((uint64_t)x * y, (uint64_t)z, &blocks) ? UINT64_MAX : blocks;
}

/** Key of a launch; never 0.
 *  @handle   function, kernel or executable graph.
 *  @shape    anything that tells block shapes and kinds of handles apart.
 *  @quarter  gs_cost_quarter() of the blocks; 0 for a graph. */
static inline uint64_t gs_cost_key(uint64_t handle, uint64_t shape, uint32_t quarter, uint32_t dev)
{
    /* a sum of products: one multiplication deep, and the high bits depend on everything */
    uint64_t h = handle * 0x9e3779b97f4a7c15ull + shape * 0xd6e8feb86659fd93ull +
                 ((uint64_t)dev << 8 | quarter) * 0xa0761d6478bd642full;

    return h | 1u;
}

/** Shape word of a kernel launch. */
static inline uint64_t gs_cost_shape(unsigned int x, unsigned int y, unsigned int z,
                                     unsigned int shared_bytes)
{
    uint64_t class = shared_bytes == 0 ? 0 : 32u - (uint32_t)__builtin_clz(shared_bytes);

    return ((uint64_t)x << 40) ^ ((uint64_t)y << 24) ^ ((uint64_t)z << 8) ^ class << 1 ^ 1u;
}

/** Where the entry of a key is, unless others were there before. */
static inline struct gs_cost *gs_cost_home(uint64_t key)
{
    return &gs_cost_table.slot[key >> (64u - GS_COST_BITS)];
}

/** Slow part of gs_cost_find: take a free entry, or share a coarse one. Never NULL. */
struct gs_cost *gs_cost_claim(uint64_t key, uint32_t quarter);

/** The entry of a launch. Never NULL. */
static inline struct gs_cost *gs_cost_find(uint64_t key, uint32_t quarter)
{
    struct gs_cost *c = gs_cost_home(key);

    if (GS_LIKELY(__atomic_load_n(&c->key, __ATOMIC_RELAXED) == key))
        return c;
    return gs_cost_claim(key, quarter);
}

/** Does a launch go by its estimate, *ret_est_ns? False: it is to be measured, because nothing is
 * known, because it is long, or because a sample is due. */
static inline bool gs_cost_is_estimated(const struct gs_cost *c, uint64_t *ret_est_ns)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);

    *ret_est_ns = est;
    return est - 1u < GS_COST_LONG_NS - 1u &&
           __atomic_load_n(&c->countdown_ns, __ATOMIC_RELAXED) >= (int64_t)est;
}

/** It goes: the next sample comes nearer. */
static inline void gs_cost_count(struct gs_cost *c, uint64_t est_ns)
{
    int64_t left = __atomic_load_n(&c->countdown_ns, __ATOMIC_RELAXED);

    __atomic_store_n(&c->countdown_ns, left - (int64_t)est_ns, __ATOMIC_RELAXED);
}

/** Have launches of this kind turned out unlike each other lately, and are they long enough for
 * each to be measured? */
static inline bool gs_cost_is_spread(const struct gs_cost *c)
{
    return __atomic_load_n(&c->spread, __ATOMIC_RELAXED) != 0 &&
           __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED) >= GS_COST_SPREAD_NS;
}

/** Is a launch unlike what was believed of its kind, by more than clocks and caches explain? */
bool gs_cost_is_unlike(uint64_t est_ns, uint64_t measured_ns);

/** How many launches a sample that was due stands for. */
uint64_t gs_cost_weight(const struct gs_cost *c);

/** A sample is being taken: when is the next one due? Nobody can tell before. */
void gs_cost_sampled(struct gs_cost *c);
/** Learn from one measured launch. */
void gs_cost_learn(struct gs_cost *c, uint64_t measured_ns);
/** The same where other streams of the process had work meanwhile: the measurement may contain
 * their launches, undivided where these were queued in front, and counts the less the longer it is.
 */
void gs_cost_learn_crowded(struct gs_cost *c, uint64_t measured_ns);
/** The longest turn that a card gives a process. */
#define GS_COST_TURN_NS 2200000u
/** Turns that a launch of that length may need, at most. */
uint64_t gs_cost_turns(uint64_t est_ns);
/** Beside others that take turns with us: may it have been their turns that made a launch so long?
 *  It is longer than believed by a turn of the card or more; not longer than they all can have held
 *  it up. Only of launches clearly shorter than a few turns: most of those run through.
 *  @turns_ns  by so much at most; UINT64_MAX nobody knows. */
bool gs_cost_is_held_up(const struct gs_cost *c, uint64_t measured_ns, uint64_t turns_ns);
/** gs_cost_learn() beside others: a launch that was held up says nothing, unless several do so in a
 *  row. */
void gs_cost_learn_shared(struct gs_cost *c, uint64_t measured_ns, uint64_t turns_ns);
/** Card time of a launch that took `measured_ns`, less others' turns in it; 0: cannot be told from
 *  the launch's own length. */
uint64_t gs_cost_own(const struct gs_cost *c, uint64_t measured_ns, uint64_t turns_ns);
/** Learn from many launches, this one's among them: they took `measured_ns` instead of `paid_ns`.
 */
void gs_cost_learn_ratio(struct gs_cost *c, uint64_t measured_ns, uint64_t paid_ns);
/** What a launch is taken for before anything is known of it: from its size alone.
 *  @threads  blocks times threads of a block; 0 a graph. */
uint64_t gs_cost_prior(uint64_t threads);
/** The same of a copy. */
uint64_t gs_cost_prior_copy(uint64_t bytes, uint32_t bytes_per_ns);

/** Handles may mean other code from now on: the next launch of each is sampled. */
void gs_cost_doubt(void);
/** This one has become something else, of a like length perhaps: it is measured until that is known
 * again. */
void gs_cost_renew(uint64_t key);
/** This one does: nothing is known. */
void gs_cost_drop(uint64_t key);
/** Forked child. */
void gs_cost_forget(void);

/** Card time of a sampled launch, from three events around it and the host's clock.
 *  @gap_ns    between the two events recorded before the launch: what an idle stream waits for the
 *             host from one call to the next.
 *  @span_ns   between the second of them and the one after the launch.
 *  @host_ns   what the calls took on the host: an idle stream may have waited so long in the span.
 *  @est_ns    what was believed, 0 nothing.
 *  @ret_learn false: the host was held up in between, so the span says little.
 *  Returns    what to charge: at most span_ns, and at least 1. */
uint64_t gs_cost_of_sample(uint64_t gap_ns, uint64_t span_ns, uint64_t host_ns, uint64_t est_ns,
                           bool *ret_learn);
