#include "toy.h"

#include <stdlib.h>
#include <string.h>

#include "model/fit.h"
#include "model/request.h"
#include "model/usage.h"
#include "model/usual.h"

/* ---- the vendor ---- */

static void request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                    struct gs_request *ret)
{
    const struct gs_container *c = &pod->container[container];
    struct gs_request r = {.mem_pct = GS_PCT_NONE};

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, policy->names.count, GS_AMOUNT_BOTH, 1, &r.nums) <= 0 ||
        gs_amount_read_i32(c, policy->names.mem, GS_AMOUNT_BOTH, 1, &r.mem_mib) < 0 ||
        gs_amount_read_i32(c, policy->names.mem_pct, GS_AMOUNT_BOTH, 1, &r.mem_pct) < 0 ||
        gs_amount_read_i32(c, policy->names.core, GS_AMOUNT_BOTH, 1, &r.cores) < 0)
        return;
    *ret = r;
}

static const struct gs_policy_ops toy_ops = {
    .admit = gs_usual_admit,
    .request = request,
    .read_node = gs_usual_read_register,
};

static struct gs_policy toy_policy(void)
{
    return (struct gs_policy){
        .word = "Toy",
        .names = {.count = GS_STR("toy.io/gpu"),
                  .mem = GS_STR("toy.io/mem"),
                  .mem_pct = GS_STR("toy.io/mem-percentage"),
                  .core = GS_STR("toy.io/cores")},
        .keys = {.to_allocate = GS_STR("toy.io/to-allocate"),
                 .allocated = GS_STR("toy.io/allocated"),
                 .node_register = GS_STR("toy.io/register"),
                 .use_uuid = GS_STR("toy.io/use-uuid"),
                 .nouse_uuid = GS_STR("toy.io/nouse-uuid"),
                 .use_type = GS_STR("toy.io/use-type"),
                 .nouse_type = GS_STR("toy.io/nouse-type"),
                 .numa_bind = GS_STR("toy.io/numa-bind"),
                 .link_bind = GS_STR("toy.io/link-bind")},
        .mem_factor = 1,
        .quota_factor = 1,
        .is_exclusive_at_100 = true,
    };
}

/* ---- the kit ---- */

void toy_init(struct toy *toy)
{
    memset(toy, 0, sizeof(*toy));
    gs_arena_init(&toy->arena);
    gs_buf_init(&toy->text);
    toy->ops = toy_ops;
    toy->ops.rules = &toy->rules;
    toy->policy = toy_policy();
    toy->policy.ops = &toy->ops;
    assert_int_equal(gs_policies_add(&toy->policies, &toy->arena, &toy->policy), 0);
    toy->pod = (struct gs_pod){.arena = &toy->arena,
                               .ns = GS_STR("default"),
                               .name = GS_STR("pod1"),
                               .uid = GS_STR("uid1"),
                               .container = toy->container};
    toy->group = (struct gs_group){.policy = &toy->policy};
    toy->node = (struct gs_node){.name = GS_STR("node1"),
                                 .dev = toy->dev,
                                 .use = toy->use,
                                 .group = &toy->group,
                                 .n_groups = 1};
    toy->flags = (struct gs_ask_flags){GS_STR("spread"), GS_STR("spread"), NULL};
}

void toy_fini(struct toy *toy)
{
    gs_buf_fini(&toy->text);
    gs_arena_fini(&toy->arena);
}

size_t toy_container(struct toy *toy)
{
    assert_true(toy->pod.n_containers < TOY_MAX);
    return toy->pod.n_containers++;
}

size_t toy_init_container(struct toy *toy)
{
    size_t c = toy_container(toy);

    toy->container[c].is_init = true;
    toy->pod.n_init++;
    return c;
}

size_t toy_sidecar(struct toy *toy)
{
    size_t c = toy_init_container(toy);

    toy->container[c].is_sidecar = true;
    return c;
}

static void limit(struct toy *toy, size_t container, struct gs_str name, int value)
{
    if (value >= 0)
        assert_int_equal(gs_pairs_set(&toy->container[container].limits, &toy->arena, name,
                                      gs_arena_printf(&toy->arena, "%d", value)),
                         0);
}

void toy_wants(struct toy *toy, size_t container, int n, int mem, int pct, int cores)
{
    limit(toy, container, toy->policy.names.count, n);
    limit(toy, container, toy->policy.names.mem, mem);
    limit(toy, container, toy->policy.names.mem_pct, pct);
    limit(toy, container, toy->policy.names.core, cores);
}

