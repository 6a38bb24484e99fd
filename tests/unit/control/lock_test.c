/* HAMi's node lock against a small API server, in virtual time. Vectors: control-plane fact sheet,
 * appendix A8; Cambricon's: other vendors' fact sheet, V-M7. */
#include "cluster/lock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api.h"

struct fixture {
    struct api api;
    int rc;
    bool is_done;
    char value[160], text[GS_ERR_TEXT];
    struct gs_lock_op *op;
};

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    api_new(&f.api);
    f.api.is_deaf = true;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    gs_lock_cancel(f->op);
    api_free(&f->api);
    return 0;
}

static void on_end(void *arg, int rc, struct gs_str value, const struct gs_err *err)
{
    struct fixture *f = arg;

    assert_false(f->is_done);
    f->is_done = true;
    f->rc = rc;
    f->op = NULL;
    (void)snprintf(f->value, sizeof(f->value), "%.*s", (int)value.n, value.p);
    (void)snprintf(f->text, sizeof(f->text), "%s", err != NULL ? err->text : "");
}

static struct gs_lock_want want_of(const char *pod)
{
    return (struct gs_lock_want){
        .node = GS_STR("n1"), .ns = GS_STR("default"), .pod = gs_str_of(pod), .timeout_ms = 120000};
}

static int finish(struct fixture *f)
{
    for (int i = 0; i < 100 && !f->is_done; i++)
        api_serve(&f->api, 100);
    assert_true(f->is_done);
    f->is_done = false;
    return f->rc;
}

static int take(struct fixture *f, const struct gs_lock_want *want)
{
    assert_int_equal(gs_lock_take(f->api.fake.client, want, on_end, f, &f->op, NULL), 0);
    return finish(f);
}

static int take_for(struct fixture *f, const char *pod)
{
    struct gs_lock_want want = want_of(pod);

    return take(f, &want);
}

static int give(struct fixture *f, const struct gs_lock_want *want)
{
    assert_int_equal(gs_lock_give(f->api.fake.client, want, on_end, f, &f->op, NULL), 0);
    return finish(f);
}

static char *lock_of(struct fixture *f)
{
    return f->api.node[0].lock[0];
}

static void free_lock_is_taken(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take_for(f, "a"), 0);
    assert_string_equal(lock_of(f), "2023-11-14T22:13:20Z,default,a"); /* Unix 1700000000 */
    assert_string_equal(f->value, lock_of(f));
    assert_string_equal(f->api.node[0].lock[1], "");
}

static void live_owner_is_contention(void **state) /* A8.1 */
{
    struct fixture *f = *state;

    api_pod(&f->api, "other");
    api_lock_text(&f->api, 5, "default", "other", lock_of(f));
    assert_int_equal(take_for(f, "a"), -EBUSY);
    assert_string_equal(f->text, "node n1 has been locked within 2m0s: node lock contention");
    assert_int_equal(f->api.n_patches, 0);
}

static void owner_gone_is_taken_over(void **state) /* A8.2 */
{
    struct fixture *f = *state;

    api_lock_text(&f->api, 5, "default", "other", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0);
    assert_non_null(strstr(lock_of(f), ",default,a"));
}

static void expired_is_taken_over(void **state) /* A8.3 */
{
    struct fixture *f = *state;

    api_pod(&f->api, "other");
    api_lock_text(&f->api, 121, "default", "other", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0);
    assert_non_null(strstr(lock_of(f), ",default,a"));
}

static void same_pod_succeeds(void **state) /* A8.4 */
{
    struct fixture *f = *state;

    api_lock_text(&f->api, 5, "default", "a", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0);
    assert_int_equal(f->api.n_patches, 0);
}

static void legacy_is_contention(void **state) /* A8.5 */
{
    struct fixture *f = *state;

    api_lock_text(&f->api, 5, "", "", lock_of(f));
    assert_int_equal(take_for(f, "a"), -EBUSY);
    api_lock_text(&f->api, 121, "", "", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0);
}

static void bad_values_are_errors(void **state) /* A8.6 */
{
    struct fixture *f = *state;

    strcpy(lock_of(f), "2023-11-14T22:13:20Z,default");
    assert_int_equal(take_for(f, "a"), -EINVAL);
    assert_string_equal(f->text, "malformed lock annotation: expected 3 parts, got 2 from "
                                 "\"2023-11-14T22:13:20Z,default\"");
    strcpy(lock_of(f), "2023-11-14T22:13:20Z,a,b,c");
    assert_int_equal(take_for(f, "a"), -EINVAL);
    assert_non_null(strstr(f->text, "expected 3 parts, got 4"));
    strcpy(lock_of(f), "yesterday,default,b");
    assert_int_equal(take_for(f, "a"), -EINVAL);
    assert_int_equal(f->api.n_patches, 0);
}

