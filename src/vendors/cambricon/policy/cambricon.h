#pragma once
/* Cambricon MLU: sMLU slices, whose memory is asked in units of 256 MiB. */

#include <stdint.h>

struct gs_policy_section;

extern const struct gs_policy_section gs_cambricon_section;

/** MiB of one unit of the memory resource. */
#define GS_CAMBRICON_UNIT_MIB 256

/** The section "cambricon"; NULL: the chart's default, "": not used. */
struct gs_cambricon_conf {
    char *count, *mem, *core;
};
