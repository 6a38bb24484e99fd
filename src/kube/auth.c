#include "kube/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "kube/base64.h"
#include "kube/config.h"
#include "kube/exec_info.h"
#include "kube/json.h"
#include "kube/stamp.h"
#include "net/http_client.h"
#include "net/loop.h"

#define RUN_MS     60000 /* a plugin may ask somebody far away */
#define REAP_MS    20
#define BACKOFF_MS 2000
#define OUTPUT_MAX ((size_t)1 << 20)
/* Begin to renew so long before the end, while the old credential still serves. */
#define EARLY_US ((int64_t)60 * 1000000)
/* A credential younger than this that is refused would be refused again. */
#define FRESH_NS (10 * GS_CLOCK_S)

extern char **environ;

struct gs_kube_auth {
    const struct gs_kube_config *config;
    struct gs_loop *loop;
    struct gs_http_client *http;
    gs_kube_auth_fn *fn;
    void *arg;

    bool has_credential;
    int64_t expires_us; /**< INT64_MAX: never */
    uint64_t got_ns;    /**< loop time of the last credential */

    pid_t pid; /**< 0: no plugin runs */
    int fd;    /**< its standard output; -1: at its end */
    bool is_late;
    struct gs_buf output;
    struct gs_loop_timer timer; /**< the run's limit, then reaping; between runs the back-off */
    uint64_t reap_until_ns;
};

static void start(struct gs_kube_auth *auth);

int gs_kube_auth_new(const struct gs_kube_config *config, struct gs_loop *loop,
                     struct gs_http_client *http, gs_kube_auth_fn *fn, void *arg,
                     struct gs_kube_auth **ret_auth)
{
    struct gs_kube_auth *auth = calloc(1, sizeof(*auth));

    if (!auth)
        return -ENOMEM;
    auth->config = config;
    auth->loop = loop;
    auth->http = http;
    auth->fn = fn;
    auth->arg = arg;
    auth->fd = -1;
    *ret_auth = auth;
    return 0;
}

static void close_output(struct gs_kube_auth *auth)
{
    if (auth->fd < 0)
        return;
    gs_loop_fd_del(auth->loop, auth->fd);
    gs_file_close(&auth->fd);
}

struct gs_kube_auth *gs_kube_auth_free(struct gs_kube_auth *auth)
{
    if (!auth)
        return NULL;
    gs_loop_timer_cancel(auth->loop, &auth->timer);
    close_output(auth);
    if (auth->pid > 0) {
        (void)kill(-auth->pid, SIGKILL); /* gone already is as good */
        (void)waitpid(auth->pid, NULL, 0);
    }
    gs_buf_fini(&auth->output);
    free(auth);
    return NULL;
}

static void on_backoff_end(void *user)
{
    start(user);
}

/* A run has failed: those who wait are told, and the next one does not come at once. */
static void fail(struct gs_kube_auth *auth, int rc, struct gs_err *err)
{
    struct gs_err why = *err;

    gs_err_wrap(&why, rc, "exec plugin '%s'", auth->config->exec.command);
    gs_loop_timer_in(auth->loop, &auth->timer, BACKOFF_MS, on_backoff_end, auth);
    auth->fn(auth->arg, rc, &why);
}

static int read_pem(yyjson_val *status, const char *key, struct gs_str *ret, struct gs_err *err)
{
    enum gs_kube_got got = gs_kube_json_str(status, key, ret);

    if (got == GS_KUBE_WRONG)
        return gs_err_set(err, -EBADMSG, "status.%s: not text", key);
    return 0;
}

/* Source: client.authentication.k8s.io/v1, ExecCredentialStatus. */
static int take_status(struct gs_kube_auth *auth, yyjson_val *status, struct gs_err *err)
{
    struct gs_str token = {0}, cert = {0}, key = {0}, expires = {0};
    int64_t expires_us = INT64_MAX;
    char *text;
    int rc = 0;

    if (gs_kube_json_str(status, "token", &token) == GS_KUBE_WRONG)
        return gs_err_set(err, -EBADMSG, "status.token: not text");
    if (gs_kube_json_str(status, "expirationTimestamp", &expires) == GS_KUBE_GOT &&
        gs_kube_stamp_parse(expires, &expires_us) < 0)
        return gs_err_set(err, -EBADMSG, "status.expirationTimestamp: not a time");
    rc = read_pem(status, "clientCertificateData", &cert, err);
    if (rc == 0)
        rc = read_pem(status, "clientKeyData", &key, err);
    if (rc < 0)
        return rc;
    if ((cert.n > 0) != (key.n > 0) || (token.n == 0 && cert.n == 0))
        return gs_err_set(err, -EBADMSG, "status: neither a token nor a certificate with its key");
    if (token.n > 0 && !gs_str_is_word(token))
        return gs_err_set(err, -EBADMSG, "status.token: not one word");
    if (cert.n > 0)
        rc = gs_http_client_set_cert(auth->http, cert, key);
    if (rc == 0 && token.n > 0) {
        text = strndup(token.p, token.n);
        rc = text ? gs_http_client_set_token(auth->http, text) : -ENOMEM;
        free(text);
    }
    if (rc < 0)
        return gs_err_set(err, rc, "credential: %s", strerror(-rc));
    auth->expires_us = expires_us;
    return 0;
}

