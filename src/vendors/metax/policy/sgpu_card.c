#include "vendors/metax/policy/sgpu_card.h"

static const char *const qos_name[] = {
    [GS_SGPU_QOS_BEST_EFFORT] = "best-effort",
    [GS_SGPU_QOS_FIXED_SHARE] = "fixed-share",
    [GS_SGPU_QOS_BURST_SHARE] = "burst-share",
};

uint32_t gs_sgpu_card_qos(struct gs_str text)
{
    if (text.n == 0)
        return GS_SGPU_QOS_NONE;
    for (uint32_t i = GS_SGPU_QOS_BEST_EFFORT; i < GS_SGPU_QOS_OTHER; i++)
        if (gs_str_eq_c(text, qos_name[i]))
            return i;
    return GS_SGPU_QOS_OTHER;
}

struct gs_sgpu_crowd gs_sgpu_card_crowd(const struct gs_use *use)
{
    struct gs_sgpu_crowd crowd = {0};

    for (size_t i = 0; i < use->n_tenants; i++) {
        crowd.online += gs_sgpu_card_class(use->tenant[i].tag) == GS_SGPU_CLASS_ONLINE;
        crowd.offline += gs_sgpu_card_class(use->tenant[i].tag) == GS_SGPU_CLASS_OFFLINE;
    }
    return crowd;
}
