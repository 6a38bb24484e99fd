#include "control/admit.h"

#include <errno.h>
#include <string.h>

#include <yyjson.h>

#include "base/buf.h"
#include "base/err.h"
#include "contract/names.h"
#include "control/admit_patch.h"
#include "control/pod.h"
#include "kube/json.h"
#include "kube/view.h"
#include "model/ns_quota.h"

#define REVIEW_MAX ((size_t)64 << 20)

struct review {
    const struct gs_admit_conf *conf;
    struct gs_books *books;
    struct gs_arena *arena;
    yyjson_doc *doc;
    yyjson_val *request, *object;
    struct gs_pod pod;
    struct gs_admit_note *note;
    int code;            /**< of a refusal */
    const char *message; /**< of an answer that allows */
};

/* ---- the answer ---- */

static yyjson_mut_val *copy_or(yyjson_mut_doc *doc, yyjson_val *val, const char *otherwise)
{
    return yyjson_is_str(val) ? yyjson_val_mut_copy(doc, val) : yyjson_mut_str(doc, otherwise);
}

static const char *reason_of(int code)
{
    return code == 403 ? "Forbidden" : "";
}

static int write_answer(yyjson_val *root, yyjson_val *uid, bool is_allowed, int code,
                        const char *message, struct gs_str patch, char **ret, size_t *ret_n)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *top = yyjson_mut_obj(doc), *response = yyjson_mut_obj(doc),
                   *status = yyjson_mut_obj(doc);

    *ret = NULL;
    (void)yyjson_mut_obj_add_val(doc, top, "kind",
                                 copy_or(doc, yyjson_obj_get(root, "kind"), "AdmissionReview"));
    (void)yyjson_mut_obj_add_val(
        doc, top, "apiVersion",
        copy_or(doc, yyjson_obj_get(root, "apiVersion"), "admission.k8s.io/v1"));
    (void)yyjson_mut_obj_add_val(doc, response, "uid", copy_or(doc, uid, ""));
    (void)yyjson_mut_obj_add_bool(doc, response, "allowed", is_allowed);
    if (patch.n > 0) {
        (void)yyjson_mut_obj_add_strn(doc, response, "patch", patch.p, patch.n);
        (void)yyjson_mut_obj_add_str(doc, response, "patchType", "JSONPatch");
    }
    if (message != NULL)
        (void)yyjson_mut_obj_add_str(doc, status, "message", message);
    if (reason_of(code)[0] != '\0')
        (void)yyjson_mut_obj_add_str(doc, status, "reason", reason_of(code));
    (void)yyjson_mut_obj_add_int(doc, status, "code", code);
    (void)yyjson_mut_obj_add_val(doc, response, "status", status);
    if (yyjson_mut_obj_add_val(doc, top, "response", response)) {
        yyjson_mut_doc_set_root(doc, top);
        *ret = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, ret_n);
    }
    yyjson_mut_doc_free(doc);
    return *ret != NULL ? 0 : -ENOMEM;
}

int gs_admit_error(const char *text, int code, char **ret_reply, size_t *ret_n)
{
    return write_answer(NULL, NULL, false, code, text, (struct gs_str){0}, ret_reply, ret_n);
}

/* ---- what is decided ---- */

static int refuse(struct review *r, int code, struct gs_err *err, const char *text)
{
    r->code = code;
    return gs_err_set(err, -EPERM, "%s", text);
}

static int read_review(struct review *r, struct gs_str body, struct gs_err *err)
{
    struct gs_kube_pod pod;
    struct gs_str ns = {0};
    int rc = gs_kube_json_read(body, REVIEW_MAX, &r->doc, err);

    r->code = 400;
    if (rc < 0)
        return rc;
    r->request = yyjson_obj_get(yyjson_doc_get_root(r->doc), "request");
    r->object = yyjson_obj_get(r->request, "object");
    if (!yyjson_is_obj(r->object))
        return gs_err_set(err, -EINVAL, "there is no content to decode");
    rc = gs_kube_view_pod(r->object, r->arena, &pod, err);
    if (rc == 0)
        rc = gs_control_pod(&pod, r->arena, &r->pod);
    if (rc == 0 && r->pod.ns.n == 0 &&
        gs_kube_json_str(r->request, "namespace", &ns) == GS_KUBE_GOT)
        r->pod.ns = ns;
    return rc;
}

/* Marks that only a scheduler may write. Whoever creates a pod with them would be served what it
 * wrote itself. */
static int strip_grants(struct review *r)
{
    const struct gs_policies *policies = gs_books_policies(r->books);
    const struct gs_str mark[] = {GS_STR(GS_NAME_NODE), GS_STR(GS_NAME_TIME),
                                  GS_STR(GS_NAME_BIND_TIME), GS_STR(GS_NAME_BIND_PHASE)};
    size_t before = r->pod.n_edits;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < GS_ARRAY_LEN(mark); i++)
        rc = gs_pod_edit(&r->pod, GS_EDIT_NO_ANNOTATION, 0, mark[i], (struct gs_str){0});
    if (rc == 0)
        rc = gs_pod_edit(&r->pod, GS_EDIT_NO_LABEL, 0, GS_STR(GS_NAME_NODE), (struct gs_str){0});
    for (size_t i = 0; rc == 0 && i < policies->n; i++) {
        const struct gs_keys *keys = &policies->at[i]->keys;
        const struct gs_str key[] = {keys->to_allocate, keys->allocated, keys->placements};

        for (size_t k = 0; rc == 0 && k < GS_ARRAY_LEN(key); k++)
            if (key[k].n > 0)
                rc = gs_pod_edit(&r->pod, GS_EDIT_NO_ANNOTATION, 0, key[k], (struct gs_str){0});
    }
    r->note->stripped = r->pod.n_edits > before;
    return rc;
}

