/* Which cards NVIDIA's policy chooses. A15 fit, A16 MIG, A17 topology of the collected vectors of
 * HAMi v2.10. Not here: A15.21 is the order of devices (a test of the model), A16.11 and A16.12 are
 * the books', A17.7 counts an inner list, A17.8 and A17.9 are the device plugin's. */

#include "kit.h"
#include "whole.h"

#include <errno.h>
#include <string.h>

#include "model/request.h"
#include "vendors/nvidia/policy/mig.h"
#include "vendors/nvidia/policy/policy.h"
#include "vendors/nvidia/policy/topology.h"

#define REGISTER "hami.io/node-nvidia-register"

static void setup(struct kit *kit)
{
    kit_init(kit, &gs_nvidia_section, NULL, "NVIDIA");
    kit_container(kit, "c0");
}

/* --- fit --- */

struct card {
    const char *id;
    int32_t used, mem_used, mem, cores_used, numa; /* of 100 shares, 1280 MiB where 0, 100 cores */
    const char *type;
};

static void cards(struct kit *kit, const struct card *card, size_t n)
{
    struct gs_buf text = {0};

    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"%s\",\"index\":%zu,\"count\":%d,\"devmem\":%d,\"devcore\":%d,"
                    "\"numa\":%d,\"type\":\"%s\",\"health\":true,\"mode\":\"hami-core\"}",
                    i == 0 ? "[" : ",", card[i].id, i, 100, card[i].mem > 0 ? card[i].mem : 1280,
                    100, card[i].numa, card[i].type != NULL ? card[i].type : "NVIDIA A100");
    gs_buf_adds(&text, "]");
    kit_annotate_node(kit, REGISTER, gs_arena_printf(&kit->arena, "%s", gs_buf_text(&text)).p);
    gs_buf_fini(&text);
    assert_int_equal(kit_read_node(kit), 0);
    for (size_t i = 0; i < n; i++) {
        kit->use[i].slots = card[i].used;
        kit->use[i].mem_mib = card[i].mem_used;
        kit->use[i].cores = card[i].cores_used;
    }
    kit_unfit(kit);
}

#define SOME(kit, ...)                                                                             \
    cards(kit, (struct card[]){__VA_ARGS__},                                                       \
          sizeof((struct card[]){__VA_ARGS__}) / sizeof(struct card))

static void test_fit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    SOME(&kit, {.id = "dev-0", .mem = 128}, {.id = "dev-1", .mem = 128});
    kit_want_fit(&kit, 1, 64, 0, 50, "1"); /* A15.1 */
    assert_int_equal(kit.pick[0][0].mem_mib, 64);
    assert_int_equal(kit.pick[0][0].cores, 50);
    SOME(&kit, {.id = "dev-0", .cores_used = 100});
    kit_want_unfit(&kit, 1, 512, 0, 50, "1/1 CardInsufficientCore"); /* A15.3 */
    SOME(&kit, {.id = "dev-0", .used = 100});
    kit_want_unfit(&kit, 1, 512, 0, 50, "1/1 CardTimeSlicingExhausted"); /* A15.7 */
    SOME(&kit, {.id = "dev-0"});
    kit_want_fit(&kit, 1, 512, 0, 120, "0"); /* A15.8 */
    assert_int_equal(kit.pick[0][0].cores, 100);
    SOME(&kit, {.id = "dev-0", .used = 20});
    kit_want_unfit(&kit, 1, 512, 0, 100, "1/1 ExclusiveDeviceAllocateConflict"); /* A15.9 */
    SOME(&kit, {.id = "dev-0", .used = 20, .cores_used = 10});
    kit_want_unfit(&kit, 2, 512, 0, 20, "1/1 AllocatedCardsInsufficientRequest"); /* A15.11 */
    kit_want_fit(&kit, 1, 0, 10, 20, "0");                                        /* A15.13 */
    assert_int_equal(kit.pick[0][0].mem_mib, 128);
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    kit_want_unfit(&kit, 3, 512, 0, 20, "2/2 AllocatedCardsInsufficientRequest"); /* A15.12 */
    SOME(&kit, {.id = "dev-0", .mem_used = 1000});
    kit_want_unfit(&kit, 1, 512, 0, 20, "1/1 CardInsufficientMemory");
    SOME(&kit, {.id = "dev-0", .used = 1, .cores_used = 100});
    kit_want_unfit(&kit, 1, 512, 0, 0, "1/1 CardComputeUnitsExhausted");
    kit_fini(&kit);
}

