#include "kube/client.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include <cmocka.h>

#include "fake_http.h"

struct fixture {
    struct fake fake;
    int ends; /**< results that came */
    int rc, status;
    uint32_t tries, retry_after_ms;
    char reason[64], message[256], err[512], name[64];
};

static int set_up(void **state)
{
    static const struct gs_kube_client_opt opt = {.max_in_flight = 2};
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    *state = f;
    fake_new(&f->fake, &opt);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fake_free(&f->fake);
    free(f);
    return 0;
}

static void copy(char *to, size_t cap, struct gs_str s)
{
    (void)snprintf(to, cap, "%.*s", (int)s.n, s.n ? s.p : "");
}

static void on_result(void *arg, const struct gs_kube_result *r)
{
    struct fixture *f = arg;

    f->ends++;
    f->rc = r->rc;
    f->status = r->status;
    f->tries = r->tries;
    f->retry_after_ms = r->retry_after_ms;
    copy(f->reason, sizeof(f->reason), r->reason);
    copy(f->message, sizeof(f->message), r->message);
    (void)snprintf(f->err, sizeof(f->err), "%s", r->err->text);
    (void)snprintf(f->name, sizeof(f->name), "%s",
                   r->root ? yyjson_get_str(yyjson_obj_get(r->root, "name")) : "");
}

static void send(struct fixture *f, enum gs_kube_verb verb)
{
    struct gs_kube_req req = {.verb = verb,
                              .resource = &gs_kube_pods,
                              .ns = GS_STR("n"),
                              .name = verb == GS_KUBE_CREATE ? (struct gs_str){0} : GS_STR("p"),
                              .body = GS_STR("{}")};

    assert_int_equal(gs_kube_client_send(f->fake.client, &req, on_result, f, NULL, NULL), 0);
}

#define STATUS(code, reason, message)                                                              \
    "{\"kind\":\"Status\",\"code\":" #code ",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

