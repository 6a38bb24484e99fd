/* The webhook: order of its decisions, what it strips, what it leaves alone, and hostile reviews.
 * Numbers of HAMi v2.10's collected facts: 2.2 decision order, 2.4 quota, A14, A18. */

#include "review.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define GPU       "'nvidia.com/gpu':'1'"
#define OURS      "/spec/schedulerName=hami-scheduler "
#define SPEC(...) "{'metadata':{'name':'p','namespace':'ns'},'spec':{" __VA_ARGS__ "}}"
#define ASKS      "'resources':{'limits':{" GPU "}}"

static struct review r;

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

static void test_order(void **state)
{
    (void)state;
    /* A14.23, before the scheduler's name is looked at */
    review_want(&r, SPEC("'containers':[],'schedulerName':'volcano'"),
                "no 403 pod has no containers");
    review_want(&r, SPEC("'initContainers':[{'name':'i'}]"), "no 403 pod has no containers");
    assert_string_equal(review_answer(&r, "/response/status/reason"), "Forbidden");
    assert_int_equal(r.reply.outcome, GS_ADMIT_REFUSED);
    assert_int_equal(r.reply.why, GS_ADMIT_WHY_NO_CONTAINERS);
    /* A14.21, user needs 29: another's, also where it is privileged and wants the impossible */
    review_want(&r,
                SPEC("'schedulerName':'volcano','containers':[{'name':'c','securityContext':{"
                     "'privileged':true},'resources':{'limits':{'mthreads.com/vgpu':'0'}}}]"),
                "same");
    assert_string_equal(review_answer(&r, "/response/status/message"),
                        "pod already has different scheduler assigned");
    assert_int_equal(r.reply.outcome, GS_ADMIT_NOT_OURS);
    /* a vendor's no comes before privileged */
    review_want(&r,
                SPEC("'containers':[{'name':'c','securityContext':{'privileged':true},"
                     "'resources':{'limits':{'mthreads.com/vgpu':'0'}}}]"),
                "no 500 mthreads.com/vgpu must be greater than 0");
    assert_int_equal(r.reply.why, GS_ADMIT_WHY_VENDOR);
    /* A14.24, user needs 27: any container, init ones too, whoever of them asks */
    review_want(&r,
                SPEC("'containers':[{'name':'a'," ASKS "},{'name':'b','securityContext':{"
                     "'privileged':true}}]"),
                "no 403 container b is privileged");
    review_want(&r,
                SPEC("'nodeName':'n','initContainers':[{'name':'i','securityContext':{"
                     "'privileged':true}}],'containers':[{'name':'a'," ASKS "}]"),
                "no 403 container i is privileged");
    assert_int_equal(r.reply.why, GS_ADMIT_WHY_PRIVILEGED);
    review_want(&r, SPEC("'containers':[{'name':'b','securityContext':{'privileged':true}}]"),
                "same");
    /* user needs 28, with a word of advice */
    review_want(&r, SPEC("'nodeName':'n','containers':[{'name':'a'," ASKS "}]"),
                "no 403 pod has node assigned");
    assert_non_null(strstr(review_answer(&r, "/response/warnings/0"), "nodeSelector"));
    review_want(&r, SPEC("'nodeName':'n','containers':[{'name':'a'}]"), "same");
}

static void test_scheduler_name(void **state)
{
    (void)state;
    review_want(&r, SPEC("'containers':[{'name':'a'," ASKS "}]"), "ok " OURS);
    review_want(&r,
                SPEC("'schedulerName':'default-scheduler','containers':[{'name':'a'," ASKS "}]"),
                "ok " OURS);
    review_want(&r, SPEC("'schedulerName':'hami-scheduler','containers':[{'name':'a'," ASKS "}]"),
                "ok " OURS);
    r.admit.overwrites_default = false;
    review_want(&r,
                SPEC("'schedulerName':'default-scheduler','containers':[{'name':'a'," ASKS "}]"),
                "same");
    review_want(&r, SPEC("'containers':[{'name':'a'," ASKS "}]"), "ok " OURS);
    /* no name of ours: nobody's pod is taken, one without a name is prepared */
    r.admit.scheduler_name = (struct gs_str){0};
    review_want(&r, SPEC("'schedulerName':'hami-scheduler','containers':[{'name':'a'," ASKS "}]"),
                "same");
    review_want(&r, SPEC("'nodeName':'n','containers':[{'name':'a'," ASKS "}]"),
                "ok /spec/schedulerName=- /spec/containers/0/resources/limits/"
                "nvidia.com~1gpucores=100");
}

