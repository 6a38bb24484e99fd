/* A node and a pod of any content before every vendor's policy: nothing is read beyond its end, and
 * what is placed is on the node, was open, and is written down in a form that reads back. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/grant.h"
#include "model/node.h"
#include "model/place.h"
#include "model/policy.h"
#include "vendors/registry_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gs_arena config;
static struct gs_policies policies;

static void make_policies(void)
{
    gs_arena_init(&config);
    for (size_t i = 0; i < gs_registry_policy_n; i++)
        if (gs_registry_policy[i]->make(NULL, false, &config, &policies, NULL) != 0)
            abort();
}

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct input *in)
{
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

/* Up to the next newline. */
static struct gs_str line(struct input *in)
{
    struct gs_str text = {(const char *)in->p, in->n};
    struct gs_str part = {0};

    if (gs_str_cut(&text, '\n', &part))
        *in = (struct input){(const uint8_t *)text.p, text.n};
    return part;
}

static void set(struct gs_arena *arena, struct gs_pairs *pairs, struct gs_str key,
                struct gs_str value)
{
    if (key.n > 0 && gs_pairs_set(pairs, arena, key, value) != 0)
        abort();
}

static void set_names(struct gs_arena *arena, struct gs_pairs *pairs, const struct gs_names *names,
                      struct input *in)
{
    const struct gs_str name[] = {names->count, names->mem, names->mem_pct, names->core};

    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        struct gs_str value = line(in);

        if (value.n > 0)
            set(arena, pairs, name[i], value);
    }
}

/* Annotations that vendors read beside their keys. */
static const char *const node_keys[] = {
    "metax-tech.com/gpu.topology.losses",
    "metax-tech.com/gpu.topology.scores",
    "hami.io/node-nvidia-score",
    "hami-vnpu-core",
};
static const char *const pod_keys[] = {
    "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy", "nvidia.com/vgpu-mode",
    "huawei.com/vnpu-mode",          "hami.io/gpu-scheduler-policy",
};

static int read_node(const struct gs_policy *policy, struct input *in, struct gs_arena *arena,
                     struct gs_node *ret, struct gs_group *group)
{
    struct gs_pairs annotations = {0}, labels = {0}, capacity = {0};
    const struct gs_node_view view = {GS_STR("node1"), &annotations, &labels, &capacity, &capacity};
    struct gs_device *dev = NULL;
    struct gs_use *use;
    struct gs_str text;

    set_names(arena, &capacity, &policy->names, in);
    text = line(in);
    for (size_t i = 0; i < sizeof(node_keys) / sizeof(node_keys[0]); i++)
        set(arena, &annotations, gs_str_of(node_keys[i]), text);
    set(arena, &labels, GS_STR("node.kubernetes.io/instance-type"), text);
    set(arena, &annotations, policy->keys.node_register, line(in));
    *group = (struct gs_group){.policy = policy};
    if (gs_node_read(policy, &view, arena, &dev, group, NULL) < 0)
        return -1;
    use = GS_ARENA_ARRAY(arena, group->n, struct gs_use);
    for (uint32_t i = 0; i < group->n; i++)
        use[i] = (struct gs_use){
            .slots = byte(in) % 4, .mem_mib = byte(in) * 256, .cores = byte(in) % 128};
    *ret = (struct gs_node){.name = view.name,
                            .dev = dev,
                            .use = use,
                            .n_dev = group->n,
                            .group = group,
                            .n_groups = 1};
    return 0;
}

static void check(const struct gs_ask *ask, const struct gs_placement *placement,
                  const struct gs_policy *policy, struct gs_arena *arena)
{
    const struct gs_node *node = placement->node;
    struct gs_pairs pairs = {0};
    struct gs_grant grant;
    const struct gs_str *text;

    for (size_t i = 0; i < placement->n; i++) {
        uint32_t at = placement->taken[i].pick.dev;

        if (at >= node->n_dev || !node->dev[at].is_healthy)
            abort();
    }
    if (gs_place_annotate(ask, placement, 1, arena, &pairs) != 0)
        abort();
    text = gs_pairs_find(&pairs, policy->keys.allocated);
    if (placement->n > 0 && (text == NULL || gs_grant_read(*text, arena, &grant, NULL) != 0))
        abort();
}

static void place(const struct gs_policy *policy, struct input *in, struct gs_arena *arena)
{
    struct gs_container container[2] = {{.name = GS_STR("c0")}, {.name = GS_STR("c1")}};
    struct gs_pod pod = {.arena = arena,
                         .ns = GS_STR("default"),
                         .name = GS_STR("pod1"),
                         .uid = GS_STR("uid1"),
                         .container = container,
                         .n_containers = 2};
    const struct gs_ask_flags flags = {.device_policy = GS_STR("spread"),
                                       .node_policy = GS_STR("binpack")};
    struct gs_placement placement;
    struct gs_reasons reasons;
    struct gs_group group;
    struct gs_node node;
    struct gs_ask ask;

    pod.n_init = byte(in) % 2;
    container[0].is_init = pod.n_init > 0;
    for (size_t i = 0; i < sizeof(pod_keys) / sizeof(pod_keys[0]); i++)
        set(arena, &pod.annotations, gs_str_of(pod_keys[i]), line(in));
    set(arena, &pod.annotations, policy->keys.use_uuid, line(in));
    set(arena, &pod.annotations, policy->keys.nouse_type, line(in));
    for (size_t c = 0; c < 2; c++) {
        set_names(arena, &container[c].limits, &policy->names, in);
        if (policy->ops->admit(policy, &pod, c, NULL) < 0)
            return;
    }
    if (read_node(policy, in, arena, &node, &group) < 0 ||
        gs_ask_read(&pod, &policies, &flags, arena, &ask, NULL) != 0 ||
        gs_place(&ask, &node, arena, &placement, &reasons) != 0)
        return;
    check(&ask, &placement, policy, arena);
}

/* The API server has no text but UTF-8: other bytes come from nowhere. */
static const uint8_t *as_text(struct gs_arena *arena, const uint8_t *data, size_t size)
{
    uint8_t *text = GS_ARENA_ARRAY(arena, size, uint8_t);

    for (size_t i = 0; i < size; i++)
        text[i] = data[i] < 0x80 || i == 0 ? data[i] : '?';
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct gs_arena arena;

    if (policies.n == 0)
        make_policies();
    gs_arena_init(&arena);
    in.p = as_text(&arena, data, size);
    place(policies.at[byte(&in) % policies.n], &in, &arena);
    gs_arena_fini(&arena);
    return 0;
}
