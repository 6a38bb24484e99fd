/* Server and client in one loop: what tests/it/grpc cannot look at from outside, and the ends of
 * lives under the sanitizers. */

#include "net/grpc.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/grpc_client.h"
#include "net/grpc_server.h"
#include "net/loop.h"

static struct {
    char folder[32], path[64];
    struct gs_loop *loop;
    struct gs_grpc *grpc;
    struct gs_grpc_server *server;
    struct gs_grpc_client *client;
    struct gs_grpc_call *token;
    int gone, n_done, stopped;
    int rc, status; /**< of the last answer */
    char text[256];
    size_t watchers;
} t;

static void on_gone(void *user)
{
    (void)user;
    t.token = NULL;
    t.gone++;
}

static int echo(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                struct gs_err *err)
{
    (void)user;
    (void)err;
    gs_buf_put(ret_message, req->message);
    return 0;
}

static int fail_it(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                   struct gs_err *err)
{
    (void)user;
    gs_buf_adds(ret_message, "not to be sent");
    return gs_err_set(err, -EBUSY, "%.*s", (int)req->message.n, req->message.p);
}

static int later(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                 struct gs_err *err)
{
    (void)user;
    (void)ret_message;
    (void)err;
    t.token = gs_grpc_server_later(req, on_gone, NULL);
    return GS_GRPC_LATER;
}

static int at_once(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                   struct gs_err *err)
{
    struct gs_buf buf = {0};

    (void)user;
    (void)err;
    gs_buf_put(&buf, req->message);
    gs_buf_adds(ret_message, "given back");
    gs_grpc_server_answer(gs_grpc_server_later(req, on_gone, NULL), &buf);
    return GS_GRPC_LATER;
}

static void watched(void *user, size_t n_open)
{
    (void)user;
    t.watchers = n_open;
}

static const struct gs_grpc_route routes[] = {
    {.path = "/t/Echo", .handler = echo},     {.path = "/t/Fail", .handler = fail_it},
    {.path = "/t/Later", .handler = later},   {.path = "/t/AtOnce", .handler = at_once},
    {.path = "/t/Watch", .watched = watched},
};

static int set_up(void **state)
{
    (void)state;
    memset(&t, 0, sizeof(t));
    strcpy(t.folder, "/tmp/gpuslice-grpc-XXXXXX");
    if (!mkdtemp(t.folder))
        return -1;
    (void)snprintf(t.path, sizeof(t.path), "%s/a.sock", t.folder);
    const struct gs_grpc_server_options options = {
        .path = t.path, .reply_limit = 1000, .routes = routes, .n_routes = GS_ARRAY_LEN(routes)};
    const struct gs_grpc_client_options client = {.path = t.path};
    if (gs_loop_new(NULL, &t.loop) < 0 || gs_grpc_new(t.loop, &t.grpc) < 0)
        return -1;
    if (gs_grpc_server_open(t.grpc, &options, &t.server, NULL) < 0)
        return -1;
    return gs_grpc_client_new(t.grpc, &client, &t.client);
}

static int tear_down(void **state)
{
    (void)state;
    t.client = gs_grpc_client_free(t.client);
    t.server = gs_grpc_server_free(t.server);
    t.grpc = gs_grpc_free(t.grpc);
    t.loop = gs_loop_free(t.loop);
    return rmdir(t.folder); /* and so: the socket is gone */
}

static void on_done(void *user, const struct gs_grpc_answer *answer)
{
    (void)user;
    t.n_done++;
    t.rc = answer->rc;
    t.status = answer->status;
    (void)snprintf(t.text, sizeof(t.text), "%.*s%s", (int)answer->message.n,
                   answer->message.p ? answer->message.p : "", answer->error);
}

static struct gs_grpc_client_call *ask(const char *method, const char *message)
{
    const struct gs_grpc_ask one = {
        .method = method, .message = gs_str_of(message), .timeout_ms = 60000, .done = on_done};
    struct gs_grpc_client_call *call = NULL;
    int before = t.n_done;

    assert_int_equal(gs_grpc_client_start(t.client, &one, &call), 0);
    assert_int_equal(t.n_done, before); /* never from inside */
    return call;
}

static void until(const int *n, int want)
{
    while (*n < want)
        assert_true(gs_loop_step(t.loop, 10000) > 0);
}

static void until_token(void)
{
    while (!t.token)
        assert_true(gs_loop_step(t.loop, 10000) > 0);
}

