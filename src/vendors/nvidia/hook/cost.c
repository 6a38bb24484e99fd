#include "vendors/nvidia/hook/cost.h"

#include <string.h>

#define MEAN_OF 8u /* samples; afterwards a moving mean of that weight */
/* Half or twice as long is unlike, beyond what clocks and caches do to short ones; for so many
 * samples after one of those the kind counts as spread. */
#define UNLIKE_NS      20000u
#define SPREAD_FOR     48u
#define SPREAD_MEAN_OF 32u
/* In `outliers`: a far one of a kind whose launches were alike; of one whose were not. */
#define FAR_ONCE  1u
#define FAR_AGAIN 2u
/* Samples among other streams: this many times the estimate is thrown away, until so many in a row
 * say the same. */
#define CROWDED_WASTE 3u
#define CROWDED_MOST  8u
#define RATIO_MOST    4.0
/* A turn of the card is longer than this: the hardware's default is 1024 us
 * (kfifoChannelGroupGetDefaultTimeslice_GV100, open-gpu-kernel-modules). Launches up to
 * GS_COST_TURN_NS are told from it; more than TURNS_MOST in a row are not interrupted, but longer.
 */
#define TURN_LEAST_NS 750000u
#define TURNS_MOST    4u
/* A full round of the host between two of its calls; longer means that it did something else. */
#define HOST_PROMPT_NS 20000u
/* Threads that a large card runs at once: 128 multiprocessors with 2048 each. */
#define WAVE_THREADS   262144u
#define PRIOR_BASE_NS  10000u
#define PRIOR_WAVE_NS  20000u
#define PRIOR_GRAPH_NS 100000u
#define PRIOR_MOST_NS  10000000u
/* Setting up a copy; the longest one believed in. */
#define PRIOR_COPY_NS      2000u
#define PRIOR_COPY_MOST_NS 1000000000u

struct gs_cost_table gs_cost_table;

/* Its key is not stored: several launches share it. */
static struct gs_cost *coarse(uint32_t quarter)
{
    return &gs_cost_table.coarse[quarter % GS_COST_COARSE];
}

static void note_taken(const struct gs_cost *c)
{
    size_t i = (size_t)(c - gs_cost_table.slot);

    (void)__atomic_fetch_or(&gs_cost_table.taken[i / GS_COST_WORD_BITS],
                            UINT64_C(1) << i % GS_COST_WORD_BITS, __ATOMIC_RELAXED);
}

struct gs_cost *gs_cost_claim(uint64_t key, uint32_t quarter)
{
    struct gs_cost *first = &gs_cost_table.slot[key >> (64u - GS_COST_BITS)];

    for (uint32_t i = 0; i < GS_COST_PROBES; i++) {
        uint64_t seen = __atomic_load_n(&first[i].key, __ATOMIC_RELAXED);

        if (seen == key)
            return &first[i];
        if (seen == 0 && __atomic_compare_exchange_n(&first[i].key, &seen, key, false,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            note_taken(&first[i]);
            return &first[i];
        }
        if (seen == key) /* another thread was faster */
            return &first[i];
    }
    return coarse(quarter);
}

static uint32_t random_state = 2463534242u;

/* Nobody foresees the last digits of what is measured on a card. */
static void stir(uint64_t ns)
{
    uint32_t x = __atomic_load_n(&random_state, __ATOMIC_RELAXED) ^ (uint32_t)ns * 2654435761u;

    __atomic_store_n(&random_state, x != 0 ? x : 1, __ATOMIC_RELAXED);
}

/* Spread, so that a program's own rhythm does not decide which of its launches are seen. */
static uint32_t spread(void)
{
    uint32_t x = __atomic_load_n(&random_state, __ATOMIC_RELAXED);

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    __atomic_store_n(&random_state, x, __ATOMIC_RELAXED);
    return x;
}

/* Between samples, as a number of estimates' time; the first ones come after 1, 2, 4, ... launches:
 * an early mistake is soon put right. */
static uint64_t mean_gap(uint64_t est, uint32_t n)
{
    return n < MEAN_OF && est << n < GS_COST_SAMPLE_NS ? est << n : GS_COST_SAMPLE_NS;
}

uint64_t gs_cost_weight(const struct gs_cost *c)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);
    uint64_t gap = mean_gap(est, __atomic_load_n(&c->samples, __ATOMIC_RELAXED));

    return est == 0 || est >= gap ? 1 : gap / est;
}

/* A gap that nobody can see coming: what is over of it is as long as all of it, on the average. So
 * no program runs its long launches in between, whether it means to or not. -log2 of a random
 * number, a parabola between powers of two, is 1.4427 on the average (1/ln 2). */
static uint64_t random_gap(uint64_t mean_ns)
{
    uint32_t x = spread() | 1u;
    uint32_t zeros = (uint32_t)__builtin_clz(x);
    uint64_t part = (x << zeros & 0x7fffffffu) >> 15; /* of 2^16, above the power of two */
    uint64_t bend = part * (65536 - part) / 65536 * 22518 / 65536;

    return mean_ns * (((uint64_t)zeros + 1) * 65536 - part - bend) / 94549;
}

