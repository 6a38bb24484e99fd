#include "model/collapse.h"

#include <errno.h>
#include <stdlib.h>

#include "model/usage.h"

/* One device of one slot, in the order of UUID, then slot. */
struct item {
    struct gs_str uuid;
    size_t slot;
    int32_t mem_mib, cores;
};

/* What is known of one UUID while its items pass. */
struct sums {
    int32_t slots, mem_mib, cores;
};

static int by_uuid_slot(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int way = gs_str_cmp(x->uuid, y->uuid);

    return way != 0 ? way : (x->slot > y->slot) - (x->slot < y->slot);
}

static void add(struct sums *to, const struct sums *more)
{
    to->slots = gs_usage_add(to->slots, more->slots);
    to->mem_mib = gs_usage_add(to->mem_mib, more->mem_mib);
    to->cores = gs_usage_add(to->cores, more->cores);
}

static void raise_to(struct sums *to, const struct sums *other)
{
    to->slots = other->slots > to->slots ? other->slots : to->slots;
    to->mem_mib = other->mem_mib > to->mem_mib ? other->mem_mib : to->mem_mib;
    to->cores = other->cores > to->cores ? other->cores : to->cores;
}

/* Items of one UUID, by slot. An init container runs beside the sidecars before it. */
static struct gs_share_of collapsed(const struct item *item, size_t n, const struct gs_slots *slots)
{
    struct sums app = {0}, peak = {0};

    for (size_t i = 0; i < n;) {
        size_t slot = item[i].slot;
        struct sums here = {0};

        for (; i < n && item[i].slot == slot; i++)
            add(&here, &(struct sums){1, item[i].mem_mib, item[i].cores});
        if (slots->is_app != NULL ? slots->is_app[slot] : slot >= slots->n_init) {
            add(&app, &here);
        } else if (!slots->inits_done) {
            add(&here, &app);
            raise_to(&peak, &here);
        }
    }
    raise_to(&peak, &app);
    return (struct gs_share_of){item[0].uuid, peak.slots, peak.mem_mib, peak.cores};
}

static size_t listed(const struct gs_grant *grant, struct item *item)
{
    size_t n = 0;

    for (size_t s = 0; s < grant->n; s++)
        for (size_t d = 0; d < grant->slot[s].n; d++) {
            const struct gs_grant_dev *dev = &grant->slot[s].dev[d];

            item[n++] = (struct item){gs_grant_card(dev->uuid), s, dev->mem_mib, dev->cores};
        }
    return n;
}

int gs_collapse(const struct gs_grant *grant, const struct gs_slots *slots, struct gs_arena *arena,
                struct gs_share_of **ret, size_t *ret_n)
{
    struct gs_share_of *share;
    struct item *item;
    size_t n = 0, n_out = 0;

    for (size_t s = 0; s < grant->n; s++)
        n += grant->slot[s].n;
    item = GS_ARENA_ARRAY(arena, n, struct item);
    share = GS_ARENA_ARRAY(arena, n, struct gs_share_of);
    if (item == NULL || share == NULL)
        return -ENOMEM;
    n = listed(grant, item);
    if (n > 1)
        qsort(item, n, sizeof(*item), by_uuid_slot);
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;

        while (end < n && gs_str_eq(item[end].uuid, item[i].uuid))
            end++;
        share[n_out] = collapsed(&item[i], end - i, slots);
        n_out += share[n_out].slots > 0;
        i = end;
    }
    *ret = share;
    *ret_n = n_out;
    return 0;
}