static void statuses(void **state)
{
    (void)state;
    assert_int_equal(gs_grpc_status_of(0), 0);
    assert_int_equal(gs_grpc_status_of(-EINVAL), 3);
    assert_int_equal(gs_grpc_status_of(-EMSGSIZE), 8);
    assert_int_equal(gs_grpc_status_of(-ENOSYS), 12);
    assert_int_equal(gs_grpc_status_of(-EXDEV), 13);
    assert_int_equal(gs_grpc_status_of(-ECONNREFUSED), 14);
    assert_int_equal(gs_grpc_rc_of(0), 0);
    assert_int_equal(gs_grpc_rc_of(4), -ETIMEDOUT);
    assert_int_equal(gs_grpc_rc_of(8), -ENOSPC);
    assert_int_equal(gs_grpc_rc_of(16), -EPERM);
    assert_int_equal(gs_grpc_rc_of(17), gs_grpc_rc_of(2));
    assert_int_equal(gs_grpc_rc_of(-1), gs_grpc_rc_of(2));
    assert_string_equal(gs_grpc_status_name(14), "UNAVAILABLE");
    assert_string_equal(gs_grpc_status_name(99), "UNKNOWN");
    for (int status = 1; status <= 16; status++) /* each has a row, and finds back to itself */
        assert_int_equal(gs_grpc_status_of(gs_grpc_rc_of(status)), status);
}

static void answers(void **state)
{
    struct gs_grpc_server_stats stats;

    (void)state;
    ask("/t/Echo", "hello");
    until(&t.n_done, 1);
    assert_int_equal(t.rc, 0);
    assert_string_equal(t.text, "hello");
    ask("/t/Echo", "");
    until(&t.n_done, 2);
    assert_int_equal(t.rc, 0);
    assert_string_equal(t.text, "");
    ask("/t/Fail", "why");
    until(&t.n_done, 3);
    assert_int_equal(t.rc, -EBUSY);
    assert_int_equal(t.status, 9);
    assert_string_equal(t.text, "FAILED_PRECONDITION: why");
    ask("/t/AtOnce", "now");
    until(&t.n_done, 4);
    assert_string_equal(t.text, "now");
    ask("/t/Nothing", "");
    until(&t.n_done, 5);
    assert_int_equal(t.rc, -ENOSYS);
    gs_grpc_server_get_stats(t.server, &stats);
    assert_int_equal(stats.calls, 4);
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.connections, 1);
    assert_int_equal(stats.active, 0);
}

static void answers_later(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    ask("/t/Later", "");
    until_token();
    ask("/t/Echo", "meanwhile");
    until(&t.n_done, 1);
    assert_string_equal(t.text, "meanwhile");
    gs_buf_adds(&buf, "at last");
    gs_grpc_server_answer(GS_STEAL(t.token), &buf);
    until(&t.n_done, 2);
    assert_string_equal(t.text, "at last");
    ask("/t/Later", "");
    until_token();
    gs_grpc_server_refuse(GS_STEAL(t.token), -ETIMEDOUT, "too late");
    until(&t.n_done, 3);
    assert_string_equal(t.text, "DEADLINE_EXCEEDED: too late");
    assert_int_equal(t.gone, 0);
}

static void too_large_an_answer(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    ask("/t/Later", "");
    until_token();
    gs_buf_addc(&buf, 'x', 1001);
    assert_int_equal(gs_grpc_server_publish(t.server, "/t/Watch", &buf), -EMSGSIZE);
    assert_int_equal(buf.n, 1001);
    gs_grpc_server_answer(GS_STEAL(t.token), &buf);
    assert_null(buf.p);
    until(&t.n_done, 1);
    assert_int_equal(t.status, 8);
    assert_int_equal(gs_grpc_server_publish(t.server, "/t/Watch", &buf), 0);
    assert_int_equal(gs_grpc_server_publish(t.server, "/t/Echo", &buf), -EINVAL);
    assert_int_equal(gs_grpc_server_publish(t.server, "/t/None", &buf), -ENOENT);
    buf.failed = true;
    assert_int_equal(gs_grpc_server_publish(t.server, "/t/Watch", &buf), -ENOMEM);
}

static void a_cancelled_call(void **state)
{
    (void)state;
    struct gs_grpc_client_call *call = ask("/t/Later", "");
    until_token();
    gs_grpc_client_cancel(call);
    until(&t.gone, 1);
    assert_int_equal(t.n_done, 0);
    gs_grpc_client_cancel(NULL);
}

static void on_stopped(void *user)
{
    (void)user;
    t.stopped++;
    t.server = gs_grpc_server_free(t.server);
}

