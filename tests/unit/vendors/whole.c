#include "whole.h"

#include "model/place.h"

int whole_place(struct kit *kit, const struct gs_ns_quota *quota, int64_t now_ns,
                struct gs_pairs *ret)
{
    const struct gs_ask_flags flags = {
        .device_policy = GS_STR("spread"),
        .node_policy = GS_STR("binpack"),
        .quota = quota,
    };
    struct gs_placement placement;
    struct gs_ask ask;
    int rc;

    assert_int_equal(gs_ask_read(&kit->pod, &kit->policies, &flags, &kit->arena, &ask, &kit->err),
                     0);
    rc = gs_place(&ask, &kit->node, &kit->arena, &placement, &kit->reasons);
    if (rc < 0)
        return rc;
    *ret = (struct gs_pairs){0};
    assert_int_equal(gs_place_annotate(&ask, &placement, now_ns, &kit->arena, ret), 0);
    return 0;
}
