#pragma once
/* MetaX: whole cards (word "Metax-GPU") and shares of cards (word "Metax-SGPU"). */

#include <stdbool.h>

struct gs_policy_section;

extern const struct gs_policy_section gs_metax_section;

/** The section "metax"; NULL: the chart's default, "": not used. */
struct gs_metax_conf {
    char *count, *vcount, *vmem, *vcore;
    bool is_topology_aware; /**< of sGPU pods that say nothing */
};