static void verbs_have_their_form(void **state)
{
    static const struct {
        enum gs_kube_verb verb;
        const char *method, *url, *type;
    } rows[] = {
        {GS_KUBE_GET, "GET", "http://api/api/v1/namespaces/n/pods/p", "application/json"},
        {GS_KUBE_CREATE, "POST", "http://api/api/v1/namespaces/n/pods", "application/json"},
        {GS_KUBE_UPDATE, "PUT", "http://api/api/v1/namespaces/n/pods/p", "application/json"},
        {GS_KUBE_MERGE, "PATCH", "http://api/api/v1/namespaces/n/pods/p",
         "application/merge-patch+json"},
        {GS_KUBE_PATCH, "PATCH", "http://api/api/v1/namespaces/n/pods/p",
         "application/json-patch+json"},
        {GS_KUBE_DELETE, "DELETE", "http://api/api/v1/namespaces/n/pods/p", "application/json"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_http_call *call;

        send(f, rows[i].verb);
        call = fake_next(&f->fake, 100);
        assert_string_equal(call->method, rows[i].method);
        assert_string_equal(call->url, rows[i].url);
        assert_string_equal(call->type, rows[i].type);
        fake_answer(call, 200, "{\"name\":\"x\"}", -1);
        assert_int_equal(f->rc, 0);
        assert_string_equal(f->name, "x");
        assert_string_equal(f->err, "");
    }
}

/* Source of the statuses: a real API server's answers (tests/e2e/kube_client). */
static void errors_have_types(void **state)
{
    static const struct {
        int status, rc;
        const char *body, *reason;
    } rows[] = {
        {400, -EINVAL, STATUS(400, "BadRequest", "m"), "BadRequest"},
        {401, -EACCES, STATUS(401, "Unauthorized", "m"), "Unauthorized"},
        {403, -EPERM, STATUS(403, "Forbidden", "m"), "Forbidden"},
        {404, -ENOENT, STATUS(404, "NotFound", "m"), "NotFound"},
        {409, -EEXIST, STATUS(409, "AlreadyExists", "m"), "AlreadyExists"},
        {409, -EBUSY, STATUS(409, "Conflict", "m"), "Conflict"},
        {410, -ESTALE, STATUS(410, "Expired", "m"), "Expired"},
        {413, -EFBIG, STATUS(413, "RequestEntityTooLarge", "m"), "RequestEntityTooLarge"},
        {422, -EINVAL, STATUS(422, "Invalid", "m"), "Invalid"},
        {500, -EIO, STATUS(500, "InternalError", "m"), "InternalError"},
        {302, -EIO, "{}", ""},
        {418, -EINVAL, "{}", ""},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        send(f, GS_KUBE_CREATE);
        fake_answer(fake_next(&f->fake, 100), rows[i].status, rows[i].body, -1);
        assert_int_equal(f->rc, rows[i].rc);
        assert_int_equal(f->status, rows[i].status);
        assert_string_equal(f->reason, rows[i].reason);
        assert_int_equal(f->tries, 1);
        assert_non_null(strstr(f->err, "POST /api/v1/namespaces/n/pods: "));
    }
}

static void answers_in_words_are_told(void **state)
{
    struct fixture *f = *state;

    send(f, GS_KUBE_CREATE);
    fake_answer(fake_next(&f->fake, 100), 404, "404 page not found\n", -1);
    assert_int_equal(f->rc, -ENOENT);
    assert_string_equal(f->message, "404 page not found");
    send(f, GS_KUBE_GET);
    fake_answer(fake_next(&f->fake, 100), 200, "<html>", -1);
    assert_int_equal(f->rc, -EBADMSG);
    send(f, GS_KUBE_GET);
    fake_answer(fake_next(&f->fake, 100), 200, "{\"cut\":", -1);
    assert_int_equal(f->rc, -EBADMSG);
    send(f, GS_KUBE_GET);
    fake_answer(fake_next(&f->fake, 100), 404, "{\"reason\":7,\"message\":[],\"details\":3}", -1);
    assert_int_equal(f->rc, -ENOENT);
}

static void passing_trouble_is_tried_again(void **state)
{
    static const int statuses[] = {429, 500, 502, 503, 504, -ECONNRESET, -ECONNREFUSED, -ETIMEDOUT};
    static const enum gs_kube_verb verbs[] = {GS_KUBE_GET, GS_KUBE_UPDATE, GS_KUBE_MERGE,
                                              GS_KUBE_DELETE};
    struct fixture *f = *state;

    for (size_t v = 0; v < GS_ARRAY_LEN(verbs); v++)
        for (size_t i = 0; i < GS_ARRAY_LEN(statuses); i++) {
            struct gs_http_call *call;

            f->ends = 0;
            send(f, verbs[v]);
            for (int k = 0; k < 2; k++) {
                call = fake_next(&f->fake, 10000);
                if (statuses[i] < 0)
                    fake_break(call, statuses[i]);
                else
                    fake_answer(call, statuses[i], "{}", -1);
                assert_int_equal(f->ends, 0);
            }
            fake_answer(fake_next(&f->fake, 10000), 200, "{}", -1);
            assert_int_equal(f->ends, 1);
            assert_int_equal(f->rc, 0);
            assert_int_equal(f->tries, 3);
        }
}

static void what_may_have_been_done_is_not_sent_twice(void **state)
{
    static const struct {
        int status, after_s;
        bool is_again;
    } rows[] = {{500, -1, false},         {502, -1, false},        {504, -1, false},
                {-ECONNRESET, 0, false},  {-ETIMEDOUT, 0, false},  {429, -1, false},
                {503, -1, false},         {429, 1, true},          {503, 1, true},
                {-ECONNREFUSED, 0, true}, {-EHOSTUNREACH, 0, true}};
    static const enum gs_kube_verb verbs[] = {GS_KUBE_CREATE, GS_KUBE_PATCH};
    struct fixture *f = *state;

    for (size_t v = 0; v < GS_ARRAY_LEN(verbs); v++)
        for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
            f->ends = 0;
            send(f, verbs[v]);
            if (rows[i].status < 0)
                fake_break(fake_next(&f->fake, 100), rows[i].status);
            else
                fake_answer(fake_next(&f->fake, 100), rows[i].status, "{}", rows[i].after_s);
            assert_int_equal(f->ends, rows[i].is_again ? 0 : 1);
            if (rows[i].is_again)
                fake_answer(fake_next(&f->fake, 10000), 200, "{}", -1);
            assert_int_equal(f->ends, 1);
        }
}

