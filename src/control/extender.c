#include "control/extender.h"

#include <errno.h>
#include <string.h>

#include "core/size.h"
#include "kube/json.h"
#include "model/json.h"

#define BINDING_MAX ((size_t)1 << 20)

int gs_extender_read(struct gs_str body, struct gs_arena *arena, struct gs_extender_args *ret,
                     struct gs_err *err)
{
    yyjson_val *root, *pod = NULL, *nodes = NULL;
    int rc;

    *ret = (struct gs_extender_args){0};
    rc = gs_kube_json_read(body, GS_EXTENDER_BODY_MAX, &ret->doc, err);
    if (rc < 0)
        return rc == -ENOMEM ? rc : gs_err_wrap(err, -EINVAL, "extender args");
    root = yyjson_doc_get_root(ret->doc);
    if (yyjson_is_null(root)) /* Go has null for an object without members */
        return gs_err_set(err, -EINVAL, "extender args missing pod");
    if (!yyjson_is_obj(root))
        return gs_err_set(err, -EINVAL, "extender args: not an object");
    rc = gs_json_only(root, "Pod", &pod, err);
    if (rc == 0)
        rc = gs_json_only(root, "Nodes", &nodes, err);
    if (rc == 0)
        rc = gs_json_only(root, "NodeNames", &ret->names, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "extender args");
    if (pod == NULL)
        return gs_err_set(err, -EINVAL, "extender args missing pod");
    ret->object = pod;
    if (nodes != NULL) {
        if (!yyjson_is_obj(nodes))
            return gs_err_set(err, -EINVAL, "extender args: nodes is not a list of nodes");
        rc = gs_json_only(nodes, "items", &ret->items, err);
        if (rc < 0)
            return gs_err_wrap(err, rc, "extender args: nodes");
        if (ret->items != NULL && !yyjson_is_arr(ret->items))
            return gs_err_set(err, -EINVAL, "extender args: nodes.items is not a list");
        ret->has_nodes = true;
    }
    if (ret->names != NULL && !yyjson_is_arr(ret->names))
        return gs_err_set(err, -EINVAL, "extender args: nodenames is not a list");
    rc = gs_kube_view_pod(pod, arena, &ret->pod, err);
    return rc < 0 ? gs_err_wrap(err, rc, "extender args: pod") : 0;
}

void gs_extender_args_fini(struct gs_extender_args *args)
{
    yyjson_doc_free(args->doc);
    args->doc = NULL;
}

/* Names of Kubernetes are no longer (a DNS subdomain, RFC 1123): what is goes into no request. */
#define NAME_MOST 253u

static int member(yyjson_val *root, const char *name, struct gs_arena *arena, struct gs_str *ret,
                  struct gs_err *err)
{
    yyjson_val *val = NULL;
    int rc = gs_json_only(root, name, &val, err);

    if (rc < 0)
        return gs_err_wrap(err, rc, "extender binding args");
    rc = gs_json_str(val, arena, ret);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return gs_err_set(err, -EINVAL, "extender binding args: %s is not a text", name);
    if (ret->n == 0)
        return gs_err_set(err, -EINVAL, "extender binding args missing %s", name);
    if (ret->n > NAME_MOST)
        return gs_err_set(err, -EINVAL, "extender binding args: %s is too long for a name", name);
    return 0;
}

int gs_extender_read_binding(struct gs_str body, struct gs_arena *arena,
                             struct gs_extender_binding *ret, struct gs_err *err)
{
    struct gs_extender_binding got = {0};
    yyjson_doc *doc;
    yyjson_val *root;
    int rc = gs_kube_json_read(body, BINDING_MAX, &doc, err);

