/* A page of metrics: lines and labels by the text format 0.0.4 (exposition formats of Prometheus),
 * names by HAMi v2.10's scheduler (6.2 of the collected facts). */

#include "review.h"

#include <stdlib.h>
#include <string.h>

#include "control/feed.h"
#include "control/metrics_page.h"
#include "model/node.h"

static struct review r;

static void feed_node(const char *name, const char *id, int cards)
{
    struct gs_feed feed = {.books = r.books, .arena = &r.call};
    struct gs_buf text = {0};
    struct gs_kube_node node;
    struct gs_node_view view;
    yyjson_doc *doc;

    gs_buf_addf(&text,
                "{\"metadata\":{\"name\":\"%s\",\"annotations\":{\"hami.io/node-nvidia-register\":"
                "\"[",
                name);
    for (int i = 0; i < cards; i++)
        gs_buf_addf(&text,
                    "%s{\\\"id\\\":\\\"%s-%d\\\",\\\"index\\\":%d,\\\"count\\\":10,\\\"devmem\\\":"
                    "8192,\\\"devcore\\\":100,\\\"type\\\":\\\"NVIDIA-A10\\\",\\\"health\\\":true}",
                    i > 0 ? "," : "", id, i, i);
    gs_buf_adds(&text, "]\"}},\"status\":{\"allocatable\":{\"nvidia.com/gpu\":\"10\"}}}");
    doc = yyjson_read(text.p, text.n, 0);
    assert_non_null(doc);
    assert_int_equal(gs_feed_node(&feed, yyjson_doc_get_root(doc), &node, &view, NULL), 0);
    yyjson_doc_free(doc);
    gs_buf_fini(&text);
}

static void feed_pod(const char *name, const char *node, const char *grant)
{
    struct gs_feed feed = {.books = r.books, .arena = &r.call};
    struct gs_feed_pod pod;
    struct gs_buf text = {0};
    yyjson_doc *doc;

    gs_buf_addf(&text,
                "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"u-%s\","
                "\"annotations\":{\"hami.io/vgpu-node\":\"%s\","
                "\"hami.io/vgpu-devices-allocated\":\"%s\"}},\"spec\":{\"nodeName\":\"%s\","
                "\"containers\":[{\"name\":\"c\"}]}}",
                name, name, node, grant, node);
    doc = yyjson_read(text.p, text.n, 0);
    assert_non_null(doc);
    assert_int_equal(gs_feed_pod(&feed, yyjson_doc_get_root(doc), &pod, NULL), 0);
    yyjson_doc_free(doc);
    gs_buf_fini(&text);
}

