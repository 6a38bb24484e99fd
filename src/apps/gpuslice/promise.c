#include "apps/gpuslice/promise.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/slice.h"
#include "base/err.h"
#include "core/size.h"
#include "node/probe.h"

static void add_memory(const struct gs_card *card, const struct gs_slice *slice, uint64_t bytes,
                       struct gs_promise *p)
{
    if (bytes == UINT64_MAX) {
        p->load = gs_size_add(p->load, card->total_bytes);
        return;
    }
    /* another user's file may claim anything; more than the card cannot be promised to one slice */
    if (slice->uid != geteuid() && bytes > card->total_bytes)
        bytes = card->total_bytes;
    p->bytes = gs_size_add(p->bytes, bytes);
    p->load = gs_size_add(p->load, bytes);
    p->slices++;
    if (!p->first)
        p->first = slice->name;
}

static void add_cores(const struct gs_slice *slice, const struct gs_quota_device *d,
                      struct gs_promise *p)
{
    size_t n = strlen(p->core_names);

    if (d->core_pct >= 100 || d->policy == GS_POLICY_OFF)
        return;
    p->core_pct += d->core_pct;
    /* of many slices the first ones are named */
    if (n + strlen(slice->name) + 12 < sizeof(p->core_names))
        (void)snprintf(p->core_names + n, sizeof(p->core_names) - n, "%s'%s' %u %%", n ? ", " : "",
                       slice->name, d->core_pct);
    else if (n + 5 < sizeof(p->core_names) && p->core_names[n - 1] != '.')
        (void)snprintf(p->core_names + n, sizeof(p->core_names) - n, "...");
}

static uint64_t left(uint64_t of, uint64_t taken)
{
    return of > taken ? of - taken : 0;
}

/* Another user's file may claim anything. */
static uint64_t at_most(uint64_t bytes, uint64_t most)
{
    return bytes < most ? bytes : most;
}

uint64_t gs_promise_taken(const struct gs_card *card, const struct gs_slice *slice,
                          uint64_t *ret_used)
{
    uint64_t taken = 0;

    *ret_used = 0;
    for (uint32_t k = 0; k < slice->quota.n_devices; k++) {
        uint64_t limit = slice->quota.device[k].limit_bytes;

        if (slice->state == GS_SLICE_DEAD || strcmp(slice->quota.device[k].uuid, card->uuid) != 0)
            continue;
        *ret_used = at_most(slice->used_bytes[k], card->total_bytes);
        taken = limit != UINT64_MAX && limit > *ret_used ? limit : *ret_used;
    }
    return at_most(taken, card->total_bytes);
}

/* What is on the card beside the books, and what is left then. */
static void look_at_card(const struct gs_card *card, const struct gs_slices *slices,
                         const struct gs_slice *except, struct gs_promise *p)
{
    uint64_t in_books = 0, taken = 0, used;

    for (size_t i = 0; i < slices->n; i++) {
        uint64_t its = gs_promise_taken(card, slices->p[i], &used);

        in_books = gs_size_add(in_books, used);
        if (slices->p[i] != except)
            taken = gs_size_add(taken, its);
    }
    if (card->used_bytes != GS_PROBE_UNKNOWN)
        p->outside = left(card->used_bytes, in_books);
    p->load = gs_size_add(p->load, p->outside);
    p->room = left(left(card->total_bytes, p->outside), taken);
}

void gs_promise_read(const struct gs_card *card, const struct gs_slices *slices,
                     const struct gs_slice *except, struct gs_promise *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < slices->n; i++) {
        const struct gs_slice *s = slices->p[i];

        if (s == except || s->state == GS_SLICE_DEAD)
            continue;
        for (uint32_t k = 0; k < s->quota.n_devices; k++) {
            if (strcmp(s->quota.device[k].uuid, card->uuid) != 0)
                continue;
            add_memory(card, s, s->quota.device[k].limit_bytes, ret);
            add_cores(s, &s->quota.device[k], ret);
        }
    }
    look_at_card(card, slices, except, ret);
}

bool gs_promise_is_kept(uint64_t bytes, const struct gs_promise *promise)
{
    return bytes == UINT64_MAX || bytes <= promise->room;
}

int gs_promise_check_memory(const struct gs_card *card, uint64_t bytes,
                            const struct gs_promise *promise, const char *way, struct gs_err *err)
{
    uint64_t room = promise->bytes < card->total_bytes ? card->total_bytes - promise->bytes : 0;
    char want[GS_APP_SIZE], total[GS_APP_SIZE], taken[GS_APP_SIZE], left[GS_APP_SIZE];

    if (bytes == UINT64_MAX || bytes <= room)
        return 0;
    (void)gs_app_size(bytes, want);
    (void)gs_app_size(card->total_bytes, total);
    (void)gs_app_size(promise->bytes, taken);
    (void)gs_app_size(room, left);
    if (promise->slices == 0)
        return gs_err_set(err, -ENOSPC,
                          "card %u has %s (%" PRIu64
                          " bytes), less than the %s asked for; ask for at most that%s",
                          card->index, total, card->total_bytes, want, way);
    return gs_err_set(
        err, -ENOSPC,
        "card %u has %s, of which %s are promised to %u slice%s ('%s'%s); %s do not fit into the "
        "%s left (%" PRIu64 " bytes); ask for less, take another --device, end a slice ('gpuslice "
        "ls')%s",
        card->index, total, taken, promise->slices, promise->slices == 1 ? "" : "s", promise->first,
        promise->slices == 1 ? "" : ", ...", want, left, room, way);
}

int gs_promise_check_cores(const struct gs_card *card, uint32_t core_pct,
                           const struct gs_promise *promise, const char *way, struct gs_err *err)
{
    if (core_pct >= 100 || promise->core_pct + core_pct <= 100)
        return 0;
    return gs_err_set(err, -ENOSPC,
                      "%" PRIu64
                      " %% of the compute of card %u are promised already (%s); %u %% do "
                      "not fit into the %" PRIu64 " %% left; ask for less, take another --device, "
                      "end a slice ('gpuslice ls')%s",
                      promise->core_pct, card->index, promise->core_names, core_pct,
                      promise->core_pct < 100 ? 100 - promise->core_pct : 0, way);
}
