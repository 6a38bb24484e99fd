#include "kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/request.h"
#include "vendors/metax/policy/metax.h"
#include "vendors/metax/policy/sgpu.h"
#include "vendors/metax/policy/sgpu_card.h"
#include "whole.h"
#include "yaml.h"

#define GPU      "metax-tech.com/gpu"
#define SGPU     "metax-tech.com/sgpu"
#define VMEM     "metax-tech.com/vmemory"
#define VCORE    "metax-tech.com/vcore"
#define CLASS    "metax-tech.com/sgpu-app-class"
#define QOS      "metax-tech.com/sgpu-qos-policy"
#define AWARE    "metax-tech.com/sgpu-topology-aware"
#define REGISTER "metax-tech.com/node-gpu-devices"

/* ---- whole cards */

static void setup_gpu(struct kit *kit, const char *cards)
{
    kit_init(kit, &gs_metax_section, NULL, "Metax-GPU");
    kit_container(kit, "c0");
    kit_container(kit, "c1");
    kit_capacity(kit, GPU, cards);
    assert_int_equal(kit_read_node(kit), 0);
}

/* 1.3, 2.3, 3.5 */
static void test_gpu(void **state)
{
    struct kit kit;
    struct gs_request r;

    (void)state;
    setup_gpu(&kit, "8");
    assert_int_equal(kit.group.n, 8);
    assert_true(gs_str_eq_c(kit.node.dev[7].id, "node1-metax-7"));
    assert_true(gs_str_eq_c(kit.node.dev[7].type, "Metax-GPU"));
    assert_int_equal(kit.node.dev[7].count, 1);
    assert_int_equal(kit.node.dev[7].mem_mib, 65536);
    assert_int_equal(kit.node.dev[7].cores, 100);
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_limit(&kit, 0, GPU, "2");
    assert_int_equal(kit_admit(&kit, 0), 1);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 2);
    assert_int_equal(r.mem_mib, 0);
    assert_int_equal(r.mem_pct, 100);
    assert_int_equal(r.cores, 100);
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_string_equal(kit_chosen(&kit, 0), "7,6");
    assert_int_equal(kit.pick[0][0].mem_mib, 65536);
    assert_int_equal(kit.pick[0][0].cores, 100);
    kit_fini(&kit);
}

/* quirk 23: containers of a pod have cards of their own */
static void test_gpu_containers(void **state)
{
    struct kit kit;

    (void)state;
    setup_gpu(&kit, "2");
    kit_limit(&kit, 0, GPU, "1");
    kit_limit(&kit, 1, GPU, "1");
    kit_ask(&kit, 0);
    kit_ask(&kit, 1);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit_fit(&kit, 1), 1);
    assert_string_equal(kit_chosen(&kit, 0), "1");
    assert_string_equal(kit_chosen(&kit, 1), "0");
    assert_int_equal(kit_fit(&kit, 1), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "2/2 CardTimeSlicingExhausted");
    kit_fini(&kit);
}

static void want_topology(const char *key, const char *table, bool is_spread, double want)
{
    struct kit kit;

    setup_gpu(&kit, "2");
    kit_annotate_node(&kit, key, table);
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 0, GPU, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_true(kit_score(&kit, is_spread) == want);
    kit_fini(&kit);
}

static void test_gpu_score(void **state)
{
    static const char losses[] = "metax-tech.com/gpu.topology.losses",
                      scores[] = "metax-tech.com/gpu.topology.scores";

    (void)state;
    want_topology(losses, "{\"1\":123,\"2\":321}", false, 1679); /* A12.16 */
    want_topology(losses, "{\"1\":100,\"2\":200}", false, 1800); /* A12.17 */
    /* 3.3 */
    want_topology(losses, "{\"1\":100,\"2\":200}", true, 0);
    want_topology(scores, "{\"1\":100,\"2\":200}", true, 1800);
    want_topology(scores, "{\"1\":100,\"2\":200}", false, 0);
    want_topology(losses, "{\"1\":100}", false, 2000);
    want_topology(losses, "{\"2\":\"many\"}", false, 2000);
    want_topology(losses, "not JSON", false, 0);
    want_topology(losses, "[1,2]", false, 0);
}

/* ---- shares */

struct card {
    int32_t zone;
    const char *qos;
};