static int set_up(void **state)
{
    (void)state;
    review_init(&r, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    review_fini(&r);
    return 0;
}

static void want(const char *page, const char *line)
{
    const char *at = strstr(page, line);

    if (at == NULL)
        fail_msg("not there: %s", line);
    if (strstr(at + 1, line) != NULL)
        fail_msg("there twice: %s", line);
}

static void test_cards(void **state)
{
    struct gs_metrics_page page = {.from = {.books = r.books, .version = "1", .has_legacy = true}};
    const char *text;

    (void)state;
    feed_node("n1", "GPU", 2);
    feed_pod("p", "n1", "GPU-1,NVIDIA,2048,30:;");
    while (!gs_metrics_page_step(&page))
        ;
    assert_int_equal(gs_buf_check(&page.text), 0);
    text = gs_buf_text(&page.text);
    want(text, "# TYPE hami_gpu_memory_limit_bytes gauge\n");
    want(text, "\nhami_gpu_memory_limit_bytes{zone=\"vGPU\",node=\"n1\",device_uuid=\"GPU-0\","
               "device_index=\"0\",device_type=\"NVIDIA-A10\"} 8589934592\n");
    want(text, "\nhami_gpu_memory_allocated_bytes{zone=\"vGPU\",node=\"n1\",device_uuid=\"GPU-1\","
               "device_index=\"1\",device_cores=\"100\",device_type=\"NVIDIA-A10\"} 2147483648\n");
    want(text, "\nhami_gpu_shared_count{zone=\"vGPU\",node=\"n1\",device_uuid=\"GPU-1\","
               "device_index=\"1\",device_type=\"NVIDIA-A10\"} 1\n");
    want(text, "\nhami_gpu_core_allocated_ratio{zone=\"vGPU\",node=\"n1\",device_uuid=\"GPU-1\","
               "device_index=\"1\",device_type=\"NVIDIA-A10\"} 30\n");
    want(text,
         "\nhami_node_gpu_overview{zone=\"vGPU\",node=\"n1\",device_uuid=\"GPU-0\",device_index="
         "\"0\",device_cores=\"100\",device_memory_limit=\"8192\",device_type=\"NVIDIA-A10\"} 0\n");
    want(text, "\nhami_node_gpu_memory_allocated_ratio{zone=\"vGPU\",node=\"n1\",device_uuid="
               "\"GPU-1\",device_index=\"1\",device_type=\"NVIDIA-A10\"} 0.25\n");
    want(text, "\nhami_vgpu_memory_allocated_bytes{zone=\"vGPU\",namespace=\"ns\",node=\"n1\",pod="
               "\"p\",container_index=\"0\",device_uuid=\"GPU-1\"} 2147483648\n");
    want(text, "\nhami_vgpu_core_allocated_ratio{zone=\"vGPU\",namespace=\"ns\",node=\"n1\",pod="
               "\"p\",container_index=\"0\",device_uuid=\"GPU-1\"} 30\n");
    want(text, "\nvGPUMemoryAllocated{zone=\"vGPU\",podnamespace=\"ns\",nodename=\"n1\",podname="
               "\"p\",containeridx=\"0\",deviceuuid=\"GPU-1\"} 2147483648\n");
    want(text, "\nnodeGPUMemoryPercentage{zone=\"vGPU\",nodeid=\"n1\",deviceuuid=\"GPU-1\","
               "deviceidx=\"1\"} 0.25\n");
    gs_metrics_page_fini(&page);
}

/* A pod with MIG places as the annotation hami.io/vgpu-mig-allocations tells them. */
static void feed_mig_pod(const char *name, const char *places)
{
    struct gs_str *grants = calloc(r.policies.n, sizeof(*grants)),
                  *texts = calloc(r.policies.n, sizeof(*texts));

    grants[0] = GS_STR("GPU-0,NVIDIA,1024,10:;");
    texts[0] = gs_str_of(places);
    assert_int_equal(gs_books_pod_set(r.books,
                                      &(struct gs_books_pod){.uid = gs_str_of(name),
                                                             .ns = GS_STR("ns"),
                                                             .name = gs_str_of(name),
                                                             .node = GS_STR("n1"),
                                                             .grant = grants,
                                                             .placements = texts,
                                                             .n_slots = 1,
                                                             .ends_us = GS_BOOKS_STAYS},
                                      NULL),
                     0);
    free(grants);
    free(texts);
}

#define PLACE(at, more)                                                                            \
    "{\"containerIndex\":0,\"deviceIndex\":" at ",\"gpuUUID\":\"GPU-0\",\"profile\":\"1g.5gb\","   \
    "\"placement\":{\"start\":" at ",\"size\":1}" more "}"
#define MADE(uuid, gi) ",\"migUUID\":\"" uuid "\",\"gpuInstanceID\":" gi ",\"computeInstanceID\":0"

/* The example of the annotation in spec/control-plane.md 1.5; series of 6.2: realised ones only. */
static void test_mig_instances(void **state)
{
    struct gs_metrics_page page = {.from = {.books = r.books, .version = "1", .has_legacy = true}};
    const char *text;

    (void)state;
    feed_node("n1", "GPU", 1);
    feed_mig_pod("p", "[" PLACE("6", MADE("MIG-a", "7")) "," PLACE("5", "") "]");
    feed_mig_pod("q", "[" PLACE("4", MADE("MIG-a", "7")) "]"); /* claims the other's */
    while (!gs_metrics_page_step(&page))
        ;
    text = gs_buf_text(&page.text);
    want(text, "\nhami_node_gpu_mig_instance_info{");
    want(text,
         "{zone=\"vGPU\",node=\"n1\",device_uuid=\"GPU-0\",device_index=\"0\",mig_uuid=\"MIG-a\","
         "profile=\"1g.5gb\",gpu_instance_id=\"7\",compute_instance_id=\"0\","
         "placement_start=\"");
    want(text,
         "\nnodeGPUMigInstance{zone=\"vGPU\",nodeid=\"n1\",deviceuuid=\"GPU-0\",deviceidx=\"0\","
         "migname=\"1g.5gb-7\"} 1\n");
    gs_metrics_page_fini(&page);
}

static size_t count_of(const char *text, const char *line)
{
    size_t n = 0;

    for (const char *at = strstr(text, line); at != NULL; at = strstr(at + 1, line))
        n++;
    return n;
}

/* What a pod says of itself makes no series without end. */
static void test_mig_is_bounded(void **state)
{
    struct gs_metrics_page page = {.from = {.books = r.books, .version = "1"}};
    struct gs_buf text = {0};

    (void)state;
    feed_node("n1", "GPU", 1);
    gs_buf_adds(&text, "[");
    for (int i = 0; i < 200; i++)
        gs_buf_addf(&text,
                    "%s{\"containerIndex\":0,\"deviceIndex\":%d,\"gpuUUID\":\"GPU-0\",\"profile\":"
                    "\"%s%0*d\",\"placement\":{\"start\":0,\"size\":1},\"migUUID\":\"MIG-%d\","
                    "\"gpuInstanceID\":%d,\"computeInstanceID\":0}",
                    i > 0 ? "," : "", i, i < 100 ? "long" : "", i < 100 ? 200 : 1, i, i, i);
    gs_buf_adds(&text, "]");
    feed_mig_pod("p", gs_buf_text(&text));
    gs_buf_fini(&text);
    while (!gs_metrics_page_step(&page))
        ;
    assert_int_equal(count_of(gs_buf_text(&page.text), "\nhami_node_gpu_mig_instance_info{"), 16);
    assert_int_equal(count_of(gs_buf_text(&page.text), "profile=\"long"), 0);
    gs_metrics_page_fini(&page);
}

/* Text of a label is any UTF-8: backslash, quote and line feed are escaped. */
static void test_escapes(void **state)
{
    struct gs_metrics_page page = {.from = {.version = "a\\b\"c\nd"}};

    (void)state;
    assert_true(gs_metrics_page_step(&page));
    want(gs_buf_text(&page.text), "version=\"a\\\\b\\\"c\\nd\"");
    gs_metrics_page_fini(&page);
}

/* A page takes many steps, and the cluster changes between them: no series twice. */
static void test_steps(void **state)
{
    struct gs_metrics_page page = {.from = {.books = r.books, .version = "1"}};
    char name[16];
    int steps = 0;

    (void)state;
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "n%03d", i * 2);
        feed_node(name, name, 8);
    }
    for (; !gs_metrics_page_step(&page); steps++)
        if (steps < 30) { /* one before, one behind the walk */
            (void)snprintf(name, sizeof(name), "n%03d", steps * 2 + 1);
            feed_node(name, name, 1);
            (void)snprintf(name, sizeof(name), "n%03d", 599 - steps * 2);
            feed_node(name, name, 1);
            (void)snprintf(name, sizeof(name), "n%03d", 300 + steps);
            gs_books_node_gone(r.books, gs_str_of(name));
        }
    assert_true(steps > 20);
    want(gs_buf_text(&page.text), "hami_gpu_memory_limit_bytes{zone=\"vGPU\",node=\"n000\","
                                  "device_uuid=\"n000-0\"");
    for (int i = 0; i < 300; i++) {
        char line[120];

        (void)snprintf(line, sizeof(line), "\nhami_gpu_shared_count{zone=\"vGPU\",node=\"n%03d\"",
                       i * 2 + 1);
        const char *at = strstr(gs_buf_text(&page.text), line);
        assert_true(at == NULL || strstr(at + 1, line) == NULL);
    }
    gs_metrics_page_fini(&page);
}

