#include "kube/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "kube/base64.h"
#include "kube/config_file.h"

#define FILES_MAX    64
#define ACCOUNT_PATH "/var/run/secrets/kubernetes.io/serviceaccount"

/* The files that take part, in order. */
struct sources {
    struct gs_kube_file *file[FILES_MAX]; /**< NULL: nothing in it */
    const char *path[FILES_MAX];          /**< absolute, in the configuration's arena */
    size_t n;
};

static void sources_fini(struct sources *s)
{
    for (size_t i = 0; i < s->n; i++)
        s->file[i] = gs_kube_file_free(s->file[i]);
    s->n = 0;
}

static const char *env_of(const struct gs_kube_config_opt *opt, const char *name)
{
    const char *value = opt->env ? opt->env(name) : getenv(name);

    return value && value[0] ? value : NULL;
}

/* Copy; NULL and "" stay NULL, as the API's decoder cannot tell them apart. */
static const char *keep(struct gs_kube_config *c, const char *text)
{
    if (!text || !text[0])
        return NULL;
    return gs_arena_str(&c->arena, gs_str_of(text)).p;
}

/* A path of a file, relative ones to the folder of the kubeconfig that says it. */
static const char *keep_path(struct gs_kube_config *c, const char *from, const char *path)
{
    const char *slash;

    if (!path || !path[0])
        return NULL;
    slash = strrchr(from, '/');
    if (path[0] == '/' || !slash)
        return keep(c, path);
    return gs_arena_printf(&c->arena, "%.*s/%s", (int)(slash - from), from, path).p;
}

static int read_switch(const char *text, const char *key, bool *ret, struct gs_err *err)
{
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on"};
    static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO", "off"};

    if (!text || !text[0])
        return 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        if (strcmp(text, yes[i]) == 0) {
            *ret = true;
            return 0;
        }
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        if (strcmp(text, no[i]) == 0) {
            *ret = false;
            return 0;
        }
    return gs_err_set(err, -EINVAL, "%s: '%.32s' is neither true nor false", key, text);
}

static int keep_data(struct gs_kube_config *c, const char *data, const char *key,
                     struct gs_str *ret, struct gs_err *err)
{
    struct gs_str text = gs_str_of(data);
    char *bytes;
    size_t n = 0;

    if (text.n == 0)
        return 0;
    bytes = gs_arena_take(&c->arena, gs_kube_base64_room(text.n) + 1, 1);
    if (!bytes)
        return -ENOMEM;
    if (gs_kube_base64_decode(text, bytes, &n) < 0)
        return gs_err_set(err, -EINVAL, "%s: not base64", key);
    *ret = (struct gs_str){bytes, n};
    return 0;
}

/* The API's own default: https where anything says TLS, else http. */
static int read_server(struct gs_kube_config *c, const char *text, struct gs_err *err)
{
    bool is_tls = c->ca_file || c->ca_pem.n > 0 || c->is_insecure || c->cert_file ||
                  c->cert_pem.n > 0 || c->tls_server_name;
    struct gs_str url = gs_str_of(text), host;

    if (url.n == 0)
        return gs_err_set(err, -EINVAL, "server: missing");
    if (!gs_str_is_word(url))
        return gs_err_set(err, -EINVAL, "server: not a URL");
    while (url.n > 0 && url.p[url.n - 1] == '/')
        url.n--;
    host = url;
    if (!gs_str_skip(&host, GS_STR("https://")) && !gs_str_skip(&host, GS_STR("http://"))) {
        if (memmem(url.p, url.n, "://", 3))
            return gs_err_set(err, -EINVAL, "server: neither http nor https");
        c->server =
            gs_arena_printf(&c->arena, "%s://%.*s", is_tls ? "https" : "http", (int)url.n, url.p).p;
    } else {
        c->server = gs_arena_str(&c->arena, url).p;
    }
    if (host.n == 0 || host.p[0] == '/' || memchr(url.p, '?', url.n) || memchr(url.p, '#', url.n))
        return gs_err_set(err, -EINVAL, "server: not a URL");
    return 0;
}

