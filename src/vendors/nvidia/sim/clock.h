#pragma once
/* The time model of one simulated card (docs/simulator-time.md): which process's work is done when.
 *
 * Each process has a time of its own on the card, v: it runs while the process is served and stands
 * still while it waits. Everything it submits is planned at once in that time (clock_plan.c): a
 * kernel starts when its stream and the room on the card allow, a copy when its stream and its copy
 * engine do. The moment v at which a piece ends is its *tag*: the piece is done when v has reached
 * it. The card serves processes whose time is at a kernel in turns of one slice (clock_turn.c); a
 * process whose time is at a copy and no kernel needs no turn.
 *
 * The state lies in memory that all processes of a card share and is brought to the present by
 * whoever looks: exact and the same for everybody, given the moments of submission. When a process
 * dies inside the short critical section the next one takes the lock over; the books are then at
 * worst one turn short. */

#include <pthread.h>
#include <stdint.h>

#include "core/cleanup.h"

#define GS_CLOCK_PROCS      4096
#define GS_CLOCK_GROUPS     1024
#define GS_CLOCK_PIECES     128 /* stretches of kernels planned per process */
#define GS_CLOCK_TURNS      512 /* remembered per process */
#define GS_CLOCK_SAMPLES    128
#define GS_CLOCK_USES       1024
#define GS_CLOCK_NONE       UINT32_MAX
#define GS_CLOCK_FULL       1024u /* the whole card, as a kernel's load */
#define GS_CLOCK_SLICE_NS   2000000ull
#define GS_CLOCK_SAMPLE_NS  166666667ull /* one utilisation sample: 1/6 s */
#define GS_CLOCK_HORIZON_NS 10000000ull  /* others may die: look again after this long */

/** A stretch of a process's time in which its kernels take `load` of the card. */
struct gs_clock_piece {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t load;
};

/** From t on the process's time ran from v on, until the next entry's v. */
struct gs_clock_turn {
    uint64_t t_ns;
    uint64_t v_ns;
};

/** One process. */
struct gs_clock_proc {
    uint64_t v_ns;         /**< atomic */
    uint64_t end_ns;       /**< of everything planned; atomic */
    uint64_t busy_ns;      /**< time on the card with a kernel resident */
    uint64_t kernels;      /**< submitted */
    uint64_t sampled_ns;   /**< busy_ns at the last sample */
    uint64_t engine_ns[2]; /**< copy engines are free from here on */
    uint64_t n_turns;      /**< ever written */
    uint64_t generation;   /**< grows with each process that had this slot */
    uint32_t first;        /**< piece */
    uint32_t n_pieces;     /**< sorted, apart */
    uint32_t joined;
    uint32_t group;
    int32_t pid;
    uint32_t reserved;
    struct gs_clock_piece piece[GS_CLOCK_PIECES];
    struct gs_clock_turn turn[GS_CLOCK_TURNS];
};

/** A set of processes; bit i of `top`: word i is not empty. */
struct gs_clock_set {
    uint64_t top;
    uint64_t word[GS_CLOCK_PROCS / 64];
};

/** What one slice (or one process) has had of the card. */
struct gs_clock_use {
    uint64_t busy_ns;
    uint64_t kernels;
};

/** The card was busy for `busy_ns` of the sample period that ended at t. */
struct gs_clock_sample {
    uint64_t t_ns;
    uint64_t busy_ns;
};

/** The same of one process; no entry where it was 0. */
struct gs_clock_proc_sample {
    uint64_t t_ns;
    uint64_t busy_ns;
    int32_t pid;
    uint32_t slot;
};

/** The books of a process being closed, so that a death in the middle can be made good. */
struct gs_clock_retire {
    uint32_t armed;
    uint32_t slot;
    uint32_t group;
    uint32_t reserved;
    struct gs_clock_use use; /**< of the group, afterwards */
};

/** Zeroed memory with gs_clock_init() is a card that has done nothing yet. Times from
 *  CLOCK_MONOTONIC. Guard of everything but words marked atomic: `lock`. */
