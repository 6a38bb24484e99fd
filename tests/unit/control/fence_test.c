/* Who begins to lead, and what was sent before: pods in virtual time. */
#include "control/fence.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "../kube/fake_http.h"
#include "control/policies.h"
#include "kube/view.h"
#include "vendors/registry_policy.h"

struct fixture {
    struct fake fake;
    struct gs_arena conf, arena;
    struct gs_policies policies;
    struct gs_books *books;
    struct gs_filter_conf filter;
    struct gs_fence *fence;
    unsigned n_done;
};

static void on_done(void *arg)
{
    ((struct fixture *)arg)->n_done++;
}

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    fake_new(&f.fake, NULL);
    assert_int_equal(
        gs_policies_read(&(struct gs_policies_conf){.section = gs_registry_policy,
                                                    .n_sections = gs_registry_policy_n,
                                                    .enabled = (const char *const[]){NULL}},
                         &f.conf, &f.policies, NULL),
        0);
    assert_int_equal(gs_books_new(&f.policies, &f.books), 0);
    f.filter = (struct gs_filter_conf){.device_policy = GS_STR("spread"),
                                       .node_policy = GS_STR("binpack")};
    assert_int_equal(
        gs_fence_new(f.fake.client, f.books,
                     &(struct gs_fence_opt){.filter = &f.filter, .done = on_done, .arg = &f},
                     &f.fence),
        0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    gs_fence_free(f->fence);
    fake_free(&f->fake);
    gs_books_free(f->books);
    gs_arena_fini(&f->conf);
    gs_arena_fini(&f->arena);
    return 0;
}

#define GPU "\"nvidia.com/gpu\":\"1\""

/* The watch shows a pod: what it asks for, more of its spec and metadata (each begins with a
 * comma).
 */
static void saw(struct fixture *f, const char *name, const char *limits, const char *spec,
                const char *meta)
{
    struct gs_kube_pod pod;
    yyjson_doc *doc;
    static char text[300000];

    (void)snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"uid-%s\"%s},"
        "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{%s}}}]%s}}",
        name, name, meta, limits, spec);
    doc = yyjson_read(text, strlen(text), 0);
    assert_non_null(doc);
    gs_arena_reset(&f->arena);
    assert_int_equal(gs_kube_view_pod(yyjson_doc_get_root(doc), &f->arena, &pod, NULL), 0);
    gs_fence_saw_pod(f->fence, &pod);
    yyjson_doc_free(doc);
}

static void waits(struct fixture *f, const char *name)
{
    saw(f, name, GPU, "", "");
}

/* The oldest write; its text of the annotation into `mark`. */
static struct gs_http_call *written(struct fixture *f, const char *name, char mark[64])
{
    struct gs_http_call *call = fake_next(&f->fake, 0);
    char path[128], uid[64];
    yyjson_doc *doc = yyjson_read(call->body, strlen(call->body), 0);
    yyjson_val *root = yyjson_doc_get_root(doc);
    const char *text;

    (void)snprintf(path, sizeof(path), "http://api/api/v1/namespaces/ns/pods/%s", name);
    (void)snprintf(uid, sizeof(uid), "uid-%s", name);
    assert_string_equal(call->method, "PATCH");
    assert_string_equal(call->url, path);
    assert_true(yyjson_equals_str(yyjson_ptr_get(root, "/metadata/uid"), uid));
    text = yyjson_get_str(yyjson_ptr_get(root, "/metadata/annotations/gpuslice.io~1fence"));
    assert_non_null(text);
    (void)snprintf(mark, 64, "%s", text != NULL ? text : "");
    yyjson_doc_free(doc);
    return call;
}

static void saw_mark(struct fixture *f, const char *name, const char *mark)
{
    char meta[160];

    (void)snprintf(meta, sizeof(meta), ",\"annotations\":{\"gpuslice.io/fence\":\"%s\"}", mark);
    saw(f, name, GPU, "", meta);
}

static struct gs_fence_stats stats_of(struct fixture *f)
{
    struct gs_fence_stats stats;

    gs_fence_stats(f->fence, &stats);
    return stats;
}

#define REFUSED(reason)                                                                            \
    "},\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","               \
    "\"reason\":\"" reason "\"}]"

static void nobody_waits(void **state)
{
    struct fixture *f = *state;

    gs_fence_begin(f->fence);
    assert_int_equal(f->n_done, 0); /* from the loop */
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
}