static int take_cluster(struct gs_kube_config *c, const char *from,
                        const struct gs_kube_file_cluster *cluster, struct gs_err *err)
{
    int rc = read_switch(cluster->insecure, "insecure-skip-tls-verify", &c->is_insecure, err);

    if (rc == 0)
        rc = keep_data(c, cluster->ca_data, "certificate-authority-data", &c->ca_pem, err);
    if (rc < 0)
        return rc;
    c->ca_file = keep_path(c, from, cluster->ca_file);
    if (c->is_insecure && (c->ca_file || c->ca_pem.n > 0))
        return gs_err_set(err, -EINVAL,
                          "insecure-skip-tls-verify: not together with a certificate authority");
    c->tls_server_name = keep(c, cluster->tls_server_name);
    c->proxy_url = keep(c, cluster->proxy_url);
    return 0;
}

static int take_exec(struct gs_kube_config *c, const char *from,
                     const struct gs_kube_file_exec *exec, struct gs_err *err)
{
    const char **args = GS_ARENA_ARRAY(&c->arena, exec->args_count, const char *);
    struct gs_kube_env_pair *env =
        GS_ARENA_ARRAY(&c->arena, exec->env_count, struct gs_kube_env_pair);
    const char *command = exec->command ? exec->command : "";
    int rc;

    if (!args || !env)
        return -ENOMEM;
    if (!command[0])
        return gs_err_set(err, -EINVAL, "exec: command: missing");
    c->exec.api_version = keep(c, exec->api_version);
    if (!c->exec.api_version ||
        (strcmp(c->exec.api_version, "client.authentication.k8s.io/v1") != 0 &&
         strcmp(c->exec.api_version, "client.authentication.k8s.io/v1beta1") != 0))
        return gs_err_set(err, -EINVAL, "exec: apiVersion: '%.64s' is not known",
                          exec->api_version ? exec->api_version : "");
    rc = read_switch(exec->wants_cluster, "exec: provideClusterInfo", &c->exec.wants_cluster, err);
    if (rc < 0)
        return rc;
    if (exec->interactive && strcmp(exec->interactive, "Always") == 0)
        return gs_err_set(err, -EINVAL, "exec: '%.64s' needs a terminal (interactiveMode: Always)",
                          command);
    c->exec.command = strchr(command, '/') ? keep_path(c, from, command) : keep(c, command);
    c->exec.install_hint = keep(c, exec->install_hint);
    for (unsigned i = 0; i < exec->args_count; i++)
        args[i] = gs_arena_str(&c->arena, gs_str_of(exec->args[i] ? exec->args[i] : "")).p;
    for (unsigned i = 0; i < exec->env_count; i++) {
        env[i].name = keep(c, exec->env[i].name);
        if (!env[i].name || strchr(env[i].name, '='))
            return gs_err_set(err, -EINVAL, "exec: env[%u]: no name", i);
        env[i].line = gs_arena_printf(&c->arena, "%s=%s", env[i].name,
                                      exec->env[i].value ? exec->env[i].value : "")
                          .p;
    }
    c->exec.arg = args;
    c->exec.n_args = exec->args_count;
    c->exec.env = env;
    c->exec.n_env = exec->env_count;
    return 0;
}

static int take_user(struct gs_kube_config *c, const char *from,
                     const struct gs_kube_file_user *user, struct gs_err *err)
{
    const char **groups = GS_ARENA_ARRAY(&c->arena, user->as_groups_count, const char *);
    int rc = groups ? 0 : -ENOMEM;

    if (user->provider)
        return gs_err_set(err, -EOPNOTSUPP, "auth-provider '%.64s': use an exec plugin",
                          user->provider->name ? user->provider->name : "");
    if (rc == 0)
        rc = keep_data(c, user->cert_data, "client-certificate-data", &c->cert_pem, err);
    if (rc == 0)
        rc = keep_data(c, user->key_data, "client-key-data", &c->key_pem, err);
    if (rc < 0)
        return rc;
    c->cert_file = keep_path(c, from, user->cert_file);
    c->key_file = keep_path(c, from, user->key_file);
    if ((c->cert_file || c->cert_pem.n > 0) != (c->key_file || c->key_pem.n > 0))
        return gs_err_set(err, -EINVAL, "client certificate and key: one without the other");
    c->token = keep(c, user->token);
    c->token_file = keep_path(c, from, user->token_file);
    c->user = keep(c, user->user);
    c->password = keep(c, user->password);
    if (c->user && (c->token || c->token_file))
        return gs_err_set(err, -EINVAL, "username and token: one of them only");
    c->as = keep(c, user->as);
    for (unsigned i = 0; i < user->as_groups_count; i++)
        groups[c->n_as_groups++] =
            gs_arena_str(&c->arena, gs_str_of(user->as_groups[i] ? user->as_groups[i] : "")).p;
    c->as_group = groups;
    return user->exec ? take_exec(c, from, user->exec, err) : 0;
}

