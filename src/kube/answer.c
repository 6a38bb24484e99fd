#include "kube/answer.h"

#include <errno.h>
#include <string.h>
#include <yyjson.h>

#include "kube/json.h"
#include "net/http_client.h"

#define WORDS_MAX 200

/* Source: k8s.io/apimachinery pkg/apis/meta/v1, StatusReason; the row without a reason comes last
 * of a status. */
static const struct {
    int status;
    const char *reason;
    int code;
} codes[] = {
    {400, NULL, EINVAL}, {401, NULL, EACCES},     {403, NULL, EPERM},
    {404, NULL, ENOENT}, {405, NULL, EOPNOTSUPP}, {409, "AlreadyExists", EEXIST},
    {409, NULL, EBUSY},  {410, NULL, ESTALE},     {413, NULL, EFBIG},
    {415, NULL, EINVAL}, {422, NULL, EINVAL},     {429, NULL, EAGAIN},
    {503, NULL, EAGAIN}, {504, NULL, ETIMEDOUT},
};

static int code_of(int status, struct gs_str reason)
{
    if (status >= 200 && status < 300)
        return 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++)
        if (codes[i].status == status && (!codes[i].reason || gs_str_eq_c(reason, codes[i].reason)))
            return -codes[i].code;
    return status >= 400 && status < 500 ? -EINVAL : -EIO;
}

void gs_kube_answer_fini(struct gs_kube_answer *a)
{
    a->doc = gs_kube_json_free(a->doc);
    a->result.root = NULL;
}

static void begin(struct gs_kube_answer *a)
{
    memset(a, 0, sizeof(*a));
    a->result.err = &a->err;
}

void gs_kube_answer_fail(struct gs_kube_answer *a, int rc, const char *why)
{
    begin(a);
    a->result.rc = gs_err_set(&a->err, rc, "%s", why);
    a->result.message = gs_str_of(a->err.text);
}

/* The first line of an answer in words: a proxy's page, the API server's "404 page not found". */
static struct gs_str words_of(struct gs_str body)
{
    size_t n = 0;

    while (n < body.n && n < WORDS_MAX && (unsigned char)body.p[n] >= ' ')
        n++;
    return (struct gs_str){body.p, n};
}

static void read_status(struct gs_kube_answer *a, struct gs_str body)
{
    struct gs_kube_result *r = &a->result;
    yyjson_val *details = NULL;
    int32_t after_s = 0;

    if (r->root) {
        (void)gs_kube_json_str(r->root, "reason", &r->reason);   /* absent stays empty */
        (void)gs_kube_json_str(r->root, "message", &r->message); /* absent stays empty */
        if (gs_kube_json_obj(r->root, "details", &details) == GS_KUBE_GOT &&
            gs_kube_json_i32(details, "retryAfterSeconds", &after_s) == GS_KUBE_GOT &&
            after_s > 0) {
            a->says_retry = true;
            r->retry_after_ms = after_s > 3600 ? 3600000 : (uint32_t)after_s * 1000;
        }
    }
    if (r->message.n == 0)
        r->message = words_of(body);
}

void gs_kube_answer_read(struct gs_kube_answer *a, const struct gs_http_answer *http,
                         size_t max_body, bool wants_json)
{
    struct gs_kube_result *r = &a->result;
    struct gs_err why = {0};
    int rc = 0;

    begin(a);
    r->status = http->status;
    a->is_unsent = http->is_unsent;
    if (http->rc < 0) {
        r->rc = gs_err_set(&a->err, http->rc, "%s", http->error);
        r->message = gs_str_of(a->err.text);
        return;
    }
    if (http->body.n > 0 && (http->body.p[0] == '{' || http->body.p[0] == '['))
        rc = gs_kube_json_read(http->body, max_body, &a->doc, &why);
    r->root = yyjson_doc_get_root(a->doc);
    r->rc = code_of(http->status, (struct gs_str){0});
    if (r->rc == 0) {
        if (rc < 0)
            r->rc = rc == -EINVAL ? -EBADMSG : rc;
        else if (wants_json && !r->root)
            r->rc = -EBADMSG;
        if (r->rc < 0)
            gs_err_set(&a->err, r->rc, "answer: %s", why.text[0] ? why.text : "not JSON");
        r->message = gs_str_of(a->err.text);
        return;
    }
    read_status(a, http->body);
    if (http->retry_after_s >= 0) {
        a->says_retry = true;
        r->retry_after_ms =
            http->retry_after_s > 3600 ? 3600000 : (uint32_t)http->retry_after_s * 1000;
    }
    r->rc = code_of(http->status, r->reason);
    gs_err_set(&a->err, r->rc, "%d %.*s%s%.*s", http->status,
               (int)(r->reason.n < 64 ? r->reason.n : 64), r->reason.p ? r->reason.p : "",
               r->reason.n > 0 ? ": " : "", (int)(r->message.n < 256 ? r->message.n : 256),
               r->message.p ? r->message.p : "");
}

/* 408 is said by proxies, too, when they have passed the request on. */
bool gs_kube_answer_did_nothing(const struct gs_kube_answer *a)
{
    int status = a->result.status, rc = a->result.rc;

    if (status == 503)
        return a->says_retry;
    if (status != 0)
        return status >= 400 && status < 500 && status != 408;
    return a->is_unsent || rc == -ECONNREFUSED || rc == -EHOSTUNREACH;
}

bool gs_kube_answer_is_passing(const struct gs_kube_answer *a, bool is_idempotent)
{
    if (!is_idempotent && !gs_kube_answer_did_nothing(a))
        return false;
    switch (a->result.status) {
    case 429:
        return is_idempotent || a->says_retry;
    case 503:
        return is_idempotent || a->says_retry;
    case 500:
    case 502:
    case 504:
        return is_idempotent;
    default:
        break;
    }
    switch (a->result.rc) {
    case -ECONNREFUSED:
    case -EHOSTUNREACH:
        return true; /* nothing was sent */
    case -ETIMEDOUT:
    case -ECONNRESET:
    case -EPROTO:
    case -EIO:
        return is_idempotent && a->result.status < 400;
    default:
        return false;
    }
}
