#pragma once
/* The vendors this build knows on the cluster side, in their fixed order: how each is configured. A
 * new vendor is one row in registry_policy.c. */

#include <stddef.h>

struct gs_policy_section;

extern const struct gs_policy_section *const gs_registry_policy[];
extern const size_t gs_registry_policy_n;
