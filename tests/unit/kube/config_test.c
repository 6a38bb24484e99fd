#include "kube/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kube/config_file.h"

/* A folder of this test's own, and an environment to match. */
struct fixture {
    char dir[64];
    struct gs_kube_config config;
    struct gs_err err;
};

static char kubeconfig[512], home[128], host[64], port[16];

static const char *fake_env(const char *name)
{
    if (strcmp(name, "KUBECONFIG") == 0)
        return kubeconfig;
    if (strcmp(name, "HOME") == 0)
        return home;
    if (strcmp(name, "KUBERNETES_SERVICE_HOST") == 0)
        return host;
    if (strcmp(name, "KUBERNETES_SERVICE_PORT") == 0)
        return port;
    return NULL;
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    if (!f)
        return -1;
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/gs-kube-config-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    kubeconfig[0] = host[0] = port[0] = '\0';
    (void)snprintf(home, sizeof(home), "%s", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[128];

    gs_kube_config_fini(&f->config);
    (void)snprintf(command, sizeof(command), "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static void put(struct fixture *f, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    for (char *c = path + 1; *c; c++)
        if (*c == '/') {
            *c = '\0';
            (void)mkdir(path, 0700); /* there already: fine */
            *c = '/';
        }
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static int load(struct fixture *f, const char *name, const char *context)
{
    char path[256];
    struct gs_kube_config_opt opt = {
        .path = name ? path : NULL, .context = context, .root = f->dir, .env = fake_env};

    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, name ? name : "");
    gs_kube_config_fini(&f->config);
    memset(&f->err, 0, sizeof(f->err));
    return gs_kube_config_load(&opt, &f->config, &f->err);
}

static void expect_path(struct fixture *f, const char *got, const char *want)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", f->dir, want);
    assert_non_null(got);
    assert_string_equal(got, path);
}

static void expect_err(struct fixture *f, const char *part)
{
    if (!strstr(f->err.text, part))
        fail_msg("'%s' is not in '%s'", part, f->err.text);
}

#define CLUSTER "clusters:\n- name: c\n  cluster: {server: 'https://h:6443/'}\n"
#define CONTEXT "contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n"

static const char full[] = "apiVersion: v1\n"
                           "kind: Config\n"
                           "preferences: {colors: true}\n"
                           "current-context: x\n"
                           "clusters:\n"
                           "- cluster:\n"
                           "    certificate-authority: pki/ca.crt\n"
                           "    certificate-authority-data: Q0E=\n"
                           "    server: https://h:6443/prefix/\n"
                           "    tls-server-name: other\n"
                           "    proxy-url: http://proxy:3128\n"
                           "    extensions: [{name: a, extension: {b: [1, {c: d}]}}]\n"
                           "  name: c\n"
                           "contexts:\n"
                           "- context: {cluster: c, user: u, namespace: team}\n"
                           "  name: x\n"
                           "- context: {cluster: c, user: plain}\n"
                           "  name: y\n"
                           "users:\n"
                           "- name: u\n"
                           "  user:\n"
                           "    client-certificate: pki/u.crt\n"
                           "    client-key: /abs/u.key\n"
                           "    client-certificate-data: Q0VSVA==\n"
                           "    client-key-data: S0VZ\n"
                           "    tokenFile: token\n"
                           "    token: \"123\"\n"
                           "    as: someone\n"
                           "    as-groups: [g1, g2]\n"
                           "    unknown-key: {x: 1}\n"
                           "- name: plain\n"
                           "  user: {username: me, password: '00'}\n";

static void a_full_file_is_read(void **state)
{
    struct fixture *f = *state;
    const struct gs_kube_config *c = &f->config;

    put(f, "conf/k", full);
    assert_int_equal(load(f, "conf/k", NULL), 0);
    assert_string_equal(c->context, "x");
    assert_string_equal(c->ns, "team");
    assert_string_equal(c->server, "https://h:6443/prefix");
    assert_string_equal(c->tls_server_name, "other");
    assert_string_equal(c->proxy_url, "http://proxy:3128");
    expect_path(f, c->ca_file, "conf/pki/ca.crt"); /* beside the file that says it */
    assert_true(gs_str_eq_c(c->ca_pem, "CA"));
    expect_path(f, c->cert_file, "conf/pki/u.crt");
    assert_string_equal(c->key_file, "/abs/u.key");
    assert_true(gs_str_eq_c(c->cert_pem, "CERT"));
    assert_true(gs_str_eq_c(c->key_pem, "KEY"));
    assert_string_equal(c->token, "123");
    expect_path(f, c->token_file, "conf/token");
    assert_string_equal(c->as, "someone");
    assert_int_equal(c->n_as_groups, 2);
    assert_string_equal(c->as_group[1], "g2");
    assert_false(c->is_insecure || c->is_in_cluster);
    assert_null(c->exec.command);
}

static void another_context_is_taken(void **state)
{
    struct fixture *f = *state;

    put(f, "k", full);
    assert_int_equal(load(f, "k", "y"), 0);
    assert_string_equal(f->config.ns, "default");
    assert_string_equal(f->config.user, "me");
    assert_string_equal(f->config.password, "00");
    assert_null(f->config.token);
    assert_int_equal(load(f, "k", "z"), -EINVAL);
    expect_err(f, "no context 'z'");
}

static void json_is_read_too(void **state)
{
    struct fixture *f = *state;

    put(f, "k",
        "{\"kind\":\"Config\",\"current-context\":\"x\",\n\t\"clusters\":[{\"name\":\"c\","
        "\"cluster\":{\"server\":\"https://h\",\"insecure-skip-tls-verify\":true}}],\"contexts\":["
        "{\"name\":\"x\",\"context\":{\"cluster\":\"c\",\"user\":\"u\"}}],\"users\":[{\"name\":"
        "\"u\",\"user\":{\"token\":\"a\\/b\",\"exec\":null}}]}");
    assert_int_equal(load(f, "k", NULL), 0);
    assert_true(f->config.is_insecure);
    assert_string_equal(f->config.token, "a/b");
}

static void exec_is_read(void **state)
{
    struct fixture *f = *state;
    const struct gs_kube_exec *e = &f->config.exec;

    put(f, "k",
        CLUSTER CONTEXT "users:\n- name: u\n  user:\n    exec:\n"
                        "      apiVersion: client.authentication.k8s.io/v1\n"
                        "      command: bin/plug\n"
                        "      args: [get, '', -v=1]\n"
                        "      env: [{name: A, value: '1'}, {name: B}]\n"
                        "      installHint: get it\n"
                        "      interactiveMode: IfAvailable\n"
                        "      provideClusterInfo: true\n");
    assert_int_equal(load(f, "k", NULL), 0);
    expect_path(f, e->command, "bin/plug");
    assert_int_equal(e->n_args, 3);
    assert_string_equal(e->arg[1], "");
    assert_string_equal(e->arg[2], "-v=1");
    assert_int_equal(e->n_env, 2);
    assert_string_equal(e->env[0].line, "A=1");
    assert_string_equal(e->env[1].line, "B=");
    assert_string_equal(e->install_hint, "get it");
    assert_true(e->wants_cluster);
}

#define USER(text) CLUSTER CONTEXT "users:\n- name: u\n  user:\n" text

static void bad_files_say_where(void **state)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"clusters:\n- name: c\n  cluster: [1]\n", "line: 3"},
        {"a: b\n c: d\n", "line: 1"},
        {"- a\n", "Expecting MAPPING"},
        {"{\"clusters\": [", "k:"},
        {CLUSTER, "no current-context"},
        {"current-context: x\n" CLUSTER, "no context 'x'"},
        {CONTEXT, "no cluster 'c'"},
        {CLUSTER CONTEXT, "no user 'u'"},
        {USER("    client-key-data: '*'\n    client-certificate-data: QQ==\n"),
         "user 'u': client-key-data: not base64"},
        {USER("    client-key-data: QQ==\n"), "one without the other"},
        {USER("    username: a\n    token: b\n"), "username and token"},
        {USER("    exec: {command: a, apiVersion: client.authentication.k8s.io/v1alpha1}\n"),
         "v1alpha1"},
        {USER("    exec: {apiVersion: client.authentication.k8s.io/v1}\n"), "command: missing"},
        {USER("    exec: {command: a, apiVersion: client.authentication.k8s.io/v1, "
              "interactiveMode: Always}\n"),
         "terminal"},
        {USER("    exec: {command: a, apiVersion: client.authentication.k8s.io/v1, env: [{value: "
              "x}]}\n"),
         "env[0]: no name"},
        {"clusters:\n- name: c\n  cluster: {server: h, insecure-skip-tls-verify: maybe}\n" CONTEXT,
         "insecure-skip-tls-verify: 'maybe' is neither"},
        {"clusters:\n- name: c\n  cluster: {server: h, insecure-skip-tls-verify: true, "
         "certificate-authority: f}\n" CONTEXT,
         "not together"},
        {"clusters:\n- name: c\n  cluster: {server: ''}\n" CONTEXT "users: [{name: u}]\n",
         "server: missing"},
        {"clusters:\n- name: c\n  cluster: {server: 'ftp://h'}\n" CONTEXT "users: [{name: u}]\n",
         "neither http nor https"},
        {"clusters:\n- name: c\n  cluster: {server: 'https:///x'}\n" CONTEXT "users: [{name: u}]\n",
         "not a URL"},
        {"clusters:\n- name: c\n  cluster: {server: 'https://h?x'}\n" CONTEXT
         "users: [{name: u}]\n",
         "not a URL"},
        {"current-context: x\ncurrent-context: y\n", "already seen"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        put(f, "k", rows[i].text);
        assert_int_equal(load(f, "k", NULL), -EINVAL);
        expect_err(f, rows[i].part);
        expect_err(f, "/k");
    }
    put(f, "k", USER("    auth-provider: {name: gcp}\n"));
    assert_int_equal(load(f, "k", NULL), -EOPNOTSUPP);
    expect_err(f, "gcp");
    assert_int_equal(load(f, "missing", NULL), -ENOENT);
}

