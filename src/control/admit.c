#include "control/admit.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include <yyjson.h>

#include "base/err.h"
#include "contract/annotations.h"
#include "contract/names.h"
#include "control/admit_patch.h"
#include "control/convert.h"
#include "kube/json.h"
#include "kube/view.h"
#include "model/ask.h"
#include "model/ns_quota.h"

#define GRANTS_MAX   256 /* marks of a grant in one pod, before it is somebody's attack */
#define WARNINGS_MAX 3

struct review {
    const struct gs_admit_conf *conf;
    struct gs_books *books;
    struct gs_arena *arena;
    yyjson_doc *doc;
    yyjson_val *request, *object;
    struct gs_pod pod;
    struct gs_admit_reply *note;
    int code;            /**< of a refusal */
    const char *message; /**< of an answer that allows */
    const char *warning[WARNINGS_MAX];
    size_t n_warnings;
};

/* ---- the answer ---- */

struct reply {
    bool is_allowed;
    int code;
    const char *message; /**< NULL: none */
    struct gs_str patch; /**< empty: none */
};

static bool is_beta(yyjson_val *root)
{
    return yyjson_equals_str(yyjson_obj_get(root, "apiVersion"), "admission.k8s.io/v1beta1");
}

static yyjson_mut_val *status_of(yyjson_mut_doc *doc, const struct reply *reply)
{
    yyjson_mut_val *status = yyjson_mut_obj(doc);

    if (reply->message != NULL)
        (void)yyjson_mut_obj_add_str(doc, status, "message", reply->message);
    if (reply->code == 403)
        (void)yyjson_mut_obj_add_str(doc, status, "reason", "Forbidden");
    (void)yyjson_mut_obj_add_int(doc, status, "code", reply->code);
    return status;
}

static yyjson_mut_val *response_of(yyjson_mut_doc *doc, const struct review *r,
                                   const struct reply *reply)
{
    yyjson_mut_val *response = yyjson_mut_obj(doc), *warnings;
    yyjson_val *uid = r != NULL ? yyjson_obj_get(r->request, "uid") : NULL;

    (void)yyjson_mut_obj_add_val(doc, response, "uid",
                                 yyjson_is_str(uid) ? yyjson_val_mut_copy(doc, uid)
                                                    : yyjson_mut_str(doc, ""));
    (void)yyjson_mut_obj_add_bool(doc, response, "allowed", reply->is_allowed);
    if (reply->patch.n > 0) {
        (void)yyjson_mut_obj_add_strn(doc, response, "patch", reply->patch.p, reply->patch.n);
        (void)yyjson_mut_obj_add_str(doc, response, "patchType", "JSONPatch");
    }
    if (r != NULL && r->n_warnings > 0) {
        warnings = yyjson_mut_obj_add_arr(doc, response, "warnings");
        for (size_t i = 0; i < r->n_warnings; i++)
            (void)yyjson_mut_arr_add_str(doc, warnings, r->warning[i]);
    }
    (void)yyjson_mut_obj_add_val(doc, response, "status", status_of(doc, reply));
    return response;
}

static int write_answer(const struct review *r, const struct reply *reply,
                        struct gs_admit_reply *ret)
{
    yyjson_val *root = r != NULL && r->doc != NULL ? yyjson_doc_get_root(r->doc) : NULL;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *top = yyjson_mut_obj(doc);

    ret->json = NULL;
    (void)yyjson_mut_obj_add_str(doc, top, "kind", "AdmissionReview");
    (void)yyjson_mut_obj_add_str(
        doc, top, "apiVersion", is_beta(root) ? "admission.k8s.io/v1beta1" : "admission.k8s.io/v1");
    if (yyjson_mut_obj_add_val(doc, top, "response", response_of(doc, r, reply))) {
        yyjson_mut_doc_set_root(doc, top);
        ret->json = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &ret->n);
    }
    yyjson_mut_doc_free(doc);
    return ret->json != NULL ? 0 : -ENOMEM;
}

bool gs_admit_is_json(struct gs_str type)
{
    static const char json[] = "application/json";
    size_t n = sizeof(json) - 1;

    if (type.n < n || strncasecmp(type.p, json, n) != 0)
        return false;
    while (n < type.n && (type.p[n] == ' ' || type.p[n] == '\t'))
        n++;
    return n == type.n || type.p[n] == ';';
}

int gs_admit_error(const char *text, int code, struct gs_admit_reply *ret)
{
    *ret = (struct gs_admit_reply){.outcome = GS_ADMIT_ERROR, .why = GS_ADMIT_WHY_REVIEW};
    return write_answer(NULL, &(struct reply){false, code, text, {0}}, ret);
}

/* ---- what is decided ---- */

static int refuse(struct review *r, int code, enum gs_admit_why why, struct gs_err *err,
                  const char *text)
{
    r->code = code;
    r->note->why = why;
    return gs_err_set(err, -EPERM, "%s", text);
}

static void warn(struct review *r, const char *text)
{
    r->warning[r->n_warnings++] = text;
}

