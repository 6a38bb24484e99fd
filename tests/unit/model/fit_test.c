#include "model/fit.h"

#include <errno.h>
#include <string.h>

#include "toy.h"

/* A15's base device: 0/100 shares, 0/1280 MiB, 0/100 cores. */
static struct gs_device *base(struct toy *toy, const char *id)
{
    struct gs_device *dev = toy_device(toy, id);

    dev->count = 100;
    dev->mem_mib = 1280;
    return dev;
}

/* One vector: what is changed on the one device, what is asked, what comes out. */
struct vector {
    int id;
    int used, mem, cores; /* taken */
    int ask[4];           /* n, MiB, percent, cores; negative: not said */
    const char *key, *value;
    const char *want; /* reasons; NULL: it serves */
};

static const struct vector vectors[] = {
    {3, 0, 0, 100, {1, 512, -1, 50}, NULL, NULL, "1/1 CardInsufficientCore"},
    {4, 0, 0, 0, {1, 512, -1, 50}, "toy.io/use-type", "Other", "1/1 CardTypeMismatch"},
    {5, 0, 0, 0, {1, 512, -1, 50}, "toy.io/use-uuid", "dev-0", "1/1 CardUuidMismatch"},
    {7, 100, 0, 0, {1, 512, -1, 50}, NULL, NULL, "1/1 CardTimeSlicingExhausted"},
    {8, 0, 0, 0, {1, 512, -1, 120}, NULL, NULL, NULL},
    {9, 20, 0, 0, {1, 512, -1, 100}, NULL, NULL, "1/1 ExclusiveDeviceAllocateConflict"},
    {11, 20, 0, 10, {2, 512, -1, 20}, NULL, NULL, "1/1 AllocatedCardsInsufficientRequest"},
    {13, 20, 0, 10, {1, -1, 10, 20}, NULL, NULL, NULL},
    /* 3.5's skeleton, each check */
    {101, 1, 1000, 0, {1, 512, -1, 50}, NULL, NULL, "1/1 CardInsufficientMemory"},
    {102, 1, 1000, 0, {1, -1, 30, 50}, NULL, NULL, "1/1 CardInsufficientMemory"},
    {103, 1, 0, 100, {1, 1, -1, 0}, NULL, NULL, "1/1 CardComputeUnitsExhausted"},
    {104,
     1,
     0,
     0,
     {1, 1, -1, 0},
     "hami.io/gpu-scheduler-policy",
     "mutex",
     "1/1 ExclusiveDeviceAllocateConflict"},
    {105,
     1,
     0,
     0,
     {1, 1, -1, 0},
     "hami.io/gpu-scheduler-policy",
     "binpack,mutex",
     "1/1 ExclusiveDeviceAllocateConflict"},
    {106, 0, 0, 0, {1, 1, -1, 0}, "toy.io/nouse-uuid", "x, dev-1", "1/1 CardUuidMismatch"},
    {107, 0, 1280, 0, {1, -1, -1, 0}, NULL, NULL, NULL}, /* no memory said: none taken */
};

static void reasons(void **state)
{
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct gs_pick pick[8];
        struct toy toy;
        int rc;

        toy_init(&toy);
        base(&toy, "dev-1");
        toy_used(&toy, v->used, v->mem, v->cores);
        toy_wants(&toy, toy_container(&toy), v->ask[0], v->ask[1], v->ask[2], v->ask[3]);
        if (v->key != NULL)
            toy_annotate(&toy, v->key, v->value);
        rc = toy_walk(&toy, pick);
        if ((rc >= 0) != (v->want == NULL) ||
            (v->want != NULL && strcmp(toy_reasons(&toy), v->want) != 0))
            fail_msg("A15.%d: %d %s", v->id, rc, toy_reasons(&toy));
        if (v->id == 8)
            assert_int_equal(pick[0].cores, 100); /* clamped */
        if (v->id == 13)
            assert_int_equal(pick[0].mem_mib, 128);
        toy_fini(&toy);
    }
}

