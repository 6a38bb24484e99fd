#pragma once
/* What is taken of devices: the sum of what their tenants hold, and what is free of it. */

#include <stddef.h>
#include <stdint.h>

#include "model/device.h"

struct gs_pick;

/** a + b, kept within int32. */
int32_t gs_usage_add(int32_t a, int32_t b);
/** Add a holder, by ops->book of the policy. One of no slots (a placement alone) adds nothing. */
void gs_usage_count(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use,
                    const struct gs_tenant *tenant);
/** Sum the tenants into slots, mem_mib and cores of *use (use->tenant and n_tenants are given,
 *  is_closed stays). */
void gs_usage_sum(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use);
/** Add a pick, by ops->book of the policy. */
void gs_usage_book(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use,
                   const struct gs_pick *pick);
/** Recompute room[node->n_groups] and node->score from node->use, and point node->room there: to be
 *  called whenever the use of one of its devices changed. */
void gs_usage_settle(struct gs_node *node, struct gs_room *room);
