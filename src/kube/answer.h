#pragma once
/* What an HTTP answer means. Inside the room only. */

#include "base/err.h"
#include "core/cleanup.h"
#include "kube/request.h"

struct gs_http_answer;
struct yyjson_doc;

/** A result that owns its document and its words. */
struct gs_kube_answer {
    struct gs_kube_result result; /**< err points into this */
    struct gs_err err;
    struct yyjson_doc *doc;
    bool says_retry; /**< the answer had a Retry-After */
    bool is_unsent;  /**< nothing of the request's body was sent */
};

/** Read an answer. Borrows its text: valid while that is.
 *  @wants_json  a 2xx answer that is no JSON is -EBADMSG. */
void gs_kube_answer_read(struct gs_kube_answer *a, const struct gs_http_answer *http,
                         size_t max_body, bool wants_json);
/** One that no server gave. */
void gs_kube_answer_fail(struct gs_kube_answer *a, int rc, const char *why);
void gs_kube_answer_fini(struct gs_kube_answer *a);

/** May the same be tried again: the server did nothing, or doing it twice is as once? */
bool gs_kube_answer_is_passing(const struct gs_kube_answer *a, bool is_idempotent);
/** Is it certain that this one try, whose request was sent once at most, did nothing? */
bool gs_kube_answer_did_nothing(const struct gs_kube_answer *a);