static void test_choice_of_the_pod(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    /* A15.4 gives another vendor's word; ours never meet another's group: the type list instead. */
    kit_annotate_pod(&kit, "nvidia.com/use-gputype", "V100");
    SOME(&kit, {.id = "dev-1"});
    kit_want_unfit(&kit, 1, 512, 0, 50, "1/1 CardTypeMismatch");
    kit_annotate_pod(&kit, "nvidia.com/use-gputype", " v100 , a100");
    kit_annotate_pod(&kit, "nvidia.com/use-gpuuuid", "dev-0");
    kit_want_unfit(&kit, 2, 512, 0, 50, "1/1 CardUuidMismatch"); /* A15.5 */
    kit_annotate_pod(&kit, "nvidia.com/use-gpuuuid", "");
    kit_annotate_pod(&kit, "nvidia.com/vgpu-mode", "mig,mps");
    kit_want_unfit(&kit, 1, 512, 0, 50, "1/1 CardTypeMismatch");
    kit_annotate_pod(&kit, "nvidia.com/vgpu-mode", "mig,hami-core");
    kit_want_fit(&kit, 1, 512, 0, 50, "0");
    SOME(&kit, {.id = "used", .used = 1}, {.id = "idle"});
    kit.device_policy.is_mutex = true;
    kit_want_fit(&kit, 1, 512, 0, 50, "1"); /* A15.19 */
    kit_want_unfit(&kit, 2, 512, 0, 50,
                   "1/2 AllocatedCardsInsufficientRequest, 1/2 ExclusiveDeviceAllocateConflict");
    kit_fini(&kit);
}

static void test_cordon(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_node(&kit, "hami.io/device-cordon", "dev-1, ");
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    kit_want_fit(&kit, 1, 512, 0, 50, "0"); /* A15.15 */
    kit_annotate_node(&kit, "hami.io/device-cordon", "dev-0,dev-1");
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    kit_want_unfit(&kit, 1, 512, 0, 50, "2/2 CardCordoned"); /* A15.16 */
    kit_fini(&kit);
}

static void test_numa(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_pod(&kit, "nvidia.com/numa-bind", "true");
    SOME(&kit, {.id = "dev-0", .numa = 1}, {.id = "dev-1", .numa = 1}, {.id = "dev-2"});
    kit_want_fit(&kit, 2, 512, 0, 50, "1,0"); /* A15.17 */
    /* A15.20 A n0, B n0, C n1 by falling score: A C B without, A B C with the grouping */
    SOME(&kit, {.id = "A"}, {.id = "B"}, {.id = "C", .numa = 1});
    memcpy(kit.order, (uint32_t[]){0, 2, 1}, 3 * sizeof(uint32_t));
    assert_int_equal(kit_fit_for(&kit, 2, 512, 0, 50), -ENOSPC);
    memcpy(kit.order, (uint32_t[]){0, 1, 2}, 3 * sizeof(uint32_t));
    kit_want_fit(&kit, 2, 512, 0, 50, "1,0");
    kit.device_policy.is_topology = true; /* of the node that has enough */
    kit_want_fit(&kit, 2, 512, 0, 50, "1,0");
    kit_fini(&kit);
}

/* A15.23 with cards made to the counts it gives: the fit passes all ten that do not serve. */
static void test_many_reasons(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_pod(&kit, "nvidia.com/use-gpuuuid", "a,f,c,d,e,g,h,j,l,u,m");
    SOME(&kit, {.id = "a", .mem = 2048}, {.id = "c", .mem = 2048}, {.id = "b"}, {.id = "i"},
         {.id = "k"}, {.id = "d", .used = 100}, {.id = "e", .used = 100}, {.id = "f", .used = 100},
         {.id = "g", .used = 100}, {.id = "h", .mem_used = 1000}, {.id = "j", .mem_used = 1000},
         {.id = "l", .mem = 2048, .cores_used = 90});
    kit_want_fit(&kit, 2, 1024, 100, 20, "1,0");
    assert_string_equal(kit_reasons(&kit),
                        "1/12 CardInsufficientCore, 2/12 CardInsufficientMemory, "
                        "3/12 CardUuidMismatch, 4/12 CardTimeSlicingExhausted");
    kit_fini(&kit);
}

/* --- A16 MIG --- */

