#include "model/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/order.h"
#include "model/request.h"
#include "model/usage.h"
#include "model/usual.h"
#include "toy.h"

static void want_given(struct toy *toy, const char *given)
{
    assert_int_equal(toy_place(toy), 0);
    assert_string_equal(toy_given(toy), given);
}

/* A12.1 */
static void one_device(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_device(&toy, "uuid1");
    toy_used(&toy, 5, 4000, 50);
    toy_wants(&toy, toy_container(&toy), 1, 1000, -1, 30);
    want_given(&toy, "uuid1;");
    assert_float_equal(toy.placement.score, 15, 1e-9);
    assert_string_equal(toy_written(&toy, "toy.io/allocated"), "uuid1,Toy,1000,30:;");
    assert_string_equal(toy_written(&toy, "toy.io/to-allocate"), "uuid1,Toy,1000,30:;");
    assert_string_equal(toy_written(&toy, "hami.io/vgpu-node"), "node1");
    assert_string_equal(toy_written(&toy, "hami.io/vgpu-time"), "1700000000");
    toy_fini(&toy);
}

static void two_idle(struct toy *toy)
{
    toy_init(toy);
    toy_device(toy, "uuid1")->index = 0;
    toy_device(toy, "uuid2")->index = 0; /* as in HAMi's tests: the order of the list decides */
}

/* A12.3 to A12.9 */
static void containers(void **state)
{
    struct toy toy;

    (void)state;
    two_idle(&toy);
    toy_wants(&toy, toy_container(&toy), 1, 1000, -1, 30);
    want_given(&toy, "uuid2;"); /* 3 */
    toy_wants(&toy, 0, 2, 1000, -1, 30);
    want_given(&toy, "uuid2,uuid1;"); /* 4 */
    toy_fini(&toy);

    two_idle(&toy);
    toy_wants(&toy, toy_container(&toy), 1, 8000, -1, 0);
    toy_wants(&toy, toy_container(&toy), 1, 1000, -1, 0);
    want_given(&toy, "uuid2;uuid1;"); /* 7 */
    toy_fini(&toy);

    toy_init(&toy);
    toy_device(&toy, "uuid1");
    toy_init_container(&toy);
    toy_wants(&toy, toy_init_container(&toy), 1, 1000, -1, 30);
    toy_wants(&toy, toy_container(&toy), 1, 1000, -1, 30);
    want_given(&toy, ";uuid1;uuid1;"); /* 8 */
    /* 1.6: every container has its slot, by the vendor's word */
    assert_string_equal(toy_written(&toy, "toy.io/allocated"),
                        ";uuid1,Toy,1000,30:;uuid1,Toy,1000,30:;");
    toy_fini(&toy);

    two_idle(&toy);
    toy_wants(&toy, toy_init_container(&toy), 2, 1000, -1, 30);
    toy_wants(&toy, toy_container(&toy), 1, 1000, -1, 30);
    want_given(&toy, "uuid2,uuid1;uuid2;"); /* 9 */
    toy_fini(&toy);
}

/* The two nodes of A12.11 to A12.15. */
static void set_node1(struct toy *toy)
{
    toy_device(toy, "device1");
    toy_used(toy, 1, 2000, 25);
    toy_device(toy, "device2");
}

static void set_node2(struct toy *toy)
{
    toy_device(toy, "device3");
    toy_device(toy, "device4");
    toy_used(toy, 1, 6000, 75);
}

/* The better of the two nodes, as 3.2 step 6 has it: the highest score for binpack, the lowest for
 * spread. */
static void want_choice(const char *node_policy, const char *device_policy, const int init[2],
                        const int app[2], const char *node, const char *given)
{
    struct toy toy[2], *best;
    bool is_first;

    for (int i = 0; i < 2; i++) {
        toy_init(&toy[i]);
        (i == 0 ? set_node1 : set_node2)(&toy[i]);
        toy[i].flags.node_policy = gs_str_of(node_policy);
        toy[i].flags.device_policy = gs_str_of(device_policy);
        if (init != NULL)
            toy_wants(&toy[i], toy_init_container(&toy[i]), 1, init[0], -1, init[1]);
        toy_wants(&toy[i], toy_container(&toy[i]), 1, app[0], -1, app[1]);
        assert_int_equal(toy_place(&toy[i]), 0);
    }
    is_first = toy[0].ask.is_node_spread ? toy[0].placement.score < toy[1].placement.score
                                         : toy[0].placement.score > toy[1].placement.score;
    best = is_first ? &toy[0] : &toy[1];
    assert_string_equal(is_first ? "node1" : "node2", node);
    assert_string_equal(toy_given(best), given);
    toy_fini(&toy[0]);
    toy_fini(&toy[1]);
}

