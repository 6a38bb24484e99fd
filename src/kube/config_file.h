#pragma once
/* One kubeconfig file as it is written, before contexts are resolved. Inside the room only. */

#include <stddef.h>

#include "base/err.h"
#include "core/cleanup.h"

/** Refuse larger kubeconfig files, and token or certificate files. */
#define GS_KUBE_CONFIG_MAX ((size_t)16 << 20)
#define GS_KUBE_SECRET_MAX ((size_t)1 << 20)

struct gs_buf;

/** All text may be NULL: not given, or null. */
struct gs_kube_file_cluster {
    char *server, *tls_server_name, *insecure, *ca_file, *ca_data, *proxy_url;
};

struct gs_kube_file_env {
    char *name, *value;
};

struct gs_kube_file_exec {
    char *command, *api_version, *install_hint, *wants_cluster, *interactive;
    char **args;
    unsigned args_count;
    struct gs_kube_file_env *env;
    unsigned env_count;
};

struct gs_kube_file_provider {
    char *name;
};

struct gs_kube_file_user {
    char *cert_file, *cert_data, *key_file, *key_data, *token, *token_file, *user, *password, *as;
    char **as_groups;
    unsigned as_groups_count;
    struct gs_kube_file_exec *exec;
    struct gs_kube_file_provider *provider;
};

struct gs_kube_file_context {
    char *cluster, *user, *ns;
};

struct gs_kube_file_named_cluster {
    char *name;
    struct gs_kube_file_cluster *cluster;
};
struct gs_kube_file_named_user {
    char *name;
    struct gs_kube_file_user *user;
};
struct gs_kube_file_named_context {
    char *name;
    struct gs_kube_file_context *context;
};

struct gs_kube_file {
    char *current;
    struct gs_kube_file_named_cluster *clusters;
    struct gs_kube_file_named_user *users;
    struct gs_kube_file_named_context *contexts;
    unsigned clusters_count, users_count, contexts_count;
};

/** Read YAML or JSON. Unknown keys are ignored.
 *  @ret     NULL for a file without any content.
 *  Returns  0; -ENOENT; -EFBIG; -EINVAL (err has path, line and what was expected); -ENOMEM; what
 *           open and read said. */
GS_WUR int gs_kube_file_read(const char *path, struct gs_kube_file **ret, struct gs_err *err);
/** Append a file's bytes, through links (kubeconfigs and mounted secrets are links) and from pipes.
 *  Returns  0; -EFBIG more than max; -ENOMEM; what open and read said. */
GS_WUR int gs_kube_file_bytes(const char *path, size_t max, struct gs_buf *buf);
/** Accepts NULL; returns NULL. */
struct gs_kube_file *gs_kube_file_free(struct gs_kube_file *file);
