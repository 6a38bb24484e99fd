#pragma once
/* Where the API server is and who we are: kubeconfig files (YAML or JSON), or the pod's own service
 * account.
 *
 * A configuration is read once and then only read; what changes while a program runs (rotated token
 * files, exec plugins) is in kube/auth.h. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_kube_env_pair {
    const char *name;
    const char *line; /**< "NAME=value" */
};

/** users[].user.exec. Source: client-go credential plugins, client.authentication.k8s.io. */
struct gs_kube_exec {
    const char *command; /**< NULL: no plugin. A relative path with a slash is resolved against the
                              folder of the file; a bare name is found by PATH */
    const char *const *arg;
    size_t n_args;
    const struct gs_kube_env_pair *env;
    size_t n_env;
    const char *api_version; /**< client.authentication.k8s.io/v1 or /v1beta1 */
    const char *install_hint;
    bool wants_cluster;         /**< provideClusterInfo */
    bool is_interactive_always; /**< interactiveMode Always: refused, we have no terminal to give */
};

/** One context, resolved. Strings are NULL where not given. Files are absolute. */
struct gs_kube_config {
    struct gs_arena arena; /**< owns all of it */

    const char *context; /**< its name; NULL in a cluster */
    const char *ns;      /**< namespace; "default" where none is given */
    const char *server;  /**< URL without a slash at the end */
    const char *tls_server_name, *proxy_url;
    const char *ca_file;
    struct gs_str ca_pem; /**< of certificate-authority-data; wins over the file */
    bool is_insecure;     /**< insecure-skip-tls-verify */

    const char *cert_file, *key_file;
    struct gs_str cert_pem, key_pem; /**< of the -data fields; win over the files */
    const char *token;
    const char *token_file; /**< wins over token, as in client-go */
    const char *user, *password;
    struct gs_kube_exec exec;
    const char *as; /**< impersonation */
    const char *const *as_group;
    size_t n_as_groups;

    bool is_in_cluster;
};

struct gs_kube_config_opt {
    const char *path;    /**< --kubeconfig: this file only; NULL: $KUBECONFIG, else
                              $HOME/.kube/config, else in-cluster */
    const char *context; /**< --context; NULL: current-context */
    const char *root;    /**< prefix of /var/run/secrets/...; NULL: none. For tests */
    const char *(*env)(const char *name); /**< NULL: getenv */
};

/** Find and read the configuration. Files of $KUBECONFIG are merged as kubectl does: the first file
 *  that has a name or a scalar wins; missing files of the list are skipped, an explicit path must
 *  exist.
 *  @opt     NULL: all by default.
 *  Returns  0; -ENOENT nothing found (err lists where it looked); -EINVAL bad file (err has file
 *           and line), unknown context, or a context whose cluster or user is missing; -EFBIG;
 *           -ENOMEM; -EOPNOTSUPP an auth provider that is no longer part of Kubernetes.
 *  Owner    caller; release with gs_kube_config_fini(). */
GS_WUR int gs_kube_config_load(const struct gs_kube_config_opt *opt, struct gs_kube_config *ret,
                               struct gs_err *err);
/** Accepts NULL and zeroed objects. */
void gs_kube_config_fini(struct gs_kube_config *config);
