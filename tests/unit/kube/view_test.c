#include "kube/view.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include <cmocka.h>

#include "base/buf.h"
#include "kube/json.h"

struct fixture {
    struct gs_arena arena;
    yyjson_doc *doc;
    struct gs_err err;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    gs_arena_init(&f->arena);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    gs_kube_json_free(f->doc);
    gs_arena_fini(&f->arena);
    free(f);
    return 0;
}

static yyjson_val *parse(struct fixture *f, const char *text)
{
    f->doc = gs_kube_json_free(f->doc);
    memset(&f->err, 0, sizeof(f->err));
    assert_int_equal(gs_kube_json_read(gs_str_of(text), 1 << 24, &f->doc, NULL), 0);
    return yyjson_doc_get_root(f->doc);
}

static void expect(struct gs_str got, const char *want)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%.*s", (int)got.n, got.n ? got.p : "");
    assert_string_equal(text, want);
}

/* Field names and types: Kubernetes 1.36 API reference, Pod v1 core. */
static const char pod_text[] =
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\","
    "\"uid\":\"u-1\",\"resourceVersion\":\"123\",\"creationTimestamp\":\"2026-11-30T00:34:30Z\","
    "\"deletionTimestamp\":\"2026-11-30T00:35:00Z\",\"deletionGracePeriodSeconds\":30,"
    "\"labels\":{\"app\":\"x\",\"scheduling.x-k8s.io/pod-group\":\"g\"},"
    "\"annotations\":{\"hami.io/vgpu-node\":\"n1\",\"a\":\"1\"},"
    "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"rs\","
    "\"uid\":\"o\",\"controller\":true}]},"
    "\"spec\":{\"nodeName\":\"n1\",\"schedulerName\":\"hami-scheduler\",\"priority\":-5,"
    "\"priorityClassName\":\"low\",\"preemptionPolicy\":\"Never\",\"runtimeClassName\":\"nvidia\","
    "\"hostNetwork\":true,\"terminationGracePeriodSeconds\":0,"
    "\"schedulingGroup\":{\"podGroupName\":\"pg\"},\"schedulingGates\":[{\"name\":\"x\"}],"
    "\"initContainers\":[{\"name\":\"i\",\"restartPolicy\":\"Always\"},{\"name\":\"j\"}],"
    "\"containers\":[{\"name\":\"c\",\"image\":\"im\",\"resources\":{\"limits\":"
    "{\"nvidia.com/gpu\":\"2\",\"nvidia.com/gpumem\":\"1k\",\"cpu\":4},\"requests\":"
    "{\"nvidia.com/gpu\":\"2\"}},\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\","
    "\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"spec.nodeName\"}}},{\"name\":\"C\"}],"
    "\"securityContext\":{\"privileged\":true},\"restartPolicy\":\"Always\"}]},"
    "\"status\":{\"phase\":\"Running\",\"reason\":\"r\",\"nominatedNodeName\":\"n9\","
    "\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\","
    "\"message\":\"m\",\"lastTransitionTime\":\"1970-01-01T00:00:01Z\"},{\"type\":\"Ready\","
    "\"status\":\"True\",\"lastTransitionTime\":null}],"
    "\"initContainerStatuses\":[{\"name\":\"j\",\"state\":{\"terminated\":{\"exitCode\":137,"
    "\"reason\":\"OOMKilled\"}},\"restartCount\":2}],"
    "\"containerStatuses\":[{\"name\":\"c\",\"ready\":true,\"started\":true,\"containerID\":\"id\","
    "\"state\":{\"running\":{\"startedAt\":\"2026-11-30T00:34:30Z\"}}}]}}";