static void who_waits(void **state)
{
    struct fixture *f = *state;

    saw(f, "plain", "\"cpu\":\"1\"", "", "");
    saw(f, "bound", GPU, ",\"nodeName\":\"n1\"", "");
    saw(f, "gated", GPU, ",\"schedulingGates\":[{\"name\":\"x\"}]", "");
    saw(f, "ending", GPU, "", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    assert_int_equal(stats_of(f).open, 0);
    waits(f, "a");
    waits(f, "b");
    assert_int_equal(stats_of(f).open, 2);
    saw(f, "a", GPU, ",\"nodeName\":\"n1\"", "");
    gs_fence_pod_gone(f->fence, GS_STR("uid-b"));
    assert_int_equal(stats_of(f).open, 0);
}

/* However many wait for room: nobody sends a Binding for them as they are, so none is written to.
 * kube-scheduler tells by the condition, and a pod that was gated carries one for another reason.
 */
static void closed_pods_cost_nothing(void **state)
{
    struct fixture *f = *state;
    char name[16], mark[64];

    for (int i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        saw(f, name, GPU, REFUSED("Unschedulable"), "");
        (void)snprintf(name, sizeof(name), "e%d", i);
        saw(f, name, GPU, REFUSED("SchedulerError"), "");
    }
    saw_mark(f, "fenced", "5f-0.1");
    assert_int_equal(stats_of(f).open, 0);
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(stats_of(f).closed, 0);
    saw(f, "was-gated", GPU, REFUSED("SchedulingGated"), "");
    saw(f, "opened", GPU, REFUSED("Unschedulable"),
        ",\"annotations\":{\"gpuslice.io/fence\":\"5f-0.2+\"}");
    saw(f, "placed", GPU,
        "},\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"True\"}]", "");
    assert_int_equal(stats_of(f).open, 3);
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    assert_int_equal(fake_open(), 3);
    for (int i = 0; i < 3; i++) {
        struct gs_http_call *call = fake_next(&f->fake, 0);

        assert_int_equal(sscanf(call->url, "http://api/api/v1/namespaces/ns/pods/%15s", name), 1);
        fake_answer(written(f, name, mark), 200, "{}", -1);
        assert_int_not_equal(mark[strlen(mark) - 1], '+');
        saw_mark(f, name, mark);
    }
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 2);
    assert_int_equal(stats_of(f).open, 0);
}

/* It closes while it is to be written to: by kube-scheduler, say. */
static void closed_by_others(void **state)
{
    struct fixture *f = *state;

    waits(f, "a");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    saw(f, "a", GPU, REFUSED("Unschedulable"), "");
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(fake_open(), 0);
}

static void on_opened(void *arg, const struct gs_kube_result *result)
{
    *(bool *)arg = result->rc == 0;
}

static void opening(void **state)
{
    struct fixture *f = *state;
    char first[64], second[64];
    bool is_opened = false;

    for (char *mark = first; mark != NULL; mark = mark == first ? second : NULL) {
        assert_int_equal(
            gs_fence_write(f->fence,
                           &(struct gs_fence_write){
                               .pod = {GS_STR("ns"), GS_STR("a"), GS_STR("uid-a")}, .opens = true},
                           on_opened, &is_opened, NULL),
            0);
        fake_run(&f->fake, 1);
        fake_answer(written(f, "a", mark), 200, "{}", -1);
        fake_run(&f->fake, 1);
        assert_true(is_opened);
        assert_int_equal(mark[strlen(mark) - 1], '+');
    }
    assert_string_not_equal(first, second);
    assert_int_equal(stats_of(f).opened, 2);
    assert_int_equal(stats_of(f).closed, 0);
}

/* The answer to the write is not enough: the books are to know what had come before it. */
static void watch_tells_the_end(void **state)
{
    struct fixture *f = *state;
    char mark[64];

    waits(f, "a");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    fake_answer(written(f, "a", mark), 200, "{}", -1);
    fake_run(&f->fake, 60000);
    assert_int_equal(f->n_done, 0);
    assert_int_equal(stats_of(f).left, 1);
    saw_mark(f, "a", "5f-0.1+"); /* of one who led before: open still */
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 0);
    saw_mark(f, "a", mark);
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(fake_open(), 0);
}

/* One who led before opened it after we had closed it, and the watch had a gap. He asks who leads
 * before he goes on. */
static void mark_of_another_over_ours(void **state)
{
    struct fixture *f = *state;
    char mark[64];

    waits(f, "a");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    fake_answer(written(f, "a", mark), 200, "{\"metadata\":{\"resourceVersion\":\"20\"}}", -1);
    saw(f, "a", GPU, "", ",\"resourceVersion\":\"19\"");
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 0);
    saw(f, "a", GPU, "",
        ",\"resourceVersion\":\"21\",\"annotations\":{\"gpuslice.io/fence\":\"5f-0.1+\"}");
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
}

