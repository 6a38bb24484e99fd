#pragma once
/* One entry of the table of what is in flight (inflight.h). */

#include <stdbool.h>
#include <stdint.h>

#include "vendors/nvidia/hook/copy_time.h"
#include "vendors/nvidia/hook/cost.h"
#include "vendors/nvidia/hook/timing.h"

#define GS_INFLIGHT_ENTRIES 128u

enum gs_inflight_kind {
    GS_INFLIGHT_MARK,     /**< one event, behind launches that went by their estimates */
    GS_INFLIGHT_SAMPLE,   /**< a launch that was paid by its estimate, to learn from */
    GS_INFLIGHT_MEASURED, /**< a launch that is settled */
};

/** What goes with an entry. */
struct gs_inflight_launch {
    enum gs_inflight_kind kind;
    struct gs_cost *cost; /**< NULL: nothing to learn (a mark) */
    uint64_t est_ns;      /**< what was believed; 0 unknown */
    uint64_t paid_ns;     /**< what the launch was charged; 0 for a mark */
    uint64_t covers_ns;   /**< charged for launches on this stream since its last entry */
    uint64_t since_ns;    /**< when that one was closed */
    /* of those launches, the ones since the program last saw the stream done: */
    uint64_t first_ns; /**< when the first of them went out; 0 there are none */
    uint64_t window;   /**< launches << GS_LAUNCH_NS_BITS | what was charged for them */
    uint64_t seen_ns;  /**< the others were out for so long, all together */
    bool is_whole; /**< from the first of them to the entry the stream had work without a break */
    bool is_due;   /**< a sample whose turn came by chance */
    bool is_graph;
    uint64_t closed_ns; /**< now */
};

/** Life of an entry: FREE -> OWNED (a launching thread) -> OPEN -> FREE. Only the harvester takes
 * OPEN ones. Everything but the state belongs to whoever moved it there. */
enum gs_inflight_state { GS_INFLIGHT_FREE, GS_INFLIGHT_OWNED, GS_INFLIGHT_OPEN };

struct gs_inflight {
    uint32_t state;
    uint64_t seq;
    CUcontext context; /**< whose events they are; kept while FREE */
    CUevent event[3];  /**< before, right before, behind */
    struct gs_timing_where where;
    enum gs_inflight_kind kind;
    bool is_ended;
    const struct gs_cost *tried; /**< of unknown length, of this kind; NULL known */
    struct gs_timing_base base;
    uint64_t recorded_ns; /**< event[1] was recorded then or later; of a mark event[2] */
    uint64_t ready_ns;    /**< all is recorded that goes before the launch */
    uint64_t record_ns;   /**< what the second record took */
    uint64_t call_ns;     /**< what the launch took, from `ready_ns` on */
    uint64_t host_ns;     /**< between the first record and the launch */
    uint64_t out_ns;      /**< the launch may be on the card from then on; 0 not yet, or a mark */
    uint64_t copy_ns;     /**< of a copy: what it takes at least; 0 a launch */
    struct gs_copy_time call; /**< of a copy */
    struct gs_inflight_launch launch;
};

extern struct gs_inflight gs_inflight_entries[GS_INFLIGHT_ENTRIES]
    __attribute__((visibility("hidden")));

/** Those that are not FREE, a bit each: few of many, and looked for several times a launch. */
#define GS_INFLIGHT_WORD_BITS 64u
extern uint64_t gs_inflight_used[GS_INFLIGHT_ENTRIES / GS_INFLIGHT_WORD_BITS]
    __attribute__((visibility("hidden")));

/** The first of them from number `i` on; GS_INFLIGHT_ENTRIES: none. */
static inline uint32_t gs_inflight_next(uint32_t i)
{
    while (i < GS_INFLIGHT_ENTRIES) {
        /* acquire: pairs with the release that sets it */
        uint64_t word =
            __atomic_load_n(&gs_inflight_used[i / GS_INFLIGHT_WORD_BITS], __ATOMIC_ACQUIRE) >>
            i % GS_INFLIGHT_WORD_BITS;

        if (word != 0)
            return i + (uint32_t)__builtin_ctzll(word);
        i = (i / GS_INFLIGHT_WORD_BITS + 1) * GS_INFLIGHT_WORD_BITS;
    }
    return GS_INFLIGHT_ENTRIES;
}