static void choices(void **state)
{
    const int pod[2] = {1000, 20}, init[2] = {5000, 20}, app[2] = {4000, 20};

    (void)state;
    want_choice("binpack", "binpack", NULL, pod, "node2", "device4;");         /* 11 */
    want_choice("binpack", "spread", NULL, pod, "node2", "device3;");          /* 12 */
    want_choice("spread", "binpack", NULL, pod, "node1", "device1;");          /* 13 */
    want_choice("binpack", "binpack", init, app, "node2", "device3;device3;"); /* 15 */
}

/* The annotation beats the daemon's flag; anything but spread is binpack. */
static void node_policies(void **state)
{
    static const struct {
        const char *flag, *annotation;
        bool want;
    } vectors[] = {{"spread", NULL, true},
                   {"binpack", NULL, false},
                   {"binpack", "spread", true},
                   {"spread", "binpack", false},
                   {"spread", "else", false}};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(vectors); i++) {
        struct toy toy;

        toy_init(&toy);
        toy.flags.node_policy = gs_str_of(vectors[i].flag);
        if (vectors[i].annotation != NULL)
            toy_annotate(&toy, "hami.io/node-scheduler-policy", vectors[i].annotation);
        toy_wants(&toy, toy_container(&toy), 1, 1, -1, -1);
        toy_device(&toy, "a");
        assert_int_equal(toy_place(&toy), 0);
        assert_int_equal(toy.ask.is_node_spread, vectors[i].want);
        toy_fini(&toy);
    }
}

/* An init container has the card to itself, and then the app containers have. */
static void init_containers(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_device(&toy, "a");
    for (int i = 0; i < 3; i++)
        toy_wants(&toy, toy_init_container(&toy), 1, 8000, -1, 0);
    toy_wants(&toy, toy_container(&toy), 1, 4000, -1, 0);
    toy_wants(&toy, toy_container(&toy), 1, 4000, -1, 0);
    want_given(&toy, "a;a;a;a;a;");
    toy_wants(&toy, 4, 1, 4001, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "1/1 CardInsufficientMemory");
    toy_fini(&toy);
}