void gs_cost_sampled(struct gs_cost *c)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);
    uint32_t n = __atomic_load_n(&c->samples, __ATOMIC_RELAXED);
    uint64_t next = mean_gap(est, n);

    if (next == GS_COST_SAMPLE_NS)
        next = random_gap(next);
    if (gs_cost_is_spread(c))
        next = 0;
    __atomic_store_n(&c->countdown_ns, (int64_t)next, __ATOMIC_RELAXED);
}

bool gs_cost_is_unlike(uint64_t est_ns, uint64_t measured_ns)
{
    return measured_ns > 2 * est_ns + UNLIKE_NS || measured_ns + UNLIKE_NS < est_ns / 2;
}

/* Is a launch so unlike what was believed that the kind is not one? *ret_was: it was known. */
static void judge_spread(struct gs_cost *c, uint64_t est, uint64_t measured_ns, bool *ret_was)
{
    uint16_t left = __atomic_load_n(&c->spread, __ATOMIC_RELAXED);

    *ret_was = left != 0;
    if (gs_cost_is_unlike(est, measured_ns))
        left = SPREAD_FOR;
    else if (left > 0)
        left--;
    __atomic_store_n(&c->spread, left, __ATOMIC_RELAXED);
}

/* @is_clean  of one launch, and nothing else: it says whether launches of the kind are alike. */
static void learn(struct gs_cost *c, uint64_t measured_ns, bool is_clean)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);
    uint32_t n = __atomic_load_n(&c->samples, __ATOMIC_RELAXED);
    uint16_t outliers = __atomic_load_n(&c->outliers, __ATOMIC_RELAXED);
    bool far = n != 0 && (measured_ns > est * GS_COST_CLIP || measured_ns < est / GS_COST_CLIP);
    bool was_spread = false;
    uint32_t weight;

    if (measured_ns == 0)
        measured_ns = 1;
    stir(measured_ns);
    if (n != 0 && is_clean)
        judge_spread(c, est, measured_ns, &was_spread);
    if (far && outliers == FAR_ONCE)
        n = 0; /* twice: it has become another kernel */
    else if (far && !was_spread && outliers == 0 && measured_ns > est)
        measured_ns = est * GS_COST_CLIP;
    if (!far)
        outliers = 0;
    else if (outliers == 0)
        outliers =
            was_spread ? FAR_AGAIN : FAR_ONCE; /* some are like that: the mean is what it is */
    __atomic_store_n(&c->outliers, outliers, __ATOMIC_RELAXED);
    n = n < MEAN_OF ? n + 1 : MEAN_OF;
    weight = was_spread && n == MEAN_OF ? SPREAD_MEAN_OF : n;
    est = n == 1
              ? measured_ns
              : (uint64_t)((int64_t)est + ((int64_t)measured_ns - (int64_t)est) / (int64_t)weight);
    __atomic_store_n(&c->est_ns, est != 0 ? est : 1, __ATOMIC_RELAXED);
    __atomic_store_n(&c->samples, (uint16_t)n, __ATOMIC_RELAXED);
    if (far || gs_cost_is_spread(c))
        __atomic_store_n(&c->countdown_ns, 0, __ATOMIC_RELAXED); /* look again at once */
}

void gs_cost_learn(struct gs_cost *c, uint64_t measured_ns)
{
    learn(c, measured_ns, true);
}

bool gs_cost_is_held_up(const struct gs_cost *c, uint64_t measured_ns, uint64_t turns_ns)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);

    return est != 0 && est <= GS_COST_TURN_NS && measured_ns > est + TURN_LEAST_NS &&
           measured_ns - est <= turns_ns;
}

uint64_t gs_cost_turns(uint64_t est_ns)
{
    return est_ns / TURN_LEAST_NS + 1;
}

void gs_cost_learn_shared(struct gs_cost *c, uint64_t measured_ns, uint64_t turns_ns)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);
    uint16_t outliers = __atomic_load_n(&c->outliers, __ATOMIC_RELAXED);

    if (outliers < TURNS_MOST && gs_cost_is_held_up(c, measured_ns, turns_ns)) {
        __atomic_store_n(&c->outliers, (uint16_t)(outliers + 1), __ATOMIC_RELAXED);
        __atomic_store_n(&c->countdown_ns, 0, __ATOMIC_RELAXED); /* look again at once */
        return;
    }
    /* what was believed was an interrupted one's, or this is another kernel now */
    if (est != 0 && ((measured_ns <= GS_COST_TURN_NS && measured_ns + TURN_LEAST_NS < est) ||
                     outliers >= TURNS_MOST))
        __atomic_store_n(&c->samples, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&c->outliers, 0, __ATOMIC_RELAXED);
    gs_cost_learn(c, measured_ns);
}

uint64_t gs_cost_own(const struct gs_cost *c, uint64_t measured_ns, uint64_t turns_ns)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);

    if (est == 0 || est > GS_COST_TURN_NS)
        return 0;
    if (gs_cost_is_held_up(c, measured_ns, turns_ns))
        return est;
    /* longer than others' turns explain: it was long itself, and so had some of those in it */
    return turns_ns != 0 && measured_ns > est + TURN_LEAST_NS ? 0 : measured_ns;
}