static void test_left_alone(void **state)
{
    (void)state;
    review_want(&r, SPEC("'containers':[{'name':'a'}]"), "same");
    review_want(&r,
                SPEC("'containers':[{'name':'a','image':'x','env':[{'name':'A','value':'1'}],"
                     "'resources':{'limits':{'cpu':'1','example.com/gpu':'1'}}}],"
                     "'ephemeralContainers':[{'name':'e','securityContext':{'privileged':true}}]"),
                "same");
    /* generateName, null members, a namespace only in the request */
    review_want(&r,
                "{'metadata':{'generateName':'p-','annotations':null,'labels':null},'spec':{"
                "'initContainers':null,'containers':[{'name':'a','env':null,'resources':{"
                "'requests':null,'limits':{'nvidia.com/gpu':'1','nvidia.com/priority':'1'}}}]}}",
                "ok " OURS "/spec/containers/0/env/0/name=CUDA_TASK_PRIORITY "
                "/metadata/annotations=null");
}

static void test_versions(void **state)
{
    static const char head[] = "\"request\":{\"uid\":\"u-2\",\"operation\":\"CREATE\",\"object\":{"
                               "\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":"
                               "\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}}}";
    static const struct {
        const char *type, *version, *code;
    } row[] = {
        {"\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",",
         "admission.k8s.io/v1", "200"},
        {"\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\",",
         "admission.k8s.io/v1beta1", "200"},
        {"", "admission.k8s.io/v1", "200"},
        {"\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v2\",",
         "admission.k8s.io/v1", "400"},
        {"\"kind\":\"Pod\",", "admission.k8s.io/v1", "400"},
    };
    char body[600];

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        int n = snprintf(body, sizeof(body), "{%s%s", row[i].type, head);

        review_send(&r, body, (size_t)n);
        assert_string_equal(review_answer(&r, "/kind"), "AdmissionReview");
        assert_string_equal(review_answer(&r, "/apiVersion"), row[i].version);
        assert_string_equal(review_answer(&r, "/response/status/code"), row[i].code);
    }
}

/* On a pod that runs, the marks of a grant are its scheduler's: only CREATE of a pod is ours. */
static void test_other_operations(void **state)
{
    static const char *const about[] = {"\"operation\":\"UPDATE\"", "\"operation\":\"DELETE\"",
                                        "\"operation\":\"CREATE\",\"subResource\":\"binding\"",
                                        ("\"operation\":\"CREATE\",\"kind\":{\"group\":\"\","
                                         "\"version\":\"v1\",\"kind\":\"Binding\"}")};
    char body[500];

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(about); i++) {
        int n = snprintf(body, sizeof(body),
                         "{\"request\":{\"uid\":\"u\",%s,\"object\":{\"metadata\":{\"name\":\"p\","
                         "\"annotations\":{\"hami.io/vgpu-devices-allocated\":\"x\"}},\"spec\":{"
                         "\"containers\":[{\"name\":\"c\"}]}}}}",
                         about[i]);

        review_send(&r, body, (size_t)n);
        assert_string_equal(review_answer(&r, "/response/allowed"), "true");
        assert_string_equal(review_answer(&r, "/response/patch"), "-");
    }
}

/* A review whose members are null is that of a new pod, as it is where they are absent: it is not
 * let pass unseen. */