/* Absent members, and null, are as good as the right ones: hand-made reviews leave them out. */
static bool is_text(yyjson_val *obj, const char *key, const char *wanted)
{
    yyjson_val *val = yyjson_obj_get(obj, key);

    return val == NULL || yyjson_is_null(val) || yyjson_equals_str(val, wanted);
}

/* What is not a pod about to be made passes as it is: on a pod that runs the marks of a grant are
 * its scheduler's. */
static bool is_new_pod(const struct review *r)
{
    return is_text(r->request, "operation", "CREATE") && is_text(r->request, "subResource", "") &&
           is_text(yyjson_obj_get(r->request, "kind"), "kind", "Pod");
}

/* 0, or -EINVAL: no review of a version that we speak. */
static int open_review(struct review *r, struct gs_str body, struct gs_err *err)
{
    yyjson_val *root;
    int rc = gs_kube_json_read(body, GS_ADMIT_REVIEW_MAX, &r->doc, err);

    r->code = rc == -EFBIG ? 413 : 400;
    r->note->why = GS_ADMIT_WHY_REVIEW;
    if (rc < 0)
        return rc;
    root = yyjson_doc_get_root(r->doc);
    if (!is_text(root, "kind", "AdmissionReview") ||
        !(is_beta(root) || is_text(root, "apiVersion", "admission.k8s.io/v1")))
        return gs_err_set(err, -EINVAL, "not an AdmissionReview of admission.k8s.io/v1 or v1beta1");
    r->request = yyjson_obj_get(root, "request");
    if (!yyjson_is_obj(r->request))
        return gs_err_set(err, -EINVAL, "the review has no request");
    return 0;
}

static int read_pod(struct review *r, struct gs_err *err)
{
    struct gs_kube_pod pod;
    struct gs_str ns = {0};
    int rc;

    r->object = yyjson_obj_get(r->request, "object");
    if (!yyjson_is_obj(r->object))
        return gs_err_set(err, -EINVAL, "there is no content to decode");
    rc = gs_kube_view_pod(r->object, r->arena, &pod, err);
    if (rc == 0)
        rc = gs_convert_pod(&pod, r->arena, &r->pod);
    if (rc == 0 && r->pod.ns.n == 0 &&
        gs_kube_json_str(r->request, "namespace", &ns) == GS_KUBE_GOT)
        r->pod.ns = ns;
    return rc;
}

/* ---- marks that only a scheduler may write ---- */

static bool is_word_of(const char *words, struct gs_str key)
{
    const char *end;

    for (; words != NULL && *words != '\0'; words = *end == '\0' ? end : end + 1) {
        end = strchrnul(words, ' ');
        if (gs_str_eq(key, (struct gs_str){words, (size_t)(end - words)}))
            return true;
    }
    return false;
}

static bool starts_with(struct gs_str s, struct gs_str prefix)
{
    return gs_str_skip(&s, prefix);
}

static bool ends_with(struct gs_str s, struct gs_str end)
{
    return s.n >= end.n && memcmp(s.p + (s.n - end.n), end.p, end.n) == 0;
}

/* Also grants of vendors that this daemon does not serve: their plugins may be there. */
static bool is_grant(const struct gs_policies *policies, struct gs_str key)
{
    if (is_word_of(GS_NAME_NODE " " GS_NAME_TIME " " GS_NAME_BIND_TIME " " GS_NAME_BIND_PHASE, key))
        return true;
    if (starts_with(key, GS_STR("gpuslice.io/grant")))
        return true;
    if (starts_with(key, GS_STR("hami.io/")) && (ends_with(key, GS_STR("-devices-allocated")) ||
                                                 ends_with(key, GS_STR("-devices-to-allocate"))))
        return true;
    for (size_t i = 0; i < policies->n; i++) {
        const struct gs_keys *keys = &policies->at[i]->keys;

        if ((keys->allocated.n > 0 && gs_str_eq(key, keys->allocated)) ||
            (keys->to_allocate.n > 0 && gs_str_eq(key, keys->to_allocate)) ||
            (keys->placements.n > 0 && gs_str_eq(key, keys->placements)) ||
            is_word_of(keys->own, key))
            return true;
    }
    return false;
}

/* Whoever creates a pod with them would be served what it wrote itself. */
static int strip_grants(struct review *r, struct gs_err *err)
{
    const struct gs_policies *policies = gs_books_policies(r->books);
    size_t before = r->pod.n_edits, n = 0;
    struct gs_str key[GRANTS_MAX];
    int rc;

    for (size_t i = 0; i < r->pod.annotations.n; i++) {
        if (!is_grant(policies, r->pod.annotations.at[i].key))
            continue;
        if (n == GRANTS_MAX)
            return refuse(r, 403, GS_ADMIT_WHY_GRANTS, err,
                          "too many annotations that only a scheduler may write");
        key[n++] = r->pod.annotations.at[i].key;
    }
    rc = gs_pod_edit(&r->pod, GS_EDIT_NO_LABEL, 0, GS_STR(GS_NAME_NODE), (struct gs_str){0});
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = gs_pod_edit(&r->pod, GS_EDIT_NO_ANNOTATION, 0, key[i], (struct gs_str){0});
    r->note->stripped = r->pod.n_edits > before;
    if (r->note->stripped)
        warn(r, "marks of a grant are for the scheduler to write: they were removed");
    return rc;
}

