#include "kube/config_file.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/yaml.h"

#define ENTRIES_MAX 10000
#define OPTIONAL    (CYAML_FLAG_POINTER_NULL_STR | CYAML_FLAG_OPTIONAL)

/* A scalar of any form, as text: 1 is "1", and the API's booleans are read by us, strictly (the
 * library takes "maybe" for true). */
#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, OPTIONAL, struct type, member, 0, CYAML_UNLIMITED)
#define PART(key, type, member, fields)                                                            \
    CYAML_FIELD_MAPPING_PTR(key, OPTIONAL, struct type, member, fields)
#define LIST(key, type, member, entry)                                                             \
    CYAML_FIELD_SEQUENCE(key, OPTIONAL, struct type, member, entry, 0, ENTRIES_MAX)

static const cyaml_schema_value_t text_entry = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER_NULL, char, 0, CYAML_UNLIMITED)};

static const cyaml_schema_field_t cluster_fields[] = {
    TEXT("server", gs_kube_file_cluster, server),
    TEXT("tls-server-name", gs_kube_file_cluster, tls_server_name),
    TEXT("insecure-skip-tls-verify", gs_kube_file_cluster, insecure),
    TEXT("certificate-authority", gs_kube_file_cluster, ca_file),
    TEXT("certificate-authority-data", gs_kube_file_cluster, ca_data),
    TEXT("proxy-url", gs_kube_file_cluster, proxy_url),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t env_fields[] = {
    TEXT("name", gs_kube_file_env, name),
    TEXT("value", gs_kube_file_env, value),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t env_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct gs_kube_file_env, env_fields)};

static const cyaml_schema_field_t exec_fields[] = {
    TEXT("command", gs_kube_file_exec, command),
    TEXT("apiVersion", gs_kube_file_exec, api_version),
    TEXT("installHint", gs_kube_file_exec, install_hint),
    TEXT("provideClusterInfo", gs_kube_file_exec, wants_cluster),
    TEXT("interactiveMode", gs_kube_file_exec, interactive),
    LIST("args", gs_kube_file_exec, args, &text_entry),
    LIST("env", gs_kube_file_exec, env, &env_entry),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t provider_fields[] = {
    TEXT("name", gs_kube_file_provider, name),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t user_fields[] = {
    TEXT("client-certificate", gs_kube_file_user, cert_file),
    TEXT("client-certificate-data", gs_kube_file_user, cert_data),
    TEXT("client-key", gs_kube_file_user, key_file),
    TEXT("client-key-data", gs_kube_file_user, key_data),
    TEXT("token", gs_kube_file_user, token),
    TEXT("tokenFile", gs_kube_file_user, token_file),
    TEXT("username", gs_kube_file_user, user),
    TEXT("password", gs_kube_file_user, password),
    TEXT("as", gs_kube_file_user, as),
    LIST("as-groups", gs_kube_file_user, as_groups, &text_entry),
    PART("exec", gs_kube_file_user, exec, exec_fields),
    PART("auth-provider", gs_kube_file_user, provider, provider_fields),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t context_fields[] = {
    TEXT("cluster", gs_kube_file_context, cluster),
    TEXT("user", gs_kube_file_context, user),
    TEXT("namespace", gs_kube_file_context, ns),
    CYAML_FIELD_END,
};

/* An entry of one of the three lists: a name, and what is called so. */
#define NAMED(kind)                                                                                \
    static const cyaml_schema_field_t named_##kind##_fields[] = {                                  \
        TEXT("name", gs_kube_file_named_##kind, name),                                             \
        PART(#kind, gs_kube_file_named_##kind, kind, kind##_fields),                               \
        CYAML_FIELD_END,                                                                           \
    };                                                                                             \
    static const cyaml_schema_value_t named_##kind##_entry = {CYAML_VALUE_MAPPING(                 \
        CYAML_FLAG_DEFAULT, struct gs_kube_file_named_##kind, named_##kind##_fields)}
NAMED(cluster);
NAMED(user);
NAMED(context);

static const cyaml_schema_field_t file_fields[] = {
    TEXT("current-context", gs_kube_file, current),
    LIST("clusters", gs_kube_file, clusters, &named_cluster_entry),
    LIST("users", gs_kube_file, users, &named_user_entry),
    LIST("contexts", gs_kube_file, contexts, &named_context_entry),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t file_value = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER_NULL_STR, struct gs_kube_file, file_fields)};

int gs_kube_file_bytes(const char *path, size_t max, struct gs_buf *buf)
{
    GS_CLEANUP(gs_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    char part[4096];
    ssize_t got;

    if (fd < 0)
        return -errno;
    for (;;) {
        got = read(fd, part, sizeof(part));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return gs_buf_check(buf);
        if (buf->n + (size_t)got > max)
            return -EFBIG;
        gs_buf_add(buf, part, (size_t)got);
    }
}

int gs_kube_file_read(const char *path, struct gs_kube_file **ret, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    void *data;
    int rc = gs_kube_file_bytes(path, GS_KUBE_CONFIG_MAX, &text);

    if (rc < 0)
        return gs_err_set(err, rc, "cannot read the kubeconfig '%s': %s", path, strerror(-rc));
    rc = gs_yaml_load(gs_buf_str(&text), &file_value, NULL, &data, NULL, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "%s", path);
    *ret = data;
    return 0;
}

struct gs_kube_file *gs_kube_file_free(struct gs_kube_file *file)
{
    gs_yaml_free(&file_value, file, 0);
    return NULL;
}
