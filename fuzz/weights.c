/* Weights, a policy and a list of types of a pod's annotations, of any content, parted by a zero
 * byte. Weights that are taken are three numbers from 0 on, not all 0, and any card has a score. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/order.h"
#include "model/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gs_device_policy *p)
{
    const struct gs_device dev = {.count = 10, .cores = 100, .mem_mib = 8000};
    const struct gs_use use = {.slots = 1, .mem_mib = 10, .cores = 1};

    if (p->n_chain < 1 || p->n_chain > GS_ARRAY_LEN(p->chain))
        abort();
    if (p->w_slot < 0 || p->w_core < 0 || p->w_mem < 0 || p->w_slot + p->w_core + p->w_mem <= 0)
        abort();
    if (isnan(gs_order_score(p, &dev, &use, 1, 1, 1)))
        abort();
}

static void add(struct gs_pod *pod, struct gs_str *rest, struct gs_str key)
{
    struct gs_str value;

    if (gs_str_cut(rest, '\0', &value) &&
        gs_pairs_set(&pod->annotations, pod->arena, key, value) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gs_keys keys = {.use_uuid = GS_STR("u"), .use_type = GS_STR("t")};
    struct gs_str rest = {(const char *)data, size};
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_device_policy p;
    struct gs_selection s;
    struct gs_err err = {0};

    add(&pod, &rest, GS_STR("hami.io/device-scoring-weights"));
    add(&pod, &rest, GS_STR("hami.io/gpu-scheduler-policy"));
    add(&pod, &rest, keys.use_type);
    add(&pod, &rest, keys.use_uuid);
    if (gs_order_read(&pod, GS_STR("spread"), &p, &err) == 0)
        check(&p);
    else if (err.text[0] == '\0')
        abort();
    if (gs_select_read(&pod, &keys, &arena, &s) != 0)
        abort();
    for (size_t i = 0; i < s.use_uuid.n; i++)
        if (!gs_select_takes_uuid(&s, s.use_uuid.at[i]))
            abort();
    for (size_t i = 0; i < s.use_type.n; i++)
        if (!gs_select_takes_type(&s, s.use_type.at[i]))
            abort();
    gs_arena_fini(&arena);
    return 0;
}