    if (rc < 0)
        return rc == -ENOMEM ? rc : gs_err_wrap(err, -EINVAL, "extender binding args");
    root = yyjson_doc_get_root(doc);
    if (!yyjson_is_obj(root))
        rc = gs_err_set(err, -EINVAL,
                        yyjson_is_null(root) ? "extender binding args missing PodName"
                                             : "extender binding args: not an object");
    if (rc == 0)
        rc = member(root, "PodName", arena, &got.pod, err);
    if (rc == 0)
        rc = member(root, "PodNamespace", arena, &got.ns, err);
    if (rc == 0)
        rc = member(root, "PodUID", arena, &got.uid, err);
    if (rc == 0)
        rc = member(root, "Node", arena, &got.node, err);
    if (rc == 0)
        *ret = got;
    yyjson_doc_free(doc);
    return rc;
}

int gs_extender_reply_init(struct gs_extender_reply *reply)
{
    *reply = (struct gs_extender_reply){.doc = yyjson_mut_doc_new(NULL), .error = ""};
    return reply->doc != NULL ? 0 : -ENOMEM;
}

void gs_extender_reply_fini(struct gs_extender_reply *reply)
{
    yyjson_mut_doc_free(reply->doc);
    *reply = (struct gs_extender_reply){0};
}

void gs_extender_reply_name(struct gs_extender_reply *reply, struct gs_str name)
{
    if (reply->names == NULL)
        reply->names = yyjson_mut_arr(reply->doc);
    (void)yyjson_mut_arr_add_strncpy(reply->doc, reply->names, name.p, name.n);
}

void gs_extender_reply_node(struct gs_extender_reply *reply, yyjson_val *node)
{
    if (reply->nodes == NULL)
        reply->nodes = yyjson_mut_arr(reply->doc);
    (void)yyjson_mut_arr_append(reply->nodes, yyjson_val_mut_copy(reply->doc, node));
}

struct gs_str gs_extender_reply_keep(struct gs_extender_reply *reply, struct gs_str text)
{
    yyjson_mut_val *val = yyjson_mut_strncpy(reply->doc, text.p, text.n);

    return (struct gs_str){yyjson_mut_get_str(val), yyjson_mut_get_len(val)};
}

void gs_extender_reply_failed(struct gs_extender_reply *reply, struct gs_str node,
                              struct gs_str reason)
{
    if (reply->failed == NULL)
        reply->failed = yyjson_mut_obj(reply->doc);
    (void)yyjson_mut_obj_add(reply->failed, yyjson_mut_strn(reply->doc, node.p, node.n),
                             yyjson_mut_strn(reply->doc, reason.p, reason.n));
}

static yyjson_mut_val *or_null(yyjson_mut_doc *doc, yyjson_mut_val *val)
{
    return val != NULL ? val : yyjson_mut_null(doc);
}

int gs_extender_reply_write(struct gs_extender_reply *reply, char **ret, size_t *ret_n)
{
    yyjson_mut_doc *doc = reply->doc;
    yyjson_mut_val *root = yyjson_mut_obj(doc), *nodes = NULL;

    if (reply->nodes != NULL) {
        nodes = yyjson_mut_obj(doc);
        (void)yyjson_mut_obj_add_null(doc, nodes, "metadata");
        (void)yyjson_mut_obj_add_val(doc, nodes, "items", reply->nodes);
    }
    (void)yyjson_mut_obj_add_val(doc, root, "Nodes", or_null(doc, nodes));
    (void)yyjson_mut_obj_add_val(doc, root, "NodeNames", or_null(doc, reply->names));
    (void)yyjson_mut_obj_add_val(doc, root, "FailedNodes", or_null(doc, reply->failed));
    (void)yyjson_mut_obj_add_null(doc, root, "FailedAndUnresolvableNodes");
    if (!yyjson_mut_obj_add_str(doc, root, "Error", reply->error))
        return -ENOMEM;
    yyjson_mut_doc_set_root(doc, root);
    *ret = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, ret_n);
    return *ret != NULL ? 0 : -ENOMEM;
}

int gs_extender_write_error(const char *text, char **ret, size_t *ret_n)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    *ret = NULL;
    if (yyjson_mut_obj_add_str(doc, root, "Error", text)) {
        yyjson_mut_doc_set_root(doc, root);
        *ret = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, ret_n);
    }
    yyjson_mut_doc_free(doc);
    return *ret != NULL ? 0 : -ENOMEM;
}
