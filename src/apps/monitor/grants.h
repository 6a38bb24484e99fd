#pragma once
/* In which annotations of a pod its grants are, of every vendor this build knows. */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"

struct gs_pods_keys;

/** By the vendors' defaults. Returns 0; -ENOMEM; -EINVAL a vendor's table is not right. */
GS_WUR int gs_grants_keys(struct gs_arena *arena, const struct gs_pods_keys **ret, size_t *ret_n,
                          struct gs_err *err);