/* A sidecar stays beside the init containers after it and the app containers. */
static void sidecars(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_device(&toy, "a");
    toy_wants(&toy, toy_init_container(&toy), 1, 8000, -1, 0); /* before the sidecar */
    toy_wants(&toy, toy_sidecar(&toy), 1, 3000, -1, 0);
    toy_wants(&toy, toy_init_container(&toy), 1, 5000, -1, 0);
    toy_wants(&toy, toy_container(&toy), 1, 5000, -1, 0);
    want_given(&toy, "a;a;a;a;");
    assert_true(toy.placement.taken[0].is_gone);
    assert_false(toy.placement.taken[1].is_gone);
    toy_wants(&toy, 2, 1, 5001, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    toy_wants(&toy, 2, 1, 5000, -1, 0);
    toy_wants(&toy, 3, 1, 5001, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    toy_fini(&toy);
}

/* ---- several vendors on one node: the second is one row more ---- */

static double score_picks(const struct gs_policy *policy, const struct gs_assignment *a,
                          bool is_spread)
{
    double n = 0;

    (void)policy;
    for (size_t i = 0; i < a->pod->n_containers; i++)
        n += (double)a->n_picks[i];
    return is_spread ? -1000 * n : 1000 * n;
}

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    const struct gs_device *dev = &a->node->dev[a->pick[1][0].dev];

    (void)policy;
    assert_int_equal(a->n_picks[0], 0);
    assert_int_equal(a->n_picks[1], 2);
    assert_int_equal(a->request[1].nums, 2);
    assert_int_equal(a->now_s, 1700000000);
    return gs_pairs_set(ret, arena, GS_STR("toy2.io/first"), dev->id);
}

static void two_vendors(void **state)
{
    struct toy toy;
    struct gs_policy second;
    struct gs_policy_ops ops;
    struct gs_group groups[2];
    struct gs_room rooms[2];

    (void)state;
    toy_init(&toy);
    second = toy.policy;
    ops = toy.ops;
    ops.score = score_picks;
    ops.annotate = annotate;
    second.ops = &ops;
    second.word = "Toy2";
    second.writes_own_type = true;
    second.names = (struct gs_names){.count = GS_STR("toy2.io/gpu")};
    second.keys = (struct gs_keys){.allocated = GS_STR("toy2.io/allocated")};
    assert_int_equal(gs_policies_add(&toy.policies, &toy.arena, &second), 0);
    toy_device(&toy, "a");
    toy_device(&toy, "x")->type = GS_STR("Model, odd;");
    toy_device(&toy, "y")->type = GS_STR("Model 2");
    groups[0] = (struct gs_group){&toy.policy, 0, 1, NULL};
    groups[1] = (struct gs_group){&second, 1, 2, NULL};
    toy.node.group = groups;
    toy.node.n_groups = 2;
    toy_wants(&toy, toy_container(&toy), 1, 1000, -1, 30);
    toy_container(&toy);
    assert_int_equal(
        gs_pairs_set(&toy.container[1].limits, &toy.arena, GS_STR("toy2.io/gpu"), GS_STR("2")), 0);
    assert_int_equal(
        gs_ask_read(&toy.pod, &toy.policies, &toy.flags, &toy.arena, &toy.ask, &toy.err), 0);
    assert_true(gs_ask_wants(&toy.ask, &second) && gs_ask_wants(&toy.ask, &toy.policy));
    assert_true(toy.ask.has_scores);
    gs_usage_settle(&toy.node, rooms);
    assert_true(gs_place_may(&toy.ask, &toy.node));
    assert_int_equal(gs_place(&toy.ask, &toy.node, &toy.arena, &toy.placement, &toy.reasons), 0);
    assert_string_equal(toy_given(&toy), "a;y,x;");
    assert_float_equal(toy.placement.score, -2000, 1e-9);
    assert_string_equal(toy_written(&toy, "toy.io/allocated"), "a,Toy,1000,30:;;");
    /* the device's type, but for one that would break the text */
    assert_string_equal(toy_written(&toy, "toy2.io/allocated"), ";y,Model 2,0,0:x,Toy2,0,0:;");
    assert_string_equal(toy_written(&toy, "toy2.io/first"), "y");
    toy.dev[2].type = (struct gs_str){0}; /* none: the word */
    assert_string_equal(toy_written(&toy, "toy2.io/allocated"), ";y,Toy2,0,0:x,Toy2,0,0:;");
    toy.dev[2].type = GS_STR("Model 2");
    assert_null(toy_written(&toy, "toy2.io/to-allocate"));
    /* a node without one of the vendors */
    toy.node.n_groups = 1;
    assert_false(gs_place_may(&toy.ask, &toy.node));
    assert_int_equal(gs_place(&toy.ask, &toy.node, &toy.arena, &toy.placement, &toy.reasons),
                     -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "NodeInsufficientDevice");
    toy_fini(&toy);
}

static void asks(void **state)
{
    struct gs_arena broken = {.failed = true};
    struct gs_ask ask;
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_container(&toy);
    toy_device(&toy, "a");
    assert_int_equal(toy_place(&toy), 0); /* nothing asked, nothing taken */
    assert_int_equal(toy.ask.n_lines, 0);
    assert_int_equal(toy.placement.n, 0);
    toy_wants(&toy, 0, 1, 1, -1, -1);
    assert_int_equal(gs_ask_read(&toy.pod, &toy.policies, &toy.flags, &broken, &ask, &toy.err),
                     -ENOMEM);
    toy_annotate(&toy, "hami.io/device-scoring-weights", "slot=1");
    assert_int_equal(gs_ask_read(&toy.pod, &toy.policies, &toy.flags, &toy.arena, &ask, &toy.err),
                     -EINVAL);
    assert_string_equal(toy.err.text, "invalid hami.io/device-scoring-weights annotation "
                                      "\"slot=1\": expected slot, core, and memory weights");
    toy_fini(&toy);
}

/* A vendor that asks for less than nothing gives nothing back. */
static void negative(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                     struct gs_request *ret)
{
    (void)policy;
    (void)pod;
    (void)container;
    *ret = (struct gs_request){.nums = 1, .mem_mib = -5, .cores = -5, .mem_pct = GS_PCT_NONE};
}

static void negative_requests(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy.ops.request = negative;
    toy_device(&toy, "a");
    toy_wants(&toy, toy_container(&toy), 1, 1, -1, -1);
    assert_int_equal(toy_place(&toy), 0);
    assert_int_equal(toy.placement.taken[0].pick.mem_mib, 0);
    assert_int_equal(toy.placement.taken[0].pick.cores, 0);
    toy_fini(&toy);
}

/* More cards than a plain insertion sorts: the same order. */
static void many_cards(void **state)
{
    char names[TOY_MAX][16];
    struct toy toy;

    (void)state;
    toy_init(&toy);
    for (int i = 0; i < TOY_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "d%d", i);
        toy_device(&toy, names[i]);
        toy_used(&toy, (i * 37) % 9, 0, 0);
    }
    toy_wants(&toy, toy_container(&toy), 9, 1, -1, -1);
    assert_int_equal(toy_place(&toy), 0);
    for (size_t i = 1; i < 9; i++) {
        uint32_t a = toy.placement.taken[i - 1].pick.dev, b = toy.placement.taken[i].pick.dev;

        assert_true(toy.use[a].slots < toy.use[b].slots ||
                    (toy.use[a].slots == toy.use[b].slots && a > b));
    }
    /* of equal ones with one index the later in the list comes first, as with few */
    for (int i = 0; i < TOY_MAX; i++) {
        toy.dev[i].index = 0;
        toy.use[i].slots = 0;
    }
    assert_int_equal(toy_place(&toy), 0);
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(toy.placement.taken[i].pick.dev, TOY_MAX - 1 - i);
    toy_fini(&toy);
}