void toy_annotate(struct toy *toy, const char *key, const char *value)
{
    assert_int_equal(
        gs_pairs_set(&toy->pod.annotations, &toy->arena, gs_str_of(key), gs_str_of(value)), 0);
}

struct gs_device *toy_device(struct toy *toy, const char *id)
{
    struct gs_device *dev = &toy->dev[toy->node.n_dev];

    assert_true(toy->node.n_dev < TOY_MAX);
    *dev = (struct gs_device){.id = gs_str_of(id),
                              .type = GS_STR("Toy"),
                              .index = (uint32_t)toy->node.n_dev,
                              .count = 10,
                              .mem_mib = 8000,
                              .cores = 100,
                              .is_healthy = true};
    toy->node.n_dev++;
    toy->group.n++;
    return dev;
}

void toy_used(struct toy *toy, int slots, int mem, int cores)
{
    toy->use[toy->node.n_dev - 1] = (struct gs_use){.slots = slots, .mem_mib = mem, .cores = cores};
}

int toy_place(struct toy *toy)
{
    bool may;
    int rc;

    assert_int_equal(
        gs_ask_read(&toy->pod, &toy->policies, &toy->flags, &toy->arena, &toy->ask, &toy->err), 0);
    gs_usage_settle(&toy->node, &toy->room);
    may = gs_place_may(&toy->ask, &toy->node);
    rc = gs_place(&toy->ask, &toy->node, &toy->arena, &toy->placement, &toy->reasons);
    if (rc == 0)
        assert_true(may); /* the quick no is never wrong */
    return rc;
}

int toy_walk(struct toy *toy, struct gs_pick *ret_pick)
{
    uint32_t order[TOY_MAX];
    struct gs_use use[TOY_MAX];
    struct gs_fit fit = {.pod = &toy->pod,
                         .node = &toy->node,
                         .group = &toy->group,
                         .use = use,
                         .order = order,
                         .policy = &toy->ask.device_policy,
                         .arena = &toy->arena,
                         .reasons = &toy->reasons};

    assert_int_equal(
        gs_ask_read(&toy->pod, &toy->policies, &toy->flags, &toy->arena, &toy->ask, &toy->err), 0);
    assert_int_equal(toy->ask.n_lines, 1);
    fit.container = toy->ask.line[0].container;
    fit.request = &toy->ask.line[0].request;
    fit.wish = &toy->ask.vendor[0].wish;
    fit.quota = toy->ask.quota;
    memcpy(use, toy->use, sizeof(use));
    for (uint32_t i = 0; i < toy->group.n; i++)
        order[i] = i;
    return gs_fit_walk(&toy->policy, &toy->rules, &fit, ret_pick);
}

const char *toy_given(struct toy *toy)
{
    gs_buf_clear(&toy->text);
    for (size_t c = 0; c < toy->pod.n_containers; c++) {
        bool any = false;

        for (size_t i = 0; i < toy->placement.n; i++) {
            const struct gs_taken *t = &toy->placement.taken[i];

            if (t->container != c)
                continue;
            gs_buf_addf(&toy->text, "%s%.*s", any ? "," : "", (int)toy->dev[t->pick.dev].id.n,
                        toy->dev[t->pick.dev].id.p);
            any = true;
        }
        gs_buf_adds(&toy->text, ";");
    }
    return gs_buf_text(&toy->text);
}

const char *toy_reasons(struct toy *toy)
{
    gs_buf_clear(&toy->text);
    gs_reasons_write(&toy->reasons, &toy->text);
    return gs_buf_text(&toy->text);
}

const char *toy_written(struct toy *toy, const char *key)
{
    struct gs_pairs pairs = {0};
    const struct gs_str *value;

    assert_int_equal(gs_place_annotate(&toy->ask, &toy->placement, INT64_C(1700000000123456789),
                                       &toy->arena, &pairs),
                     0);
    value = gs_pairs_find(&pairs, gs_str_of(key));
    return value != NULL ? gs_arena_str(&toy->arena, *value).p : NULL;
}

uint32_t toy_seed(void)
{
    const char *given = getenv("GS_SEED");
    uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 0) : 20260821;

    print_message("GS_SEED=%u\n", seed);
    return seed;
}

uint32_t toy_random(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}
