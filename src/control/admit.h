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
};

struct gs_admit_note {
    enum gs_admit_outcome outcome;
    bool stripped; /**< grants written by hand were taken out */
};

/** POST /webhook. Looks at quotas in the books, changes nothing there. ret_reply: JSON from
 * malloc(), also for refusals and errors. Returns 0, or -ENOMEM where there is no reply at all. */
GS_WUR int gs_admit(const struct gs_admit_conf *conf, struct gs_books *books, struct gs_str body,
                    struct gs_arena *arena, char **ret_reply, size_t *ret_n,
                    struct gs_admit_note *ret_note);
/** The same answer where there is no review to read: "contentType=..., expected application/json".
 */
GS_WUR int gs_admit_error(const char *text, int code, char **ret_reply, size_t *ret_n);
