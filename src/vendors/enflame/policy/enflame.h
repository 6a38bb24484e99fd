#pragma once
/* Enflame: whole cards (word "GCU") and hard partitions of cards, DRS (word "Enflame"). */

struct gs_policy_section;

extern const struct gs_policy_section gs_enflame_section;

/** The section "enflame"; NULL: the chart's default, "": not used. */
struct gs_enflame_conf {
    char *gcu, *drs, *mem, *core;
    char *vgcu; /**< older key: the name of `drs` where that is not given */
};
