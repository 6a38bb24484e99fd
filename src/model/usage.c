#include "model/usage.h"

#include "model/node.h"
#include "model/policy.h"

int32_t gs_usage_add(int32_t a, int32_t b)
{
    int32_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT32_MAX : INT32_MIN;
    return sum;
}

static void add(struct gs_use *use, int32_t slots, int32_t mem_mib, int32_t cores)
{
    use->slots = gs_usage_add(use->slots, slots);
    use->mem_mib = gs_usage_add(use->mem_mib, mem_mib);
    use->cores = gs_usage_add(use->cores, cores);
}

void gs_usage_count(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use,
                    const struct gs_tenant *tenant)
{
    const struct gs_pick pick = {
        .mem_mib = tenant->mem_mib,
        .cores = tenant->cores,
        .place_start = tenant->place_start,
        .place_size = tenant->place_size,
    };

    if (tenant->slots <= 0)
        return;
    if (policy->ops->book == NULL) {
        add(use, tenant->slots, tenant->mem_mib, tenant->cores);
        return;
    }
    policy->ops->book(policy, dev, use, &pick);
    add(use, tenant->slots - 1, 0, 0);
}

void gs_usage_sum(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use)
{
    use->slots = use->mem_mib = use->cores = 0;
    for (size_t i = 0; i < use->n_tenants; i++)
        gs_usage_count(policy, dev, use, &use->tenant[i]);
}

void gs_usage_book(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use,
                   const struct gs_pick *pick)
{
    if (policy->ops->book != NULL) {
        policy->ops->book(policy, dev, use, pick);
        return;
    }
    add(use, 1, pick->mem_mib, pick->cores);
}

/* Keep the largest values, in falling order. */
static void keep_mib(int32_t top[GS_ROOM_CARDS], int32_t value)
{
    for (size_t i = 0; i < GS_ROOM_CARDS; i++)
        if (value > top[i]) {
            int32_t smaller = top[i];

            top[i] = value;
            value = smaller;
        }
}

static void keep_cores(int16_t top[GS_ROOM_CARDS], int32_t cores)
{
    int16_t value = (int16_t)(cores > INT16_MAX ? INT16_MAX : cores < -1 ? -1 : cores);

    for (size_t i = 0; i < GS_ROOM_CARDS; i++)
        if (value > top[i]) {
            int16_t smaller = top[i];

            top[i] = value;
            value = smaller;
        }
}

static void room_of(const struct gs_node *node, const struct gs_group *group, struct gs_room *ret)
{
    struct gs_room room = {.policy = group->policy, .min_mem_mib = INT32_MAX};

    for (size_t i = 0; i < GS_ROOM_CARDS; i++) {
        room.free_mib[i] = -1;
        room.free_cores[i] = -1;
    }
    for (uint32_t i = group->first; i < group->first + group->n; i++) {
        const struct gs_device *dev = &node->dev[i];
        const struct gs_use *use = &node->use[i];

        if (gs_device_ask_open(dev, use) != GS_REASON_COUNT || dev->count <= use->slots)
            continue;
        room.n_open++;
        if (dev->mem_mib < room.min_mem_mib)
            room.min_mem_mib = dev->mem_mib;
        keep_mib(room.free_mib, gs_usage_add(dev->mem_mib, -use->mem_mib));
        keep_cores(room.free_cores, gs_usage_add(dev->cores, -use->cores));
    }
    *ret = room;
}

void gs_usage_settle(struct gs_node *node, struct gs_room *room)
{
    for (size_t i = 0; i < node->n_groups; i++)
        room_of(node, &node->group[i], &room[i]);
    node->room = room;
    node->score = gs_node_score(node);
}