static void test_null_members(void **state)
{
    static const char forged[] =
        "{\"kind\":null,\"apiVersion\":null,\"request\":{\"uid\":null,\"kind\":null,"
        "\"operation\":null,\"subResource\":null,\"namespace\":null,\"name\":null,"
        "\"oldObject\":null,\"options\":null,\"object\":{\"metadata\":{\"name\":\"p\","
        "\"annotations\":{\"hami.io/vgpu-devices-allocated\":\"x\"}},\"spec\":{\"containers\":"
        "[{\"name\":\"c\"}]}}}}";
    static const char *const no_containers[] = {
        "{'metadata':{'name':'p'},'spec':null}", "{'metadata':{'name':'p'},'spec':{}}",
        "{'metadata':{'name':'p'},'spec':{'containers':null}}",
        "{'metadata':{'name':'p'},'spec':{'containers':[],'initContainers':[{'name':'i'}]}}"};

    (void)state;
    review_send(&r, forged, sizeof(forged) - 1);
    assert_string_equal(review_answer(&r, "/response/allowed"), "true");
    assert_string_equal(review_answer(&r, "/response/uid"), "");
    assert_string_equal(review_answer(&r, "/apiVersion"), "admission.k8s.io/v1");
    assert_true(r.reply.stripped);
    for (size_t i = 0; i < GS_ARRAY_LEN(no_containers); i++)
        review_want(&r, no_containers[i], "no 403 pod has no containers");
    review_want(
        &r,
        "{'metadata':{'name':'p','labels':null},'spec':{'containers':[null,{'name':'c'," ASKS
        "}]}}",
        "ok " OURS);
}

static void test_strips_grants(void **state)
{
    struct gs_buf pod = {0};
    size_t n = 0;

    (void)state;
    /* whatever a vendor's plugin believes, of every vendor: their tables are walked */
    gs_buf_adds(&pod, "{'metadata':{'name':'p','labels':{'hami.io/vgpu-node':'n','a':'b'},"
                      "'annotations':{'mine':'1','hami.io/gpu-scheduler-policy':'spread'");
    for (size_t i = 0; i < r.policies.n; i++) {
        const struct gs_keys *k = &r.policies.at[i]->keys;
        char *own = k->own != NULL ? strdup(k->own) : NULL, *rest = own, *word;

        gs_buf_addf(&pod, ",'%.*s':'forged'", (int)k->allocated.n, k->allocated.p);
        n += 1;
        while (rest != NULL && (word = strsep(&rest, " ")) != NULL)
            if (strstr(gs_buf_text(&pod), word) == NULL) { /* predicate-time is every chip's */
                gs_buf_addf(&pod, ",'%s':'forged'", word);
                n += 1;
            }
        free(own);
    }
    gs_buf_adds(&pod, ",'gpuslice.io/grant-signature':'forged','hami.io/vgpu-node':'n',"
                      "'hami.io/vgpu-time':'1','hami.io/bind-time':'1','hami.io/bind-phase':"
                      "'success','hami.io/vgpu-mig-allocations':'[]',"
                      "'hami.io/vgpu-devices-to-allocate':'x','hami.io/new-devices-allocated':'x'}"
                      "},'spec':{'schedulerName':'volcano','containers':[{'name':'c'}]}}");
    assert_true(n > 30);
    review_want(&r, gs_buf_text(&pod),
                "ok /metadata/annotations={\"mine\":\"1\",\"hami.io/gpu-scheduler-policy\":"
                "\"spread\"} /metadata/labels={\"a\":\"b\"} /spec/schedulerName=volcano");
    assert_true(r.reply.stripped);
    assert_non_null(strstr(review_answer(&r, "/response/warnings/0"), "removed"));
    gs_buf_fini(&pod);
}

/* What a plugin believes is what annotate() writes: the names below are those that HAMi's own
 * plugins look at (1.2, 1.7). */
