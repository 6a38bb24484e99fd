#include "kube/auth.h"

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
#include "fake_http.h"
#include "kube/config.h"
#include "kube/config_file.h"

#define V1 "client.authentication.k8s.io/v1"

/* Real plugins (sh) on a clock that only the test moves. The plugin notes each run in a file. */
struct fixture {
    struct gs_clock_virtual clock;
    struct gs_loop *loop;
    struct gs_http_client *http;
    struct gs_kube_auth *auth;
    struct gs_kube_config config;
    const char *args[2];
    struct gs_kube_env_pair env[2];
    char dir[64], dir_line[80], script[1024];
    int ends, awaited, rc;
    char err[512];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    *state = f;
    (void)alarm(60);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/gs-kube-auth-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    (void)snprintf(f->dir_line, sizeof(f->dir_line), "DIR=%s", f->dir);
    gs_clock_virtual_init(&f->clock, 1700000000ull * GS_CLOCK_S, false);
    f->env[0] = (struct gs_kube_env_pair){"DIR", f->dir_line};
    f->env[1] = (struct gs_kube_env_pair){"HOME", "HOME=/nowhere"};
    f->args[0] = "-c";
    f->args[1] = f->script;
    f->config.server = "https://h:1";
    f->config.exec = (struct gs_kube_exec){
        .command = "sh", .arg = f->args, .n_args = 2, .env = f->env, .n_env = 2, .api_version = V1};
    return gs_loop_new(&f->clock.clock, &f->loop);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];

    gs_kube_auth_free(f->auth);
    gs_http_client_free(f->http);
    gs_loop_free(f->loop);
    (void)snprintf(command, sizeof(command), "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void on_auth(void *arg, int rc, const struct gs_err *err)
{
    struct fixture *f = arg;

    f->ends++;
    f->rc = rc;
    (void)snprintf(f->err, sizeof(f->err), "%s", err ? err->text : "");
}

/* A plugin that does this after it noted its run. */
static void begin(struct fixture *f, const char *script)
{
    (void)snprintf(f->script, sizeof(f->script), "echo run >> $DIR/runs; %s", script);
    assert_int_equal(gs_http_client_new(f->loop, NULL, &f->http, NULL), 0);
    assert_int_equal(gs_kube_auth_new(&f->config, f->loop, f->http, on_auth, f, &f->auth), 0);
}

/* Until one more end of the plugin has been told than was waited for: that may be already. */
static void wait_end(struct fixture *f)
{
    for (f->awaited++; f->ends < f->awaited;) {
        assert_true(gs_loop_step(f->loop, 5) >= 0);
        gs_clock_virtual_advance(&f->clock, 5 * GS_CLOCK_MS);
    }
}

static void pass(struct fixture *f, uint64_t s)
{
    gs_clock_virtual_advance(&f->clock, s * GS_CLOCK_S);
    for (int i = 0; i < 3; i++)
        assert_true(gs_loop_step(f->loop, 0) >= 0);
}

static size_t runs(const struct fixture *f)
{
    struct gs_buf text;
    char path[128];
    size_t n;

    gs_buf_init(&text);
    (void)snprintf(path, sizeof(path), "%s/runs", f->dir);
    n = gs_kube_file_bytes(path, 1 << 20, &text) == 0 ? text.n / strlen("run\n") : 0;
    gs_buf_fini(&text);
    return n;
}

#define CREDENTIAL(status)                                                                         \
    "printf %s '{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\"," status "}'"

static void no_plugin_is_ready(void **state)
{
    struct fixture *f = *state;

    f->config.exec.command = NULL;
    begin(f, "");
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_READY);
    assert_false(gs_kube_auth_refused(f->auth));
    f->config.token_file = "/t";
    assert_true(gs_kube_auth_refused(f->auth));
}

static void a_token_is_asked_once(void **state)
{
    struct fixture *f = *state;

    begin(f, CREDENTIAL("\"status\":{\"token\":\"t1\"}"));
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
    wait_end(f);
    assert_int_equal(f->rc, 0);
    assert_string_equal(fake_token(), "t1");
    pass(f, 1000000); /* without an end it is kept for ever */
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_READY);
    assert_int_equal(runs(f), 1);
}

/* The clock begins at 1700000000 s = 2023-11-14T22:13:20Z. */
static void it_is_renewed_before_its_end(void **state)
{
    struct fixture *f = *state;

    begin(f, CREDENTIAL("\"status\":{\"token\":\"'$(wc -l < $DIR/runs)'\",\"expirationTimestamp\":"
                        "\"2023-11-14T22:23:20Z\"}"));
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
    wait_end(f);
    assert_string_equal(fake_token(), "1");
    pass(f, 500);
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_READY);
    pass(f, 60); /* 40 s before the end: in the background */
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_READY);
    wait_end(f);
    assert_string_equal(fake_token(), "2");
    assert_int_equal(runs(f), 2);
    pass(f, 60); /* past the end, which the second run did not move */
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
    wait_end(f);
    assert_int_equal(runs(f), 3);
}

static void a_refused_one_is_asked_anew(void **state)
{
    struct fixture *f = *state;

    begin(f, CREDENTIAL("\"status\":{\"token\":\"t\"}"));
    (void)gs_kube_auth_check(f->auth);
    wait_end(f);
    assert_false(gs_kube_auth_refused(f->auth)); /* just given: the next would be no better */
    pass(f, 11);
    assert_true(gs_kube_auth_refused(f->auth));
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
    wait_end(f);
    assert_int_equal(runs(f), 2);
}