#define PLACE(start, size) "{\"start\":" #start ",\"size\":" #size "}"
#define A100                                                                                       \
    "[{\"name\":\"2g.10gb\",\"memoryMB\":10240,\"core\":28,\"sliceCount\":2,\"placements\":"       \
    "[" PLACE(0, 2) "," PLACE(2, 2) "," PLACE(                                                     \
        4,                                                                                         \
        2) "]},"                                                                                   \
           "{\"name\":\"1g.5gb\",\"memoryMB\":5120,\"core\":14,\"sliceCount\":1,\"placements\":"   \
           "[" PLACE(6, 1) "," PLACE(0, 1) "," PLACE(1, 1) "," PLACE(2, 1) "," PLACE(              \
               3,                                                                                  \
               1) "," PLACE(4,                                                                     \
                            1) "," PLACE(5,                                                        \
                                         1) "]},"                                                  \
                                            "{\"name\":\"3g.20gb\",\"memoryMB\":20480,\"core\":"   \
                                            "42,\"sliceCount\":3,\"placements\":[" PLACE(          \
                                                0, 4) "," PLACE(4, 4) "]}]"

static void mig_card(struct kit *kit)
{
    kit_annotate_node(kit, REGISTER,
                      "[{\"id\":\"GPU-a\",\"count\":7,\"devmem\":40960,\"devcore\":100,\"type\":"
                      "\"NVIDIA A100\",\"mode\":\"mig\",\"health\":true,\"migProfiles\":" A100
                      "}]");
    assert_int_equal(kit_read_node(kit), 0);
}

/* Pods that hold these places of card 0. */
static void occupy(struct kit *kit, const struct gs_nvidia_span *span, size_t n)
{
    struct gs_tenant *tenant = gs_arena_take(&kit->arena, n, sizeof(*tenant));

    for (size_t i = 0; i < n; i++)
        tenant[i] = (struct gs_tenant){
            .slots = 1, .place_start = span[i].start, .place_size = span[i].size};
    kit->use[0].tenant = tenant;
    kit->use[0].n_tenants = n;
    kit->use[0].slots = (int32_t)n;
    kit_unfit(kit);
}

#define SPANS(...)                                                                                 \
    (const struct gs_nvidia_span[])                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void want_place(struct kit *kit, int32_t mem, const char *profile, int32_t start,
                       int32_t size)
{
    const struct gs_pick *pick = &kit->pick[0][0];

    assert_int_equal(kit_fit_for(kit, 1, mem, 101, 0), 1);
    assert_true(gs_str_eq_c(pick->profile, profile));
    assert_int_equal(pick->place_start, start);
    assert_int_equal(pick->place_size, size);
}

static void test_mig(void **state)
{
    static const char none[] = "1/1 CardMigTopologyInfeasible";
    struct kit kit;

    (void)state;
    setup(&kit);
    mig_card(&kit);
    want_place(&kit, 20480, "3g.20gb", 4, 4); /* A16.1 */
    occupy(&kit, SPANS({4, 4}), 1);
    want_place(&kit, 10240, "2g.10gb", 0, 2);
    occupy(&kit, SPANS({4, 4}, {0, 2}), 2);
    want_place(&kit, 5120, "1g.5gb", 3, 1);
    occupy(&kit, SPANS({4, 4}, {0, 2}, {3, 1}), 3);
    want_place(&kit, 5120, "1g.5gb", 2, 1); /* with the three above: A16.3 */
    occupy(&kit, SPANS({0, 4}, {4, 4}), 2);
    kit_want_unfit(&kit, 1, 4000, 101, 0, none); /* A16.4 */
    occupy(&kit, SPANS({0, 2}, {2, 2}, {4, 2}), 3);
    kit_want_unfit(&kit, 1, 10000, 101, 0, none); /* A16.5 */
    want_place(&kit, 5000, "1g.5gb", 6, 1);
    kit_want_unfit(&kit, 1, 0, 25, 0, none); /* A16.8 */
    occupy(&kit, SPANS({6, 1}), 1);
    want_place(&kit, 10000, "2g.10gb", 0, 2); /* A16.7 */
    assert_int_equal(kit.pick[0][0].mem_mib, 10240);
    assert_int_equal(kit.pick[0][0].cores, 28);
    kit_want_unfit(&kit, 1, 30000, 101, 0, none);
    kit_fini(&kit);
}