static void more_reasons(void **state)
{
    struct gs_pick pick[8];
    struct toy toy;

    (void)state;
    toy_init(&toy);
    base(&toy, "dev-0")->is_healthy = false;
    base(&toy, "dev-1");
    toy.use[1].is_closed = true;
    base(&toy, "dev-2");
    toy_used(&toy, 0, 1280, 0);
    base(&toy, "dev-3");
    toy_wants(&toy, toy_container(&toy), 2, 512, -1, 50);
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "1/4 AllocatedCardsInsufficientRequest, "
                                           "1/4 CardInsufficientMemory, 2/4 CardNotHealth");
    assert_int_equal(toy.reasons.collected, 1);
    assert_int_equal(toy.reasons.asked, 2);
    toy_fini(&toy);
}

/* A15.1: the walk begins at the end. A15.12: "2/2 AllocatedCardsInsufficientRequest". */
static void from_the_end(void **state)
{
    struct gs_pick pick[8];
    struct toy toy;

    (void)state;
    toy_init(&toy);
    base(&toy, "dev-0")->mem_mib = 128;
    base(&toy, "dev-1")->mem_mib = 128;
    toy_wants(&toy, toy_container(&toy), 1, 64, -1, 50);
    assert_int_equal(toy_walk(&toy, pick), 1);
    assert_int_equal(pick[0].dev, 1);
    assert_int_equal(pick[0].mem_mib, 64);
    toy_wants(&toy, 0, 3, 64, -1, 50);
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "2/2 AllocatedCardsInsufficientRequest");
    toy_fini(&toy);
}

/* A15.17 and A15.20: one NUMA node for all cards of a container. */
static void numa(void **state)
{
    static const char *const binds[] = {NULL, "true"};
    struct gs_pick pick[8];
    struct toy toy;

    (void)state;
    toy_init(&toy);
    base(&toy, "dev-0")->numa = 1;
    base(&toy, "dev-1")->numa = 1;
    base(&toy, "dev-2");
    toy_annotate(&toy, "toy.io/numa-bind", "true");
    toy_wants(&toy, toy_container(&toy), 2, 64, -1, 0);
    assert_int_equal(toy_walk(&toy, pick), 2);
    assert_int_equal(pick[0].dev, 1);
    assert_int_equal(pick[1].dev, 0);
    toy_wants(&toy, 0, 3, 64, -1, 0);
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "1/3 NumaNotFit, 2/3 AllocatedCardsInsufficientRequest");
    toy_fini(&toy);
    /* A15.20: A n0 s5, B n0 s1, C n1 s3: a walk in this order of scores finds no pair; with the
     * nodes put together by the order it finds {A, B} */
    for (size_t i = 0; i < GS_ARRAY_LEN(binds); i++) {
        toy_init(&toy);
        toy_device(&toy, "A");
        toy_used(&toy, 5, 0, 0);
        toy_device(&toy, "B");
        toy_used(&toy, 1, 0, 0);
        toy_device(&toy, "C")->numa = 1;
        toy_used(&toy, 3, 0, 0);
        if (binds[i] != NULL)
            toy_annotate(&toy, "toy.io/numa-bind", binds[i]);
        toy_wants(&toy, toy_container(&toy), 2, 64, -1, 0);
        assert_int_equal(toy_place(&toy), 0);
        assert_string_equal(toy_given(&toy), binds[i] == NULL ? "B,C;" : "B,A;");
        toy_fini(&toy);
    }
}

/* A15.19: "used"(1), "idle"(0) under mutex; A15.21: P n0 s1, Q n1 s8, R n1 s5 spread. */
static void policies(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    base(&toy, "idle");
    base(&toy, "used");
    toy_used(&toy, 1, 0, 0);
    toy_annotate(&toy, "hami.io/gpu-scheduler-policy", "mutex");
    toy_wants(&toy, toy_container(&toy), 1, 64, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "idle;");
    toy_wants(&toy, 0, 2, 64, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "1/2 AllocatedCardsInsufficientRequest, "
                                           "1/2 ExclusiveDeviceAllocateConflict");
    toy_fini(&toy);
    toy_init(&toy);
    toy_device(&toy, "P");
    toy_used(&toy, 1, 0, 0);
    toy_device(&toy, "Q")->numa = 1;
    toy_used(&toy, 8, 0, 0);
    toy_device(&toy, "R")->numa = 1;
    toy_used(&toy, 5, 0, 0);
    toy_wants(&toy, toy_container(&toy), 1, 64, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "P;");
    toy_fini(&toy);
}

