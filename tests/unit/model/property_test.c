/* Properties that hold for any pod on any node, on many random ones. GS_SEED repeats a run. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/collapse.h"
#include "model/grant.h"
#include "model/ns_quota.h"
#include "model/register.h"
#include "model/usage.h"
#include "toy.h"

#define ROUNDS 1500

static uint32_t seed;

static int setup(void **state)
{
    (void)state;
    seed = toy_seed();
    return 0;
}

/* ---- books of one node, kept by the tests themselves ---- */

struct held {
    struct gs_share_of share[TOY_MAX];
    size_t n;
};

static const char names[][4] = {"a", "b", "c", "d", "e", "f", "g", "h"};

static void random_node(struct toy *toy, uint32_t *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct gs_device *dev = toy_device(toy, names[i]);

        dev->count = 1 + (int32_t)toy_random(r, 6);
        dev->mem_mib = 1000 * (1 + (int32_t)toy_random(r, 8));
        dev->numa = (int32_t)toy_random(r, 2);
        dev->is_healthy = toy_random(r, 10) != 0;
        dev->mode = toy_random(r, 4) == 0 ? GS_STR("mig") : (struct gs_str){0};
    }
}

static void random_wants(struct toy *toy, uint32_t *r, size_t container)
{
    int pct = toy_random(r, 3) == 0 ? (int)toy_random(r, 101) : -1;

    toy_wants(toy, container, 1 + (int)toy_random(r, 3), pct >= 0 ? -1 : (int)toy_random(r, 5000),
              pct, toy_random(r, 2) == 0 ? (int)toy_random(r, 101) : -1);
}

static void random_pod(struct toy *toy, uint32_t *r)
{
    static const char *const policy[] = {"binpack", "spread",       "mutex",
                                         "numa",    "binpack,numa", "mutex,spread"};
    size_t inits = toy_random(r, 3), apps = 1 + toy_random(r, 3);

    memset(toy->container, 0, sizeof(toy->container));
    toy->pod.annotations = (struct gs_pairs){0};
    toy->pod.n_containers = toy->pod.n_init = 0;
    for (size_t i = 0; i < inits; i++) {
        size_t c = toy_random(r, 3) == 0 ? toy_sidecar(toy) : toy_init_container(toy);

        if (toy_random(r, 4) != 0)
            random_wants(toy, r, c);
    }
    for (size_t i = 0; i < apps; i++) {
        size_t c = toy_container(toy);

        if (toy_random(r, 5) != 0)
            random_wants(toy, r, c);
    }
    toy_annotate(toy, "hami.io/gpu-scheduler-policy", policy[toy_random(r, 6)]);
    if (toy_random(r, 3) == 0)
        toy_annotate(toy, "toy.io/numa-bind", "true");
}

/* What the books will make of the pod: the grant's text, read back and collapsed. */
static void hold(struct toy *toy, struct held *held)
{
    const char *text = toy_written(toy, "toy.io/allocated");
    bool is_app[TOY_MAX];
    struct gs_slots slots = {.n_init = toy->pod.n_init, .is_app = is_app};
    struct gs_share_of *share = NULL;
    struct gs_grant grant = {0};

    for (size_t i = 0; i < toy->pod.n_containers; i++)
        is_app[i] = !toy->container[i].is_init || toy->container[i].is_sidecar;
    held->n = 0;
    if (text == NULL)
        return;
    assert_int_equal(gs_grant_read(gs_str_of(text), &toy->arena, &grant, NULL), 0);
    assert_int_equal(grant.n, toy->pod.n_containers);
    assert_int_equal(gs_collapse(&grant, &slots, &toy->arena, &share, &held->n), 0);
    memcpy(held->share, share, held->n * sizeof(*share));
    for (size_t i = 0; i < held->n; i++) /* beyond the arena's next reset */
        for (size_t d = 0; d < toy->node.n_dev; d++)
            if (gs_str_eq(held->share[i].uuid, toy->dev[d].id))
                held->share[i].uuid = toy->dev[d].id;
}

