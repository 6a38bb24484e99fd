#pragma once
/* The mutating webhook: which pods are ours, what is filled in, what is refused. AdmissionReview
 * in, AdmissionReview out, in the version that came. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_admit_conf {
    struct gs_str scheduler_name; /**< given to pods of ours; empty: left alone */
    bool overwrites_default;      /**< also where schedulerName is default-scheduler */
};

enum gs_admit_outcome {
    GS_ADMIT_NOT_OURS, /**< asks for nothing of ours, or belongs to another scheduler */
    GS_ADMIT_OURS,
    GS_ADMIT_REFUSED,
    GS_ADMIT_ERROR, /**< the review could not be read */
    GS_ADMIT_OUTCOME_COUNT,
};

enum gs_admit_why {
    GS_ADMIT_WHY_NONE,
    GS_ADMIT_WHY_REVIEW, /**< unreadable */
    GS_ADMIT_WHY_NO_CONTAINERS,
    GS_ADMIT_WHY_GRANTS, /**< more written by hand than anybody does by mistake */
    GS_ADMIT_WHY_VENDOR, /**< a vendor's rule on what is asked for */
    GS_ADMIT_WHY_PRIVILEGED,
    GS_ADMIT_WHY_NODE_ASSIGNED,
    GS_ADMIT_WHY_QUOTA,
    GS_ADMIT_WHY_ANNOTATIONS, /**< no room for a grant in them */
    GS_ADMIT_WHY_COUNT,
};

/** An answer, and what happened. */
struct gs_admit_reply {
    char *json; /**< from malloc() */
    size_t n;
    enum gs_admit_outcome outcome;
    enum gs_admit_why why; /**< of a refusal or an error */
    bool stripped;         /**< grants written by hand were taken out */
};

/** Beyond this many bytes a review is none of an API server's. */
#define GS_ADMIT_REVIEW_MAX ((size_t)7 << 20)

/** POST /webhook. Reviews of anything but new pods pass unchanged. Looks at quotas in the books,
 *  changes nothing there. There is an answer also for refusals and errors.
 *  Returns  0, or -ENOMEM: no answer at all. */
GS_WUR int gs_admit(const struct gs_admit_conf *conf, struct gs_books *books, struct gs_str body,
                    struct gs_arena *arena, struct gs_admit_reply *ret);
/** The same where there is no review to read: "contentType=..., expected application/json". */
GS_WUR int gs_admit_error(const char *text, int code, struct gs_admit_reply *ret);
/** Is this the Content-Type of a review, whatever its parameters? */
bool gs_admit_is_json(struct gs_str type);