static void test_strips_by_name(void **state)
{
    static const char *const key[] = {
        "hami.io/vgpu-devices-allocated",
        "hami.io/amd-devices-allocated",
        "hami.io/cambricon-mlu-devices-allocated",
        "CAMBRICON_DSMLU_ASSIGNED",
        "CAMBRICON_DSMLU_PROFILE",
        "hami.io/dcu-devices-allocated",
        "hami.io/enflame-gcu-devices-allocated",
        "hami.io/enflame-vgpu-devices-allocated",
        "enflame.com/gcu-assigned",
        "enflame.com/gcu-assigned-id",
        "assigned-containers",
        "hami.io/mthreads-vgpu-devices-allocated",
        "mthreads.com/gpu-index",
        "mthreads.com/predicate-node",
        "mthreads.com/predicate-time",
        "metax-tech.com/gpu-devices-allocated",
        "metax-tech.com/predicate-time",
        "hami.io/kunlun-allocated",
        "BAIDU_COM_DEVICE_IDX",
        "hami.io/xpu-devices-allocated",
        "AWS_NEURON_IDS",
        "NEURON_RESOURCE_TYPE",
        "NEURON_ALLOC_TIME",
        "NEURON_ALLOCATED",
        "aws.amazon.com/predicate-node",
        "huawei.com/Ascend910B3",
        "predicate-time",
        "hami.io/Ascend910B3-devices-to-allocate",
    };
    char pod[400];

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(key); i++) {
        (void)snprintf(pod, sizeof(pod),
                       "{'metadata':{'name':'p','annotations':{'%s':'x'}},'spec':{'containers':[{"
                       "'name':'c'}]}}",
                       key[i]);
        review_want(&r, pod, "ok /metadata/annotations={}");
    }
}

static void test_quota(void **state)
{
    /* A18.8: used 1000 of 2000 */
    static const struct {
        const char *containers, *want;
    } row[] = {
        {"{'name':'a','resources':{'limits':{'nvidia.com/gpu':'1','nvidia.com/gpumem':'100'}}}",
         "ok " OURS},
        {"{'name':'a','resources':{'limits':{'nvidia.com/gpu':'1','nvidia.com/gpumem':'1024'}}}",
         "no 403 exceeding resource quota"},
        {"{'name':'a','resources':{'limits':{'nvidia.com/gpu':'2','nvidia.com/gpumem':'1024'}}}",
         "no 403 exceeding resource quota"},
        {"{'name':'a','resources':{'limits':{'nvidia.com/gpu':'1','nvidia.com/gpumem':'400'}}},"
         "{'name':'b','resources':{'limits':{'nvidia.com/gpu':'1','nvidia.com/gpumem':'400'}}}",
         "ok " OURS},
        /* a whole card names no memory: the webhook does not know its size */
        {"{'name':'a','resources':{'limits':{'nvidia.com/gpu':'1'}}}", "ok " OURS},
    };
    size_t n = r.policies.n;
    int64_t *mem = calloc(n, sizeof(*mem)), *core = calloc(n, sizeof(*core));
    struct gs_str *grant = calloc(n, sizeof(*grant));
    char pod[600];

    (void)state;
    assert_true(mem != NULL && core != NULL && grant != NULL);
    for (size_t i = 0; i < n; i++)
        mem[i] = core[i] = -1;
    mem[0] = 2000;
    grant[0] = GS_STR("GPU-a,NVIDIA,1000,0:;");
    assert_string_equal(r.policies.at[0]->word, "NVIDIA");
    assert_int_equal(gs_books_quota_set(r.books, GS_STR("ns"), GS_STR("q"), mem, core), 0);
    assert_int_equal(gs_books_pod_set(r.books,
                                      &(struct gs_books_pod){.uid = GS_STR("u-old"),
                                                             .ns = GS_STR("ns"),
                                                             .name = GS_STR("old"),
                                                             .node = GS_STR("n1"),
                                                             .grant = grant,
                                                             .n_slots = 1},
                                      NULL),
                     0);
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        (void)snprintf(pod, sizeof(pod), "{'metadata':{'name':'p'},'spec':{'containers':[%s]}}",
                       row[i].containers);
        review_want(&r, pod, row[i].want);
    }
    mem[0] = 0; /* an explicit 0 blocks */
    assert_int_equal(gs_books_quota_set(r.books, GS_STR("ns"), GS_STR("q"), mem, core), 0);
    review_want(&r, REVIEW_POD("'nvidia.com/gpumem':'1'", ""), "no 403 exceeding resource quota");
    assert_int_equal(r.reply.why, GS_ADMIT_WHY_QUOTA);
    free(mem);
    free(core);
    free(grant);
}

