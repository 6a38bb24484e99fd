#include "vendors/nvidia/policy/policy.h"

#include <errno.h>

#include "model/usual.h"
#include "vendors/nvidia/policy/admit.h"
#include "vendors/nvidia/policy/conf.h"
#include "vendors/nvidia/policy/fit.h"
#include "vendors/nvidia/policy/mig.h"
#include "vendors/nvidia/policy/node.h"

static const struct gs_policy_ops ops = {
    .admit = gs_nvidia_admit,
    .request = gs_nvidia_request,
    .read_node = gs_nvidia_read_node,
    .read_device = gs_nvidia_read_device,
    .wish = gs_nvidia_wish,
    .rules = &gs_nvidia_rules,
    .audit = gs_nvidia_audit,
    .annotate = gs_nvidia_annotate,
};

static const struct gs_keys keys = {
    .to_allocate = GS_STR_INIT("hami.io/vgpu-devices-to-allocate"),
    .allocated = GS_STR_INIT("hami.io/vgpu-devices-allocated"),
    .placements = GS_STR_INIT("hami.io/vgpu-mig-allocations"),
    .node_register = GS_STR_INIT("hami.io/node-nvidia-register"),
    .handshake = GS_STR_INIT("hami.io/node-handshake"),
    .use_uuid = GS_STR_INIT("nvidia.com/use-gpuuuid"),
    .nouse_uuid = GS_STR_INIT("nvidia.com/nouse-gpuuuid"),
    .use_type = GS_STR_INIT("nvidia.com/use-gputype"),
    .nouse_type = GS_STR_INIT("nvidia.com/nouse-gputype"),
    .numa_bind = GS_STR_INIT("nvidia.com/numa-bind"),
    .lock = GS_STR_INIT(GS_KEY_NODE_LOCK),
};

static void set_names(const struct gs_nvidia_yaml *yaml, struct gs_arena *arena,
                      struct gs_names *names)
{
    names->count = gs_usual_name(arena, yaml->count, "nvidia.com/gpu");
    names->mem = gs_usual_name(arena, yaml->mem, "nvidia.com/gpumem");
    names->mem_pct = gs_usual_name(arena, yaml->mem_pct, "nvidia.com/gpumem-percentage");
    names->core = gs_usual_name(arena, yaml->core, "nvidia.com/gpucores");
    names->priority = gs_usual_name(arena, yaml->priority, "nvidia.com/priority");
}

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct gs_nvidia_yaml nothing;
    const struct gs_nvidia_yaml *yaml = conf != NULL ? conf : &nothing;
    struct gs_nvidia_conf *own = GS_ARENA_NEW(arena, struct gs_nvidia_conf);
    int32_t mem_factor = yaml->mem_factor != NULL && *yaml->mem_factor > 1 ? *yaml->mem_factor : 1;
    struct gs_policy policy = {
        .word = "NVIDIA",
        .ops = &ops,
        .keys = keys,
        .mem_factor = mem_factor,
        .quota_factor = mem_factor,
        .default_cores = yaml->default_cores != NULL ? *yaml->default_cores : 0,
        .has_global_ids = true,
        .is_exclusive_at_100 = true,
        .conf = own,
    };
    int rc = own == NULL ? -ENOMEM : gs_nvidia_conf_make(yaml, arena, own, err);

    (void)is_older; /* there is one shape */
    if (rc < 0)
        return gs_err_wrap(err, rc, "nvidia");
    set_names(yaml, arena, &policy.names);
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_nvidia_section = {
    .key = "nvidia",
    .schema = &gs_nvidia_schema,
    .make = make,
};