static void test_mig_twice(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_container(&kit, "c1");
    mig_card(&kit);
    kit_want_fit(&kit, 2, 4000, 101, 0, "0,0"); /* A16.9 */
    assert_int_equal(kit.pick[0][0].place_start, 6);
    assert_int_equal(kit.pick[0][1].place_start, 5);
    kit.request[1] = (struct gs_request){.nums = 1, .mem_mib = 20000, .mem_pct = 101};
    assert_int_equal(kit_fit(&kit, 1), 1); /* a later container goes round the earlier one */
    assert_int_equal(kit.pick[1][0].place_start, 0);
    pairs = kit_write(&kit, 0);
    assert_int_equal(pairs.n, 1);
    assert_string_equal(/* 1.6, without the plugin's three keys */
                        kit_written(&kit, &pairs, "hami.io/vgpu-mig-allocations"),
                        "[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\","
                        "\"profile\":\"1g.5gb\","
                        "\"placement\":{\"start\":6,\"size\":1}},"
                        "{\"containerIndex\":0,\"deviceIndex\":1,\"gpuUUID\":\"GPU-a\",\"profile\":"
                        "\"1g.5gb\","
                        "\"placement\":{\"start\":5,\"size\":1}},"
                        "{\"containerIndex\":1,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":"
                        "\"3g.20gb\","
                        "\"placement\":{\"start\":0,\"size\":4}}]");
    SOME(&kit, {.id = "dev-0"});
    kit_want_fit(&kit, 1, 64, 0, 0, "0");
    pairs = kit_write(&kit, 0);
    assert_int_equal(pairs.n, 0);
    kit_fini(&kit);
}

/* --- A17 topology --- */

/* Cards a, b, c... on one node with these scores of pairs, both ways. */
static void linked(struct kit *kit, size_t n, const int *pair)
{
    struct card card[8];
    struct gs_buf text = {0};
    static char id[8][2] = {"a", "b", "c", "d", "e", "f", "g", "h"};

    for (size_t i = 0; i < n; i++) {
        card[i] = (struct card){.id = id[i]};
        gs_buf_addf(&text, "%s{\"uuid\":\"%s\",\"score\":{", i == 0 ? "[" : ",", id[i]);
        for (size_t j = 0, k = 0; j < n; j++)
            if (j != i)
                gs_buf_addf(&text, "%s\"%s\":%d", k++ == 0 ? "" : ",", id[j],
                            pair[i < j ? i * n + j : j * n + i]);
        gs_buf_adds(&text, "}}");
    }
    gs_buf_adds(&text, "]");
    kit_annotate_node(kit, "hami.io/node-nvidia-score",
                      gs_arena_printf(&kit->arena, "%s", gs_buf_text(&text)).p);
    gs_buf_fini(&text);
    cards(kit, card, n);
    kit->device_policy.is_topology = true;
}

static void test_topology(void **state)
{
    /* row i: scores of pairs (i, j) with j > i */
    static const int three[] = {0, 100, 200, 0, 0, 150, 0, 0, 0};
    static const int none[9] = {0};
    static const int below[] = {0, -5, -3, 0, 0, -1, 0, 0, 0};
    int six[36];
    struct kit kit;

    (void)state;
    setup(&kit);
    linked(&kit, 3, three);
    kit_want_fit(&kit, 1, 64, 0, 0, "1"); /* A17.1 */
    linked(&kit, 3, none);
    kit_want_fit(&kit, 2, 64, 0, 0, "2,1"); /* A17.3: the first in the order of the walk */
    linked(&kit, 3, below);
    kit_want_fit(&kit, 1, 64, 0, 0, "0"); /* A17.4 */
    kit_want_fit(&kit, 2, 64, 0, 0, "2,1");
    kit_want_fit(&kit, 3, 64, 0, 0, "2,1,0");
    for (size_t i = 0; i < GS_ARRAY_LEN(six); i++)
        six[i] = 1;
    six[0 * 6 + 5] = six[2 * 6 + 5] = 100;
    linked(&kit, 6, six);
    kit_want_fit(&kit, 3, 64, 0, 0, "5,2,0"); /* A17.5 */
    kit_fini(&kit);
}

/* 24 cards in three islands that lie in each other like the teeth of combs: too many sets to try
 * each (C(24, 8) = 735471), and the nearest cards one at a time find an island all the same. */
static void test_many_cards(void **state)
{
    enum { N = 24, WANT = 8 };
    static int32_t score[N * N];
    const struct gs_nvidia_facts facts = {.n = N, .score = score};
    struct gs_pick pick[N];
    struct gs_arena arena;

    (void)state;
    gs_arena_init(&arena);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            score[i * N + j] = i == j ? 0 : i % 3 != j % 3 ? 10 : i % 3 == 1 ? 200 : 100;
    for (uint32_t i = 0; i < N; i++)
        pick[i] = (struct gs_pick){.dev = 5 + i};
    assert_int_equal(gs_nvidia_topology_choose(&facts, 5, pick, N, WANT, &arena), 0);
    for (size_t i = 0; i < WANT; i++)
        assert_int_equal(pick[i].dev, 5 + 1 + 3 * i);
    assert_int_equal(gs_nvidia_topology_choose(NULL, 5, pick, N, WANT, &arena), 0);
    arena.failed = true;
    assert_int_equal(gs_nvidia_topology_choose(&facts, 5, pick, N, WANT, &arena), -ENOMEM);
    gs_arena_fini(&arena);
}

