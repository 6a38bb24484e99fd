#include "apps/monitor/grants.h"

#include <errno.h>

#include "control/policies.h"
#include "monitor/pods.h"
#include "vendors/registry_policy.h"

int gs_grants_keys(struct gs_arena *arena, const struct gs_pods_keys **ret, size_t *ret_n,
                   struct gs_err *err)
{
    static const char *const enabled[] = {"ascend", "iluvatar", NULL};
    const struct gs_policies_conf conf = {
        .section = gs_registry_policy, .n_sections = gs_registry_policy_n, .enabled = enabled};
    struct gs_policies policies = {0};
    struct gs_pods_keys *keys;
    int rc = gs_policies_read(&conf, arena, &policies, err);

    if (rc < 0)
        return rc;
    keys = GS_ARENA_ARRAY(arena, policies.n, struct gs_pods_keys);
    if (keys == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < policies.n; i++)
        keys[i] = (struct gs_pods_keys){.allocated = policies.at[i]->keys.allocated,
                                        .placements = policies.at[i]->keys.placements};
    *ret = keys;
    *ret_n = policies.n;
    return 0;
}