struct gs_clock {
    pthread_mutex_t lock; /**< robust, between processes */
    uint64_t slice_ns;
    uint64_t t_ns;         /**< the books are right for this moment; atomic */
    uint64_t slice_end_ns; /**< of the process on the card */
    uint64_t busy_ns;
    uint64_t next_sample_ns; /**< end of the current sample period */
    uint64_t sampled_ns;     /**< busy_ns at the last sample */
    uint64_t n_samples;
    uint64_t n_uses;
    uint64_t next_reap_ns; /**< when to look for dead processes again; atomic */
    uint32_t current;      /**< process on the card, or GS_CLOCK_NONE */
    uint32_t last;         /**< that had it before: the next turn starts behind it */
    uint32_t ready;
    uint32_t contended;       /**< atomic: two processes want the card */
    struct gs_clock_set want; /**< processes at a kernel */
    struct gs_clock_set copying;
    struct gs_clock_set joined;
    struct gs_clock_retire retire;
    struct gs_clock_use group[GS_CLOCK_GROUPS]; /**< processes that are gone */
    struct gs_clock_sample sample[GS_CLOCK_SAMPLES];
    struct gs_clock_proc_sample use[GS_CLOCK_USES];
    struct gs_clock_proc proc[GS_CLOCK_PROCS];
};

/** Who submits. */
struct gs_clock_who {
    uint32_t slot;
    uint32_t group;
    int32_t pid;
};

enum gs_clock_kind {
    GS_CLOCK_KERNEL, /**< counts as a kernel */
    GS_CLOCK_FILL,   /**< inside the card like a kernel, but none */
    GS_CLOCK_UP,     /**< host to device: copy engine 0 */
    GS_CLOCK_DOWN    /**< device to host: copy engine 1 */
};

/** One piece of work. */
struct gs_clock_work {
    enum gs_clock_kind kind;
    uint32_t load;     /**< of GS_CLOCK_FULL; kernels and fills */
    uint64_t cost_ns;  /**< at least 1 is taken */
    uint64_t after_ns; /**< tag it must come behind; 0: nothing */
};

/** Make the lock of a zeroed clock; turns of `slice_ns` (0: the default). */
void gs_clock_init(struct gs_clock *c, uint64_t slice_ns);

/** Real time in nanoseconds (CLOCK_MONOTONIC, no system call). */
uint64_t gs_clock_now(void);

/** Plan a piece of work of process `who`.
 *  Returns 0, or -EAGAIN when too much is planned already: *ret_tag is what to wait for before
 *  trying again. */
GS_WUR int gs_clock_submit(struct gs_clock *c, const struct gs_clock_who *who,
                           const struct gs_clock_work *work, uint64_t *ret_tag);

/** A time stamp behind `after_ns`: a process that does nothing gets its stamp in its next turn on
 *  the card, unless `copies` (a copy engine takes it).
 *  @ret_now_ns  now; the stamp is taken at the later of that and gs_clock_when(tag).
 *  Returns its tag. */
uint64_t gs_clock_mark(struct gs_clock *c, const struct gs_clock_who *who, uint64_t after_ns,
                       int copies, uint64_t *ret_now_ns);

/** 1 when the piece with tag `tag` of process `slot` is done. */
int gs_clock_is_done(struct gs_clock *c, uint32_t slot, uint64_t tag);

/** The same for a process that may be gone: done unless it is the one of `generation`. */
int gs_clock_is_done_of(struct gs_clock *c, uint32_t slot, uint64_t generation, uint64_t tag);

/** Sleep towards the end of the piece, the last `spin_ns` without sleeping. Returns 1 when it is
 *  done, 0 to be called again (at least every GS_CLOCK_HORIZON_NS while others share the card). */
int gs_clock_wait_once(struct gs_clock *c, uint32_t slot, uint64_t tag, uint64_t spin_ns);

/** Sleep until the piece is done. */
void gs_clock_wait(struct gs_clock *c, uint32_t slot, uint64_t tag);

/** Real time at which the piece was (or, as things stand, will be) done. */
uint64_t gs_clock_when(struct gs_clock *c, uint32_t slot, uint64_t tag);

/** Bring the books to now: afterwards all sums are right for the time returned. */
uint64_t gs_clock_advance(struct gs_clock *c);