/* Every set of 8 of 16 against the sum itself: the best one is found. */
static void test_best_set(void **state)
{
    enum { N = 16, WANT = 8 };
    static int32_t score[N * N];
    const struct gs_nvidia_facts facts = {.n = N, .score = score};
    struct gs_pick pick[N];
    struct gs_arena arena;
    int64_t most = 0, sum = 0;
    uint32_t seed = 20261130;

    (void)state;
    gs_arena_init(&arena);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < i; j++) {
            seed = seed * 1664525u + 1013904223u;
            score[i * N + j] = score[j * N + i] = (int32_t)(seed >> 20);
        }
    for (uint32_t set = 0; set < 1u << N; set++) {
        int64_t of = 0;

        if (__builtin_popcount(set) != WANT)
            continue;
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < i; j++)
                of += (set >> i & 1) != 0 && (set >> j & 1) != 0 ? score[i * N + j] : 0;
        most = of > most ? of : most;
    }
    for (uint32_t i = 0; i < N; i++)
        pick[i] = (struct gs_pick){.dev = i};
    assert_int_equal(gs_nvidia_topology_choose(&facts, 0, pick, N, WANT, &arena), 0);
    for (size_t i = 0; i < WANT; i++)
        for (size_t j = 0; j < i; j++)
            sum += score[pick[i].dev * N + pick[j].dev];
    assert_true(sum == most);
    gs_arena_fini(&arena);
}

/* --- through the whole of the model --- */

#define COUNT "nvidia.com/gpu"
#define MEM   "nvidia.com/gpumem"

static void test_whole(void **state)
{
    struct gs_pairs p;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_container(&kit, "c1");
    SOME(&kit, {.id = "GPU-0"}, {.id = "GPU-1"});
    kit_limit(&kit, 1, COUNT, "1");
    kit_limit(&kit, 1, MEM, "300");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    /* quirk 1: the container before has its slot though cards are not called "NVIDIA" */
    assert_string_equal(kit_written(&kit, &p, "hami.io/vgpu-devices-allocated"),
                        ";GPU-1,NVIDIA,300,0:;");
    assert_string_equal(kit_written(&kit, &p, "hami.io/vgpu-devices-to-allocate"),
                        ";GPU-1,NVIDIA,300,0:;");
    assert_null(kit_written(&kit, &p, "hami.io/vgpu-mig-allocations"));
    kit_limit(&kit, 1, COUNT, "3");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "NodeInsufficientDevice"); /* A15.24 */
    kit_fini(&kit);
}

/* An init container has the card to itself and leaves its place to the app container. */
static void test_whole_mig(void **state)
{
    struct gs_pairs p;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_container(&kit, "c1");
    kit.container[0].is_init = true;
    kit.pod.n_init = 1;
    mig_card(&kit);
    for (size_t i = 0; i < 2; i++) {
        kit_limit(&kit, i, COUNT, i == 0 ? "2" : "1");
        kit_limit(&kit, i, MEM, "20000");
    }
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/vgpu-devices-allocated"),
                        "GPU-a,NVIDIA,20480,42:GPU-a,NVIDIA,20480,42:;GPU-a,NVIDIA,20480,42:;");
    assert_string_equal(
        kit_written(&kit, &p, "hami.io/vgpu-mig-allocations"),
        "[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":\"3g.20gb\","
        "\"placement\":{\"start\":4,\"size\":4}},"
        "{\"containerIndex\":0,\"deviceIndex\":1,\"gpuUUID\":\"GPU-a\",\"profile\":\"3g.20gb\","
        "\"placement\":{\"start\":0,\"size\":4}},"
        "{\"containerIndex\":1,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":\"3g.20gb\","
        "\"placement\":{\"start\":4,\"size\":4}}]");
    kit.container[0].is_sidecar = true; /* which stays: then nothing is left */
    assert_int_equal(whole_place(&kit, NULL, 1, &p), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardInsufficientMemory");
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fit),          cmocka_unit_test(test_choice_of_the_pod),
        cmocka_unit_test(test_cordon),       cmocka_unit_test(test_numa),
        cmocka_unit_test(test_many_reasons), cmocka_unit_test(test_mig),
        cmocka_unit_test(test_mig_twice),    cmocka_unit_test(test_topology),
        cmocka_unit_test(test_many_cards),   cmocka_unit_test(test_best_set),
        cmocka_unit_test(test_whole),        cmocka_unit_test(test_whole_mig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