static void others_lock_is_not_released(void **state) /* A8.7 */
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");

    api_lock_text(&f->api, 5, "default", "other", lock_of(f));
    assert_int_equal(give(f, &want), 0);
    assert_non_null(strstr(lock_of(f), ",default,other"));
    assert_int_equal(f->api.n_patches, 0);
}

static void own_and_legacy_are_released(void **state) /* A8.8 */
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");

    api_lock_text(&f->api, 5, "", "", lock_of(f));
    assert_int_equal(give(f, &want), 0);
    assert_string_equal(lock_of(f), "");
    api_lock_text(&f->api, 5, "default", "a", lock_of(f));
    assert_int_equal(give(f, &want), 0);
    assert_string_equal(lock_of(f), "");
    assert_int_equal(give(f, &want), 0); /* not there: fine */
    f->api.node[0].is_there = false;
    assert_int_equal(give(f, &want), 0);
}

/* Between our GET and our PATCH somebody else got it: his stays. */
static void conflict_keeps_the_others_lock(void **state) /* A8.9 */
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");
    struct gs_http_call *call;

    api_pod(&f->api, "other");
    assert_int_equal(gs_lock_take(f->api.fake.client, &want, on_end, f, &f->op, NULL), 0);
    call = fake_next(&f->api.fake, 100);
    fake_answer(call, 200, "{\"metadata\":{\"resourceVersion\":\"100\"}}", -1);
    api_lock_text(&f->api, 0, "default", "other", lock_of(f));
    f->api.node[0].version++;
    assert_int_equal(finish(f), -EBUSY);
    assert_non_null(strstr(lock_of(f), ",default,other"));
    assert_int_equal(f->api.n_patches, 0);
}

static void lost_answer_is_found(void **state) /* A8.10 */
{
    struct fixture *f = *state;

    f->api.on_method = "PATCH";
    f->api.on_path = "/nodes/";
    f->api.is_lost = true;
    assert_int_equal(take_for(f, "a"), 0);
    assert_int_equal(f->api.n_patches, 1);
    assert_non_null(strstr(lock_of(f), ",default,a"));
}

static void server_errors_are_tried_again(void **state)
{
    struct fixture *f = *state;

    f->api.on_method = "PATCH";
    f->api.on_path = "/nodes/";
    f->api.with_status = 500;
    assert_int_equal(take_for(f, "a"), 0);
    f->api.on_method = "PATCH";
    f->api.with_status = 403;
    strcpy(lock_of(f), "");
    assert_int_equal(take_for(f, "a"), -EPERM);
    f->api.node[0].is_there = false;
    assert_int_equal(take_for(f, "a"), -ENOENT);
}

/* A clock ahead of ours stamped it: our own count of its age decides. */
static void future_stamp_expires(void **state)
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");

    snprintf(api_pod(&f->api, "other")->node, 64, "n1");
    strcpy(f->api.pod[0].bind_phase, "allocating");
    api_lock_text(&f->api, -86400, "default", "other", lock_of(f));
    assert_int_equal(take_for(f, "a"), -EBUSY);
    want.seen = gs_str_of(lock_of(f));
    want.seen_ms = 119999;
    assert_int_equal(take(f, &want), -EBUSY);
    want.seen_ms = 120000;
    assert_int_equal(take(f, &want), 0);
}

/* HAMi's older form, which names nobody who could be asked: it would block the node until then. */
static void bare_time_of_the_future(void **state)
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");

    api_lock_text(&f->api, -86400LL * 365 * 50, "", "", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0);
    assert_non_null(strstr(lock_of(f), ",default,a"));
    strcpy(lock_of(f), "9999-12-31T23:59:59Z");
    assert_int_equal(take_for(f, "a"), 0);
    /* clocks differ; but by our own count it ends */
    api_lock_text(&f->api, -119, "", "", lock_of(f));
    assert_int_equal(take_for(f, "a"), -EBUSY);
    want.seen = gs_str_of(lock_of(f));
    want.seen_ms = 119999;
    assert_int_equal(take(f, &want), -EBUSY);
    want.seen_ms = 120000;
    assert_int_equal(take(f, &want), 0);
    api_lock_text(&f->api, -121, "", "", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0);
    /* Cambricon's */
    want = want_of("a");
    want.key = GS_STR("cambricon.com/dsmlu.lock");
    api_lock_text(&f->api, -119, "", "", f->api.node[0].lock[1]);
    assert_int_equal(take(f, &want), -EBUSY);
    api_lock_text(&f->api, -121, "", "", f->api.node[0].lock[1]);
    assert_int_equal(take(f, &want), 0);
    /* who has an owner is asked for it, whatever the date */
    api_lock_text(&f->api, -86400, "default", "other", lock_of(f));
    assert_int_equal(take_for(f, "a"), 0); /* there is no such pod */
    snprintf(api_pod(&f->api, "other")->node, 64, "n1");
    strcpy(f->api.pod[0].bind_phase, "allocating");
    api_lock_text(&f->api, -86400, "default", "other", lock_of(f));
    assert_int_equal(take_for(f, "a"), -EBUSY);
}

