#pragma once
/* The vendors whose cards this build's device plugin hands out, in their fixed order. A new vendor
 * is one row in registry_kit.c. */

#include <stddef.h>

struct gs_kit_vendor;

extern const struct gs_kit_vendor *const gs_registry_kit[];
extern const size_t gs_registry_kit_n;