static void it_is_told_what_the_protocol_says(void **state)
{
    struct fixture *f = *state;
    struct gs_buf text;
    char path[128];

    f->config.exec.wants_cluster = true;
    f->config.ca_pem = GS_STR("PEM");
    f->config.tls_server_name = "name";
    begin(f, "printf '%s' \"$KUBERNETES_EXEC_INFO$HOME\" > $DIR/info; cat > $DIR/in; " CREDENTIAL(
                 "\"status\":{\"clientCertificateData\":\"C\",\"clientKeyData\":\"K\"}"));
    (void)gs_kube_auth_check(f->auth);
    wait_end(f);
    assert_int_equal(f->rc, 0);
    gs_buf_init(&text);
    (void)snprintf(path, sizeof(path), "%s/info", f->dir);
    assert_int_equal(gs_kube_file_bytes(path, 1 << 20, &text), 0);
    assert_string_equal(gs_buf_text(&text),
                        "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\",\"spec\":{"
                        "\"interactive\":false,\"cluster\":{\"server\":\"https://h:1\","
                        "\"tls-server-name\":\"name\",\"certificate-authority-data\":\"UEVN\"}}}"
                        "/nowhere");
    gs_buf_fini(&text);
}

static void bad_answers_are_refused(void **state)
{
    static const struct {
        const char *script, *part;
        int rc;
    } rows[] = {
        {"exit 3", "exit status 3", -EACCES},
        {"kill -9 $$", "signal 9", -EACCES},
        {"true", "output", -EINVAL},
        {"echo hello", "not JSON", -EINVAL},
        {"echo '{}'", "not an ExecCredential", -EBADMSG},
        {"echo '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"kind\":"
         "\"ExecCredential\",\"status\":{\"token\":\"x\"}}'",
         "not an ExecCredential of " V1, -EBADMSG},
        {CREDENTIAL("\"spec\":{}"), "no status", -EBADMSG},
        {CREDENTIAL("\"status\":{}"), "neither a token", -EBADMSG},
        {CREDENTIAL("\"status\":{\"token\":7}"), "status.token", -EBADMSG},
        {CREDENTIAL("\"status\":{\"token\":\"a\\r\\nX: y\"}"), "not one word", -EBADMSG},
        {CREDENTIAL("\"status\":{\"clientKeyData\":\"K\"}"), "neither a token", -EBADMSG},
        {CREDENTIAL("\"status\":{\"token\":\"x\",\"expirationTimestamp\":\"later\"}"), "not a time",
         -EBADMSG},
        {"head -c 3000000 /dev/zero", "", 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        begin(f, rows[i].script);
        assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
        wait_end(f);
        assert_true(f->rc < 0);
        if (rows[i].rc)
            assert_int_equal(f->rc, rows[i].rc);
        if (!strstr(f->err, rows[i].part) || !strstr(f->err, "exec plugin 'sh'"))
            fail_msg("'%s' is not in '%s'", rows[i].part, f->err);
        f->auth = gs_kube_auth_free(f->auth);
        f->http = gs_http_client_free(f->http);
    }
}

static void a_failure_is_not_repeated_at_once(void **state)
{
    struct fixture *f = *state;

    begin(f, "exit 1");
    (void)gs_kube_auth_check(f->auth);
    wait_end(f);
    pass(f, 1);
    assert_int_equal(gs_kube_auth_check(f->auth), GS_KUBE_AUTH_WAITING);
    pass(f, 0);
    assert_int_equal(runs(f), 1);
    wait_end(f); /* two seconds after the first */
    assert_int_equal(runs(f), 2);
}

static void a_slow_one_is_ended(void **state)
{
    struct fixture *f = *state;

    begin(f, "exec sleep 1000");
    (void)gs_kube_auth_check(f->auth);
    while (runs(f) == 0)
        pass(f, 0);
    pass(f, 61);
    wait_end(f);
    assert_int_equal(f->rc, -ETIMEDOUT);
}

static void one_that_lingers_is_ended(void **state)
{
    struct fixture *f = *state;

    begin(f, "exec >&-; exec sleep 1000"); /* closes its output, and stays */
    (void)gs_kube_auth_check(f->auth);
    while (runs(f) == 0)
        pass(f, 0);
    pass(f, 61);
    wait_end(f);
    assert_int_equal(f->rc, -ETIMEDOUT);
}

static void one_that_is_missing_is_told(void **state)
{
    struct fixture *f = *state;

    f->config.exec.command = "/nowhere/plugin";
    f->config.exec.install_hint = "see https://x";
    begin(f, "");
    (void)gs_kube_auth_check(f->auth);
    wait_end(f);
    assert_int_equal(f->rc, -ENOENT);
    assert_non_null(strstr(f->err, "see https://x"));
}

static void may_be_freed_while_it_runs(void **state)
{
    struct fixture *f = *state;

    begin(f, "exec sleep 1000");
    (void)gs_kube_auth_check(f->auth);
    while (runs(f) == 0)
        pass(f, 0);
    f->auth = gs_kube_auth_free(f->auth); /* kills and reaps it, or the alarm rings */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_plugin_is_ready),
        TEST(a_token_is_asked_once),
        TEST(it_is_renewed_before_its_end),
        TEST(a_refused_one_is_asked_anew),
        TEST(it_is_told_what_the_protocol_says),
        TEST(bad_answers_are_refused),
        TEST(a_failure_is_not_repeated_at_once),
        TEST(a_slow_one_is_ended),
        TEST(one_that_lingers_is_ended),
        TEST(one_that_is_missing_is_told),
        TEST(may_be_freed_while_it_runs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
