#include "vendors/nvidia/policy/fit.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "model/grant.h"
#include "vendors/nvidia/policy/mig.h"
#include "vendors/nvidia/policy/node.h"
#include "vendors/nvidia/policy/topology.h"

/* --- may this card serve at all --- */

int gs_nvidia_wish(const struct gs_policy *policy, const struct gs_pod *pod, struct gs_arena *arena,
                   const void **ret)
{
    struct gs_str text = gs_pod_annotation(pod, GS_STR("nvidia.com/vgpu-mode"), NULL);
    struct gs_str *mode;

    (void)policy;
    *ret = NULL;
    if (text.n == 0)
        return 0;
    mode = GS_ARENA_NEW(arena, struct gs_str);
    if (mode == NULL)
        return -ENOMEM;
    *mode = text;
    *ret = mode;
    return 0;
}

static enum gs_reason type(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev)
{
    const struct gs_str *mode = fit->wish->own;

    (void)p;
    if (!gs_select_takes_type(&fit->wish->select, dev->type))
        return GS_REASON_CARD_TYPE_MISMATCH;
    if (mode != NULL && dev->mode.n > 0 &&
        memmem(mode->p, mode->n, dev->mode.p, dev->mode.n) == NULL)
        return GS_REASON_CARD_TYPE_MISMATCH;
    return GS_REASON_COUNT;
}

/* --- MIG --- */

static bool is_mig(const struct gs_device *dev)
{
    return gs_str_eq_c(dev->mode, "mig");
}

static bool repeats(const struct gs_policy *p, const struct gs_fit *fit,
                    const struct gs_device *dev)
{
    (void)p;
    (void)fit;
    return is_mig(dev);
}

static size_t add_span(struct gs_nvidia_span *busy, size_t n, int32_t start, int32_t size)
{
    if (size > 0)
        busy[n++] = (struct gs_nvidia_span){start, size};
    return n;
}

/* Places of a card that are not free: other pods', this pod's earlier containers', this
 * container's. NULL when out of memory. */
static struct gs_nvidia_span *busy_spans(const struct gs_policy *p, const struct gs_fit *fit,
                                         uint32_t dev, const struct gs_pick *so_far, size_t n,
                                         size_t *ret_n)
{
    const struct gs_use *use = &fit->use[dev];
    struct gs_nvidia_span *busy =
        GS_ARENA_ARRAY(fit->arena, use->n_tenants + fit->n_taken + n, struct gs_nvidia_span);
    size_t n_busy = 0;

    if (busy == NULL)
        return NULL;
    for (size_t i = 0; i < use->n_tenants; i++)
        n_busy = add_span(busy, n_busy, use->tenant[i].place_start, use->tenant[i].place_size);
    for (size_t i = 0; i < fit->n_taken; i++) {
        const struct gs_taken *taken = &fit->taken[i];

        if (taken->policy == p && taken->pick.dev == dev && !taken->is_gone)
            n_busy = add_span(busy, n_busy, taken->pick.place_start, taken->pick.place_size);
    }
    for (size_t i = 0; i < n; i++)
        if (so_far[i].dev == dev)
            n_busy = add_span(busy, n_busy, so_far[i].place_start, so_far[i].place_size);
    *ret_n = n_busy;
    return busy;
}

static enum gs_reason last(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev, const struct gs_pick *so_far, size_t n,
                           struct gs_pick *pick)
{
    const struct gs_nvidia_mig *mig = dev->custom;
    struct gs_nvidia_span *busy;
    size_t n_busy = 0;

    if (!is_mig(dev))
        return GS_REASON_COUNT;
    if (mig == NULL) /* a plugin of the time before profiles were published */
        return GS_REASON_CARD_MIG_TOPOLOGY_INFEASIBLE;
    busy = busy_spans(p, fit, (uint32_t)(dev - fit->node->dev), so_far, n, &n_busy);
    if (busy == NULL || gs_nvidia_mig_place(mig, pick->mem_mib, busy, n_busy, pick) < 0)
        return GS_REASON_CARD_MIG_TOPOLOGY_INFEASIBLE;
    return GS_REASON_COUNT;
}

int gs_nvidia_annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                       struct gs_arena *arena, struct gs_pairs *ret)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    struct gs_mig_grant *mig;
    size_t n = 0, cap = 0;
    struct gs_str text;

    (void)policy;
    for (size_t i = 0; i < a->pod->n_containers; i++)
        cap += a->n_picks[i];
    mig = GS_ARENA_ARRAY(arena, cap, struct gs_mig_grant);
    if (mig == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < a->pod->n_containers; i++)
        for (size_t j = 0; j < a->n_picks[i]; j++) {
            const struct gs_pick *pick = &a->pick[i][j];

            if (pick->place_size > 0)
                mig[n++] = (struct gs_mig_grant){
                    .container = (uint32_t)i,
                    .device = (uint32_t)j,
                    .gpu_uuid = a->node->dev[pick->dev].id,
                    .profile = pick->profile,
                    .start = pick->place_start,
                    .size = pick->place_size,
                };
        }
    if (n == 0)
        return 0;
    gs_grant_mig_write(mig, n, &buf);
    if (gs_buf_check(&buf) < 0)
        return -ENOMEM;
    text = gs_arena_str(arena, (struct gs_str){buf.p, buf.n});
    if (gs_arena_check(arena) < 0)
        return -ENOMEM;
    return gs_pairs_set(ret, arena, GS_STR("hami.io/vgpu-mig-allocations"), text);
}

/* --- cards that lie together --- */

static bool collects(const struct gs_policy *p, const struct gs_fit *fit)
{
    (void)p;
    return fit->policy->is_topology;
}

static int choose(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                  size_t n)
{
    size_t want = (size_t)fit->request->nums;
    int rc = 0;

    (void)p;
    if (n > want)
        rc = gs_nvidia_topology_choose(fit->group->facts, fit->group->first, pick, n, want,
                                       fit->arena);
    return rc < 0 ? rc : (int)want;
}

const struct gs_fit_rules gs_nvidia_rules = {
    .type = type,
    .last = last,
    .choose = choose,
    .collects = collects,
    .repeats = repeats,
    .checks_quota = true,
};