static void idle_owner_loses_it(void **state)
{
    struct fixture *f = *state;
    struct api_pod *other = api_pod(&f->api, "other");
    struct gs_lock_want want = want_of("a");
    char value[160];

    api_lock_text(&f->api, 5, "default", "other", lock_of(f));
    strcpy(value, lock_of(f));
    want.seen = gs_str_of(value);
    want.seen_ms = 19999;
    assert_int_equal(take(f, &want), -EBUSY); /* not bound: its scheduler may be about to */
    want.seen_ms = 20000;
    want.seen = GS_STR("another value"); /* what is there now is new */
    assert_int_equal(take(f, &want), -EBUSY);
    want.seen = gs_str_of(value);
    assert_int_equal(take(f, &want), 0); /* it ended between lock and Binding */
    strcpy(lock_of(f), value);
    want.seen_ms = 9999;
    strcpy(other->node, "n2"); /* bound elsewhere */
    assert_int_equal(take(f, &want), -EBUSY);
    want.seen_ms = 10000;
    assert_int_equal(take(f, &want), 0);
    strcpy(lock_of(f), value);
    want.seen_ms = 119999;
    strcpy(other->node, "n1");
    strcpy(other->bind_phase, "allocating");
    assert_int_equal(take(f, &want), -EBUSY); /* the plugin is at work */
    strcpy(other->bind_phase, "success");
    want.seen_ms = 9999;
    assert_int_equal(take(f, &want), -EBUSY); /* it is about to give the lock back */
    want.seen_ms = 10000;
    assert_int_equal(take(f, &want), 0);
    strcpy(lock_of(f), value);
    strcpy(other->bind_phase, "allocating");
    strcpy(other->phase, "Failed");
    want.seen_ms = 0; /* over is over */
    assert_int_equal(take(f, &want), 0);
}

static void bare_time_of_another_key(void **state) /* V-M7 */
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");
    char *lock = f->api.node[0].lock[1], ours[160];

    want.key = GS_STR("cambricon.com/dsmlu.lock");
    want.timeout_ms = 300000;
    assert_int_equal(take(f, &want), 0);
    assert_string_equal(lock, "2023-11-14T22:13:20Z");
    assert_string_equal(lock_of(f), "");
    strcpy(ours, f->value);
    api_lock_text(&f->api, 119, "", "", lock);
    assert_int_equal(take(f, &want), -EBUSY);
    assert_non_null(strstr(f->text, "has been locked within 2m0s"));
    want.seen = gs_str_of(ours); /* give back: not the one that we wrote */
    assert_int_equal(give(f, &want), 0);
    assert_string_not_equal(lock, "");
    strcpy(lock, ours);
    assert_int_equal(give(f, &want), 0);
    assert_string_equal(lock, "");
    api_lock_text(&f->api, 121, "", "", lock);
    assert_int_equal(take(f, &want), 0);
}

static void cancelled_is_not_told(void **state)
{
    struct fixture *f = *state;
    struct gs_lock_want want = want_of("a");

    assert_int_equal(gs_lock_take(f->api.fake.client, &want, on_end, f, &f->op, NULL), 0);
    (void)fake_next(&f->api.fake, 100);
    f->op = gs_lock_cancel(f->op);
    api_serve(&f->api, 10000);
    assert_false(f->is_done);
    want.node = GS_STR("a/b");
    assert_int_equal(gs_lock_take(f->api.fake.client, &want, on_end, f, &f->op, NULL), -EINVAL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(free_lock_is_taken),          T(live_owner_is_contention),
        T(owner_gone_is_taken_over),    T(expired_is_taken_over),
        T(same_pod_succeeds),           T(legacy_is_contention),
        T(bad_values_are_errors),       T(others_lock_is_not_released),
        T(own_and_legacy_are_released), T(conflict_keeps_the_others_lock),
        T(lost_answer_is_found),        T(server_errors_are_tried_again),
        T(future_stamp_expires),        T(bare_time_of_the_future),
        T(idle_owner_loses_it),         T(bare_time_of_another_key),
        T(cancelled_is_not_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
