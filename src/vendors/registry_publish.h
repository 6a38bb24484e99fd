#pragma once
/* The vendors whose cards this build registers and offers on a node, in their fixed order. A new
 * vendor is one row in registry_publish.c. */

#include <stddef.h>

struct gs_publish_vendor;

extern const struct gs_publish_vendor *const gs_registry_publish[];
extern const size_t gs_registry_publish_n;