static void read_cards(struct kit *kit, const struct card *card, size_t n)
{
    gs_buf_clear(&kit->text);
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&kit->text,
                    "%s{\"uuid\":\"GPU-%zu\",\"bdf\":\"0000:0%zu:00.0\",\"model\":\"C500\","
                    "\"totalDevCount\":16,\"totalCompute\":100,\"totalVRam\":65536,"
                    "\"availableDevCount\":6,\"numa\":0,\"healthy\":true,\"qosPolicy\":\"%s\","
                    "\"linkZone\":%d}",
                    i == 0 ? "[" : ",", i + 1, i + 1, card[i].qos != NULL ? card[i].qos : "",
                    card[i].zone);
    gs_buf_adds(&kit->text, "]");
    kit_annotate_node(kit, REGISTER,
                      gs_arena_str(&kit->arena, gs_str_of(gs_buf_text(&kit->text))).p);
    assert_int_equal(kit_read_node(kit), 0);
}

static void setup(struct kit *kit)
{
    kit_init(kit, &gs_metax_section, NULL, "Metax-SGPU");
    kit_container(kit, "c0");
    kit_container(kit, "c1");
}

/* 1.7 */
static void test_devices(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_node(
        &kit, REGISTER,
        "[{\"uuid\": \"GPU-123\", \"model\": \"sgpu\", \"totalDevCount\": 16, \"totalCompute\": "
        "100, \"bdf\": \"0000:44:00.0\", \"totalVRam\" : 32768, \"numa\": 1, \"healthy\": true, "
        "\"qosPolicy\": \"fixed-share\"},{\"uuid\":\"GPU-124\",\"numa\":-1}]");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 2);
    assert_true(gs_str_eq_c(kit.node.dev[0].id, "GPU-123"));
    assert_true(gs_str_eq_c(kit.node.dev[0].type, "Metax-SGPU"));
    assert_int_equal(kit.node.dev[0].count, 16);
    assert_int_equal(kit.node.dev[0].cores, 100);
    assert_int_equal(kit.node.dev[0].mem_mib, 32768);
    assert_int_equal(kit.node.dev[0].numa, 1);
    assert_true(kit.node.dev[0].is_healthy);
    assert_int_equal(((const struct gs_sgpu_card *)kit.node.dev[0].custom)->qos,
                     GS_SGPU_QOS_FIXED_SHARE);
    assert_int_equal(kit.node.dev[1].index, 1);
    assert_int_equal(kit.node.dev[1].numa, -1);
    assert_false(kit.node.dev[1].is_healthy);
    kit_fini(&kit);
}

static void test_bad_nodes(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[7]",
        "[null]",
        "[{}]",
        "[{\"uuid\":\"\"}]",
        "[{\"uuid\":5}]",
        "[{\"uuid\":\"a\",\"totalVRam\":2147483648}]",
        "[{\"uuid\":\"a\",\"totalVRam\":-1}]",
        "[{\"uuid\":\"a\",\"totalDevCount\":1.5}]",
        "[{\"uuid\":\"a\",\"healthy\":\"yes\"}]",
    };
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        kit_annotate_node(&kit, REGISTER, bad[i]);
        assert_int_equal(kit_read_node(&kit), -EINVAL);
        assert_true(kit.err.text[0] != '\0');
    }
    kit_annotate_node(&kit, REGISTER, "[]"); /* all taken back */
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 0);
    kit_fini(&kit);
}

static void want_admit(const char *count, const char *class, const char *qos, const char *text)
{
    struct kit kit;

    setup(&kit);
    kit_limit(&kit, 0, SGPU, count);
    if (class != NULL)
        kit_annotate_pod(&kit, CLASS, class);
    if (qos != NULL)
        kit_annotate_pod(&kit, QOS, qos);
    assert_int_equal(kit_admit(&kit, 0), text[0] == '\0' ? 1 : -EINVAL);
    assert_string_equal(kit.err.text, text);
    kit_fini(&kit);
}

