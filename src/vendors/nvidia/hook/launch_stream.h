#pragma once
/* What is remembered of the streams that launches go to, between their entries (inflight.h).
 *
 * A table of few, found by the stream's name; where two meet the later one takes the place. Relaxed
 * words: a lost one costs a sample. Threads: any. */

#include <stdint.h>

/** 0 default, 1 CU_STREAM_LEGACY, 2 CU_STREAM_PER_THREAD: no objects. */
#define GS_LAUNCH_LAST_SPECIAL 2u
/** One stream. */
struct gs_launch_stream {
    _Alignas(64) uint64_t id;
    uint64_t since;   /**< since the last entry: launches << GS_LAUNCH_NS_BITS | paid by estimate */
    uint64_t from_ns; /**< when that was closed */
    uint64_t first_ns; /**< when the first launch went out since the program last saw the stream
                          done, or an entry was closed; 0 none has */
    uint64_t before;   /**< `since` at that moment */
    uint64_t seen_ns;  /**< length of such windows since the last entry, the open one left out */
    uint64_t quiet_ns; /**< when a window or entry was last closed */
    uint32_t want;     /**< sample the next launch; so far it spreads to other streams */
    uint32_t dev;
};
/* launches of the window and their time in one word, for the sake of the fast path */
#define GS_LAUNCH_NS_BITS  40u
#define GS_LAUNCH_ONE      (UINT64_C(1) << GS_LAUNCH_NS_BITS)
#define GS_LAUNCH_NS(word) ((word) & (GS_LAUNCH_ONE - 1))

#define GS_LAUNCH_STREAMS 32u
/** In `want`: the program is looked at more closely (window.h): no launch goes by the fast path. */
#define GS_LAUNCH_WATCH 3u
extern struct gs_launch_stream gs_launch_streams[GS_LAUNCH_STREAMS]
    __attribute__((visibility("hidden")));

/** Where the stream of that name is, unless another has the place. */
static inline struct gs_launch_stream *gs_launch_stream_of(uint64_t id)
{
    return &gs_launch_streams[(id * 0x9e3779b97f4a7c15ull) >> 59];
}
_Static_assert(GS_LAUNCH_STREAMS == 1u << (64 - 59), "the hash above");