static void a_stop_finishes_what_runs(void **state)
{
    struct gs_buf buf = {0};
    struct gs_err err = {0};

    (void)state;
    ask("/t/Later", "");
    until_token();
    gs_grpc_server_stop(t.server, 60000, on_stopped, NULL);
    assert_int_equal(access(t.path, F_OK), -1);
    assert_int_equal(gs_grpc_server_relisten(t.server, &err), -ESHUTDOWN);
    gs_buf_adds(&buf, "done");
    gs_grpc_server_answer(GS_STEAL(t.token), &buf);
    until(&t.n_done, 1);
    assert_string_equal(t.text, "done");
    until(&t.stopped, 1);
    ask("/t/Echo", "");
    until(&t.n_done, 2);
    assert_int_equal(t.status, 14);
}

static void a_stop_cuts_what_is_not_answered(void **state)
{
    (void)state;
    ask("/t/Later", "");
    until_token();
    gs_grpc_server_stop(t.server, 50, on_stopped, NULL);
    until(&t.stopped, 1);
    assert_int_equal(t.gone, 1);
    until(&t.n_done, 1);
    assert_int_equal(t.status, 14);
}

static void freed_with_calls_on_both_sides(void **state)
{
    (void)state;
    ask("/t/Later", "");
    until_token();
    for (int i = 0; i < 20; i++)
        ask("/t/Echo", "x");
    t.client = gs_grpc_client_free(t.client);
    assert_int_equal(t.n_done, 21);
    t.server = gs_grpc_server_free(t.server);
    assert_int_equal(t.gone, 1);
}

static void freed_before_its_calls_came(void **state)
{
    (void)state;
    ask("/t/Later", "");
    t.server = gs_grpc_server_free(t.server); /* a connection nobody took yet */
    until(&t.n_done, 1);
    assert_true(t.rc < 0);
    assert_int_equal(t.gone, 0);
}

static void nobody_there(void **state)
{
    const struct gs_grpc_client_options options = {.path = "/nonexistent/a.sock"};
    const struct gs_grpc_ask no_time = {.method = "/t/Echo", .done = on_done};
    struct gs_grpc_client *other;

    (void)state;
    assert_int_equal(gs_grpc_client_start(t.client, &no_time, NULL), -EINVAL);
    assert_int_equal(gs_grpc_client_new(t.grpc, &options, &other), 0);
    struct gs_grpc_client *mine = t.client;
    t.client = other;
    ask("/t/Echo", "");
    until(&t.n_done, 1);
    assert_int_equal(t.rc, -ENOENT);
    assert_int_equal(t.status, 14);
    assert_non_null(strstr(t.text, "UNAVAILABLE: /nonexistent/a.sock: No such file"));
    gs_grpc_client_cancel(ask("/t/Echo", ""));
    ask("/t/Echo", "");
    other = gs_grpc_client_free(other);
    assert_int_equal(t.n_done, 2);
    assert_int_equal(t.rc, -ECANCELED);
    t.client = mine;
}

static void a_new_place_for_the_socket(void **state)
{
    struct gs_grpc_client_stats stats;

    (void)state;
    ask("/t/Echo", "a");
    until(&t.n_done, 1);
    assert_int_equal(gs_grpc_server_check_path(t.server), 0);
    assert_int_equal(unlink(t.path), 0);
    assert_int_equal(gs_grpc_server_check_path(t.server), -ENOENT);
    assert_int_equal(gs_grpc_server_relisten(t.server, NULL), 0);
    assert_int_equal(gs_grpc_server_check_path(t.server), 0);
    assert_int_equal(gs_grpc_server_relisten(t.server, NULL), 0); /* over its own */
    assert_int_equal(gs_grpc_server_check_path(t.server), 0);
    ask("/t/Echo", "b"); /* on the old connection */
    until(&t.n_done, 2);
    assert_string_equal(t.text, "b");
    gs_grpc_client_get_stats(t.client, &stats);
    assert_int_equal(stats.connections, 1);
    assert_int_equal(stats.failed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),
        TEST(answers),
        TEST(answers_later),
        TEST(too_large_an_answer),
        TEST(a_cancelled_call),
        TEST(a_stop_finishes_what_runs),
        TEST(a_stop_cuts_what_is_not_answered),
        TEST(freed_with_calls_on_both_sides),
        TEST(freed_before_its_calls_came),
        TEST(nobody_there),
        TEST(a_new_place_for_the_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