static void test_admit(void **state)
{
    static const char no_qos[] = QOS " must be set one of [best-effort, fixed-share, burst-share]";
    struct kit kit;

    (void)state;
    /* A14.20 */
    want_admit("1", "oNLine", NULL, CLASS " must be set one of [online, offline]");
    want_admit("1", "offline", "best-effortx", no_qos);
    want_admit("1", "online", "best-effortx", "");
    /* 2.3 */
    want_admit("2", "online", NULL, "app-class pod must request single device");
    want_admit("2", "offline", NULL, "app-class pod must request single device");
    want_admit("2", NULL, "burst-share", "");
    want_admit("2", NULL, "fixed-share", "");
    want_admit("1", NULL, "best-effortx", no_qos);
    want_admit("1", NULL, "", no_qos);

    setup(&kit);
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_null(kit_annotation_of(&kit, QOS));
    kit_request(&kit, 0, SGPU, "1");
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_limit(&kit, 0, SGPU, "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_annotation_of(&kit, QOS), "best-effort");
    kit_limit(&kit, 0, VMEM, "16.0Gi");
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    kit_fini(&kit);
}

static void want_request(const char *core, const char *mem, int32_t mib, int32_t pct, int32_t cores)
{
    struct kit kit;
    struct gs_request r;

    setup(&kit);
    kit_limit(&kit, 0, SGPU, "2");
    if (core != NULL)
        kit_limit(&kit, 0, VCORE, core);
    if (mem != NULL)
        kit_limit(&kit, 0, VMEM, mem);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, mib < 0 ? 0 : 2);
    if (mib >= 0) {
        assert_int_equal(r.mem_mib, mib);
        assert_int_equal(r.mem_pct, pct);
        assert_int_equal(r.cores, cores);
    }
    kit_fini(&kit);
}

/* 3.5, row Metax-SGPU */
static void test_requests(void **state)
{
    struct kit kit;

    (void)state;
    want_request(NULL, NULL, 0, 100, 100);
    want_request("30", NULL, 0, 100, 30);
    want_request(NULL, "16", 16384, 0, 100);
    want_request("60", "1024Mi", 1024, 0, 60);
    want_request("60", "16Gi", 16384, 0, 60);
    want_request("60", "1Ki", 1, 0, 60);
    want_request("60", "1k", 1024000, 0, 60); /* as the API server writes 1000 */
    want_request("60", "0", 0, 100, 60);
    want_request("60", "2097152", -1, 0, 0);
    want_request("60", "-1", -1, 0, 0);
    want_request("-1", "1", -1, 0, 0);
    want_request("60", "9223372036854775807", -1, 0, 0);
    setup(&kit);
    kit_request(&kit, 0, SGPU, "1"); /* limits only */
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_limit(&kit, 0, SGPU, "0");
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_fini(&kit);
}

static uint32_t tag(uint32_t class, uint32_t qos)
{
    return class | qos << GS_SGPU_QOS_SHIFT;
}

/* A19.25, with the device's quality reported by the node and with that of who holds it */
static void test_qos(void **state)
{
    static const struct card burst[] = {{0, "burst-share"}}, best[] = {{0, "best-effort"}},
                             none[] = {{0, NULL}};
    static struct gs_tenant tenant = {.slots = 2, .cores = 10};
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_pod(&kit, QOS, "best-effort");
    read_cards(&kit, burst, 1);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 64, .cores = 50};
    assert_int_equal(kit_fit(&kit, 0), 1); /* idle */
    assert_int_equal(kit_fit(&kit, 0), 1); /* its own */
    kit.use[0] = (struct gs_use){.slots = 2};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardQosPolicyMismatch");
    kit.request[0].cores = 100; /* the quality lets it pass, the next rule does not */
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 ExclusiveDeviceAllocateConflict");
    read_cards(&kit, best, 1);
    kit.request[0].cores = 50;
    kit.use[0] = (struct gs_use){.slots = 2};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), 1);
    read_cards(&kit, none, 1);
    kit.use[0] = (struct gs_use){.slots = 2};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), 1);

    /* a pod that was placed a moment ago: the node still reports what was before */
    tenant.tag = tag(GS_SGPU_CLASS_NONE, GS_SGPU_QOS_FIXED_SHARE);
    read_cards(&kit, best, 1);
    kit.use[0] = (struct gs_use){.slots = 2, .tenant = &tenant, .n_tenants = 1};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardQosPolicyMismatch");
    tenant.tag = tag(GS_SGPU_CLASS_NONE, GS_SGPU_QOS_BEST_EFFORT);
    read_cards(&kit, burst, 1);
    kit.use[0] = (struct gs_use){.slots = 2, .tenant = &tenant, .n_tenants = 1};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_fini(&kit);
}

