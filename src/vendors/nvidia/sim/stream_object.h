#pragma once
/* Insides of streams and events, for stream.c, event.c, capture.c and graph code. */

#include <stdint.h>

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/event_share.h"
#include "vendors/nvidia/sim/object.h"
#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/stream.h"

struct gs_capture; /* capture.h */

#define GS_STREAM_QUEUE 1024 /* launches pending per process and card */

struct gs_stream {
    struct gs_object object;
    struct gs_sim_ctx *ctx;
    uint32_t card;
    uint32_t flags;
    int32_t priority;
    uint32_t is_default; /**< legacy or per-thread: not for cuStreamDestroy */
    uint64_t id;
    uint64_t tag;                   /**< of the last piece with card time; atomic, grows */
    uint32_t adding;                /**< spin lock: a piece is being planned */
    uint32_t copied;                /**< the last piece was a copy over the bus; atomic */
    uint64_t host_seq;              /**< last host function queued; atomic, grows */
    struct gs_capture *capture;     /**< recording into it; NULL: not recording */
    struct gs_stream *capture_next; /**< next stream of the same capture */
    CUgraphNode *deps;              /**< what the next recorded node comes after */
    size_t n_deps;
    struct gs_stream *next; /**< of the context; guard: its list lock */
};

struct gs_event {
    struct gs_object object;
    struct gs_sim_ctx *ctx;
    uint32_t card;
    uint32_t flags;
    uint32_t recorded;
    uint64_t tag;
    uint64_t host_seq;
    uint64_t record_ns;           /**< real time of the record */
    uint64_t done_ns;             /**< real time of completion once seen; 0 before */
    struct gs_event *next, *prev; /**< among those whose completion was not seen yet (event.c) */
    uint32_t waits;               /**< is in that list */
    uint32_t foreign;             /**< `tag` is of another process's time */
    uint32_t slot;                /**< that process */
    uint32_t reserved;
    uint64_t generation;            /**< of it */
    struct gs_event_shared *shared; /**< place that other processes see; NULL: own event */
    uint32_t serial;                /**< of the shared file, if this process made it */
    struct gs_capture *capture;     /**< recorded inside a capture: joins streams to it */
    CUgraphNode *capture_deps;
    size_t n_capture_deps;
};

/** Stream of a handle: NULL and 1 = legacy, 2 = this thread's own. NULL with *ret_error set if
 * there is none. */
struct gs_stream *gs_stream_of(CUstream h, CUresult *ret_error);

/** Raise *word to at least `v`. */
static inline void gs_stream_raise(uint64_t *word, uint64_t v)
{
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (old < v &&
           !__atomic_compare_exchange_n(word, &old, v, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
}

/** Work on a stream that is known to exist and not to record. Returns nothing: time cannot fail. */
void gs_stream_add(struct gs_stream *s, enum gs_stream_work work, uint64_t amount);

/** The same for a kernel that takes `load` of the card (clock.h). */
void gs_stream_add_kernel(struct gs_stream *s, uint64_t cost_ns, uint32_t load);

/** Room for one more launch in the process's queue for the card: waits while GS_STREAM_QUEUE are
 * pending. Then, when the launch is planned, note where it ends. */
void gs_stream_queue_wait(uint32_t card);
void gs_stream_queue_note(uint32_t card, uint64_t tag);

/** Take a time stamp behind the work of `s`: its tag (0: none needed), and now. */
uint64_t gs_stream_mark(struct gs_stream *s, uint64_t *ret_now_ns);

/** Queue a host function behind all work of `s`. Returns CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult gs_stream_call(struct gs_stream *s, CUhostFn fn, void *data);

/** Everything up to (tag, host_seq) of `card` is done / wait for it. */
int gs_stream_reached(uint32_t card, uint64_t tag, uint64_t host_seq);
void gs_stream_await(uint32_t card, uint64_t tag, uint64_t host_seq, uint64_t spin_ns);

/** What comes later on `s` is behind `tag` of this process's time on the same card. */
void gs_stream_order(struct gs_stream *s, uint64_t tag);

/** Tag that the next piece of `s` comes behind. */
uint64_t gs_stream_order_of(const struct gs_stream *s);

/** Note when events were done whose completion nobody asked about yet, before the card forgets
 * (event.c). Any thread, no lock held. */
void gs_event_settle(void);

/** What must be reached for all work that a synchronisation with `s` covers. */
void gs_stream_tail(struct gs_stream *s, uint64_t *ret_tag, uint64_t *ret_host_seq);

/** Walk the streams of a context under the list lock. */
void gs_stream_each(struct gs_sim_ctx *ctx, void (*fn)(struct gs_stream *s, void *arg), void *arg);