static void a_server_may_lack_its_scheme(void **state)
{
    struct fixture *f = *state;

    put(f, "k",
        "clusters: [{name: c, cluster: {server: 'h:80'}}]\n" CONTEXT "users: [{name: u}]\n");
    assert_int_equal(load(f, "k", NULL), 0);
    assert_string_equal(f->config.server, "http://h:80");
    put(f, "k",
        "clusters: [{name: c, cluster: {server: 'h:80', certificate-authority: f}}]\n" CONTEXT
        "users: [{name: u}]\n");
    assert_int_equal(load(f, "k", NULL), 0);
    assert_string_equal(f->config.server, "https://h:80");
}

/* Source: kubectl's documentation of KUBECONFIG, "Merging kubeconfig files". */
static void lists_are_merged_first_file_first(void **state)
{
    struct fixture *f = *state;

    put(f, "a/k", "current-context: x\nusers: [{name: u, user: {tokenFile: t}}]\n");
    put(f, "b/k",
        CLUSTER "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
                "current-context: other\nusers: [{name: u, user: {token: second, as: z}}]\n"
                "preferences: {}\n");
    (void)snprintf(kubeconfig, sizeof(kubeconfig), ":%s/none:%s/a/k::%s/b/k:", f->dir, f->dir,
                   f->dir);
    assert_int_equal(load(f, NULL, NULL), 0);
    assert_string_equal(f->config.context, "x");
    expect_path(f, f->config.token_file, "a/t");
    assert_null(f->config.token); /* the second file's user of that name is not mixed in */
    assert_null(f->config.as);
    put(f, "b/k", "{");
    assert_int_equal(load(f, NULL, NULL), -EINVAL); /* a file that is there must be right */
}