static void waits_grow_and_end_with_the_deadline(void **state)
{
    struct fixture *f = *state;
    uint64_t begin = fake_now_ms(&f->fake), last = begin, wait;
    uint32_t most = 100;

    send(f, GS_KUBE_GET);
    for (int i = 0; f->ends == 0; i++) {
        struct gs_http_call *call = fake_next(&f->fake, 10000);

        wait = fake_now_ms(&f->fake) - last;
        last = fake_now_ms(&f->fake);
        if (i > 0) {
            assert_in_range(wait, most / 2, most);
            most = most < 3200 ? most * 2 : 5000;
        }
        fake_answer(call, 503, "{}", -1);
    }
    assert_int_equal(f->rc, -EAGAIN);
    assert_in_range(f->tries, 8, 12);
    assert_true(fake_now_ms(&f->fake) - begin <= 30000);
}

static void retry_after_is_obeyed(void **state)
{
    struct fixture *f = *state;
    uint64_t begin;

    send(f, GS_KUBE_CREATE);
    begin = fake_now_ms(&f->fake);
    fake_answer(fake_next(&f->fake, 100), 429, "{}", 3);
    (void)fake_next(&f->fake, 10000);
    assert_in_range(fake_now_ms(&f->fake) - begin, 3000, 3200);
    /* as details of the Status, where a proxy took the header away */
    fake_answer(fake_next(&f->fake, 0), 429,
                "{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":2}}", -1);
    begin = fake_now_ms(&f->fake);
    (void)fake_next(&f->fake, 10000);
    assert_in_range(fake_now_ms(&f->fake) - begin, 2000, 2300);
    /* beyond the deadline there is nothing to wait for */
    fake_answer(fake_next(&f->fake, 0), 429, "{}", 3600);
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->rc, -EAGAIN);
    assert_int_equal(f->retry_after_ms, 3600000);
}

static void room_is_kept(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_client_stats stats;

    for (int i = 0; i < 5; i++)
        send(f, GS_KUBE_GET);
    fake_run(&f->fake, 1);
    assert_int_equal(fake_open(), 2);
    gs_kube_client_stats(f->fake.client, &stats);
    assert_int_equal(stats.in_flight, 2);
    assert_int_equal(stats.waiting, 3);
    for (int i = 0; i < 5; i++)
        fake_answer(fake_next(&f->fake, 1), 200, "{}", -1);
    assert_int_equal(f->ends, 5);
}

static void waiting_ends_with_the_deadline(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++)
        send(f, GS_KUBE_GET);
    fake_run(&f->fake, 30001); /* the server answers nothing; the third never had a turn */
    assert_int_equal(f->ends, 1);
    assert_int_equal(f->rc, -ETIMEDOUT);
    fake_answer(fake_next(&f->fake, 1), 200, "{}", -1);
    fake_answer(fake_next(&f->fake, 1), 200, "{}", -1);
}

static void cancelled_ones_say_nothing(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_req req = {.verb = GS_KUBE_GET, .path = "/version"};
    uint64_t ticket = 0;

    assert_int_equal(gs_kube_client_send(f->fake.client, &req, on_result, f, &ticket, NULL), 0);
    gs_kube_client_cancel(f->fake.client, ticket); /* before it was sent */
    fake_run(&f->fake, 10);
    assert_int_equal(fake_open(), 0);
    assert_int_equal(gs_kube_client_send(f->fake.client, &req, on_result, f, &ticket, NULL), 0);
    (void)fake_next(&f->fake, 10);
    gs_kube_client_cancel(f->fake.client, ticket); /* while it is out */
    assert_int_equal(fake_open(), 0);
    assert_int_equal(gs_kube_client_send(f->fake.client, &req, on_result, f, &ticket, NULL), 0);
    fake_answer(fake_next(&f->fake, 10), 503, "{}", 1);
    gs_kube_client_cancel(f->fake.client, ticket); /* between two tries */
    gs_kube_client_cancel(f->fake.client, ticket);
    fake_run(&f->fake, 60000);
    assert_int_equal(f->ends, 0);
}