static void test_many_containers(void **state)
{
    struct gs_buf pod = {0};

    (void)state;
    gs_buf_adds(&pod, "{'metadata':{'name':'p'},'spec':{'containers':[");
    for (int i = 0; i < 1000; i++)
        gs_buf_addf(&pod,
                    "%s{'name':'c%d','resources':{'limits':{'nvidia.com/gpu':'1',"
                    "'nvidia.com/priority':'1','iluvatar.ai/BI-V100-vgpu':'1'}}}",
                    i > 0 ? "," : "", i);
    gs_buf_adds(&pod, "]}}");
    review_want(&r, gs_buf_text(&pod),
                "ok " OURS "/spec/containers/999/env/0/name=CUDA_TASK_PRIORITY "
                "/spec/containers/999/env/1/value=c999 /spec/containers/999/env/2=- "
                "/spec/containers/500/resources/limits/nvidia.com~1gpucores=100");
    gs_buf_fini(&pod);
}

static void want_error(const char *body, size_t n, const char *code)
{
    review_send(&r, body, n);
    assert_string_equal(review_answer(&r, "/response/allowed"), "false");
    assert_string_equal(review_answer(&r, "/response/status/code"), code);
    assert_string_equal(review_answer(&r, "/response/patch"), "-");
    assert_int_equal(r.reply.outcome, GS_ADMIT_ERROR);
}

static void test_hostile(void **state)
{
    static const char *const body[] = {
        "{",
        "[]",
        "null",
        "1",
        "\"x\"",
        "{}",
        "{\"request\":null}",
        "{\"request\":[]}",
        "{\"request\":{\"uid\":\"u\"}}",
        "{\"request\":{\"uid\":\"u\",\"object\":null}}",
        "{\"request\":{\"object\":{}}}",
        "{\"request\":{\"object\":{\"metadata\":{\"name\":1}}}}",
        "{\"request\":{\"object\":{\"metadata\":{\"name\":\"p\"},\"spec\":[]}}}",
        "{\"request\":{\"object\":{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":{}}}}}",
        "{\"request\":{\"object\":{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[1]}}}}",
        ("{\"request\":{\"object\":{\"metadata\":{\"name\":\"p\",\"annotations\":{\"a\":1}},"
         "\"spec\":{\"containers\":[{\"name\":\"c\"}]}}}}"),
    };
    char *deep = malloc(1u << 20), *large = calloc(1, GS_ADMIT_REVIEW_MAX + 1);

    (void)state;
    assert_true(deep != NULL && large != NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(body); i++)
        want_error(body[i], strlen(body[i]), "400");
    memset(deep, '[', 1u << 20);
    want_error(deep, 1u << 20, "400");
    want_error(large, GS_ADMIT_REVIEW_MAX + 1, "413");
    free(deep);
    free(large);
}

static void test_many_grants(void **state)
{
    struct gs_buf pod = {0};

    (void)state;
    gs_buf_adds(&pod, "{'metadata':{'name':'p','annotations':{'a':'b'");
    for (int i = 0; i < 20000; i++)
        gs_buf_addf(&pod, ",'hami.io/%d-devices-allocated':'x'", i);
    gs_buf_adds(&pod, "}},'spec':{'containers':[{'name':'c'}]}}");
    review_want(&r, gs_buf_text(&pod),
                "no 403 too many annotations that only a scheduler may write");
    gs_buf_fini(&pod);
}

/* The API server takes 262,144 bytes of keys and values (TotalAnnotationSizeLimitB); the webhook
 * leaves 16,384 of them for the grant. */
static void want_full(size_t n, const char *spec, const char *want)
{
    struct gs_buf pod = {0};

    gs_buf_adds(&pod, "{'metadata':{'name':'p','namespace':'ns','annotations':{'k':'");
    for (size_t i = 1; i < n; i++)
        gs_buf_adds(&pod, "v");
    gs_buf_addf(&pod, "'}},'spec':{%s}}", spec);
    review_want(&r, gs_buf_text(&pod), want);
    gs_buf_fini(&pod);
}

