#include "model/device.h"

const struct gs_group *gs_node_group(const struct gs_node *node, const struct gs_policy *policy)
{
    for (size_t i = 0; i < node->n_groups; i++)
        if (node->group[i].policy == policy)
            return &node->group[i];
    return NULL;
}
