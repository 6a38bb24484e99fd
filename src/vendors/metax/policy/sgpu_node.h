#pragma once
/* The annotation metax-tech.com/node-gpu-devices. */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/device.h"

/** Read it; devices (with struct gs_sgpu_card as custom) in the arena, text copied.
 *  Returns  their number, 0 for an empty list; -EINVAL unreadable; -E2BIG; -ENOMEM. */
GS_WUR int gs_sgpu_node_read(struct gs_str text, struct gs_arena *arena, struct gs_device **ret_dev,
                             struct gs_err *err);