/* ---- the rules, in HAMi's order ---- */

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
                r->note->why = GS_ADMIT_WHY_VENDOR;
                return rc;
            }
            is_ours |= rc > 0;
        }
    if (is_ours && gs_ask_check(&r->pod, policies, err) < 0) {
        r->code = 500;
        r->note->why = GS_ADMIT_WHY_VENDOR;
        return -EINVAL;
    }
    return is_ours;
}

static int check_privileged(struct review *r, struct gs_err *err)
{
    for (size_t c = 0; c < r->pod.n_containers; c++)
        if (r->pod.container[c].is_privileged) {
            struct gs_str name = r->pod.container[c].name;

            r->code = 403;
            r->note->why = GS_ADMIT_WHY_PRIVILEGED;
            return gs_err_set(err, -EPERM, "container %.*s is privileged", (int)name.n, name.p);
        }
    return 0;
}

static int take_over(struct review *r, struct gs_err *err)
{
    int rc = 0;

    if (r->conf->scheduler_name.n > 0)
        rc =
            gs_pod_edit(&r->pod, GS_EDIT_SCHEDULER, 0, (struct gs_str){0}, r->conf->scheduler_name);
    if (rc < 0 || r->conf->scheduler_name.n == 0 || r->pod.node_name.n == 0)
        return rc;
    warn(r, "a pod with a share of a card has to be scheduled: give nodeSelector or nodeAffinity "
            "in place of nodeName");
    return refuse(r, 403, GS_ADMIT_WHY_NODE_ASSIGNED, err, "pod has node assigned");
}

static int check_annotations(struct review *r, struct gs_err *err)
{
    r->code = 403;
    r->note->why = GS_ADMIT_WHY_ANNOTATIONS;
    return gs_pod_check_room(&r->pod, GS_ANNOTATIONS_RESERVE, err);
}

/* It counts for nothing, as in HAMi, which says nothing. Without memory nothing is said here. */
static void check_policies(struct review *r)
{
    struct gs_str key, word, text;

    if (!gs_ask_unknown_policy(&r->pod, &key, &word))
        return;
    text =
        gs_arena_printf(r->arena, "annotation %.*s: \"%.*s\" is not known and counts for nothing",
                        (int)key.n, key.p, (int)(word.n < 100 ? word.n : 100), word.p);
    if (text.n > 0)
        warn(r, text.p);
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
            return refuse(r, 403, GS_ADMIT_WHY_QUOTA, err, "exceeding resource quota");
    }
    return rc;
}

static int decide(struct review *r, struct gs_err *err)
{
    int rc;

    if (r->pod.n_containers == r->pod.n_init)
        return refuse(r, 403, GS_ADMIT_WHY_NO_CONTAINERS, err, "pod has no containers");
    rc = strip_grants(r, err);
    if (rc < 0)
        return rc;
    if (is_anothers(r)) {
        r->message = "pod already has different scheduler assigned";
        return 0;
    }
    rc = ask_vendors(r, err);
    if (rc > 0) {
        r->note->outcome = GS_ADMIT_OURS;
        rc = check_privileged(r, err);
        if (rc == 0)
            rc = take_over(r, err);
        if (rc == 0)
            rc = check_annotations(r, err);
        check_policies(r);
    }
    return rc == 0 ? check_quota(r, err) : rc;
}

static int answer(struct review *r, int rc, const struct gs_err *err)
{
    struct reply reply = {true, 200, r->message, {0}};

    if (rc == 0 && r->pod.n_edits > 0)
        rc = gs_admit_patch(&r->pod, r->object, r->arena, &reply.patch);
    if (rc == -ENOMEM)
        return rc;
    if (rc == 0)
        r->note->why = GS_ADMIT_WHY_NONE;
    else
        r->note->outcome = r->note->why == GS_ADMIT_WHY_REVIEW ? GS_ADMIT_ERROR : GS_ADMIT_REFUSED;
    if (rc < 0)
        reply = (struct reply){false, r->code, err->text, {0}};
    return write_answer(r, &reply, r->note);
}

int gs_admit(const struct gs_admit_conf *conf, struct gs_books *books, struct gs_str body,
             struct gs_arena *arena, struct gs_admit_reply *ret)
{
    struct review r = {.conf = conf, .books = books, .arena = arena, .note = ret};
    struct gs_err err = {0};
    int rc;

    *ret = (struct gs_admit_reply){0};
    rc = open_review(&r, body, &err);
    if (rc == 0 && is_new_pod(&r)) {
        rc = read_pod(&r, &err);
        if (rc == 0)
            rc = decide(&r, &err);
    }
    rc = answer(&r, rc, &err);
    yyjson_doc_free(r.doc);
    return rc;
}
