#include "kube/client.h"

#include <errno.h>

#include "base/buf.h"
#include "kube/patch.h"

static void put_kind(struct gs_kube_merge *m, const char *api_version, const char *kind)
{
    gs_kube_merge_str(m, GS_KUBE_PATH("apiVersion"), gs_str_of(api_version));
    gs_kube_merge_str(m, GS_KUBE_PATH("kind"), gs_str_of(kind));
}

/* Write the object and end it. */
static int take_text(struct gs_kube_merge *m, struct gs_buf *text, struct gs_err *err)
{
    int rc = gs_kube_merge_text(m, text);

    gs_kube_merge_fini(m);
    if (rc < 0)
        return gs_err_set(err, rc, "%s", rc == -EILSEQ ? "text is no UTF-8" : "no memory");
    return 0;
}

int gs_kube_client_bind(struct gs_kube_client *client, const struct gs_kube_binding *b,
                        gs_kube_fn *fn, void *arg, uint64_t *ret_ticket, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    struct gs_kube_req req = {
        .verb = GS_KUBE_CREATE,
        .resource = &gs_kube_pods,
        .ns = b->ns,
        .name = b->pod,
        .subresource = "binding",
        .timeout_ms = b->timeout_ms,
        .server_s = (b->timeout_ms + 999) / 1000, /* nothing takes effect long after we gave up */
    };
    int rc;

    gs_kube_merge_init(&m);
    put_kind(&m, "v1", "Binding");
    gs_kube_merge_str(&m, GS_KUBE_PATH("metadata", "name"), b->pod);
    gs_kube_merge_str(&m, GS_KUBE_PATH("metadata", "namespace"), b->ns);
    if (b->uid.n > 0)
        gs_kube_merge_uid(&m, b->uid);
    if (b->version.n > 0)
        gs_kube_merge_version(&m, b->version);
    for (size_t i = 0; i < b->n_annotations; i++)
        gs_kube_merge_annotation(&m, b->annotation_key[i], b->annotation_value[i]);
    for (size_t i = 0; i < b->n_labels; i++)
        gs_kube_merge_label(&m, b->label_key[i], b->label_value[i]);
    gs_kube_merge_str(&m, GS_KUBE_PATH("target", "apiVersion"), GS_STR("v1"));
    gs_kube_merge_str(&m, GS_KUBE_PATH("target", "kind"), GS_STR("Node"));
    gs_kube_merge_str(&m, GS_KUBE_PATH("target", "name"), b->node);
    rc = take_text(&m, &text, err);
    if (rc < 0)
        return rc;
    req.body = gs_buf_str(&text);
    return gs_kube_client_send(client, &req, fn, arg, ret_ticket, err);
}

int gs_kube_client_evict(struct gs_kube_client *client, const struct gs_kube_end *end,
                         gs_kube_fn *fn, void *arg, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    struct gs_kube_req req = {
        .verb = GS_KUBE_CREATE,
        .resource = &gs_kube_pods,
        .ns = end->ns,
        .name = end->name,
        .subresource = "eviction",
        .is_single_try = true,
    };
    int rc;

    gs_kube_merge_init(&m);
    put_kind(&m, "policy/v1", "Eviction");
    gs_kube_merge_str(&m, GS_KUBE_PATH("metadata", "name"), end->name);
    gs_kube_merge_str(&m, GS_KUBE_PATH("metadata", "namespace"), end->ns);
    if (end->uid.n > 0)
        gs_kube_merge_str(&m, GS_KUBE_PATH("deleteOptions", "preconditions", "uid"), end->uid);
    if (end->has_grace)
        gs_kube_merge_i64(&m, GS_KUBE_PATH("deleteOptions", "gracePeriodSeconds"), end->grace_s);
    rc = take_text(&m, &text, err);
    if (rc < 0)
        return rc;
    req.body = gs_buf_str(&text);
    return gs_kube_client_send(client, &req, fn, arg, NULL, err);
}

int gs_kube_client_delete(struct gs_kube_client *client, const struct gs_kube_resource *resource,
                          const struct gs_kube_end *end, gs_kube_fn *fn, void *arg,
                          struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    struct gs_kube_req req = {
        .verb = GS_KUBE_DELETE, .resource = resource, .ns = end->ns, .name = end->name};
    int rc;

    gs_kube_merge_init(&m);
    put_kind(&m, "v1", "DeleteOptions");
    if (end->uid.n > 0)
        gs_kube_merge_str(&m, GS_KUBE_PATH("preconditions", "uid"), end->uid);
    if (end->has_grace)
        gs_kube_merge_i64(&m, GS_KUBE_PATH("gracePeriodSeconds"), end->grace_s);
    rc = take_text(&m, &text, err);
    if (rc < 0)
        return rc;
    req.body = gs_buf_str(&text);
    return gs_kube_client_send(client, &req, fn, arg, NULL, err);
}