static void want_class(const char *class, uint32_t there1, uint32_t there2, bool fits)
{
    static const struct card one[] = {{0, NULL}};
    struct gs_tenant tenant[2] = {{.slots = 1, .tag = there1}, {.slots = 1, .tag = there2}};
    struct kit kit;

    setup(&kit);
    if (class != NULL)
        kit_annotate_pod(&kit, CLASS, class);
    read_cards(&kit, one, 1);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 64, .cores = 10};
    kit.use[0] = (struct gs_use){.slots = 2, .tenant = tenant, .n_tenants = 2};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), fits ? 1 : -ENOSPC);
    if (!fits)
        assert_string_equal(kit_reasons(&kit), "1/1 CardAppClassMismatch");
    kit_fini(&kit);
}

/* A19.26 */
static void test_class(void **state)
{
    static const struct card one[] = {{0, NULL}};
    struct kit kit;

    (void)state;
    want_class(NULL, GS_SGPU_CLASS_ONLINE, GS_SGPU_CLASS_ONLINE, false);
    want_class(NULL, GS_SGPU_CLASS_OFFLINE, GS_SGPU_CLASS_OFFLINE, false);
    want_class(NULL, GS_SGPU_CLASS_NONE, GS_SGPU_CLASS_NONE, true);
    want_class("online", GS_SGPU_CLASS_NONE, GS_SGPU_CLASS_NONE, false);
    want_class("online", GS_SGPU_CLASS_ONLINE, GS_SGPU_CLASS_OFFLINE, true);
    want_class("offline", GS_SGPU_CLASS_ONLINE, GS_SGPU_CLASS_OFFLINE, false);
    want_class("offline", GS_SGPU_CLASS_OFFLINE, GS_SGPU_CLASS_OFFLINE, true);
    setup(&kit); /* idle */
    kit_annotate_pod(&kit, CLASS, "online");
    read_cards(&kit, one, 1);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 64, .cores = 10};
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].cores, 0); /* 3.5: online pods reserve no cores */
    assert_int_equal(kit_fit(&kit, 0), 1);     /* beside itself */
    kit_fini(&kit);
}

/* The pod's note: what want_class() and test_qos() wrote by hand */
static void test_tags(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit.policy->ops->tag(kit.policy, &kit.pod), 0);
    kit_annotate_pod(&kit, QOS, "burst-share");
    assert_int_equal(kit.policy->ops->tag(kit.policy, &kit.pod),
                     tag(GS_SGPU_CLASS_NONE, GS_SGPU_QOS_BURST_SHARE));
    kit_annotate_pod(&kit, CLASS, "offline");
    kit_annotate_pod(&kit, QOS, "else");
    assert_int_equal(kit.policy->ops->tag(kit.policy, &kit.pod),
                     tag(GS_SGPU_CLASS_OFFLINE, GS_SGPU_QOS_OTHER));
    kit_annotate_pod(&kit, CLASS, "online");
    assert_int_equal(kit.policy->ops->tag(kit.policy, &kit.pod) & GS_SGPU_CLASS_MASK,
                     GS_SGPU_CLASS_ONLINE);
    kit_fini(&kit);
}

