#include "vendors/nvidia/policy/mig.h"

#include <errno.h>
#include <stdbool.h>

static bool is_free(struct gs_nvidia_span place, const struct gs_nvidia_span *busy, size_t n_busy)
{
    int64_t end = (int64_t)place.start + place.size;

    for (size_t i = 0; i < n_busy; i++)
        if (place.start < (int64_t)busy[i].start + busy[i].size && busy[i].start < end)
            return false;
    return true;
}

static bool from_the_top(struct gs_str name)
{
    return gs_str_skip(&name, GS_STR("1g.")) || gs_str_skip(&name, GS_STR("3g."));
}

static const struct gs_nvidia_span *free_place(const struct gs_nvidia_profile *profile,
                                               const struct gs_nvidia_span *busy, size_t n_busy)
{
    bool is_down = from_the_top(profile->name);

    for (size_t i = 0; i < profile->n_places; i++) {
        size_t at = is_down ? profile->n_places - 1 - i : i;

        if (is_free(profile->place[at], busy, n_busy))
            return &profile->place[at];
    }
    return NULL;
}

int gs_nvidia_mig_place(const struct gs_nvidia_mig *mig, int32_t mem_mib,
                        const struct gs_nvidia_span *busy, size_t n_busy, struct gs_pick *ret)
{
    for (size_t i = 0; i < mig->n; i++) {
        const struct gs_nvidia_profile *profile = &mig->profile[i];
        const struct gs_nvidia_span *place;

        if (profile->mem_mib < mem_mib)
            continue;
        place = free_place(profile, busy, n_busy);
        if (place == NULL)
            continue;
        ret->mem_mib = profile->mem_mib;
        ret->cores = profile->cores;
        ret->profile = profile->name;
        ret->place_start = place->start;
        ret->place_size = place->size;
        return 0;
    }
    return -ENOSPC;
}

void gs_nvidia_audit(const struct gs_policy *policy, const struct gs_device *dev,
                     struct gs_use *use)
{
    bool is_mig = gs_str_eq(dev->mode, GS_STR("mig"));
    int64_t slots = 0, places = 0;

    (void)policy;
    for (size_t i = 0; i < use->n_tenants; i++) {
        slots += use->tenant[i].slots;
        places += use->tenant[i].place_size > 0;
    }
    if (is_mig ? slots > places : places > 0)
        use->is_closed = true;
}
