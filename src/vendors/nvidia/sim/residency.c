#include "vendors/nvidia/sim/residency.h"

#include <stddef.h>

#include "vendors/nvidia/sim/holders.h"
#include "vendors/nvidia/sim/process.h"

static uint64_t free_bytes(const struct gs_sim_card_state *c)
{
    return c->used_bytes < c->memory_bytes ? c->memory_bytes - c->used_bytes : 0;
}

static int is_managed_of(const struct gs_sim_object *o, uint32_t card)
{
    return o->kind == GS_SIM_MANAGED && o->card == card;
}

/* The one used longest ago that has bytes on the card; `ret_all` is the sum over all of them. */
static uint32_t oldest(uint32_t card, uint32_t keep, uint64_t *ret_all)
{
    const struct gs_sim_state *s = gs_sim_state;
    uint32_t found = GS_SIM_NONE;
    *ret_all = 0;
    for (uint32_t i = 0; i < s->object_top; i++) {
        const struct gs_sim_object *o = &s->object[i];
        if (i == keep || !is_managed_of(o, card) || !o->bytes)
            continue;
        *ret_all += o->bytes;
        if (found == GS_SIM_NONE || o->used_seq < s->object[found].used_seq)
            found = i;
    }
    return found;
}

int gs_residency_make_room(uint32_t card, uint64_t bytes, uint32_t keep)
{
    struct gs_sim_card_state *c = &gs_sim_state->card[card];
    while (free_bytes(c) < bytes) {
        uint64_t all, lacking = bytes - free_bytes(c);
        uint32_t i = oldest(card, keep, &all);
        if (all < lacking && !gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1))
            return 0;
        if (all < lacking)
            continue; /* the dead had some */
        c->evicted_bytes += gs_residency_unload(i, gs_sim_align(lacking, c->granularity));
    }
    return 1;
}

void gs_residency_use(uint32_t index)
{
    struct gs_sim_object *o = &gs_sim_state->object[index];
    o->used_seq = ++gs_sim_state->card[o->card].use_seq;
}

uint64_t gs_residency_unload(uint32_t index, uint64_t bytes)
{
    const struct gs_sim_object *o = &gs_sim_state->object[index];
    uint64_t gone = bytes < o->bytes ? bytes : o->bytes;
    gs_holders_resize(index, o->bytes - gone);
    return gone;
}

/* The dead are freed before they could raise a peak, which is the tests' witness. */
static void grow(uint32_t index, uint64_t bytes)
{
    const struct gs_sim_object *o = &gs_sim_state->object[index];
    const struct gs_sim_group_use *u = &gs_sim_state->group[o->group].card[o->card];
    if (u->used_bytes + bytes - o->bytes > u->peak_bytes)
        (void)gs_process_reap(o->group, o->card, 1);
    gs_holders_resize(index, bytes);
    gs_holders_raise_peaks(o->card);
}

uint64_t gs_residency_load(uint32_t index, uint64_t bytes, int moved)
{
    const struct gs_sim_object *o = &gs_sim_state->object[index];
    struct gs_sim_card_state *c = &gs_sim_state->card[o->card];
    uint64_t whole = o->units << c->shift;
    uint64_t target = gs_sim_align(bytes < whole ? bytes : whole, c->granularity);
    gs_residency_use(index);
    if (o->bytes >= target)
        return 0;
    uint64_t missing = target - o->bytes;
    if (!gs_residency_make_room(o->card, missing, index)) {
        /* It does not fit even alone. What lies there is gone before it is needed again, because
         * the rest has passed through in between: all of it moves. */
        uint64_t all;
        uint32_t other;
        while ((other = oldest(o->card, index, &all)) != GS_SIM_NONE)
            c->evicted_bytes += gs_residency_unload(other, UINT64_MAX);
        uint64_t room = free_bytes(c) >> c->shift << c->shift;
        if (moved) {
            missing = target;
            c->evicted_bytes += target - room;
        }
        target = o->bytes + room;
    }
    grow(index, target);
    if (!moved)
        return 0;
    c->migrated_bytes += missing;
    return missing;
}