/* The first file that names it wins, whole: values of later files are not mixed in. */
#define FIND(sources, list, wanted, ret_at, ret_file)                                              \
    for (size_t f_ = 0; !(ret_at) && f_ < (sources)->n; f_++)                                      \
        for (unsigned i_ = 0;                                                                      \
             !(ret_at) && (sources)->file[f_] && i_ < (sources)->file[f_]->list##_count; i_++)     \
            if ((sources)->file[f_]->list[i_].name &&                                              \
                strcmp((sources)->file[f_]->list[i_].name, (wanted)) == 0) {                       \
                (ret_at) = &(sources)->file[f_]->list[i_];                                         \
                (ret_file) = f_;                                                                   \
            }

static int take_context(struct gs_kube_config *c, const struct sources *s, struct gs_err *err)
{
    const struct gs_kube_file_named_context *context = NULL;
    const struct gs_kube_file_named_cluster *cluster = NULL;
    const struct gs_kube_file_named_user *user = NULL;
    size_t of_context = 0, of_cluster = 0, of_user = 0;
    const char *name;
    int rc;

    FIND(s, contexts, c->context, context, of_context);
    if (!context || !context->context)
        return gs_err_set(err, -EINVAL, "%s: no context '%.64s'", s->path[of_context], c->context);
    c->ns = keep(c, context->context->ns);
    name = context->context->cluster;
    if (name)
        FIND(s, clusters, name, cluster, of_cluster);
    if (!cluster || !cluster->cluster)
        return gs_err_set(err, -EINVAL, "%s: context '%.64s': no cluster '%.64s'",
                          s->path[of_context], c->context, name ? name : "");
    rc = take_cluster(c, s->path[of_cluster], cluster->cluster, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "%s: cluster '%.64s'", s->path[of_cluster], name);
    name = context->context->user;
    if (name)
        FIND(s, users, name, user, of_user);
    if (name && name[0] && !user)
        return gs_err_set(err, -EINVAL, "%s: context '%.64s': no user '%.64s'", s->path[of_context],
                          c->context, name);
    if (user && user->user) {
        rc = take_user(c, s->path[of_user], user->user, err);
        if (rc < 0)
            return gs_err_wrap(err, rc, "%s: user '%.64s'", s->path[of_user], name);
    }
    rc = read_server(c, cluster->cluster->server, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "%s: cluster '%.64s'", s->path[of_cluster], cluster->name);
    return 0;
}

static const char *absolute(struct gs_kube_config *c, const char *path)
{
    char here[PATH_MAX];

    if (path[0] == '/' || !getcwd(here, sizeof(here)))
        return keep(c, path);
    return gs_arena_printf(&c->arena, "%s/%s", here, path).p;
}

static int add_source(struct gs_kube_config *c, struct sources *s, const char *path, bool must_be,
                      struct gs_err *err)
{
    struct gs_kube_file *file = NULL;
    int rc;

    if (s->n == FILES_MAX)
        return gs_err_set(err, -EINVAL, "KUBECONFIG: more than %d files", FILES_MAX);
    rc = gs_kube_file_read(path, &file, err);
    if (rc == -ENOENT && !must_be) {
        if (err)
            *err = (struct gs_err){0};
        return 0;
    }
    if (rc < 0)
        return rc;
    s->file[s->n] = file;
    s->path[s->n] = absolute(c, path);
    return s->path[s->n++] ? 0 : -ENOMEM;
}

static int find_sources(struct gs_kube_config *c, const struct gs_kube_config_opt *opt,
                        struct sources *s, struct gs_err *err)
{
    const char *list = env_of(opt, "KUBECONFIG"), *home = env_of(opt, "HOME");
    char path[PATH_MAX];
    struct gs_str rest, part;
    int rc;

    if (opt->path)
        return add_source(c, s, opt->path, true, err);
    if (list) {
        rest = gs_str_of(list);
        while (gs_str_cut(&rest, ':', &part)) {
            if (part.n == 0)
                continue;
            if (part.n >= sizeof(path))
                return gs_err_set(err, -ENAMETOOLONG, "KUBECONFIG: path too long");
            memcpy(path, part.p, part.n);
            path[part.n] = '\0';
            rc = add_source(c, s, path, false, err);
            if (rc < 0)
                return rc;
        }
        return 0;
    }
    if (!home || snprintf(path, sizeof(path), "%s/.kube/config", home) >= (int)sizeof(path))
        return 0;
    return add_source(c, s, path, false, err);
}

static int from_files(struct gs_kube_config *c, const struct gs_kube_config_opt *opt,
                      const struct sources *s, struct gs_err *err)
{
    c->context = keep(c, opt->context);
    for (size_t i = 0; !c->context && i < s->n; i++)
        if (s->file[i])
            c->context = keep(c, s->file[i]->current);
    if (!c->context)
        return gs_err_set(err, -EINVAL, "%s: no current-context", s->path[0]);
    return take_context(c, s, err);
}

/* Trimmed content of a small file; NULL where it cannot be read or is empty. */
static const char *keep_word(struct gs_kube_config *c, const char *path)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_str s;

    if (gs_kube_file_bytes(path, 4096, &text) < 0)
        return NULL;
    s = gs_str_of(gs_buf_text(&text));
    while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\r'))
        s.n--;
    return s.n > 0 ? gs_arena_str(&c->arena, s).p : NULL;
}