static void want_reason(struct kit *kit, struct gs_request r, struct gs_use use, const char *want)
{
    kit->request[0] = r;
    kit->use[0] = use;
    kit_unfit(kit);
    assert_int_equal(kit_fit(kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(kit), want);
}

/* 3.5, "Metax-SGPU order" */
static void test_reasons(void **state)
{
    static const struct card one[] = {{0, NULL}}, two[] = {{0, NULL}, {0, NULL}};
    struct kit kit;

    (void)state;
    setup(&kit);
    read_cards(&kit, one, 1);
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 65537, .cores = 50},
                (struct gs_use){0}, "1/1 CardInsufficientMemory");
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 512, .cores = 50},
                (struct gs_use){.cores = 100}, "1/1 CardInsufficientCore");
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 512, .cores = 120},
                (struct gs_use){0}, "1/1 CardInsufficientCore");
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 512, .cores = 50},
                (struct gs_use){.slots = 16}, "1/1 CardTimeSlicingExhausted");
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 512},
                (struct gs_use){.slots = 2, .cores = 100}, "1/1 CardComputeUnitsExhausted");
    want_reason(&kit, (struct gs_request){.nums = 2, .mem_mib = 512, .cores = 20},
                (struct gs_use){.slots = 2, .cores = 10}, "1/1 AllocatedCardsInsufficientRequest");
    kit.device_policy.is_mutex = true;
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 64, .cores = 50},
                (struct gs_use){.slots = 1}, "1/1 ExclusiveDeviceAllocateConflict");
    kit.device_policy.is_mutex = false;
    kit_annotate_pod(&kit, "metax-tech.com/use-gpuuuid", "GPU-9");
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 64, .cores = 50},
                (struct gs_use){0}, "1/1 CardUuidMismatch");
    kit_device(&kit, 0)->is_healthy = false;
    want_reason(&kit, (struct gs_request){.nums = 1, .mem_mib = 64, .cores = 50},
                (struct gs_use){0}, "1/1 CardUnhealthy");
    kit_fini(&kit);

    setup(&kit); /* the last in order, and a percentage of memory */
    read_cards(&kit, two, 2);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_pct = 10, .cores = 20};
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "1");
    assert_int_equal(kit.pick[0][0].mem_mib, 6553);
    assert_int_equal(kit.pick[0][0].cores, 20);
    kit_fini(&kit);
}

/* Cards in the order in which the walk meets them: the last registered first. */
static void want_linked(const int32_t *zone, size_t n, int32_t wanted, const char *uuids)
{
    struct card card[8];
    struct kit kit;

    setup(&kit);
    for (size_t i = 0; i < n; i++)
        card[n - 1 - i] = (struct card){zone[i], NULL};
    read_cards(&kit, card, n);
    kit.request[0] = (struct gs_request){.nums = wanted, .mem_pct = 100, .cores = 100};
    assert_int_equal(kit_fit(&kit, 0), wanted);
    gs_buf_clear(&kit.text);
    for (int32_t i = 0; i < wanted; i++)
        gs_buf_addf(&kit.text, "%zu", n - 1 - kit.pick[0][i].dev);
    assert_string_equal(gs_buf_text(&kit.text), uuids);
    kit_fini(&kit);
}

/* 3.5: the smallest zone that fits, then across zones, then cards of no zone */
static void test_linked(void **state)
{
    static const int32_t a[] = {1, 1, 2}, b[] = {1, 1, 2, 2, 2}, c[] = {1, 1, 2, 2, 2, 2},
                         d[] = {0, 0, 0}, e[] = {0, 0, 1, 1}, f[] = {0, 0, 1, 1, 1};

    (void)state;
    want_linked(a, 3, 1, "2");
    want_linked(b, 5, 2, "01");
    want_linked(c, 6, 4, "2345");
    want_linked(b, 5, 4, "0123");
    want_linked(d, 3, 2, "01");
    want_linked(e, 4, 2, "23");
    want_linked(f, 5, 4, "2340");
}

static void want_linked_score(const int32_t *zone, const char *used, const char *given, bool spread,
                              double want)
{
    struct card card[8];
    struct kit kit;
    size_t n = 0;

    setup(&kit);
    kit_annotate_pod(&kit, AWARE, "true");
    for (; zone[n] != -1; n++)
        card[n] = (struct card){zone[n], NULL};
    read_cards(&kit, card, n);
    for (; *used != '\0'; used++)
        kit.use[*used - '0'].slots = 1;
    for (; given[kit.n_picks[0]] != '\0'; kit.n_picks[0]++)
        kit.pick[0][kit.n_picks[0]] =
            (struct gs_pick){.dev = (uint32_t)(given[kit.n_picks[0]] - '0'), .cores = 100};
    assert_true(kit_score(&kit, spread) == want);
    kit_annotate_pod(&kit, AWARE, "false");
    assert_true(kit_score(&kit, spread) == 0);
    kit_fini(&kit);
}

