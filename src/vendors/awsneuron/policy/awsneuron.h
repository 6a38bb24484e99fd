#pragma once
/* AWS Neuron: whole devices (aws.amazon.com/neuron) or single cores (aws.amazon.com/neuroncore). A
 * core amount of a device is a bit mask, and cores per device are a fact of each node. */

#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/request.h"

struct gs_policy_section;

extern const struct gs_policy_section gs_awsneuron_section;

/** The section "awsneuron"; NULL: the chart's default, "": not used. */
struct gs_awsneuron_conf {
    char *count, *core;
};

/** How HAMi spreads `cores` over devices of `per_device` cores (0: not known; it counts at most two
 *  of a device).
 *  @name     of the resource, for texts.
 *  Returns   0 with nums and cores (per device) of *ret set; -EINVAL with HAMi's text.
 *  Threads   pure. */
GS_WUR int gs_awsneuron_split(struct gs_str name, int64_t cores, int32_t per_device,
                              struct gs_request *ret, struct gs_err *err);
