/* gpuslice-sim: how cards sit, what links them, how they are split, what the driver wants done. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/abi/nvml_types.h"
#include "vendors/nvidia/sim/ctl.h"
#include "vendors/nvidia/sim/state.h"

struct word {
    const char *name;
    uint32_t value;
};

/* Value of a word, or -EINVAL. */
static int read_word(const struct word *words, size_t n, const char *text, uint32_t *ret)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(words[i].name, text)) {
            *ret = words[i].value;
            return 0;
        }
    return -EINVAL;
}

static struct gs_layout_card *card_of(const char *text, uint32_t *ret_card)
{
    uint64_t card;
    if (gs_ctl_read_number(text, gs_sim_state->n_cards - 1, &card))
        return NULL;
    *ret_card = (uint32_t)card;
    return &gs_sim_state->seat[card];
}

int gs_ctl_near(int argc, char **argv)
{
    static const struct word levels[] = {
        {"single", NVML_TOPOLOGY_SINGLE},         {"multiple", NVML_TOPOLOGY_MULTIPLE},
        {"hostbridge", NVML_TOPOLOGY_HOSTBRIDGE}, {"node", NVML_TOPOLOGY_NODE},
        {"system", NVML_TOPOLOGY_SYSTEM},         {"board", NVML_TOPOLOGY_INTERNAL},
    };
    uint32_t a, b, level;
    if (argc != 3 || !card_of(argv[0], &a) || !card_of(argv[1], &b) || a == b ||
        read_word(levels, GS_ARRAY_LEN(levels), argv[2], &level))
        return -EINVAL;
    struct gs_layout_card *layout = gs_sim_state->seat;
    layout[a].board[b] = layout[b].board[a] = level == NVML_TOPOLOGY_INTERNAL;
    /* two cards of one board sit behind one switch */
    if (level == NVML_TOPOLOGY_INTERNAL)
        level = NVML_TOPOLOGY_SINGLE;
    layout[a].near[b] = layout[b].near[a] = (uint8_t)level;
    return 0;
}

int gs_ctl_link(int argc, char **argv)
{
    uint64_t n;
    uint32_t a = 0, b = 0;
    int one_way = argc == 4 && !strcmp(argv[3], "--one-way");
    if (argc < 3 || argc > 3 + one_way)
        return -EINVAL;
    int to_switch = !strcmp(argv[1], "switch");
    struct gs_layout_card *from = card_of(argv[0], &a);
    struct gs_layout_card *to = to_switch ? from : card_of(argv[1], &b);
    if (!from || !to || (!to_switch && a == b) || gs_ctl_read_number(argv[2], GS_LAYOUT_LANES, &n))
        return -EINVAL;
    uint32_t had = to_switch ? from->switch_lanes : from->lanes[b], lanes = (uint32_t)n;
    if (gs_layout_lanes(from) - had + lanes > GS_LAYOUT_LANES ||
        (!to_switch && !one_way && gs_layout_lanes(to) - to->lanes[a] + lanes > GS_LAYOUT_LANES))
        return -ENOSPC;
    if (to_switch)
        from->switch_lanes = lanes;
    else
        from->lanes[b] = (uint8_t)n;
    if (!to_switch && !one_way)
        to->lanes[a] = (uint8_t)n;
    return 0;
}

int gs_ctl_mig(int argc, char **argv)
{
    struct gs_layout_part part[GS_LAYOUT_PARTS] = {0};
    uint32_t card, slices = 0;
    struct gs_layout_card *layout = argc > 1 ? card_of(argv[0], &card) : NULL;
    int n = argc - 1;
    if (!layout || n > GS_LAYOUT_PARTS)
        return -EINVAL;
    if (n == 1 && (!strcmp(argv[1], "off") || !strcmp(argv[1], "on"))) {
        layout->n_parts = 0;
        layout->mig = !strcmp(argv[1], "on") ? GS_LAYOUT_MIG_ON : GS_LAYOUT_MIG_OFF;
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (gs_layout_read_part(argv[1 + i], &part[i]))
            return -EINVAL;
        slices += part[i].slices;
    }
    if (slices > GS_LAYOUT_PARTS)
        return -ENOSPC;
    layout->n_parts = 0;
    memcpy(layout->part, part, sizeof(part));
    layout->n_parts = (uint32_t)n;
    layout->mig = GS_LAYOUT_MIG_ON;
    return 0;
}

int gs_ctl_recovery(int argc, char **argv)
{
    static const struct word actions[] = {
        {"none", 0}, {"reset", 1}, {"reboot", 2}, {"drain-p2p", 3}, {"drain-reset", 4},
    };
    uint32_t card, action;
    struct gs_layout_card *layout = argc == 2 ? card_of(argv[0], &card) : NULL;
    if (!layout || read_word(actions, GS_ARRAY_LEN(actions), argv[1], &action))
        return -EINVAL;
    __atomic_store_n(&layout->recovery, action, __ATOMIC_RELAXED);
    return 0;
}

int gs_ctl_driver(int argc, char **argv)
{
    if (argc == 1 && !strcmp(argv[0], "stop"))
        gs_fault_driver_stop(&gs_sim_state->fault);
    else if (argc == 1 && !strcmp(argv[0], "start"))
        gs_fault_driver_start(&gs_sim_state->fault);
    else
        return -EINVAL;
    return 0;
}