static void a_pod_is_read(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_pod p;
    const struct gs_kube_container *c;

    assert_int_equal(gs_kube_view_pod(parse(f, pod_text), &f->arena, &p, &f->err), 0);
    expect(p.meta.ns, "ns");
    expect(p.meta.name, "p");
    expect(p.meta.uid, "u-1");
    expect(p.meta.resource_version, "123");
    assert_int_equal(p.meta.created_us, 1795998870000000);
    assert_int_equal(p.meta.deletion_us, 1795998900000000);
    assert_int_equal(p.meta.deletion_grace_s, 30);
    assert_int_equal(p.meta.labels.n, 2);
    expect(*gs_kube_pairs_find(&p.meta.annotations, GS_STR("hami.io/vgpu-node")), "n1");
    assert_null(gs_kube_pairs_find(&p.meta.annotations, GS_STR("zz")));
    assert_int_equal(p.meta.n_owners, 1);
    expect(p.meta.owner[0].kind, "ReplicaSet");
    assert_true(p.meta.owner[0].is_controller);
    expect(p.node_name, "n1");
    expect(p.scheduler_name, "hami-scheduler");
    expect(p.priority_class, "low");
    expect(p.preemption_policy, "Never");
    expect(p.runtime_class, "nvidia");
    expect(p.pod_group, "pg");
    assert_int_equal(p.priority, -5);
    assert_true(p.has_priority && p.is_host_network);
    assert_int_equal(p.n_gates, 1);
    assert_int_equal(p.grace_s, 0);
    assert_int_equal(p.n_containers, 3);
    assert_int_equal(p.n_init, 2);
    assert_true(p.container[0].is_init && p.container[0].is_sidecar);
    assert_true(p.container[1].is_init && !p.container[1].is_sidecar);
    c = &p.container[2];
    assert_true(!c->is_init && !c->is_sidecar && c->is_privileged);
    expect(c->name, "c");
    expect(c->image, "im");
    assert_int_equal(c->limits.n, 3);
    expect(*gs_kube_pairs_find(&c->limits, GS_STR("nvidia.com/gpumem")), "1k");
    expect(*gs_kube_pairs_find(&c->limits, GS_STR("cpu")), "4");
    assert_int_equal(c->requests.n, 1);
    assert_int_equal(c->n_env, 3);
    assert_true(!c->env[0].is_ref && c->env[1].is_ref && !c->env[2].is_ref);
    expect(c->env[0].value, "1");
    expect(c->env[2].value, "");
}

static void a_pods_status_is_read(void **state)
{
    struct fixture *f = *state;
    const struct gs_kube_condition *condition;
    struct gs_kube_pod p;

    assert_int_equal(gs_kube_view_pod(parse(f, pod_text), &f->arena, &p, &f->err), 0);
    assert_int_equal(p.phase, GS_KUBE_PHASE_RUNNING);
    expect(p.nominated_node, "n9");
    expect(p.status_reason, "r");
    condition = gs_kube_condition_find(p.condition, p.n_conditions, GS_STR("PodScheduled"));
    expect(condition->reason, "Unschedulable");
    assert_int_equal(condition->transition_us, 1000000);
    condition = gs_kube_condition_find(p.condition, p.n_conditions, GS_STR("Ready"));
    assert_int_equal(condition->transition_us, GS_KUBE_NO_TIME);
    assert_null(gs_kube_condition_find(p.condition, p.n_conditions, GS_STR("Other")));
    assert_int_equal(p.n_init_status, 1);
    assert_int_equal(p.init_status[0].state, GS_KUBE_STATE_TERMINATED);
    assert_int_equal(p.init_status[0].exit_code, 137);
    assert_int_equal(p.init_status[0].restarts, 2);
    expect(p.init_status[0].reason, "OOMKilled");
    assert_int_equal(p.n_status, 1);
    assert_int_equal(p.status[0].state, GS_KUBE_STATE_RUNNING);
    assert_true(p.status[0].is_ready && p.status[0].is_started);
    expect(p.status[0].container_id, "id");
}

static void null_is_as_nothing(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_pod p;

    assert_int_equal(
        gs_kube_view_pod(
            parse(f,
                  "{\"metadata\":{\"name\":\"p\",\"labels\":null,\"annotations\":{\"a\":null},"
                  "\"ownerReferences\":null,\"deletionTimestamp\":null},\"spec\":{\"containers\":"
                  "[null,{\"name\":\"c\",\"resources\":null,\"env\":null,\"securityContext\":"
                  "null}],\"initContainers\":null,\"priority\":null},\"status\":null}"),
            &f->arena, &p, &f->err),
        0);
    assert_int_equal(p.meta.deletion_us, GS_KUBE_NO_TIME);
    assert_int_equal(p.meta.deletion_grace_s, -1);
    assert_int_equal(p.meta.annotations.n, 1);
    expect(p.meta.annotations.at[0].value, "");
    assert_int_equal(p.n_containers, 2);
    assert_false(p.has_priority);
    assert_int_equal(p.grace_s, -1);
    assert_int_equal(p.phase, GS_KUBE_PHASE_NONE);
    assert_int_equal(
        gs_kube_view_pod(parse(f, "{\"metadata\":{\"generateName\":\"x-\"}}"), &f->arena, &p, NULL),
        0);
    assert_int_equal(p.n_containers, 0);
}