/* A19.28: -30, 0, 60, and the weight of 10000 */
static void test_linked_score(void **state)
{
    static const int32_t four[] = {1, 1, 1, 1, -1}, eight[] = {1, 1, 1, 1, 2, 2, 2, 2, -1},
                         five[] = {1, 1, 1, 1, 2, -1}, split[] = {1, 1, 1, 2, 2, -1};

    (void)state;
    want_linked_score(four, "", "3", false, -300000);
    want_linked_score(four, "012", "3", false, 0);
    want_linked_score(four, "", "23", false, 600000);
    want_linked_score(four, "", "23", true, -600000);
    /* the same rule on larger choices */
    want_linked_score(eight, "012567", "34", false, 0);
    want_linked_score(five, "", "0123", false, 6000000);
    want_linked_score(split, "", "1234", false, 1800000);
    want_linked_score(eight, "", "01234567", false, 12000000);
}

static void want_online_score(int32_t online, int32_t offline, double want)
{
    static const struct card one[] = {{0, NULL}};
    struct gs_tenant tenant[8];
    struct kit kit;

    setup(&kit);
    kit_annotate_pod(&kit, CLASS, "online");
    read_cards(&kit, one, 1);
    for (int32_t i = 0; i < online + offline; i++)
        tenant[i] = (struct gs_tenant){
            .slots = 1, .tag = i < online ? GS_SGPU_CLASS_ONLINE : GS_SGPU_CLASS_OFFLINE};
    kit.use[0] = (struct gs_use){.tenant = tenant, .n_tenants = (size_t)(online + offline)};
    kit.n_picks[0] = 1;
    assert_true(kit_score(&kit, false) == want);
    assert_true(kit_score(&kit, true) == -want);
    kit_fini(&kit);
}

/* 3.3: -20 for each online pod, -2 for each offline one, -100 where there are these alone */
static void test_online_score(void **state)
{
    (void)state;
    want_online_score(0, 0, 0);
    want_online_score(2, 0, -400000);
    want_online_score(0, 2, -2000000);
    want_online_score(2, 2, -440000);
}

/* 3.5: online pods go where few others are, and not where offline ones are alone */
static void test_quiet(void **state)
{
    static const struct card five[] = {{0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}, {0, NULL}};
    struct gs_tenant online = {.slots = 1, .tag = GS_SGPU_CLASS_ONLINE};
    struct gs_tenant offline = {.slots = 1, .tag = GS_SGPU_CLASS_OFFLINE};
    struct gs_tenant both[] = {online, offline};
    struct gs_tenant two[] = {online, online};
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_pod(&kit, CLASS, "online");
    read_cards(&kit, five, 5);
    kit.request[0] = (struct gs_request){.nums = 4, .mem_mib = 64, .cores = 50};
    kit.use[0] = (struct gs_use){.slots = 1, .tenant = &online, .n_tenants = 1};
    kit.use[2] = (struct gs_use){.slots = 2, .tenant = both, .n_tenants = 2};
    kit.use[3] = (struct gs_use){.slots = 2, .tenant = two, .n_tenants = 2};
    kit.use[4] = (struct gs_use){.slots = 1, .tenant = &offline, .n_tenants = 1};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), 4);
    assert_string_equal(kit_chosen(&kit, 0), "1,0,2,3");
    kit_fini(&kit);
}

