#include "vendors/nvidia/hook/span.h"

#include <string.h>

#define POINTS 8u /* at which a span looks for other streams */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Make room at `at` by forgetting the oldest. Returns where `at` is now. */
static uint32_t make_room(struct gs_span_set *set, uint32_t at)
{
    if (set->n == GS_SPAN_SET) {
        memmove(&set->span[0], &set->span[1], (GS_SPAN_SET - 1) * sizeof(set->span[0]));
        set->n--;
        at--;
    }
    memmove(&set->span[at + 1], &set->span[at], (set->n - at) * sizeof(set->span[0]));
    set->n++;
    return at;
}

uint64_t gs_span_add(struct gs_span_set *set, struct gs_span span)
{
    uint32_t first = 0, last;
    uint64_t fresh;

    if (set->n == GS_SPAN_SET)
        span.start_ns = gs_span_later(span.start_ns, set->span[0].start_ns);
    if (span.start_ns >= span.end_ns)
        return 0;
    fresh = span.end_ns - span.start_ns;
    while (first < set->n && set->span[first].end_ns < span.start_ns)
        first++;
    for (last = first; last < set->n && set->span[last].start_ns <= span.end_ns; last++) {
        const struct gs_span *s = &set->span[last];

        fresh -= earlier(s->end_ns, span.end_ns) - gs_span_later(s->start_ns, span.start_ns);
    }
    if (first == last) {
        first = make_room(set, first);
    } else { /* one stretch in place of those it touches */
        span.start_ns = earlier(span.start_ns, set->span[first].start_ns);
        span.end_ns = gs_span_later(span.end_ns, set->span[last - 1].end_ns);
        memmove(&set->span[first + 1], &set->span[last], (set->n - last) * sizeof(set->span[0]));
        set->n -= last - first - 1;
    }
    set->span[first] = span;
    return fresh;
}

uint64_t gs_span_fresh(const struct gs_span_set *set, struct gs_span span)
{
    uint64_t fresh;

    if (set->n == GS_SPAN_SET)
        span.start_ns = gs_span_later(span.start_ns, set->span[0].start_ns);
    if (span.start_ns >= span.end_ns)
        return 0;
    fresh = span.end_ns - span.start_ns;
    for (uint32_t i = 0; i < set->n; i++) {
        const struct gs_span *s = &set->span[i];

        if (s->start_ns < span.end_ns && s->end_ns > span.start_ns)
            fresh -= earlier(s->end_ns, span.end_ns) - gs_span_later(s->start_ns, span.start_ns);
    }
    return fresh;
}

static uint32_t streams_at(uint64_t t, const struct gs_span_stream *others, uint32_t n)
{
    uint64_t seen[GS_SPAN_STREAMS];
    uint32_t n_seen = 0;

    for (uint32_t i = 0; i < n && i < GS_SPAN_STREAMS; i++) {
        uint32_t k = 0;

        if (t < others[i].span.start_ns || t > others[i].span.end_ns)
            continue;
        while (k < n_seen && seen[k] != others[i].id)
            k++;
        if (k == n_seen)
            seen[n_seen++] = others[i].id;
    }
    return n_seen;
}

uint64_t gs_span_divide(struct gs_span span, const struct gs_span_stream *others, uint32_t n)
{
    uint64_t length = span.end_ns - span.start_ns;
    uint64_t step = length / POINTS;
    uint64_t sum = length % POINTS;

    if (n == 0)
        return length;
    for (uint32_t i = 0; i < POINTS; i++)
        sum += step / (1 + streams_at(span.start_ns + step * i + step / 2, others, n));
    return sum;
}