void gs_cost_learn_crowded(struct gs_cost *c, uint64_t measured_ns)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);
    uint16_t crowded = __atomic_load_n(&c->crowded, __ATOMIC_RELAXED);

    if (est != 0 && measured_ns > est * CROWDED_WASTE && crowded < CROWDED_MOST) {
        __atomic_store_n(&c->crowded, (uint16_t)(crowded + 1), __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&c->crowded, 0, __ATOMIC_RELAXED);
    if (est != 0 && measured_ns > est + est / 4 && crowded < CROWDED_MOST)
        measured_ns = est + est / 4;
    learn(c, measured_ns, false);
}

void gs_cost_learn_ratio(struct gs_cost *c, uint64_t measured_ns, uint64_t paid_ns)
{
    uint64_t est = __atomic_load_n(&c->est_ns, __ATOMIC_RELAXED);
    double ratio = (double)measured_ns / (double)paid_ns;

    if (est == 0)
        return;
    ratio = ratio < 1.0 / RATIO_MOST ? 1.0 / RATIO_MOST : ratio > RATIO_MOST ? RATIO_MOST : ratio;
    learn(c, (uint64_t)((double)est * ratio), false);
}

uint64_t gs_cost_prior(uint64_t threads)
{
    uint64_t waves = threads / WAVE_THREADS;

    if (threads == 0)
        return PRIOR_GRAPH_NS;
    if (waves > PRIOR_MOST_NS / PRIOR_WAVE_NS)
        return PRIOR_MOST_NS;
    return PRIOR_BASE_NS + waves * PRIOR_WAVE_NS;
}

uint64_t gs_cost_prior_copy(uint64_t bytes, uint32_t bytes_per_ns)
{
    uint64_t ns = PRIOR_COPY_NS + bytes / bytes_per_ns;

    return ns < PRIOR_COPY_MOST_NS ? ns : PRIOR_COPY_MOST_NS;
}

void gs_cost_doubt(void)
{
    for (uint32_t at = 0; at < GS_ARRAY_LEN(gs_cost_table.taken); at++) {
        uint64_t word = __atomic_load_n(&gs_cost_table.taken[at], __ATOMIC_RELAXED);

        for (; word != 0; word &= word - 1) {
            struct gs_cost *c =
                &gs_cost_table.slot[at * GS_COST_WORD_BITS + (uint32_t)__builtin_ctzll(word)];

            __atomic_store_n(&c->countdown_ns, 0, __ATOMIC_RELAXED);
            __atomic_store_n(&c->outliers, 1, __ATOMIC_RELAXED); /* the first far one counts */
        }
    }
}

void gs_cost_renew(uint64_t key)
{
    struct gs_cost *first = &gs_cost_table.slot[key >> (64u - GS_COST_BITS)];

    for (uint32_t i = 0; i < GS_COST_PROBES; i++) {
        uint64_t est = __atomic_load_n(&first[i].est_ns, __ATOMIC_RELAXED);

        if (__atomic_load_n(&first[i].key, __ATOMIC_RELAXED) != key || est == 0)
            continue;
        /* as a long one: measured and settled. Not as an unknown one, of which one at a time goes:
         * there are programs that change a graph each time they launch it */
        if (est < GS_COST_LONG_NS)
            __atomic_store_n(&first[i].est_ns, GS_COST_LONG_NS, __ATOMIC_RELAXED);
        __atomic_store_n(&first[i].samples, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&first[i].outliers, 0, __ATOMIC_RELAXED);
    }
}

void gs_cost_drop(uint64_t key)
{
    struct gs_cost *first = &gs_cost_table.slot[key >> (64u - GS_COST_BITS)];

    for (uint32_t i = 0; i < GS_COST_PROBES; i++) {
        if (__atomic_load_n(&first[i].key, __ATOMIC_RELAXED) != key)
            continue;
        __atomic_store_n(&first[i].est_ns, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&first[i].samples, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&first[i].outliers, 0, __ATOMIC_RELAXED);
    }
}

void gs_cost_forget(void)
{
    memset(&gs_cost_table, 0, sizeof(gs_cost_table));
}

uint64_t gs_cost_of_sample(uint64_t gap_ns, uint64_t span_ns, uint64_t host_ns, uint64_t est_ns,
                           bool *ret_learn)
{
    uint64_t least = span_ns > host_ns ? span_ns - host_ns : 1;
    uint64_t used;

    *ret_learn = est_ns == 0 || host_ns <= HOST_PROMPT_NS + est_ns / 8;
    if (*ret_learn) {
        used = span_ns > gap_ns ? span_ns - gap_ns : 1;
        if (used < least)
            used = least; /* the gap was longer than all the host did: not an idle stream's */
    } else {
        used = est_ns < least ? least : est_ns;
    }
    if (used > span_ns)
        used = span_ns;
    return used != 0 ? used : 1;
}