/* A3.16 */
static void test_annotations(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit);
    kit_annotate_node(&kit, REGISTER,
                      "[{\"uuid\":\"a0\"},{\"uuid\":\"a1\"},{\"uuid\":\"a3\"},{\"uuid\":\"a7\"}]");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_null(kit_written(&kit, &(struct gs_pairs){0}, "x"));
    p = kit_write(&kit, 1);
    assert_int_equal(p.n, 0);
    kit.pick[0][0] = (struct gs_pick){.dev = 0, .mem_mib = 10, .cores = 50};
    kit.pick[0][1] = (struct gs_pick){.dev = 1, .mem_mib = 1024, .cores = 30};
    kit.pick[1][0] = (struct gs_pick){.dev = 2, .mem_mib = 10240, .cores = 20};
    kit.pick[1][1] = (struct gs_pick){.dev = 3, .mem_mib = 65536, .cores = 80};
    kit.n_picks[0] = kit.n_picks[1] = 2;
    p = kit_write(&kit, INT64_C(1764460800123456789));
    assert_string_equal(kit_written(&kit, &p, "metax-tech.com/gpu-devices-allocated"),
                        "[[{\"uuid\":\"a0\",\"compute\":50,\"vRam\":10},"
                        "{\"uuid\":\"a1\",\"compute\":30,\"vRam\":1024}],"
                        "[{\"uuid\":\"a3\",\"compute\":20,\"vRam\":10240},"
                        "{\"uuid\":\"a7\",\"compute\":80,\"vRam\":65536}]]");
    assert_string_equal(kit_written(&kit, &p, "metax-tech.com/predicate-time"),
                        "1764460800123456789");
    /* 1.7: zero values are left out, an empty container is [] */
    kit.n_picks[0] = 0;
    kit.n_picks[1] = 1;
    kit.pick[1][0].cores = 0;
    p = kit_write(&kit, 1);
    assert_string_equal(kit_written(&kit, &p, "metax-tech.com/gpu-devices-allocated"),
                        "[[],[{\"uuid\":\"a3\",\"vRam\":10240}]]");
    assert_true(kit.policy->writes_own_type);
    assert_int_equal(kit.policy->quota_factor, 1024);
    assert_true(gs_str_eq_c(kit.policy->keys.lock, "hami.io/mutex.lock"));
    kit_fini(&kit);
}

/* 1.6: sGPU grants carry the device's type; whole cards go to containers of their own (quirk 23) */
static void test_grant(void **state)
{
    static const struct card two[] = {{0, NULL}, {0, NULL}};
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit);
    read_cards(&kit, two, 2);
    kit_limit(&kit, 1, SGPU, "1");
    kit_limit(&kit, 1, VCORE, "60");
    kit_limit(&kit, 1, VMEM, "4");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/metax-sgpu-devices-allocated"),
                        ";GPU-2,Metax-SGPU,4096,60:;");
    assert_string_equal(kit_written(&kit, &p, "hami.io/metax-sgpu-devices-to-allocate"),
                        ";GPU-2,Metax-SGPU,4096,60:;");
    assert_string_equal(kit_written(&kit, &p, "metax-tech.com/gpu-devices-allocated"),
                        "[[],[{\"uuid\":\"GPU-2\",\"compute\":60,\"vRam\":4096}]]");
    kit_fini(&kit);

    setup_gpu(&kit, "2");
    kit_limit(&kit, 0, GPU, "1");
    kit_limit(&kit, 1, GPU, "1");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/metax-gpu-devices-allocated"),
                        "node1-metax-1,Metax-GPU,65536,100:;node1-metax-0,Metax-GPU,65536,100:;");
    kit_fini(&kit);
}

struct held {
    struct gs_tenant tenant[16];
    size_t n;
};

/* What must be true of a card whoever is on it. */
static void check_card(const struct held *h, const struct gs_use *use)
{
    uint32_t first = h->n > 0 ? h->tenant[0].tag : 0;

    assert_true(use->mem_mib <= 65536 && use->cores <= 100 && use->slots <= 16);
    for (size_t i = 0; i < h->n; i++) {
        uint32_t now = h->tenant[i].tag;

        assert_int_equal((now & GS_SGPU_CLASS_MASK) == 0, (first & GS_SGPU_CLASS_MASK) == 0);
        if ((now & GS_SGPU_CLASS_MASK) != GS_SGPU_CLASS_ONLINE &&
            (first & GS_SGPU_CLASS_MASK) != GS_SGPU_CLASS_ONLINE)
            assert_int_equal(now >> GS_SGPU_QOS_SHIFT, first >> GS_SGPU_QOS_SHIFT);
        assert_true(h->tenant[i].cores < 100 || h->n == 1);
    }
}

static void hold(struct held *h, struct gs_use *use, const struct gs_tenant *t)
{
    assert_true(h->n < GS_ARRAY_LEN(h->tenant));
    h->tenant[h->n++] = *t;
    use->slots += t->slots;
    use->mem_mib += t->mem_mib;
    use->cores += t->cores;
    use->tenant = h->tenant;
    use->n_tenants = h->n;
}

static void leave(struct held *h, struct gs_use *use, size_t at)
{
    use->slots -= h->tenant[at].slots;
    use->mem_mib -= h->tenant[at].mem_mib;
    use->cores -= h->tenant[at].cores;
    h->tenant[at] = h->tenant[--h->n];
    use->n_tenants = h->n;
}

