#include <string.h>

#include "vendors/nvidia/sim/holders.h"
#include "vendors/nvidia/sim/state.h"

static void clear_sums(void)
{
    struct gs_sim_state *s = gs_sim_state;
    for (uint32_t c = 0; c < s->n_cards; c++) {
        s->card[c].used_bytes = 0;
        s->card[c].first_free = 0;
        memset(gs_state_bitmap(c), 0, s->card[c].span_units / 8);
        for (uint32_t g = 0; g < s->n_groups; g++)
            s->group[g].card[c].used_bytes = 0;
    }
    for (uint32_t p = 0; p < s->proc_top; p++)
        memset(s->proc[p].used_bytes, 0, sizeof(s->proc[p].used_bytes));
    for (uint32_t i = 0; i < s->object_top; i++)
        s->object[i].holds = 0;
    s->n_exported = 0;
    s->object_free = GS_SIM_NONE;
}

/* Entries of objects that are gone, and of owners (an inheritance half done), are dropped. */
static void count_holds(void)
{
    struct gs_sim_state *s = gs_sim_state;
    for (uint32_t i = 0; i < s->hold_top; i++) {
        struct gs_sim_hold *h = &s->hold[i];
        if (h->process == GS_SIM_NONE)
            continue;
        struct gs_sim_object *o = &s->object[h->object];
        if (o->kind == GS_SIM_FREE || o->generation != h->generation || o->owner == h->process ||
            !h->refs)
            h->process = GS_SIM_NONE;
        else
            o->holds++;
    }
}

static void mark(uint32_t card, uint64_t first, uint64_t units)
{
    uint64_t *bits = gs_state_bitmap(card);
    for (uint64_t u = first; u < first + units; u++)
        bits[u / 64] |= UINT64_C(1) << (u % 64);
}

void gs_state_repair(void)
{
    struct gs_sim_state *s = gs_sim_state;
    clear_sums();
    count_holds();
    for (uint32_t i = s->object_top; i-- > 0;) {
        struct gs_sim_object *o = &s->object[i];
        int kept = o->holds || o->exported || (o->owner != GS_SIM_NONE && o->owner_refs);
        if (o->kind != GS_SIM_FREE && kept) {
            mark(o->card, o->first_unit, o->units);
            gs_holders_charge(o);
            s->n_exported += o->exported != 0;
            continue;
        }
        o->kind = GS_SIM_FREE;
        o->next_free = s->object_free;
        s->object_free = i;
    }
}