static int take_output(struct gs_kube_auth *auth, struct gs_err *err)
{
    GS_CLEANUP(gs_kube_json_free_p) yyjson_doc *doc = NULL;
    struct gs_str text = gs_buf_str(&auth->output);
    struct gs_str kind = {0}, version = {0};
    yyjson_val *root, *status = NULL;
    int rc = gs_buf_check(&auth->output);

    if (rc == 0)
        rc = gs_kube_json_read(text, OUTPUT_MAX, &doc, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "output");
    root = yyjson_doc_get_root(doc);
    (void)gs_kube_json_str(root, "kind", &kind);          /* compared below */
    (void)gs_kube_json_str(root, "apiVersion", &version); /* compared below */
    if (!gs_str_eq_c(kind, "ExecCredential") ||
        !gs_str_eq_c(version, auth->config->exec.api_version))
        return gs_err_set(err, -EBADMSG, "output: not an ExecCredential of %s",
                          auth->config->exec.api_version);
    if (gs_kube_json_obj(root, "status", &status) != GS_KUBE_GOT)
        return gs_err_set(err, -EBADMSG, "output: no status");
    return take_status(auth, status, err);
}

/* The plugin has ended. */
static void settle(struct gs_kube_auth *auth, int status)
{
    struct gs_err err = {0};
    int rc = 0;

    auth->pid = 0;
    gs_loop_timer_cancel(auth->loop, &auth->timer);
    if (auth->is_late)
        rc = gs_err_set(&err, -ETIMEDOUT, "no answer for %d s", RUN_MS / 1000);
    else if (WIFSIGNALED(status))
        rc = gs_err_set(&err, -EACCES, "ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        rc = gs_err_set(&err, -EACCES, "exit status %d", WEXITSTATUS(status));
    else
        rc = take_output(auth, &err);
    if (auth->output.p)
        explicit_bzero(auth->output.p, auth->output.cap);
    gs_buf_fini(&auth->output);
    if (rc < 0) {
        fail(auth, rc, &err);
        return;
    }
    auth->has_credential = true;
    auth->got_ns = gs_loop_now_ns(auth->loop);
    auth->fn(auth->arg, 0, NULL);
}

/* Its output has ended; it usually exits within a moment. */
static void on_reap(void *user)
{
    struct gs_kube_auth *auth = user;
    int status = 0;
    pid_t got = waitpid(auth->pid, &status, WNOHANG);

    if (got == 0 || (got < 0 && errno == EINTR)) {
        if (gs_loop_now_ns(auth->loop) >= auth->reap_until_ns) {
            auth->is_late = true;
            (void)kill(-auth->pid, SIGKILL); /* seen at the next look */
        }
        gs_loop_timer_in(auth->loop, &auth->timer, REAP_MS, on_reap, auth);
        return;
    }
    settle(auth, got < 0 ? 0 : status);
}

static void on_late(void *user)
{
    struct gs_kube_auth *auth = user;

    auth->is_late = true;
    (void)kill(-auth->pid, SIGKILL); /* seen when it is reaped */
    close_output(auth);
    on_reap(auth);
}

static void on_output(void *user, int fd, uint32_t events)
{
    struct gs_kube_auth *auth = user;
    char part[4096];
    ssize_t got = read(fd, part, sizeof(part));

    (void)events; /* the end of the pipe shows in read */
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0 && auth->output.n + (size_t)got <= OUTPUT_MAX) {
        gs_buf_add(&auth->output, part, (size_t)got);
        explicit_bzero(part, sizeof(part));
        return;
    }
    close_output(auth); /* the end, or more than a credential can be */
    gs_loop_timer_cancel(auth->loop, &auth->timer);
    on_reap(auth);
}

