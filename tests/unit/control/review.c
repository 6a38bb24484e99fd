#include "review.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "control/policies.h"
#include "kube/base64.h"
#include "vendors/registry_policy.h"

void review_init(struct review *r, const char *yaml)
{
    static const char *const enabled[] = {"ascend", "iluvatar", NULL};
    struct gs_err err = {0};

    memset(r, 0, sizeof(*r));
    gs_arena_init(&r->conf);
    gs_arena_init(&r->call);
    if (gs_policies_read(&(struct gs_policies_conf){.section = gs_registry_policy,
                                                    .n_sections = gs_registry_policy_n,
                                                    .enabled = enabled,
                                                    .text = gs_str_of(yaml)},
                         &r->conf, &r->policies, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(gs_books_new(&r->policies, &r->books), 0);
    r->admit = (struct gs_admit_conf){GS_STR("hami-scheduler"), true};
}

static void forget(struct review *r)
{
    free(r->reply.json);
    r->reply.json = NULL;
    yyjson_doc_free(r->answer);
    yyjson_mut_doc_free(r->pod);
    r->answer = NULL;
    r->pod = NULL;
    gs_arena_reset(&r->call);
}

void review_fini(struct review *r)
{
    forget(r);
    gs_books_free(r->books);
    gs_arena_fini(&r->call);
    gs_arena_fini(&r->conf);
}

void review_send(struct review *r, const char *body, size_t n)
{
    forget(r);
    assert_int_equal(gs_admit(&r->admit, r->books, (struct gs_str){body, n}, &r->call, &r->reply),
                     0);
    r->answer = yyjson_read(r->reply.json, r->reply.n, 0);
    assert_non_null(r->answer);
}

static void apply_patch(struct review *r, yyjson_val *pod)
{
    const char *encoded =
        yyjson_get_str(yyjson_ptr_get(yyjson_doc_get_root(r->answer), "/response/patch"));
    char *text = encoded != NULL ? malloc(gs_kube_base64_room(strlen(encoded))) : NULL;
    yyjson_doc *patch;
    size_t n = 0;

    r->pod = yyjson_mut_doc_new(NULL);
    if (encoded == NULL) {
        yyjson_mut_doc_set_root(r->pod, yyjson_val_mut_copy(r->pod, pod));
        return;
    }
    assert_non_null(text);
    assert_int_equal(gs_kube_base64_decode(gs_str_of(encoded), text, &n), 0);
    patch = yyjson_read(text, n, 0);
    assert_non_null(patch);
    assert_string_equal(review_answer(r, "/response/patchType"), "JSONPatch");
    yyjson_mut_doc_set_root(r->pod, yyjson_patch(r->pod, pod, yyjson_doc_get_root(patch), NULL));
    if (yyjson_mut_doc_get_root(r->pod) == NULL)
        fail_msg("no JSON Patch of the pod: %.*s", (int)n, text);
    yyjson_doc_free(patch);
    free(text);
}

void review_pod(struct review *r, const char *pod)
{
    struct gs_buf body = {0};
    yyjson_doc *sent;

    gs_buf_addf(&body,
                "{'kind':'AdmissionReview','apiVersion':'admission.k8s.io/v1','request':{"
                "'uid':'u-1','kind':{'group':'','version':'v1','kind':'Pod'},"
                "'resource':{'group':'','version':'v1','resource':'pods'},'namespace':'ns',"
                "'operation':'CREATE','dryRun':false,'object':%s}}",
                pod);
    assert_int_equal(gs_buf_check(&body), 0);
    for (size_t i = 0; i < body.n; i++)
        if (body.p[i] == '\'')
            body.p[i] = '"';
    sent = yyjson_read(body.p, body.n, 0);
    if (sent == NULL)
        fail_msg("not JSON: %s", pod);
    review_send(r, body.p, body.n);
    assert_string_equal(review_answer(r, "/response/uid"), "u-1");
    if (yyjson_get_bool(yyjson_ptr_get(yyjson_doc_get_root(r->answer), "/response/allowed")))
        apply_patch(r, yyjson_ptr_get(yyjson_doc_get_root(sent), "/request/object"));
    yyjson_doc_free(sent);
    gs_buf_fini(&body);
}

static const char *text_of(struct review *r, yyjson_mut_val *val)
{
    char *text;
    struct gs_str copy;

    if (val == NULL)
        return "-";
    if (yyjson_mut_is_str(val))
        return yyjson_mut_get_str(val);
    text = yyjson_mut_val_write(val, 0, NULL);
    copy = gs_arena_printf(&r->call, "%s", text);
    free(text);
    return copy.p;
}

const char *review_answer(struct review *r, const char *pointer)
{
    yyjson_val *val = yyjson_ptr_get(yyjson_doc_get_root(r->answer), pointer);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    const char *text = val == NULL          ? "-"
                       : yyjson_is_str(val) ? yyjson_get_str(val)
                                            : text_of(r, yyjson_val_mut_copy(doc, val));

    yyjson_mut_doc_free(doc);
    return text;
}

const char *review_got(struct review *r, const char *pointer)
{
    return text_of(r, yyjson_mut_ptr_get(yyjson_mut_doc_get_root(r->pod), pointer));
}

static void want_members(struct review *r, const char *pod, const char *want)
{
    char *copy = strdup(want), *rest = copy, *part;

    while ((part = strsep(&rest, " ")) != NULL) {
        char *value = strchr(part, '=');

        if (value == NULL)
            continue;
        *value++ = '\0';
        if (strcmp(review_got(r, part), value) != 0)
            fail_msg("%s: %s is %s, not %s", pod, part, review_got(r, part), value);
    }
    free(copy);
}

void review_want(struct review *r, const char *pod, const char *want)
{
    char got[512];

    review_pod(r, pod);
    (void)snprintf(got, sizeof(got), "no %s %s", review_answer(r, "/response/status/code"),
                   review_answer(r, "/response/status/message"));
    if (strncmp(want, "no ", 3) == 0) {
        if (r->pod != NULL || strcmp(got, want) != 0)
            fail_msg("%s: %s, not %s", pod, r->pod != NULL ? "allowed" : got, want);
        assert_string_equal(review_answer(r, "/response/patch"), "-");
        return;
    }
    if (r->pod == NULL)
        fail_msg("%s: %s", pod, got);
    if (strcmp(want, "same") == 0) {
        assert_string_equal(review_answer(r, "/response/patch"), "-");
        assert_string_equal(review_answer(r, "/response/patchType"), "-");
        return;
    }
    want_members(r, pod, want);
}
