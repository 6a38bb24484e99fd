#pragma once
/* How cards sit in the simulated machine and how they are split, as NVML tells it. Part of the card
 * file; zeroed memory means: no links, one processor, no MIG, nothing to recover from. Written by
 * gpuslice-sim alone, a word at a time; a reader takes what it finds.
 *
 * MIG instances are NVML's only: libcuda serves the whole card, whatever its mode. */

#include <stdint.h>

#include "core/cleanup.h"

#define GS_LAYOUT_CARDS 64 /* GS_SIM_CARDS_MAX */
#define GS_LAYOUT_PARTS 7  /* instances of one slice each that an A100 takes */
#define GS_LAYOUT_LANES 18 /* links of an H100 */

/** One MIG device: a GPU instance with one compute instance on all of it. */
struct gs_layout_part {
    char profile[24];   /* "1g.5gb", "1g.10gb+me" */
    uint32_t slices;    /* the number before "g" */
    uint32_t memory_mb; /* the number before "gb" in MiB, less 256: 4864 of 1g.5gb, as on an A100 */
};

enum gs_layout_mig {
    GS_LAYOUT_MIG_UNKNOWN = 0, /* a card that has no MIG */
    GS_LAYOUT_MIG_OFF,
    GS_LAYOUT_MIG_ON,
};

struct gs_layout_card {
    uint32_t recovery; /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION */
    uint32_t mig;      /* enum gs_layout_mig */
    uint32_t n_parts;
    uint32_t switch_lanes;          /* NVLinks to the switch */
    uint8_t lanes[GS_LAYOUT_CARDS]; /* NVLinks to each other card, as this card has them */
    uint8_t near[GS_LAYOUT_CARDS];  /* NVML's topology level to each; 0: NVML_TOPOLOGY_NODE */
    uint8_t board[GS_LAYOUT_CARDS]; /* 1: on the same board */
    struct gs_layout_part part[GS_LAYOUT_PARTS];
};

/** All NVLinks of a card. */
uint32_t gs_layout_lanes(const struct gs_layout_card *card);
/** Who is at the other end of NVLink `lane`: a card, GS_LAYOUT_CARDS for the switch, or -ENOENT. */
int gs_layout_remote(const struct gs_layout_card *card, uint32_t lane);
/** "Ng.Mgb", "Ng.Mgb+WORD". 0 or -EINVAL. */
GS_WUR int gs_layout_read_part(const char *profile, struct gs_layout_part *ret);