static void derive(struct toy *toy, const struct held *held, size_t n)
{
    for (size_t d = 0; d < toy->node.n_dev; d++) {
        struct gs_tenant tenant[TOY_MAX];
        size_t n_tenants = 0;

        for (size_t p = 0; p < n; p++)
            for (size_t i = 0; i < held[p].n; i++)
                if (gs_str_eq(held[p].share[i].uuid, toy->dev[d].id))
                    tenant[n_tenants++] = (struct gs_tenant){.slots = held[p].share[i].slots,
                                                             .mem_mib = held[p].share[i].mem_mib,
                                                             .cores = held[p].share[i].cores};
        toy->use[d] = (struct gs_use){.tenant = tenant, .n_tenants = n_tenants};
        gs_usage_sum(&toy->policy, &toy->dev[d], &toy->use[d]);
        toy->use[d].tenant = NULL;
        toy->use[d].n_tenants = 0;
    }
}

static void check_use(const struct toy *toy)
{
    for (size_t d = 0; d < toy->node.n_dev; d++) {
        assert_true(toy->use[d].slots <= toy->dev[d].count);
        assert_true(toy->use[d].mem_mib <= toy->dev[d].mem_mib);
        assert_true(toy->use[d].cores <= toy->dev[d].cores);
    }
}

/* Pods come and go: no card is ever given more often than it has shares, memory and cores, and what
 * is left after the last has gone is an idle node. */
static void never_too_much(void **state)
{
    uint32_t r = seed;
    size_t placed = 0, refused = 0;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct held held[12];
        size_t n = 0;
        struct toy toy;

        toy_init(&toy);
        random_node(&toy, &r, 1 + toy_random(&r, 8));
        for (int step = 0; step < 30; step++) {
            if (n == 12 || (n > 0 && toy_random(&r, 3) == 0)) {
                held[toy_random(&r, (uint32_t)n)] = held[n - 1];
                n--;
            } else {
                random_pod(&toy, &r);
                if (toy_place(&toy) == 0) {
                    hold(&toy, &held[n++]);
                    placed++;
                } else {
                    refused++;
                }
            }
            derive(&toy, held, n);
            check_use(&toy);
        }
        derive(&toy, held, 0);
        for (size_t d = 0; d < toy.node.n_dev; d++)
            assert_memory_equal(&toy.use[d], &(struct gs_use){0}, sizeof(toy.use[d]));
        toy_fini(&toy);
    }
    assert_true(placed > ROUNDS && refused > ROUNDS); /* both happen all the time */
}

/* At no time do the containers that run together take more of a card than the pod's share of it. */
static void shares_cover_all_times(void **state)
{
    uint32_t r = seed ^ 0x5a5a5a5a;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct held held = {0};
        struct toy toy;

        toy_init(&toy);
        random_node(&toy, &r, 4);
        random_pod(&toy, &r);
        if (toy_place(&toy) == 0)
            hold(&toy, &held);
        for (size_t now = 0; now < toy.pod.n_containers && toy.ask.n_lines > 0; now++)
            for (size_t i = 0; i < held.n; i++) {
                bool passing = toy.container[now].is_init && !toy.container[now].is_sidecar;
                int64_t mem = 0;

                for (size_t t = 0; t < toy.placement.n; t++) {
                    const struct gs_taken *k = &toy.placement.taken[t];

                    if (gs_str_eq(toy.dev[k->pick.dev].id, held.share[i].uuid) &&
                        (k->container == now || (!k->is_gone && (!passing || k->container < now))))
                        mem += k->pick.mem_mib;
                }
                assert_true(mem <= held.share[i].mem_mib);
            }
        toy_fini(&toy);
    }
}