static void test_counters(void **state)
{
    struct gs_metrics *m;
    struct gs_metrics_page page = {.from = {.version = "1"}};
    const char *text;

    (void)state;
    assert_int_equal(gs_metrics_new(&m), 0);
    page.from.metrics = m;
    gs_metrics_took(m, GS_METRICS_FILTER, 10000); /* at a bound: in */
    gs_metrics_took(m, GS_METRICS_FILTER, 10001);
    gs_metrics_took(m, GS_METRICS_FILTER, 60000000000);
    gs_metrics_filtered(m, &(struct gs_filter_note){.outcome = GS_FILTER_NO_ROOM,
                                                    .why = 1u << GS_REASON_NUMA_NOT_FIT,
                                                    .n_unregistered = 3});
    gs_metrics_admitted(
        m, &(struct gs_admit_reply){.outcome = GS_ADMIT_REFUSED, .why = GS_ADMIT_WHY_QUOTA});
    gs_metrics_bound(m, "");
    gs_metrics_bound(m, "conflict");
    assert_true(gs_metrics_page_step(&page));
    text = gs_buf_text(&page.text);
    want(text, "request_seconds_bucket{call=\"filter\",le=\"1e-05\"} 1\n");
    want(text, "request_seconds_bucket{call=\"filter\",le=\"2.5e-05\"} 2\n");
    want(text, "request_seconds_bucket{call=\"filter\",le=\"30\"} 2\n");
    want(text, "request_seconds_bucket{call=\"filter\",le=\"+Inf\"} 3\n");
    want(text, "request_seconds_count{call=\"filter\"} 3\n");
    want(text, "answers_total{call=\"filter\",outcome=\"no_room\"} 1\n");
    want(text, "refusals_total{call=\"filter\",reason=\"NumaNotFit\"} 1\n");
    want(text, "refusals_total{call=\"filter\",reason=\"NodeUnregistered\"} 1\n");
    want(text, "refusals_total{call=\"webhook\",reason=\"ExceedsQuota\"} 1\n");
    want(text, "answers_total{call=\"bind\",outcome=\"bound\"} 1\n");
    want(text, "answers_total{call=\"bind\",outcome=\"refused\"} 1\n");
    gs_metrics_page_fini(&page);
    gs_metrics_free(m);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {T(test_cards),          T(test_mig_instances),
                                       T(test_mig_is_bounded), T(test_escapes),
                                       T(test_steps),          T(test_counters)};

    return cmocka_run_group_tests_name("control_metrics", tests, NULL, NULL);
}
