#include "monitor/turns.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

uint64_t gs_turns_length_ns(uint64_t managed_bytes)
{
    const uint64_t bytes_per_us = GS_TURNS_BYTES_PER_S / 1000000;
    uint64_t us = managed_bytes / bytes_per_us;

    if (us >= GS_TURNS_MAX_NS / (1000 * GS_TURNS_FACTOR))
        return GS_TURNS_MAX_NS;
    us *= GS_TURNS_FACTOR;
    return us * 1000 < GS_TURNS_MIN_NS ? GS_TURNS_MIN_NS : us * 1000;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static bool asked_within(const struct gs_turns_slice *s, uint64_t now_ns, uint64_t ns)
{
    return s->is_waiting != 0 ||
           (s->demand_ns != 0 && (s->demand_ns >= now_ns || now_ns - s->demand_ns < ns));
}

static bool takes_part(const struct gs_turns_slice *s)
{
    return s->managed_bytes != 0;
}

static bool is_asking(const struct gs_turns_slice *s, uint64_t now_ns)
{
    return takes_part(s) && asked_within(s, now_ns, GS_TURNS_IDLE_NS);
}

static bool is_active(const struct gs_turns_slice *s, uint64_t now_ns)
{
    return takes_part(s) && asked_within(s, now_ns, GS_TURNS_ACTIVE_NS);
}

static bool is_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static const struct gs_turns_slice *find(const struct gs_turns_slice *slices, uint32_t n,
                                         const uint64_t key[2])
{
    for (uint32_t i = 0; i < n; i++) {
        if (is_same(slices[i].key, key))
            return &slices[i];
    }
    return NULL;
}

static void ask(struct gs_turns *turns, const uint64_t key[2])
{
    for (uint32_t i = 0; i < turns->n_asking; i++) {
        if (is_same(turns->asking[i], key))
            return;
    }
    if (turns->n_asking < GS_TURNS_SLICES)
        memcpy(turns->asking[turns->n_asking++], key, sizeof(turns->asking[0]));
}

/* Who no longer asks leaves the queue, who newly asks goes to its end. The times in a ledger are
 * its tenant's word: they say that a slice asks, never since when. */
static void update_queue(struct gs_turns *turns, const struct gs_turns_slice *slices, uint32_t n,
                         uint64_t now_ns)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < turns->n_asking; i++) {
        const struct gs_turns_slice *s = find(slices, n, turns->asking[i]);

        if (s == NULL || !is_asking(s, now_ns))
            continue;
        memmove(turns->asking[kept++], turns->asking[i], sizeof(turns->asking[0]));
    }
    turns->n_asking = kept;
    for (uint32_t i = 0; i < n; i++) {
        bool holds = turns->has_holder != 0 && is_same(slices[i].key, turns->holder);

        if (!holds && is_asking(&slices[i], now_ns))
            ask(turns, slices[i].key);
    }
}

/* Place in the queue of the first that goes before others; n_asking: none does. */
static uint32_t first_high(const struct gs_turns *turns, const struct gs_turns_slice *slices,
                           uint32_t n)
{
    uint32_t at = 0;

    while (at < turns->n_asking) {
        const struct gs_turns_slice *s = find(slices, n, turns->asking[at]);

        if (s != NULL && s->is_high != 0)
            break;
        at++;
    }
    return at;
}

/* The first of the queue has the turn from now on; after a slice of low priority, the first of high
 * priority. */
static void pass_on(struct gs_turns *turns, const struct gs_turns_slice *slices, uint32_t n,
                    uint64_t now_ns)
{
    const struct gs_turns_slice *old =
        turns->has_holder != 0 ? find(slices, n, turns->holder) : NULL;
    const struct gs_turns_slice *next;
    uint32_t at = old != NULL && old->is_high != 0 ? 0 : first_high(turns, slices, n);
    uint64_t length;

    if (at == turns->n_asking)
        at = 0;
    memcpy(turns->holder, turns->asking[at], sizeof(turns->holder));
    turns->has_holder = 1;
    turns->n_asking--;
    memmove(turns->asking[at], turns->asking[at + 1],
            (turns->n_asking - at) * sizeof(turns->asking[0]));
    if (old != NULL && is_asking(old, now_ns))
        ask(turns, old->key);
    next = find(slices, n, turns->holder);
    length = gs_turns_length_ns(next != NULL ? next->managed_bytes : 0);
    turns->until_ns = now_ns + length;
    length /= GS_TURNS_CUT;
    turns->cut_ns = now_ns + (length > GS_TURNS_MIN_NS ? length : GS_TURNS_MIN_NS);
}

/* Is the holder's turn over, where another asks? */
static bool is_over(const struct gs_turns *turns, const struct gs_turns_slice *slices, uint32_t n,
                    const struct gs_turns_slice *holder, uint64_t now_ns)
{
    if (now_ns >= turns->until_ns)
        return true;
    return holder->is_high == 0 && now_ns >= turns->cut_ns &&
           first_high(turns, slices, n) < turns->n_asking;
}

void gs_turns_step(struct gs_turns *turns, struct gs_turns_slice *slices, uint32_t n_slices,
                   uint64_t card_bytes, uint64_t now_ns)
{
    uint32_t n = n_slices < GS_TURNS_SLICES ? n_slices : GS_TURNS_SLICES;
    const struct gs_turns_slice *holder;
    uint64_t wanted = 0; /* what must stay on the card, and what the active would bring there */

    for (uint32_t i = 0; i < n_slices; i++) {
        slices[i].is_parked = 0;
        wanted = add(wanted, slices[i].fixed_bytes);
        if (is_active(&slices[i], now_ns))
            wanted = add(wanted, slices[i].managed_bytes);
    }
    update_queue(turns, slices, n, now_ns);
    holder = turns->has_holder != 0 ? find(slices, n, turns->holder) : NULL;
    if (holder == NULL || !takes_part(holder))
        turns->has_holder = 0;
    if (turns->n_asking != 0 &&
        (turns->has_holder == 0 || !is_asking(holder, now_ns) ||
         (wanted > card_bytes && is_over(turns, slices, n, holder, now_ns)))) {
        pass_on(turns, slices, n, now_ns);
        holder = find(slices, n, turns->holder);
    }
    if (turns->has_holder == 0 || !is_active(holder, now_ns))
        return; /* nobody has pages there that are worth keeping */
    for (uint32_t i = 0; i < n; i++) {
        struct gs_turns_slice *s = &slices[i];
        /* Who is idle is parked beforehand, or its first launch would throw the holder out. */
        uint64_t with = is_active(s, now_ns) ? wanted : add(wanted, s->managed_bytes);

        s->is_parked = s != holder && takes_part(s) && with > card_bytes;
    }
}