/* The same node with its list of devices in another order: the same devices are given. */
static void list_order_does_not_matter(void **state)
{
    uint32_t r = seed ^ 0x1234567;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        char given[512] = "";
        struct toy toy;
        int rc;

        toy_init(&toy);
        random_node(&toy, &r, 8);
        for (size_t d = 0; d < 8; d++)
            toy.use[d] = (struct gs_use){.slots = (int32_t)toy_random(&r, 3),
                                         .mem_mib = (int32_t)toy_random(&r, 2000),
                                         .cores = (int32_t)toy_random(&r, 60)};
        random_pod(&toy, &r);
        rc = toy_place(&toy);
        if (rc == 0)
            snprintf(given, sizeof(given), "%s", toy_given(&toy));
        for (size_t d = 8; d > 1; d--) {
            size_t other = toy_random(&r, (uint32_t)d);
            struct gs_device dev = toy.dev[d - 1];
            struct gs_use use = toy.use[d - 1];

            toy.dev[d - 1] = toy.dev[other];
            toy.use[d - 1] = toy.use[other];
            toy.dev[other] = dev;
            toy.use[other] = use;
        }
        assert_int_equal(toy_place(&toy), rc);
        if (rc == 0)
            assert_string_equal(toy_given(&toy), given);
        toy_fini(&toy);
    }
}

/* A pod that fits its quota now fits it also in the books, once it is in them. */
static void never_over_quota(void **state)
{
    uint32_t r = seed ^ 0x777;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_ns_quota_line line;
        const struct gs_ns_quota quota = {&line, 1};
        struct held held = {0};
        int64_t mem = 0, cores = 0;
        struct toy toy;

        toy_init(&toy);
        toy.rules.checks_quota = true;
        line = (struct gs_ns_quota_line){&toy.policy, (int64_t)toy_random(&r, 15000),
                                         (int64_t)toy_random(&r, 200), 0, 0};
        toy.flags.quota = &quota;
        random_node(&toy, &r, 4);
        random_pod(&toy, &r);
        if (toy_place(&toy) == 0)
            hold(&toy, &held);
        for (size_t i = 0; i < held.n; i++) {
            mem += held.share[i].mem_mib;
            cores += held.share[i].cores;
        }
        assert_true(mem <= line.mem_limit);
        assert_true(cores <= line.core_limit);
        toy_fini(&toy);
    }
}

/* ---- codecs: what is written is read back ---- */

static struct gs_str random_word(struct gs_arena *arena, uint32_t *r, const char *letters)
{
    size_t n = 1 + toy_random(r, 12);
    char *word = gs_arena_take(arena, n + 1, 1);

    assert_non_null(word);
    for (size_t i = 0; i < n; i++)
        word[i] = letters[toy_random(r, (uint32_t)strlen(letters))];
    return (struct gs_str){word, n};
}

static int32_t random_int(uint32_t *r)
{
    int32_t v = (int32_t)(toy_random(r, UINT32_MAX) & INT32_MAX);

    return toy_random(r, 3) == 0 ? v : v % 1000;
}

static void grants_come_back(void **state)
{
    static const char plain[] = "abcXYZ019-_./ []{}\"'\\<>&";
    uint32_t r = seed ^ 0xbeef;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_arena arena = {0};
        struct gs_buf text = {0}, again = {0};
        struct gs_grant_slot slot[5] = {0};
        struct gs_grant grant = {slot, toy_random(&r, 6)}, back = {0};

        for (size_t s = 0; s < grant.n; s++) {
            slot[s].n = toy_random(&r, 4);
            slot[s].dev = GS_ARENA_ARRAY(&arena, slot[s].n, struct gs_grant_dev);
            for (size_t d = 0; d < slot[s].n; d++)
                slot[s].dev[d] = (struct gs_grant_dev){random_word(&arena, &r, plain),
                                                       random_word(&arena, &r, plain),
                                                       random_int(&r), random_int(&r)};
        }
        gs_grant_write(&grant, &text);
        assert_int_equal(gs_grant_read((struct gs_str){text.p, text.n}, &arena, &back, NULL), 0);
        assert_int_equal(back.n, grant.n);
        for (size_t s = 0; s < grant.n; s++)
            assert_int_equal(back.slot[s].n, slot[s].n);
        gs_grant_write(&back, &again);
        assert_string_equal(gs_buf_text(&again), gs_buf_text(&text));
        gs_buf_fini(&text);
        gs_buf_fini(&again);
        gs_arena_fini(&arena);
    }
}