/* A15.24: fewer devices than asked for is found before the walk. */
static void too_few(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_wants(&toy, toy_container(&toy), 1, 64, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "NodeInsufficientDevice");
    base(&toy, "dev-0");
    toy_wants(&toy, 0, 2, 64, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "NodeInsufficientDevice");
    assert_int_equal(toy.reasons.asked, 2);
    toy_wants(&toy, 0, INT32_MAX, 64, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    toy_fini(&toy);
}

/* For people: the card that came nearest. */
static void best(void **state)
{
    struct gs_pick pick[8];
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_device(&toy, "a");
    toy_used(&toy, 1, 7000, 0);
    toy_device(&toy, "b");
    toy_used(&toy, 1, 3000, 10);
    toy_device(&toy, "c");
    toy_used(&toy, 1, 4000, 0);
    toy_device(&toy, "d");
    toy_used(&toy, 1, 0, 90);
    toy_wants(&toy, toy_container(&toy), 1, 6000, -1, 20);
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_int_equal(toy.reasons.best_device, 1);
    assert_int_equal(toy.reasons.best_free_mib, 5000);
    assert_int_equal(toy.reasons.need_mib, 6000);
    toy.use[2].mem_mib = 3000; /* of two alike the one that is looked at first */
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_int_equal(toy.reasons.best_device, 2);
    toy_wants(&toy, 0, 1, 1000, -1, 101);
    toy_used(&toy, 1, 0, 30);
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_int_equal(toy.reasons.count[GS_REASON_CARD_INSUFFICIENT_MEMORY], 0);
    assert_int_equal(toy.reasons.need_cores, 100);
    assert_int_equal(toy.reasons.best_free_cores, 90);
    assert_int_equal(toy.reasons.best_device, 1);
    toy_fini(&toy);
}

/* ---- a vendor's own questions ---- */

static bool repeats_all(const struct gs_policy *p, const struct gs_fit *fit,
                        const struct gs_device *dev)
{
    (void)p;
    (void)fit;
    return gs_str_eq_c(dev->mode, "mig");
}

/* Three places on a card. */
static enum gs_reason last_place(const struct gs_policy *p, const struct gs_fit *fit,
                                 const struct gs_device *dev, const struct gs_pick *so_far,
                                 size_t n, struct gs_pick *pick)
{
    int32_t places = 0;

    (void)p;
    for (size_t i = 0; i < n; i++)
        places += &fit->node->dev[so_far[i].dev] == dev;
    if (places == 3)
        return GS_REASON_CARD_MIG_TOPOLOGY_INFEASIBLE;
    pick->place_start = places;
    pick->place_size = 1;
    return GS_REASON_COUNT;
}

static void repeats(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy.rules = (struct gs_fit_rules){.repeats = repeats_all, .last = last_place};
    toy_device(&toy, "whole");
    toy_device(&toy, "mig")->mode = GS_STR("mig");
    toy_wants(&toy, toy_container(&toy), 3, 1000, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "mig,mig,mig;");
    assert_int_equal(toy.placement.taken[2].pick.place_start, 2);
    toy_wants(&toy, 0, 4, 1000, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "mig,mig,mig,whole;");
    toy_wants(&toy, 0, 5, 1000, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "1/2 CardMigTopologyInfeasible, "
                                           "4/2 AllocatedCardsInsufficientRequest");
    /* memory of the card holds for all its places together */
    toy_wants(&toy, 0, 3, 3000, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "mig,mig,whole;");
    toy_wants(&toy, 0, INT32_MAX, 1, -1, 0);
    assert_int_equal(toy_place(&toy), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "NodeInsufficientDevice");
    toy_fini(&toy);
}

/* Keep the first ones of the list, in rising order of index: another choice than the walk's. */
static int choose_first(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                        size_t n)
{
    int nums = fit->request->nums;

    (void)p;
    for (int i = 0; i < nums; i++)
        pick[i] = pick[n - (size_t)nums + (size_t)i];
    return nums;
}

static bool when_topology(const struct gs_policy *p, const struct gs_fit *fit)
{
    (void)p;
    return fit->policy->is_topology;
}

static void chooses(void **state)
{
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy.rules = (struct gs_fit_rules){.choose = choose_first, .collects = when_topology};
    toy_device(&toy, "a");
    toy_device(&toy, "b");
    toy_device(&toy, "c");
    toy_wants(&toy, toy_container(&toy), 2, 1000, -1, 0);
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "c,b;");
    toy_annotate(&toy, "hami.io/gpu-scheduler-policy", "topology-aware");
    assert_int_equal(toy_place(&toy), 0);
    assert_string_equal(toy_given(&toy), "b,a;");
    toy_fini(&toy);
}