/* Bound or gone: no Binding can follow, and the books know. */
static void other_ends(void **state)
{
    struct fixture *f = *state;

    waits(f, "a");
    waits(f, "b");
    waits(f, "c");
    waits(f, "d");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    assert_int_equal(fake_open(), 4);
    saw(f, "a", GPU, ",\"nodeName\":\"n1\"", "");
    gs_fence_pod_gone(f->fence, GS_STR("uid-b"));
    assert_int_equal(fake_open(), 2);
    waits(f, "new"); /* nobody before can have sent anything for it */
    for (int i = 0; i < 2; i++) {
        struct gs_http_call *call = fake_next(&f->fake, 0);

        fake_answer(call, strstr(call->url, "/c") != NULL ? 404 : 409, "{}", -1);
    }
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
}

static void failure_is_tried_again(void **state)
{
    struct fixture *f = *state;
    char mark[64], again[64];

    waits(f, "a");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    (void)written(f, "a", mark);
    for (int i = 0; i < 100; i++) {
        fake_break(written(f, "a", again), -ECONNRESET);
        (void)fake_next(&f->fake, 10000);
    }
    (void)written(f, "a", again);
    assert_string_not_equal(mark, again); /* a value that is there already changes nothing */
    fake_answer(fake_next(&f->fake, 0), 200, "{}", -1);
    saw_mark(f, "a", again);
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
}

/* Somebody's rule lets nobody write to it. */
static void refused_pod_takes_time(void **state)
{
    struct fixture *f = *state;
    char mark[64];

    waits(f, "a");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    fake_answer(written(f, "a", mark), 403, "{}", -1);
    fake_run(&f->fake, 29000);
    assert_int_equal(f->n_done, 0);
    assert_int_equal(stats_of(f).refused, 1);
    fake_run(&f->fake, 1100);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(fake_open(), 0);
}

/* A webhook of its namespace is down: the server answers 500 for as long as it is. */
static void server_that_never_writes_takes_time(void **state)
{
    struct fixture *f = *state;
    char mark[64];

    waits(f, "a");
    gs_fence_begin(f->fence);
    for (int i = 0; i < 60 && f->n_done == 0; i++) {
        fake_run(&f->fake, 1000);
        if (fake_open() > 0)
            fake_answer(written(f, "a", mark), 500, "{}", -1);
        assert_true(i >= 29 || f->n_done == 0);
    }
    assert_int_equal(f->n_done, 1);
    assert_int_equal(stats_of(f).refused, 1);
}

/* The API server takes 262,144 bytes of annotations: no room for a grant, so that nobody sent a
 * Binding, nor for our mark, so that it would cost half a minute. */
static void full_pod_takes_none(void **state)
{
    static char meta[300000];
    struct fixture *f = *state;
    size_t at, n = 262144 - 4096; /* with the key */
    char mark[64];

    at = (size_t)snprintf(meta, sizeof(meta), ",\"annotations\":{\"k\":\"");
    memset(&meta[at], 'v', n);
    strcpy(&meta[at + n], "\"}");
    saw(f, "full", GPU, "", meta);
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(stats_of(f).closed, 0);
    strcpy(&meta[at + n - 1], "\"}");
    saw(f, "full", GPU, "", meta);
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    fake_answer(written(f, "full", mark), 200, "{}", -1);
    saw_mark(f, "full", mark);
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 2);
}

static void a_few_at_a_time(void **state)
{
    struct fixture *f = *state;
    char name[16], mark[64];

    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        waits(f, name);
    }
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    for (int i = 0; i < 100; i++) {
        struct gs_http_call *call = fake_next(&f->fake, 0);

        assert_true(fake_open() <= 32);
        assert_int_equal(sscanf(call->url, "http://api/api/v1/namespaces/ns/pods/%15s", name), 1);
        call = written(f, name, mark);
        fake_answer(call, 200, "{}", -1);
        saw_mark(f, name, mark);
        fake_run(&f->fake, 1);
    }
    assert_int_equal(f->n_done, 1);
    assert_int_equal(stats_of(f).closed, 100);
}

static void lead_lost_and_won(void **state)
{
    struct fixture *f = *state;
    char mark[64];

    waits(f, "a");
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    (void)written(f, "a", mark);
    gs_fence_stop(f->fence);
    assert_int_equal(fake_open(), 0);
    fake_run(&f->fake, 60000);
    assert_int_equal(f->n_done, 0);
    gs_fence_begin(f->fence);
    fake_run(&f->fake, 1);
    saw_mark(f, "a", mark); /* the write of the first term came late: it closes all the same */
    fake_run(&f->fake, 1);
    assert_int_equal(f->n_done, 1);
    assert_int_equal(fake_open(), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(nobody_waits),
        T(who_waits),
        T(watch_tells_the_end),
        T(other_ends),
        T(failure_is_tried_again),
        T(refused_pod_takes_time),
        T(server_that_never_writes_takes_time),
        T(full_pod_takes_none),
        T(a_few_at_a_time),
        T(lead_lost_and_won),
        T(mark_of_another_over_ours),
        T(closed_pods_cost_nothing),
        T(closed_by_others),
        T(opening),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