static void registers_come_back(void **state)
{
    static const char plain[] = "abcXYZ019-_./ []{}\"'\\<>&\x7f\x01";
    uint32_t r = seed ^ 0xcafe;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_arena arena = {0};
        struct gs_device dev[6] = {0}, *back = NULL;
        size_t n = toy_random(&r, 7), n_back = 0;
        struct gs_buf buf = {0};
        bool json = toy_random(&r, 2) == 0;

        for (size_t i = 0; i < n; i++) {
            struct gs_str id = random_word(&arena, &r, plain);

            /* no separators inside, none twice, and no text that begins like JSON */
            dev[i] = (struct gs_device){
                .id = gs_arena_printf(&arena, "%zu%.*s", i, (int)id.n, id.p),
                .type = random_word(&arena, &r, plain),
                .mode = toy_random(&r, 2) == 0 ? GS_STR("mig") : GS_STR("hami-core"),
                .index = (uint32_t)random_int(&r),
                .count = random_int(&r),
                .mem_mib = random_int(&r),
                .cores = random_int(&r),
                .numa = random_int(&r) - 5,
                .is_healthy = toy_random(&r, 2) == 0};
        }
        if (json)
            gs_register_write_json(dev, n, NULL, &buf);
        else
            gs_register_write_text(dev, n, &buf);
        if (n == 0 && !json)
            gs_buf_adds(&buf, ":");
        assert_int_equal(
            gs_register_read((struct gs_str){buf.p, buf.n}, NULL, &arena, &back, &n_back, NULL), 0);
        assert_int_equal(n_back, n);
        for (size_t i = 0; i < n; i++) {
            assert_true(gs_str_eq(back[i].id, dev[i].id) && gs_str_eq(back[i].type, dev[i].type) &&
                        gs_str_eq(back[i].mode, dev[i].mode));
            assert_true(back[i].index == dev[i].index && back[i].count == dev[i].count &&
                        back[i].mem_mib == dev[i].mem_mib && back[i].cores == dev[i].cores &&
                        back[i].numa == dev[i].numa && back[i].is_healthy == dev[i].is_healthy);
        }
        gs_buf_fini(&buf);
        gs_arena_fini(&arena);
    }
}

static void migs_come_back(void **state)
{
    uint32_t r = seed ^ 0xfeed;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct gs_arena arena = {0};
        struct gs_mig_grant mig[4] = {0}, *back = NULL;
        size_t n = toy_random(&r, 5), n_back = 0;
        struct gs_buf text = {0}, again = {0};

        for (size_t i = 0; i < n; i++) {
            mig[i] = (struct gs_mig_grant){.container = (uint32_t)random_int(&r),
                                           .device = (uint32_t)i,
                                           .gpu_uuid = random_word(&arena, &r, "aB\"\\<\n-0"),
                                           .profile = random_word(&arena, &r, "1g.5b"),
                                           .start = random_int(&r),
                                           .size = 1 + random_int(&r) % 8,
                                           .is_realised = toy_random(&r, 2) == 0};
            if (mig[i].is_realised) {
                mig[i].mig_uuid = random_word(&arena, &r, "MIG-0af");
                mig[i].gpu_instance = (uint32_t)random_int(&r);
                mig[i].compute_instance = toy_random(&r, 3);
            }
        }
        gs_grant_mig_write(mig, n, &text);
        assert_int_equal(
            gs_grant_mig_read((struct gs_str){text.p, text.n}, &arena, &back, &n_back, NULL), 0);
        assert_int_equal(n_back, n);
        for (size_t i = 0; i < n; i++)
            assert_true(back[i].container == mig[i].container &&
                        gs_str_eq(back[i].gpu_uuid, mig[i].gpu_uuid));
        gs_grant_mig_write(back, n_back, &again);
        assert_string_equal(gs_buf_text(&again), gs_buf_text(&text));
        gs_buf_fini(&text);
        gs_buf_fini(&again);
        gs_arena_fini(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_too_much),
        cmocka_unit_test(shares_cover_all_times),
        cmocka_unit_test(list_order_does_not_matter),
        cmocka_unit_test(never_over_quota),
        cmocka_unit_test(grants_come_back),
        cmocka_unit_test(registers_come_back),
        cmocka_unit_test(migs_come_back),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