static void bad_requests_are_refused(void **state)
{
    static const struct gs_kube_req rows[] = {
        {.verb = GS_KUBE_GET},
        {.verb = GS_KUBE_GET, .path = "version"},
        {.verb = GS_KUBE_VERB_COUNT, .path = "/"},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_pods, .ns = {"n", 1}},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_pods, .name = {"p", 1}},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_nodes, .name = {"..", 2}},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_nodes, .name = {"a/b", 3}},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_nodes, .name = {"a%2f", 4}},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_nodes, .name = {"a\nb", 3}},
        {.verb = GS_KUBE_GET, .resource = &gs_kube_pods, .ns = {".", 1}, .name = {"p", 1}},
        {.verb = GS_KUBE_CREATE,
         .resource = &gs_kube_pods,
         .ns = {"n", 1},
         .subresource = "binding"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_err err = {0};

        assert_int_equal(gs_kube_client_send(f->fake.client, &rows[i], on_result, f, NULL, &err),
                         -EINVAL);
        assert_true(err.text[0] != '\0');
    }
    fake_run(&f->fake, 100);
    assert_int_equal(f->ends, 0);
}

static void selectors_are_escaped(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_req req = {.verb = GS_KUBE_LIST,
                              .resource = &gs_kube_leases,
                              .ns = GS_STR("kube-system"),
                              .label_selector = GS_STR("a=b,c in (d, e)"),
                              .field_selector = GS_STR("metadata.name=x&y")};

    assert_int_equal(gs_kube_client_send(f->fake.client, &req, on_result, f, NULL, NULL), 0);
    struct gs_http_call *call = fake_next(&f->fake, 10);
    assert_string_equal(call->url,
                        "http://api/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
                        "?labelSelector=a%3Db%2Cc%20in%20%28d%2C%20e%29"
                        "&fieldSelector=metadata.name%3Dx%26y");
    fake_answer(call, 200, "{}", -1);
}

static void objects_are_built(void **state)
{
    static const struct gs_str keys[] = {{"hami.io/a", 9}}, values[] = {{"\"x\"", 3}};
    struct fixture *f = *state;
    struct gs_kube_binding b = {.ns = GS_STR("n"),
                                .pod = GS_STR("p"),
                                .uid = GS_STR("u"),
                                .node = GS_STR("w"),
                                .annotation_key = keys,
                                .annotation_value = values,
                                .n_annotations = 1};
    struct gs_kube_end end = {
        .ns = GS_STR("n"), .name = GS_STR("p"), .uid = GS_STR("u"), .has_grace = true};
    struct gs_http_call *call;

    assert_int_equal(gs_kube_client_bind(f->fake.client, &b, on_result, f, NULL, NULL), 0);
    call = fake_next(&f->fake, 10);
    assert_string_equal(call->url, "http://api/api/v1/namespaces/n/pods/p/binding");
    assert_string_equal(
        call->body,
        "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":\"p\",\"namespace\":"
        "\"n\",\"uid\":\"u\",\"annotations\":{\"hami.io/a\":\"\\\"x\\\"\"}},\"target\":{"
        "\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"w\"}}");
    fake_answer(call, 201, "{}", -1);
    assert_int_equal(gs_kube_client_evict(f->fake.client, &end, on_result, f, NULL), 0);
    call = fake_next(&f->fake, 10);
    assert_string_equal(call->url, "http://api/api/v1/namespaces/n/pods/p/eviction");
    assert_string_equal(
        call->body, "{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":"
                    "\"p\",\"namespace\":\"n\"},\"deleteOptions\":{\"preconditions\":{\"uid\":"
                    "\"u\"},\"gracePeriodSeconds\":0}}");
    fake_answer(call, 429, "{}", 1); /* a budget says no: nobody but the caller may insist */
    assert_int_equal(f->rc, -EAGAIN);
    assert_int_equal(f->tries, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(verbs_have_their_form),
        TEST(errors_have_types),
        TEST(answers_in_words_are_told),
        TEST(passing_trouble_is_tried_again),
        TEST(what_may_have_been_done_is_not_sent_twice),
        TEST(waits_grow_and_end_with_the_deadline),
        TEST(retry_after_is_obeyed),
        TEST(room_is_kept),
        TEST(waiting_ends_with_the_deadline),
        TEST(cancelled_ones_say_nothing),
        TEST(bad_requests_are_refused),
        TEST(selectors_are_escaped),
        TEST(objects_are_built),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