static void wrong_types_are_named(void **state)
{
    static const struct {
        const char *text, *where;
    } rows[] = {
        {"[]", "not an object"},
        {"{}", "metadata: name: missing"},
        {"{\"metadata\":[]}", "metadata: not an object"},
        {"{\"metadata\":{\"name\":5}}", "metadata: name: not text"},
        {"{\"metadata\":{\"name\":\"p\",\"labels\":{\"a\":1}}}", "metadata: labels: 'a': not text"},
        {"{\"metadata\":{\"name\":\"p\",\"labels\":[]}}", "metadata: labels: not an object"},
        {"{\"metadata\":{\"name\":\"p\",\"deletionTimestamp\":\"soon\"}}",
         "metadata: deletionTimestamp: not a time"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":7}", "spec: not an object"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":{}}}",
         "spec: containers: not a list"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{},7]}}",
         "spec: containers[1]: not an object"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"env\":[{\"name\":[]}]}]}}",
         "spec: containers[0]: env[0]: name: not text"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"resources\":{\"limits\":"
         "{\"x\":true}}}]}}",
         "spec: containers[0]: limits: 'x': not a quantity"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"priority\":2147483648}}",
         "spec: priority: not a 32-bit whole number"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"priority\":1.5}}",
         "spec: priority: not a 32-bit whole number"},
        {"{\"metadata\":{\"name\":\"p\"},\"spec\":{\"hostNetwork\":\"true\"}}",
         "spec: hostNetwork: not true or false"},
        {"{\"metadata\":{\"name\":\"p\"},\"status\":{\"containerStatuses\":[{\"state\":{"
         "\"terminated\":{\"exitCode\":\"1\"}}}]}}",
         "status: containerStatuses[0]: exitCode: not a 32-bit whole number"},
        {"{\"metadata\":{\"name\":\"p\"},\"status\":{\"phase\":4}}", "status: phase: not text"},
    };
    struct fixture *f = *state;
    struct gs_kube_pod p;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        assert_int_equal(gs_kube_view_pod(parse(f, rows[i].text), &f->arena, &p, &f->err), -EINVAL);
        assert_string_equal(f->err.text, rows[i].where);
    }
}

static void counts_are_limited(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_pod p;
    struct gs_buf text;

    gs_buf_init(&text);
    gs_buf_adds(&text, "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[null");
    for (int i = 0; i < GS_KUBE_VIEW_MAX; i++)
        gs_buf_adds(&text, ",null");
    gs_buf_adds(&text, "]}}");
    assert_int_equal(gs_kube_view_pod(parse(f, gs_buf_text(&text)), &f->arena, &p, &f->err),
                     -E2BIG);
    gs_buf_clear(&text);
    gs_buf_adds(&text, "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[null");
    for (int i = 1; i < 1000; i++)
        gs_buf_addf(&text, ",{\"name\":\"c%d\"}", i);
    gs_buf_adds(&text, "]}}");
    assert_int_equal(gs_kube_view_pod(parse(f, gs_buf_text(&text)), &f->arena, &p, &f->err), 0);
    assert_int_equal(p.n_containers, 1000);
    expect(p.container[999].name, "c999");
    gs_buf_fini(&text);
}

static void a_node_is_read(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_node n;

    assert_int_equal(
        gs_kube_view_node(
            parse(f, "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\"},\"spec\":{\"unschedulable\":"
                     "true},\"status\":{\"capacity\":{\"cpu\":\"8\",\"nvidia.com/gpu\":\"1k\"},"
                     "\"allocatable\":{\"cpu\":\"7910m\"},\"conditions\":[{\"type\":\"Ready\","
                     "\"status\":\"True\"}]}}"),
            &f->arena, &n, &f->err),
        0);
    assert_true(n.is_unschedulable);
    expect(*gs_kube_pairs_find(&n.capacity, GS_STR("nvidia.com/gpu")), "1k");
    expect(*gs_kube_pairs_find(&n.allocatable, GS_STR("cpu")), "7910m");
    assert_int_equal(n.n_conditions, 1);
    assert_int_equal(gs_kube_view_node(parse(f, "{\"metadata\":{\"generateName\":\"n\"}}"),
                                       &f->arena, &n, &f->err),
                     -EINVAL);
}

static void a_quota_is_read(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_quota q;

    assert_int_equal(
        gs_kube_view_quota(
            parse(f, "{\"metadata\":{\"name\":\"q\",\"namespace\":\"n\"},\"spec\":{\"hard\":"
                     "{\"limits.nvidia.com/gpumem\":\"10k\"},\"scopes\":[\"Terminating\"],"
                     "\"scopeSelector\":{\"matchExpressions\":[{\"scopeName\":\"PriorityClass\","
                     "\"operator\":\"Exists\"}]}},\"status\":{\"used\":{\"pods\":\"3\"}}}"),
            &f->arena, &q, &f->err),
        0);
    expect(*gs_kube_pairs_find(&q.hard, GS_STR("limits.nvidia.com/gpumem")), "10k");
    expect(*gs_kube_pairs_find(&q.used, GS_STR("pods")), "3");
    assert_int_equal(q.n_scopes, 2);
}

