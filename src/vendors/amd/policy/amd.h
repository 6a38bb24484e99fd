#pragma once
/* AMD: compute units and memory of whole cards, or of hard partitions of them. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/str.h"

struct gs_policy_section;

extern const struct gs_policy_section gs_amd_section;

/** The section "amd" as the file has it; NULL: the chart's default, "": not used. */
struct gs_amd_yaml {
    char *count, *mem, *mem_pct, *core, *priority, *runtime_class;
};

/** What is kept of it (gs_policy.conf). */
struct gs_amd_conf {
    struct gs_str runtime_class; /**< of pods that name none; empty: none */
};
