#pragma once
/* Hygon DCU: shares of cards that the vendor's driver holds. */

#include <stdint.h>

struct gs_policy_section;

extern const struct gs_policy_section gs_hygon_section;

/** The section "hygon"; NULL: the chart's default, "": not used. */
struct gs_hygon_conf {
    char *count, *mem, *core;
    int32_t *mem_factor;
};