/* Pods of every class and quality that come and go */
static void test_together(void **state)
{
    static const char *const class[] = {"", "online", "offline"};
    static const char *const qos[] = {"best-effort", "fixed-share", "burst-share"};
    static const struct card four[] = {
        {1, NULL}, {1, "best-effort"}, {2, "burst-share"}, {0, NULL}};
    static struct held held[4];
    unsigned seed = 20261130;
    struct kit kit;
    int fitted = 0;

    (void)state;
    print_message("seed %u\n", seed);
    setup(&kit);
    read_cards(&kit, four, 4);
    for (int step = 0; step < 20000; step++) {
        size_t at = (size_t)rand_r(&seed) % 4;

        if (held[at].n > 0 && rand_r(&seed) % 2 == 0)
            leave(&held[at], &kit.use[at], (size_t)rand_r(&seed) % held[at].n);
        kit_annotate_pod(&kit, CLASS, class[rand_r(&seed) % 3]);
        kit_annotate_pod(&kit, QOS, qos[rand_r(&seed) % 3]);
        kit.request[0] = (struct gs_request){.nums = 1 + rand_r(&seed) % 2,
                                             .mem_mib = 1024 * (1 + rand_r(&seed) % 16),
                                             .cores = 20 * (1 + rand_r(&seed) % 5)};
        kit_unfit(&kit);
        if (kit_fit(&kit, 0) < 0)
            continue;
        fitted++;
        for (size_t i = 0; i < kit.n_picks[0]; i++) {
            const struct gs_pick *p = &kit.pick[0][i];
            const struct gs_tenant t = {
                .slots = 1, .mem_mib = p->mem_mib, .cores = p->cores, .tag = kit.wish.tag};

            hold(&held[p->dev], &kit.use[p->dev], &t);
            check_card(&held[p->dev], &kit.use[p->dev]);
        }
    }
    assert_true(fitted > 1000);
    kit_fini(&kit);
}

/* 4.1 */
static void test_section(void **state)
{
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_metax_section,
             "resourceCountName: \"\"\nresourceVCountName: example.com/s\n", "Metax-GPU");
    assert_int_equal(kit.policies.n, 2);
    assert_int_equal(kit.policy->names.count.n, 0);
    kit_fini(&kit);
    yaml_kit(&kit, &gs_metax_section,
             "resourceVCountName: example.com/s\nsgpuTopologyAware: true\n", "Metax-SGPU");
    assert_true(gs_str_eq_c(kit.policy->names.count, "example.com/s"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, VMEM));
    assert_true(gs_str_eq_c(kit.policy->names.core, VCORE));
    assert_true(((const struct gs_sgpu_conf *)kit.policy->conf)->is_topology_aware);
    kit_fini(&kit);
    kit_init(&kit, &gs_metax_section, NULL, "Metax-SGPU");
    assert_true(gs_str_eq_c(kit.policy->names.count, SGPU));
    assert_false(((const struct gs_sgpu_conf *)kit.policy->conf)->is_topology_aware);
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    static const struct card two[] = {{1, NULL}, {1, NULL}};
    struct kit kit;

    (void)state;
    setup_gpu(&kit, "2");
    kit_no_memory(&kit, &gs_metax_section);
    kit_fini(&kit);
    setup(&kit);
    read_cards(&kit, two, 2);
    kit_limit(&kit, 0, SGPU, "1");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_no_memory(&kit, &gs_metax_section);
    kit.arena.failed = true;
    assert_int_equal(kit_admit(&kit, 0), -ENOMEM);
    kit.arena.failed = false;
    kit_want_cordoned(&kit, 0);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu),          cmocka_unit_test(test_gpu_containers),
        cmocka_unit_test(test_gpu_score),    cmocka_unit_test(test_devices),
        cmocka_unit_test(test_bad_nodes),    cmocka_unit_test(test_admit),
        cmocka_unit_test(test_requests),     cmocka_unit_test(test_qos),
        cmocka_unit_test(test_class),        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_reasons),      cmocka_unit_test(test_linked),
        cmocka_unit_test(test_linked_score), cmocka_unit_test(test_online_score),
        cmocka_unit_test(test_quiet),        cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_section),      cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_together),     cmocka_unit_test(test_grant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