/* Our environment, the configuration's variables over it, and what the protocol adds. */
static char **environment(const struct gs_kube_exec *exec, char *info)
{
    size_t n = 0, have = 0;
    char **env;

    while (environ[n])
        n++;
    env = calloc(n + exec->n_env + 2, sizeof(*env));
    if (!env)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        bool is_replaced = strncmp(environ[i], "KUBERNETES_EXEC_INFO=", 21) == 0;

        for (size_t k = 0; k < exec->n_env; k++) {
            size_t len = strlen(exec->env[k].name);

            is_replaced |=
                strncmp(environ[i], exec->env[k].name, len) == 0 && environ[i][len] == '=';
        }
        if (!is_replaced)
            env[have++] = environ[i];
    }
    for (size_t k = 0; k < exec->n_env; k++)
        memcpy(&env[have++], &exec->env[k].line, sizeof(char *));
    env[have] = info;
    return env;
}

static int spawn(struct gs_kube_auth *auth, int out, char *const *argv, char *const *env)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, defaults;
    int rc;

    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return -rc;
    rc = posix_spawnattr_init(&attr);
    if (rc != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -rc;
    }
    rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawnattr_setsigmask(&attr, &none); /* the loop blocks what signalfd reads */
    if (rc == 0)
        rc = posix_spawnattr_setsigdefault(&attr, &defaults);
    if (rc == 0)
        rc = posix_spawnattr_setpgroup(&attr, 0);
    if (rc == 0)
        rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
    if (rc == 0)
        rc = posix_spawnp(&auth->pid, argv[0], &actions, &attr, argv, env);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        auth->pid = 0;
    return -rc;
}

static int run(struct gs_kube_auth *auth, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf info = {0};
    const struct gs_kube_exec *exec = &auth->config->exec;
    char **argv = calloc(exec->n_args + 2, sizeof(*argv)), **env = NULL;
    int out[2] = {-1, -1};
    int rc = gs_kube_exec_info(auth->config, &info, err);

    if (rc == 0 && (!argv || !(env = environment(exec, info.p))))
        rc = gs_err_set(err, -ENOMEM, "no memory");
    if (rc == 0 && pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0)
        rc = gs_err_set(err, -errno, "pipe: %s", strerror(errno));
    if (rc == 0) {
        memcpy(&argv[0], &exec->command, sizeof(char *));
        if (exec->n_args > 0)
            memcpy(&argv[1], exec->arg, exec->n_args * sizeof(char *));
        (void)fcntl(out[1], F_SETFL, 0); /* the plugin's end blocks, as it expects */
        rc = spawn(auth, out[1], argv, env);
        if (rc < 0)
            gs_err_set(err, rc, "%s%s%s", strerror(-rc), exec->install_hint ? ": " : "",
                       exec->install_hint ? exec->install_hint : "");
    }
    gs_file_close(&out[1]);
    free(argv);
    free(env);
    if (rc < 0) {
        gs_file_close(&out[0]);
        return rc;
    }
    auth->fd = out[0];
    return 0;
}

static void start(struct gs_kube_auth *auth)
{
    struct gs_err err = {0};
    int rc = run(auth, &err);

    if (rc < 0) {
        fail(auth, rc, &err);
        return;
    }
    auth->is_late = false;
    auth->reap_until_ns = gs_loop_now_ns(auth->loop) + RUN_MS * GS_CLOCK_MS;
    rc = gs_loop_fd_add(auth->loop, auth->fd, EPOLLIN, on_output, auth);
    if (rc < 0) { /* as if it had answered nothing */
        gs_file_close(&auth->fd);
        gs_loop_timer_in(auth->loop, &auth->timer, REAP_MS, on_reap, auth);
        return;
    }
    gs_loop_timer_in(auth->loop, &auth->timer, RUN_MS, on_late, auth);
}

static void on_start(void *user)
{
    start(user);
}

enum gs_kube_auth_state gs_kube_auth_check(struct gs_kube_auth *auth)
{
    int64_t now_us;

    if (!auth->config->exec.command)
        return GS_KUBE_AUTH_READY;
    now_us = gs_loop_unix_us(auth->loop);
    if (auth->has_credential &&
        (auth->expires_us == INT64_MAX || now_us < auth->expires_us - EARLY_US))
        return GS_KUBE_AUTH_READY;
    if (auth->pid == 0 && !gs_loop_timer_is_set(&auth->timer)) /* from the loop: start() may call */
        gs_loop_timer_in(auth->loop, &auth->timer, 0, on_start, auth);
    return auth->has_credential && now_us < auth->expires_us ? GS_KUBE_AUTH_READY
                                                             : GS_KUBE_AUTH_WAITING;
}

bool gs_kube_auth_refused(struct gs_kube_auth *auth)
{
    if (auth->config->token_file)
        return true; /* looked at with each call */
    if (!auth->config->exec.command)
        return false;
    if (auth->has_credential && gs_loop_now_ns(auth->loop) - auth->got_ns < FRESH_NS)
        return false;
    auth->has_credential = false;
    return true;
}
