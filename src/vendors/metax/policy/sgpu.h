#pragma once
/* MetaX sGPU: shares with classes (online, offline, none) and qualities of service, and whole cards
 * that are near each other. */

#include <stdbool.h>

struct gs_policy_ops;

extern const struct gs_policy_ops gs_sgpu_ops;

/** Where the policy of shares keeps its configuration (gs_policy.conf). */
struct gs_sgpu_conf {
    bool is_topology_aware;
};
