#pragma once
/* The cost model of one simulated card: which process's work is done when.
 *
 * Work of one process runs in the order of submission, one piece at a time. The card shares itself
 * evenly between the processes that have work (processor sharing): virtual time V of the card
 * advances by 1/n per real nanosecond while n processes are busy. A piece of cost d gets the tag F
 * = max(last tag of the process, V) + d and is done when V has reached F. Utilisation is the real
 * time during which n > 0, per process its 1/n share.
 *
 * The state lies in memory that all processes of a card share. When a process dies inside the short
 * critical section the next one takes the lock over; the state is then at worst late by one step.
 */

#include <pthread.h>
#include <stdint.h>

#define GS_CLOCK_PROCS    4096
#define GS_CLOCK_SEGMENTS 128
#define GS_CLOCK_SAMPLES  64
/** Length of one utilisation sample. */
#define GS_CLOCK_SAMPLE_NS 100000000ull

/** From real time `t_ns` on the card's virtual time ran from `v_ns` on, shared by `n_busy`
 * processes. */
struct gs_clock_segment {
    uint64_t t_ns;
    uint64_t v_ns;
    uint32_t n_busy;
    uint32_t reserved;
};

/** One process: tag of its last piece, and the card time it has had. */
struct gs_clock_proc {
    uint64_t tail_v_ns;
    uint64_t busy_ns;
};

/** One utilisation sample: ends at `t_ns`, `busy_ns` of GS_CLOCK_SAMPLE_NS were used. */
struct gs_clock_sample {
    uint64_t t_ns;
    uint64_t busy_ns;
};

/** Zeroed memory with gs_clock_init() is a card that has done nothing yet. Times from
 *  CLOCK_MONOTONIC. */
struct gs_clock {
    pthread_mutex_t lock; /**< robust, between processes */
    uint64_t v_ns;
    uint64_t t_ns;
    uint64_t busy_ns; /**< real time with at least one busy process */
    uint64_t active[GS_CLOCK_PROCS / 64];
    uint64_t n_segments; /**< ever written; the last GS_CLOCK_SEGMENTS are kept */
    uint64_t n_samples;
    uint64_t sample_busy_ns; /**< busy_ns at the end of the last sample */
    uint64_t sample_t_ns;
    struct gs_clock_segment segment[GS_CLOCK_SEGMENTS];
    struct gs_clock_sample sample[GS_CLOCK_SAMPLES];
    struct gs_clock_proc proc[GS_CLOCK_PROCS];
};

/** Make the lock of a zeroed clock. */
void gs_clock_init(struct gs_clock *c);

/** Real time in nanoseconds (CLOCK_MONOTONIC, no system call). */
uint64_t gs_clock_now(void);

/** Queue `cost_ns` of card time behind all work of process `slot`; returns the tag at which it is
 * done. */
uint64_t gs_clock_submit(struct gs_clock *c, uint32_t slot, uint64_t cost_ns);

/** 1 when the piece with tag `tag` is done. */
int gs_clock_is_done(struct gs_clock *c, uint64_t tag);

/** Sleep until the piece with tag `tag` is done. */
void gs_clock_wait(struct gs_clock *c, uint64_t tag);

/** Real time at which the piece with tag `tag` was (or, other work unchanged, will be) done. */
uint64_t gs_clock_when(struct gs_clock *c, uint64_t tag);

/** Bring the books to now: afterwards busy_ns of card and processes are current. */
void gs_clock_advance(struct gs_clock *c);

/** Process `slot` is gone: its remaining work is dropped and its account starts anew. */
void gs_clock_drop(struct gs_clock *c, uint32_t slot);

/** Share of the last full sample period in which the card was busy, 0..100. */
uint32_t gs_clock_util_pct(struct gs_clock *c);