static bool is_anothers(const struct review *r)
{
    struct gs_str name = r->pod.scheduler_name;

    if (name.n == 0 ||
        (r->conf->overwrites_default && gs_str_eq(name, GS_STR("default-scheduler"))))
        return false;
    return r->conf->scheduler_name.n == 0 || !gs_str_eq(name, r->conf->scheduler_name);
}

/* Every vendor looks at every container. Returns 1 ours, 0 not, negative refused. */
static int ask_vendors(struct review *r, struct gs_err *err)
{
    const struct gs_policies *policies = gs_books_policies(r->books);
    bool is_ours = false;

    for (size_t c = 0; c < r->pod.n_containers; c++)
        for (size_t i = 0; i < policies->n; i++) {
            int rc = policies->at[i]->ops->admit(policies->at[i], &r->pod, c, err);

            if (rc < 0) {
                r->code = 500; /* HAMi's, for whatever a vendor says no to */
                return rc;
            }
            is_ours |= rc > 0;
        }
    return is_ours;
}

static int check_privileged(struct review *r, struct gs_err *err)
{
    for (size_t c = 0; c < r->pod.n_containers; c++)
        if (r->pod.container[c].is_privileged) {
            r->code = 403;
            return gs_err_set(err, -EPERM, "container %.*s is privileged",
                              (int)r->pod.container[c].name.n, r->pod.container[c].name.p);
        }
    return 0;
}

static int check_quota(struct review *r, struct gs_err *err)
{
    const struct gs_policies *policies = gs_books_policies(r->books);
    const struct gs_ns_quota *quota;
    int rc = gs_books_quota(r->books, r->pod.ns, r->pod.uid, r->arena, &quota);

    for (size_t i = 0; rc == 0 && quota != NULL && i < policies->n; i++) {
        int64_t mem, cores;

        gs_ns_quota_of_pod(policies->at[i], &r->pod, &mem, &cores);
        if ((mem > 0 || cores > 0) && !gs_ns_quota_fits(quota, policies->at[i], mem, cores))
            return refuse(r, 403, err, "exceeding resource quota");
    }
    return rc;
}

static int decide(struct review *r, struct gs_err *err)
{
    int rc = 0;

    if (r->pod.n_containers == r->pod.n_init)
        return refuse(r, 403, err, "pod has no containers");
    rc = strip_grants(r);
    if (rc < 0)
        return rc;
    if (is_anothers(r)) {
        r->message = "pod already has different scheduler assigned";
        return 0;
    }
    rc = ask_vendors(r, err);
    if (rc <= 0)
        return rc;
    r->note->outcome = GS_ADMIT_OURS;
    rc = check_privileged(r, err);
    if (rc == 0 && r->conf->scheduler_name.n > 0) {
        rc =
            gs_pod_edit(&r->pod, GS_EDIT_SCHEDULER, 0, (struct gs_str){0}, r->conf->scheduler_name);
        if (rc == 0 && r->pod.node_name.n > 0)
            return refuse(r, 403, err, "pod has node assigned");
    }
    return rc == 0 ? check_quota(r, err) : rc;
}

static int answer(struct review *r, int rc, const struct gs_err *err, char **ret_reply,
                  size_t *ret_n)
{
    yyjson_val *root = r->doc != NULL ? yyjson_doc_get_root(r->doc) : NULL;
    yyjson_val *uid = yyjson_obj_get(r->request, "uid");
    struct gs_str patch = {0};

    if (rc == 0)
        rc = gs_admit_patch(&r->pod, r->object, r->arena, &patch);
    else
        r->note->outcome = r->code == 400 ? GS_ADMIT_ERROR : GS_ADMIT_REFUSED;
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        return write_answer(root, uid, false, r->code, err->text, patch, ret_reply, ret_n);
    return write_answer(root, uid, true, 200, r->message, patch, ret_reply, ret_n);
}

int gs_admit(const struct gs_admit_conf *conf, struct gs_books *books, struct gs_str body,
             struct gs_arena *arena, char **ret_reply, size_t *ret_n,
             struct gs_admit_note *ret_note)
{
    struct review r = {.conf = conf, .books = books, .arena = arena, .note = ret_note};
    struct gs_err err = {0};
    int rc;

    *ret_note = (struct gs_admit_note){0};
    rc = read_review(&r, body, &err);
    if (rc == 0)
        rc = decide(&r, &err);
    rc = answer(&r, rc, &err, ret_reply, ret_n);
    yyjson_doc_free(r.doc);
    return rc;
}