/* What a quick look at a node tells: never no where a walk would say yes (toy_place() checks that
 * in every test), and no where it can know. */
static void quick_no(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_device(&toy, "a");
    toy_used(&toy, 1, 5000, 50);
    toy_device(&toy, "b");
    toy_used(&toy, 1, 6000, 20);
    toy_device(&toy, "c")->is_healthy = false;
    toy_device(&toy, "d");
    toy_used(&toy, 10, 0, 0);
    toy_wants(&toy, toy_container(&toy), 1, 3000, -1, 10);
    assert_int_equal(toy_place(&toy), 0);
    assert_true(gs_place_may(&toy.ask, &toy.node));
    toy_wants(&toy, 0, 2, 3000, -1, 10);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_false(gs_place_may(&toy.ask, &toy.node)); /* the second has 2000 */
    toy_wants(&toy, 0, 2, 2000, -1, 51);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_false(gs_place_may(&toy.ask, &toy.node));
    toy_wants(&toy, 0, 3, 1, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_false(gs_place_may(&toy.ask, &toy.node)); /* two are open */
    toy.node.room = NULL;                            /* without a sum: by the cards */
    assert_true(gs_place_may(&toy.ask, &toy.node));
    toy.use[0].is_closed = true;
    toy.use[1].slots = 10;
    assert_false(gs_place_may(&toy.ask, &toy.node));
    toy_fini(&toy);
}

static void book_double(const struct gs_policy *policy, const struct gs_device *dev,
                        struct gs_use *use, const struct gs_pick *pick)
{
    (void)policy;
    (void)dev;
    use->slots += 2;
    use->mem_mib += pick->mem_mib;
}

static void usage(void **state)
{
    const struct gs_tenant tenant[] = {{.slots = 1, .mem_mib = 10, .cores = 1},
                                       {.slots = 2, .mem_mib = 20, .cores = 2},
                                       {.slots = 0, .mem_mib = 99, .cores = 9},
                                       {.slots = 1, .mem_mib = INT32_MAX, .cores = 1}};
    struct gs_use use = {.tenant = tenant, .n_tenants = 3, .is_closed = true, .slots = 77};
    struct toy toy;

    (void)state;
    toy_init(&toy);
    gs_usage_sum(&toy.policy, toy_device(&toy, "a"), &use);
    assert_int_equal(use.slots, 3);
    assert_int_equal(use.mem_mib, 30);
    assert_int_equal(use.cores, 3);
    assert_true(use.is_closed);
    use.n_tenants = 4;
    gs_usage_sum(&toy.policy, &toy.dev[0], &use);
    assert_int_equal(use.mem_mib, INT32_MAX);
    toy.ops.book = book_double;
    use.n_tenants = 2;
    gs_usage_sum(&toy.policy, &toy.dev[0], &use);
    assert_int_equal(use.slots, 2 + 2 + 1);
    assert_int_equal(use.cores, 0);
    assert_int_equal(gs_usage_add(INT32_MIN, -1), INT32_MIN);
    toy_fini(&toy);
}

/* A10: a card's score has the request in it where its type is the vendor's word. 0 percent beside a
 * number of MiB (gs_usual_request()) means these MiB. 300 of 1000 and 2000 of 4000 are used; with
 * 500 more it is 80 % and 62.5 %, and spread takes the less used one. */
static void score_of_mib(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy.ops.request = gs_usual_request;
    toy_device(&toy, "small")->mem_mib = 1000;
    toy_used(&toy, 1, 300, 0);
    toy_device(&toy, "large")->mem_mib = 4000;
    toy_used(&toy, 1, 2000, 0);
    toy_wants(&toy, toy_container(&toy), 1, 500, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "large;");
    toy.dev[0].type = toy.dev[1].type = GS_STR("Model"); /* without the request */
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "small;");
    toy_fini(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(score_of_mib),  cmocka_unit_test(one_device),
        cmocka_unit_test(containers),    cmocka_unit_test(choices),
        cmocka_unit_test(node_policies), cmocka_unit_test(init_containers),
        cmocka_unit_test(sidecars),      cmocka_unit_test(two_vendors),
        cmocka_unit_test(asks),          cmocka_unit_test(negative_requests),
        cmocka_unit_test(many_cards),    cmocka_unit_test(quick_no),
        cmocka_unit_test(usage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