/* Source: Kubernetes documentation, "Accessing the API from within a Pod". */
static int from_account(struct gs_kube_config *c, const struct gs_kube_config_opt *opt,
                        struct gs_err *err)
{
    const char *host = env_of(opt, "KUBERNETES_SERVICE_HOST");
    const char *port = env_of(opt, "KUBERNETES_SERVICE_PORT");
    const char *root = opt->root ? opt->root : "", *ca;

    if (!host || !port)
        return gs_err_set(err, -ENOENT, "not in a cluster: KUBERNETES_SERVICE_HOST is not set");
    c->token_file = gs_arena_printf(&c->arena, "%s%s/token", root, ACCOUNT_PATH).p;
    ca = gs_arena_printf(&c->arena, "%s%s/ca.crt", root, ACCOUNT_PATH).p;
    if (!c->token_file || !ca)
        return -ENOMEM;
    if (access(c->token_file, R_OK) != 0)
        return gs_err_set(err, -ENOENT, "cannot read the account's token '%s': %s", c->token_file,
                          strerror(errno));
    if (access(ca, R_OK) == 0)
        c->ca_file = ca;
    c->ns = keep_word(c, gs_arena_printf(&c->arena, "%s%s/namespace", root, ACCOUNT_PATH).p);
    c->server = gs_arena_printf(&c->arena, strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s",
                                host, port)
                    .p;
    c->is_in_cluster = true;
    return 0;
}

static int finish(struct gs_kube_config *c, int rc, struct gs_kube_config *ret, struct gs_err *err)
{
    if (rc == 0 && !c->ns)
        c->ns = "default";
    if (rc == 0)
        rc = gs_arena_check(&c->arena);
    if (rc == -ENOMEM)
        gs_err_set(err, rc, "no memory for a configuration");
    if (rc < 0) {
        gs_kube_config_fini(c);
        return rc;
    }
    *ret = *c;
    return 0;
}

int gs_kube_config_load(const struct gs_kube_config_opt *opt, struct gs_kube_config *ret,
                        struct gs_err *err)
{
    static const struct gs_kube_config_opt none = {0};
    GS_CLEANUP(sources_fini) struct sources s = {0};
    struct gs_kube_config c = {0};
    int rc;

    opt = opt ? opt : &none;
    gs_arena_init(&c.arena);
    rc = find_sources(&c, opt, &s, err);
    if (rc == 0 && s.n > 0)
        rc = from_files(&c, opt, &s, err);
    else if (rc == 0)
        rc = from_account(&c, opt, err);
    if (rc == -ENOENT && s.n == 0 && !opt->path)
        gs_err_set(err, rc,
                   "no kubeconfig ($KUBECONFIG, ~/.kube/config) and no service account of a pod");
    return finish(&c, rc, ret, err);
}

void gs_kube_config_fini(struct gs_kube_config *config)
{
    if (!config)
        return;
    gs_arena_fini(&config->arena);
    *config = (struct gs_kube_config){0};
}