static bool picks(struct fixture *f, const char *selector, const char *labels)
{
    struct gs_kube_pdb b;
    struct gs_kube_meta meta;
    char text[1024];
    yyjson_doc *first;
    bool is_picked;

    (void)snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"b\"},\"spec\":{%s}}", selector);
    assert_int_equal(gs_kube_view_pdb(parse(f, text), &f->arena, &b, &f->err), 0);
    first = f->doc;
    f->doc = NULL;
    (void)snprintf(text, sizeof(text), "{\"metadata\":{\"labels\":{%s}}}", labels);
    assert_int_equal(gs_kube_view_meta(parse(f, text), &f->arena, &meta, &f->err), 0);
    is_picked = gs_kube_selector_matches(&b.selector, &meta.labels);
    gs_kube_json_free(first);
    return is_picked;
}

/* Source: apimachinery, LabelSelectorAsSelector and labels.Requirement.Matches. */
static void selectors_pick(void **state)
{
#define EXPR(key, op, values)                                                                      \
    "\"selector\":{\"matchExpressions\":[{\"key\":\"" key "\",\"operator\":\"" op                  \
    "\",\"values\":[" values "]}]}"
    struct fixture *f = *state;

    assert_false(picks(f, "", "\"a\":\"1\""));
    assert_false(picks(f, "\"selector\":null", "\"a\":\"1\""));
    assert_true(picks(f, "\"selector\":{}", "\"a\":\"1\""));
    assert_true(picks(f, "\"selector\":{\"matchLabels\":{\"a\":\"1\"}}", "\"a\":\"1\""));
    assert_false(picks(f, "\"selector\":{\"matchLabels\":{\"a\":\"1\"}}", "\"a\":\"2\""));
    assert_false(
        picks(f, "\"selector\":{\"matchLabels\":{\"a\":\"1\",\"b\":\"2\"}}", "\"a\":\"1\""));
    assert_true(picks(f, EXPR("a", "In", "\"1\",\"2\""), "\"a\":\"2\""));
    assert_false(picks(f, EXPR("a", "In", "\"1\",\"2\""), ""));
    assert_true(picks(f, EXPR("a", "NotIn", "\"1\""), ""));
    assert_true(picks(f, EXPR("a", "NotIn", "\"1\""), "\"a\":\"2\""));
    assert_false(picks(f, EXPR("a", "NotIn", "\"1\""), "\"a\":\"1\""));
    assert_true(picks(f, EXPR("a", "Exists", ""), "\"a\":\"\""));
    assert_false(picks(f, EXPR("a", "Exists", ""), "\"b\":\"\""));
    assert_true(picks(f, EXPR("a", "DoesNotExist", ""), "\"b\":\"\""));
    assert_false(picks(f, EXPR("a", "DoesNotExist", ""), "\"a\":\"\""));
}

static void budgets_are_read(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_pdb b;

    assert_int_equal(
        gs_kube_view_pdb(
            parse(f, "{\"metadata\":{\"name\":\"b\"},\"status\":{\"disruptionsAllowed\":2,"
                     "\"disruptedPods\":{\"p1\":\"2026-11-30T00:34:30Z\"}}}"),
            &f->arena, &b, &f->err),
        0);
    assert_int_equal(b.disruptions_allowed, 2);
    assert_int_equal(b.n_disrupted, 1);
    expect(b.disrupted[0], "p1");
    assert_int_equal(gs_kube_view_pdb(parse(f, "{\"metadata\":{\"name\":\"b\"},\"spec\":{"
                                               "\"selector\":{\"matchExpressions\":[{\"key\":\"a\","
                                               "\"operator\":\"Near\"}]}}}"),
                                      &f->arena, &b, &f->err),
                     -EINVAL);
    assert_string_equal(f->err.text,
                        "spec: selector: matchExpressions[0]: operator: 'Near' is not known");
}

static void leases_are_read(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_lease_view l;

    assert_int_equal(
        gs_kube_view_lease(
            parse(f, "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"holderIdentity\":\"h_1\","
                     "\"leaseDurationSeconds\":15,\"leaseTransitions\":3,\"renewTime\":"
                     "\"2026-11-30T00:34:30.000001Z\"}}"),
            &f->arena, &l, &f->err),
        0);
    expect(l.holder, "h_1");
    assert_int_equal(l.duration_s, 15);
    assert_int_equal(l.transitions, 3);
    assert_int_equal(l.renew_us, 1795998870000001);
    assert_int_equal(l.acquire_us, GS_KUBE_NO_TIME);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pod_is_read),         TEST(a_pods_status_is_read), TEST(null_is_as_nothing),
        TEST(wrong_types_are_named), TEST(counts_are_limited),    TEST(a_node_is_read),
        TEST(a_quota_is_read),       TEST(selectors_pick),        TEST(budgets_are_read),
        TEST(leases_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
