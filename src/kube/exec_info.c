#include "kube/exec_info.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "kube/base64.h"
#include "kube/config.h"
#include "kube/config_file.h"
#include "kube/patch.h"

#define PUT(m, key, text)                                                                          \
    gs_kube_merge_str(m, GS_KUBE_PATH("spec", "cluster", key), gs_str_of(text))

static int put_ca(struct gs_kube_merge *m, const struct gs_kube_config *c, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf file = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_str pem = c->ca_pem;
    int rc;

    if (pem.n == 0 && c->ca_file) {
        rc = gs_kube_file_bytes(c->ca_file, GS_KUBE_SECRET_MAX, &file);
        if (rc < 0)
            return gs_err_set(err, rc, "cannot read the authority '%s': %s", c->ca_file,
                              strerror(-rc));
        pem = gs_buf_str(&file);
    }
    gs_kube_base64_put(&text, pem);
    if (gs_buf_check(&text) < 0)
        return gs_err_set(err, -ENOMEM, "no memory");
    if (text.n > 0)
        PUT(m, "certificate-authority-data", gs_buf_text(&text));
    return 0;
}

int gs_kube_exec_info(const struct gs_kube_config *config, struct gs_buf *buf, struct gs_err *err)
{
    struct gs_kube_merge m;
    int rc = 0;

    gs_kube_merge_init(&m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("apiVersion"), gs_str_of(config->exec.api_version));
    gs_kube_merge_str(&m, GS_KUBE_PATH("kind"), GS_STR("ExecCredential"));
    gs_kube_merge_bool(&m, GS_KUBE_PATH("spec", "interactive"), false);
    if (config->exec.wants_cluster) {
        PUT(&m, "server", config->server);
        if (config->tls_server_name)
            PUT(&m, "tls-server-name", config->tls_server_name);
        if (config->proxy_url)
            PUT(&m, "proxy-url", config->proxy_url);
        if (config->is_insecure)
            gs_kube_merge_bool(&m, GS_KUBE_PATH("spec", "cluster", "insecure-skip-tls-verify"),
                               true);
        rc = put_ca(&m, config, err);
    }
    gs_buf_adds(buf, "KUBERNETES_EXEC_INFO=");
    if (rc == 0) {
        rc = gs_kube_merge_text(&m, buf);
        if (rc < 0)
            gs_err_set(err, rc, "what the plugin is told: %s", strerror(-rc));
    }
    gs_kube_merge_fini(&m);
    return rc;
}