/** Process `slot` is gone: its work is dropped, what it had is its group's. */
void gs_clock_drop(struct gs_clock *c, uint32_t slot);

/** What each of the first `n` groups had, the sum of processes dead and alive, all at one moment,
 *  which is returned. `ret_all` may be NULL. */
uint64_t gs_clock_groups(struct gs_clock *c, struct gs_clock_use *ret, uint32_t n,
                         struct gs_clock_use *ret_all);

/** Share of the last full sample period in which the card was busy, 0..100. */
uint32_t gs_clock_util_pct(struct gs_clock *c);

/** Newest utilisation sample of each process among those that ended after `since_ns`, at most
 * `room` of them, newest first. Returns how many were written. */
uint32_t gs_clock_uses(struct gs_clock *c, uint64_t since_ns, struct gs_clock_proc_sample *ret,
                       uint32_t room);

/** Whether it is time to look for dead processes (every few milliseconds while several want the
 *  card). The caller that is told yes does it. */
int gs_clock_should_reap(struct gs_clock *c);

/* ---- between the files of the model; lock held ---- */

/** Bring the books to `now` (clock_turn.c). */
void gs_clock_turn_to(struct gs_clock *c, uint64_t now);
/** What process `slot` waits for may have changed. */
void gs_clock_turn_sort(struct gs_clock *c, uint32_t slot);
/** Give the card to whoever's turn it is at t. */
void gs_clock_turn_seat(struct gs_clock *c);
/** When `tag` will be reached as things stand, at most `horizon`. */
uint64_t gs_clock_turn_predict(const struct gs_clock *c, uint32_t slot, uint64_t tag,
                               uint64_t horizon);

/** Plan kernels of `cost` behind `after` (clock_plan.c). Returns 0 or -EAGAIN. */
GS_WUR int gs_clock_plan_add(struct gs_clock_proc *p, uint64_t after, uint64_t cost, uint64_t load,
                             uint64_t *ret_end);
/** The process must get onto the card once behind `after`. Returns 0 or -EAGAIN. */
GS_WUR int gs_clock_plan_visit(struct gs_clock_proc *p, uint64_t after, uint64_t *ret_end);
/** Forget pieces that lie behind the process's time. */
void gs_clock_plan_trim(struct gs_clock_proc *p);
/** Make what a dying process left usable. */
void gs_clock_plan_repair(struct gs_clock_proc *p);

static inline int gs_clock_set_has(const struct gs_clock_set *s, uint32_t i)
{
    return (int)(s->word[i / 64] >> (i % 64) & 1);
}

static inline void gs_clock_set_add(struct gs_clock_set *s, uint32_t i)
{
    s->word[i / 64] |= 1ull << (i % 64);
    s->top |= 1ull << (i / 64);
}

static inline void gs_clock_set_remove(struct gs_clock_set *s, uint32_t i)
{
    s->word[i / 64] &= ~(1ull << (i % 64));
    if (!s->word[i / 64])
        s->top &= ~(1ull << (i / 64));
}

/** First member from `i` on, or GS_CLOCK_NONE. */
static inline uint32_t gs_clock_set_from(const struct gs_clock_set *s, uint32_t i)
{
    if (i >= GS_CLOCK_PROCS)
        return GS_CLOCK_NONE;
    uint64_t bits = s->word[i / 64] >> (i % 64);
    if (bits)
        return i + (uint32_t)__builtin_ctzll(bits);
    uint64_t top = i / 64 == 63 ? 0 : s->top & (~0ull << (i / 64 + 1));
    if (!top)
        return GS_CLOCK_NONE;
    uint32_t w = (uint32_t)__builtin_ctzll(top);
    return w * 64 + (uint32_t)__builtin_ctzll(s->word[w]);
}

/** First member behind `i`, round the end; `i` itself comes last. GS_CLOCK_NONE: empty. */
static inline uint32_t gs_clock_set_after(const struct gs_clock_set *s, uint32_t i)
{
    uint32_t next = gs_clock_set_from(s, i + 1);
    return next != GS_CLOCK_NONE ? next : gs_clock_set_from(s, 0);
}