/* RFC 9110, 8.3.1: type and parameters, letters of either case. */
static void test_content_type(void **state)
{
    static const char *const yes[] = {"application/json", "application/json; charset=utf-8",
                                      "Application/JSON;charset=UTF-8", "application/json ;x=y"};
    static const char *const no[] = {"",
                                     "application/jso",
                                     "application/json5",
                                     "text/json",
                                     "application/json, text/html",
                                     "application/jsonx;a=b"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        assert_true(gs_admit_is_json(gs_str_of(yes[i])));
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        assert_false(gs_admit_is_json(gs_str_of(no[i])));
    assert_false(gs_admit_is_json((struct gs_str){0}));
}

/* Go has null for a quantity as nought: no card is asked for. */
static void test_null_amount(void **state)
{
    (void)state;
    review_want(&r,
                SPEC("'containers':[{'name':'a','resources':{'limits':{'nvidia.com/gpu':null}}}]"),
                "same");
}

static void test_full_annotations(void **state)
{
    static const char asks[] = "'containers':[{'name':'a'," ASKS "}]";

    (void)state;
    want_full(262144 - 16384, asks, "ok " OURS);
    want_full(262144 - 16384 + 1, asks,
              "no 403 the pod's annotations have 245761 bytes: with a grant, which takes 16384, "
              "they would be more than 262144, the most that can be");
    assert_int_equal(r.reply.outcome, GS_ADMIT_REFUSED);
    assert_int_equal(r.reply.why, GS_ADMIT_WHY_ANNOTATIONS);
    want_full(262144, "'containers':[{'name':'a'}]", "same");
    want_full(262144, "'schedulerName':'volcano','containers':[{'name':'a'," ASKS "}]", "same");
}

/* HAMi takes no notice of such words and says nothing: the pod is as it was, and who made it hears.
 */
static void test_unknown_policies(void **state)
{
    (void)state;

    review_pod(&r,
               REVIEW_POD("'nvidia.com/gpu':'1'", "'hami.io/gpu-scheduler-policy':'numa, binpak'"));
    assert_string_equal(review_answer(&r, "/response/warnings/0"),
                        "annotation hami.io/gpu-scheduler-policy: \"binpak\" is not known and "
                        "counts for nothing");
    assert_string_equal(review_answer(&r, "/response/warnings/1"), "-");
    assert_string_equal(review_got(&r, "/metadata/annotations/hami.io~1gpu-scheduler-policy"),
                        "numa, binpak");
    review_pod(&r, REVIEW_POD("'nvidia.com/gpu':'1'", "'hami.io/node-scheduler-policy':'Spread'"));
    assert_non_null(strstr(review_answer(&r, "/response/warnings/0"),
                           "hami.io/node-scheduler-policy: \"Spread\" is not known"));
    review_pod(&r, REVIEW_POD("'nvidia.com/gpu':'1'",
                              "'hami.io/node-scheduler-policy':'spread',"
                              "'hami.io/gpu-scheduler-policy':'topology-aware,mutex,spread'"));
    assert_string_equal(review_answer(&r, "/response/warnings/0"), "-");
    review_pod(&r, REVIEW_POD("'cpu':'1'", "'hami.io/gpu-scheduler-policy':'x'")); /* not ours */
    assert_string_equal(review_answer(&r, "/response/warnings/0"), "-");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_order),          T(test_content_type),
        T(test_null_amount),    T(test_full_annotations),
        T(test_scheduler_name), T(test_left_alone),
        T(test_versions),       T(test_other_operations),
        T(test_strips_grants),  T(test_strips_by_name),
        T(test_quota),          T(test_many_containers),
        T(test_hostile),        T(test_many_grants),
        T(test_null_members),   T(test_unknown_policies),
    };

    return cmocka_run_group_tests_name("control_admit", tests, NULL, NULL);
}
