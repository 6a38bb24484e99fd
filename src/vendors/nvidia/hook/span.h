#pragma once
/* Stretches of time, and how they lie over each other. Pure; nanoseconds of CLOCK_MONOTONIC. */

#include <stdint.h>

struct gs_span {
    uint64_t start_ns, end_ns; /**< start_ns <= end_ns */
};

static inline uint64_t gs_span_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/** The newest stretches of time that are accounted for: apart, in order. Zeroed is empty. */
#define GS_SPAN_SET 64u
struct gs_span_set {
    uint32_t n;
    struct gs_span span[GS_SPAN_SET];
};

/** Account for a stretch. Returns how much of it was not accounted for before. What lies before a
 * full set's first stretch counts as accounted for. */
uint64_t gs_span_add(struct gs_span_set *set, struct gs_span span);

/** How much of a stretch is not accounted for; the set stays as it is. */
uint64_t gs_span_fresh(const struct gs_span_set *set, struct gs_span span);

/** A stretch in which a stream had work. */
struct gs_span_stream {
    uint64_t id;
    struct gs_span span;
};
#define GS_SPAN_STREAMS 64u

/** Part of a stream's span when time is divided evenly among the streams that have work then.
 *  @others  n <= GS_SPAN_STREAMS spans of other streams; an id may appear several times. */
uint64_t gs_span_divide(struct gs_span span, const struct gs_span_stream *others, uint32_t n);
