#pragma once
/* What the card itself says it has lost: for things whose size no call tells (contexts, code).
 * Slow paths only. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_device;

struct gs_measure {
    uint64_t bytes;
    bool own; /**< true: this process's use; false: the whole card's, others included */
};

/** Ask NVML. The process is found by its pid; in a pid namespace where NVML counts host pids it is
 *  not, then the whole card's use is the answer.
 *  Returns  0; -ENOTSUP no NVML or it does not know the card. */
GS_WUR int gs_measure_take(const struct gs_device *device, struct gs_measure *ret_measure);

/** Bytes free on the current context's card, all processes together; one driver call.
 *  Returns  0; -ENOTSUP. */
GS_WUR int gs_measure_free(uint64_t *ret_bytes);