static enum gs_reason refuse_type(const struct gs_policy *p, const struct gs_fit *fit,
                                  const struct gs_device *dev)
{
    (void)p;
    (void)fit;
    return gs_str_eq_c(dev->id, "cordoned") ? GS_REASON_CARD_CORDONED : GS_REASON_COUNT;
}

static enum gs_reason half_card(const struct gs_policy *p, const struct gs_fit *fit,
                                const struct gs_device *dev, struct gs_pick *pick)
{
    (void)p;
    (void)fit;
    if (dev->cores == 0)
        return GS_REASON_CARD_INSUFFICIENT_CORE;
    pick->mem_mib = dev->mem_mib / 2;
    return GS_REASON_COUNT;
}

static int32_t cores_100(const struct gs_policy *p, const struct gs_fit *fit,
                         const struct gs_device *dev)
{
    (void)p;
    (void)fit;
    (void)dev;
    return 100;
}

static void questions(void **state)
{
    struct gs_pick pick[8];
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy.rules = (struct gs_fit_rules){.type = refuse_type, .amounts = half_card};
    toy_device(&toy, "a");
    toy_device(&toy, "cordoned");
    toy_device(&toy, "b")->cores = 0;
    toy_wants(&toy, toy_container(&toy), 2, -1, -1, -1);
    assert_int_equal(toy_walk(&toy, pick), -ENOSPC);
    assert_string_equal(toy_reasons(&toy), "1/3 AllocatedCardsInsufficientRequest, "
                                           "1/3 CardCordoned, 1/3 CardInsufficientCore");
    toy_wants(&toy, 0, 1, -1, -1, -1);
    assert_int_equal(toy_walk(&toy, pick), 1);
    assert_int_equal(pick[0].mem_mib, 4000);
    /* cores as this pod counts them, beyond those of the card */
    toy.rules = (struct gs_fit_rules){.cores = cores_100};
    toy_wants(&toy, 0, 1, 100, -1, 40);
    toy.dev[2].cores = 20;
    assert_int_equal(toy_place(&toy), 0);
    toy_fini(&toy);
}

static void no_memory(void **state)
{
    struct gs_arena broken = {.failed = true};
    struct toy toy;

    (void)state;
    toy_init(&toy);
    toy_device(&toy, "a");
    toy_wants(&toy, toy_container(&toy), 1, 100, -1, -1);
    assert_int_equal(toy_place(&toy), 0);
    assert_int_equal(gs_place(&toy.ask, &toy.node, &broken, &toy.placement, &toy.reasons), -ENOMEM);
    toy_fini(&toy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons),   cmocka_unit_test(more_reasons), cmocka_unit_test(from_the_end),
        cmocka_unit_test(numa),      cmocka_unit_test(policies),     cmocka_unit_test(too_few),
        cmocka_unit_test(best),      cmocka_unit_test(repeats),      cmocka_unit_test(chooses),
        cmocka_unit_test(questions), cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
