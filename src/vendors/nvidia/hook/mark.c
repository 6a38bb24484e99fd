#include "vendors/nvidia/hook/mark.h"

#include <stddef.h>
#include <string.h>

#include "hook/limiter.h"
#include "vendors/nvidia/hook/inflight.h"
#include "vendors/nvidia/hook/window.h"

static struct gs_inflight *lasts[GS_LAUNCH_STREAMS]; /* owned entries; NULL none, or in use */
uint32_t gs_mark_out;

static struct gs_inflight **place_of(const struct gs_launch_stream *stream)
{
    return &lasts[stream - gs_launch_streams];
}

static struct gs_inflight *take(struct gs_inflight **place)
{
    struct gs_inflight *e;

    if (__atomic_load_n(place, __ATOMIC_RELAXED) == NULL)
        return NULL;
    /* acquire: pairs with the release in put_back */
    e = __atomic_exchange_n(place, NULL, __ATOMIC_ACQUIRE);
    if (e != NULL)
        (void)__atomic_fetch_sub(&gs_mark_out, 1, __ATOMIC_RELAXED);
    return e;
}

static void put_back(struct gs_inflight **place, struct gs_inflight *e)
{
    struct gs_inflight *none = NULL;

    (void)__atomic_fetch_add(&gs_mark_out, 1, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(place, &none, e, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        return;
    (void)__atomic_fetch_sub(&gs_mark_out, 1, __ATOMIC_RELAXED);
    gs_inflight_drop(e); /* another thread's is as good */
}

void gs_mark_window(struct gs_launch_stream *stream, struct gs_inflight_launch *launch)
{
    uint64_t since = __atomic_exchange_n(&stream->since, 0, __ATOMIC_RELAXED);

    launch->covers_ns = GS_LAUNCH_NS(since);
    launch->since_ns = __atomic_load_n(&stream->from_ns, __ATOMIC_RELAXED);
    launch->first_ns = __atomic_exchange_n(&stream->first_ns, 0, __ATOMIC_RELAXED);
    launch->seen_ns = __atomic_exchange_n(&stream->seen_ns, 0, __ATOMIC_RELAXED);
    launch->window = since - __atomic_exchange_n(&stream->before, 0, __ATOMIC_RELAXED);
    launch->closed_ns = gs_limiter_clock();
    __atomic_store_n(&stream->from_ns, launch->closed_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->quiet_ns, launch->closed_ns, __ATOMIC_RELAXED);
}

static void close_at(struct gs_launch_stream *stream, struct gs_inflight *e, bool is_whole)
{
    struct gs_inflight_launch launch = {.kind = GS_INFLIGHT_MARK, .is_whole = is_whole};

    gs_mark_window(stream, &launch);
    gs_inflight_close(e, &launch);
}

bool gs_mark_put(struct gs_launch_stream *stream, const struct gs_timing_where *where)
{
    struct gs_inflight *e;

    if (gs_mark_close(stream))
        return true;
    e = gs_inflight_take(where, GS_INFLIGHT_MARK);
    if (e == NULL || !gs_inflight_start(e, 0))
        return false;
    gs_inflight_end(e);
    close_at(stream, e, false);
    return true;
}

void gs_mark_follow(struct gs_launch_stream *stream, const struct gs_timing_where *where)
{
    struct gs_inflight **place = place_of(stream), *e = take(place);

    if (e == NULL) {
        e = gs_inflight_take(where, GS_INFLIGHT_MARK);
        if (e == NULL || !gs_inflight_start(e, 0))
            return;
    }
    gs_inflight_end(e);
    __atomic_store_n(&stream->quiet_ns, gs_limiter_clock(), __ATOMIC_RELAXED);
    if (e->is_ended)
        put_back(place, e);
    else
        gs_inflight_drop(e);
}

bool gs_mark_end(struct gs_launch_stream *stream)
{
    struct gs_inflight **place = place_of(stream), *e = take(place);

    if (e == NULL)
        return false;
    if (gs_timing_query(e->event[2]) == 0) {
        put_back(place, e);
        return true;
    }
    gs_window_attended(e->where.dev);
    close_at(stream, e, true);
    return false;
}

void gs_mark_end_all(void)
{
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++)
        (void)gs_mark_end(&gs_launch_streams[i]);
}

bool gs_mark_close(struct gs_launch_stream *stream)
{
    struct gs_inflight *e = take(place_of(stream));

    if (e == NULL)
        return false;
    close_at(stream, e, true);
    return true;
}

bool gs_mark_drop(struct gs_launch_stream *stream)
{
    struct gs_inflight *e = take(place_of(stream));

    gs_inflight_drop(e);
    return e != NULL;
}

void gs_mark_purge(CUcontext context)
{
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        struct gs_inflight *e = take(&lasts[i]);

        if (e != NULL && e->where.context != context)
            put_back(&lasts[i], e);
        else
            gs_inflight_drop(e);
    }
}

void gs_mark_forget(void)
{
    memset(lasts, 0, sizeof(lasts));
    gs_mark_out = 0;
}
