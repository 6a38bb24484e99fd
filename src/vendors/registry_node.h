#pragma once
/* The vendors this build knows on the node side, in their fixed order. A new vendor is one row in
 * registry_node.c. */

#include <stddef.h>

struct gs_probe_vendor;

extern const struct gs_probe_vendor *const gs_registry_node[];
extern const size_t gs_registry_node_n;