static void home_comes_next_then_the_pod(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(load(f, NULL, NULL), -ENOENT);
    expect_err(f, "KUBECONFIG");
    (void)snprintf(host, sizeof(host), "fd00::1");
    (void)snprintf(port, sizeof(port), "443");
    assert_int_equal(load(f, NULL, NULL), -ENOENT); /* no token: not in a pod */
    put(f, "var/run/secrets/kubernetes.io/serviceaccount/token", "t");
    put(f, "var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "c");
    put(f, "var/run/secrets/kubernetes.io/serviceaccount/namespace", "team\n");
    assert_int_equal(load(f, NULL, NULL), 0);
    assert_true(f->config.is_in_cluster);
    assert_string_equal(f->config.server, "https://[fd00::1]:443");
    assert_string_equal(f->config.ns, "team");
    expect_path(f, f->config.token_file, "var/run/secrets/kubernetes.io/serviceaccount/token");
    expect_path(f, f->config.ca_file, "var/run/secrets/kubernetes.io/serviceaccount/ca.crt");
    put(f, ".kube/config", CLUSTER CONTEXT "users: [{name: u, user: {token: h}}]\n");
    assert_int_equal(load(f, NULL, NULL), 0);
    assert_string_equal(f->config.token, "h");
}

static void large_files_are_refused(void **state)
{
    struct fixture *f = *state;
    char path[256];

    put(f, "k", "");
    (void)snprintf(path, sizeof(path), "%s/k", f->dir);
    assert_int_equal(truncate(path, (off_t)GS_KUBE_CONFIG_MAX + 1), 0);
    assert_int_equal(load(f, "k", NULL), -EFBIG);
    assert_int_equal(load(f, "", NULL), -EISDIR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_file_is_read),
        TEST(another_context_is_taken),
        TEST(json_is_read_too),
        TEST(exec_is_read),
        TEST(bad_files_say_where),
        TEST(a_server_may_lack_its_scheme),
        TEST(lists_are_merged_first_file_first),
        TEST(home_comes_next_then_the_pod),
        TEST(large_files_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
