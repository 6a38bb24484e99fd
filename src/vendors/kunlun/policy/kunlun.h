#pragma once
/* Kunlunxin: whole cards (word "kunlun") and shares of cards (word "XPU"). */

struct gs_policy_section;

extern const struct gs_policy_section gs_kunlun_section;

/** The section "kunlun"; NULL: the chart's default, "": not used. */
struct gs_kunlun_conf {
    char *count, *vcount, *vmem;
};
