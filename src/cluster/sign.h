#pragma once
/* Signed grants: a tenant can walk round the webhook and write what he likes into his own pod, so
 * what a pod was given counts only with the signature of somebody who has the key (the scheduler
 * writes it in the Binding; node and books check it). Format: docs/protocol/grant.md.
 *
 * Threads  the loop's. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/view.h"
#include "model/pod.h"

struct gs_sign;

/** Keys from a file: one a line, of 16 to 1024 bytes, at most 8; the first signs, all are believed
 *  (so that a new one can be brought in: add it as the second everywhere, make it the first, drop
 *  the old one when no pod is left that was signed by it).
 *  @takes_unsigned  believe grants without a signature (HAMi's scheduler writes such).
 *  Returns  0; -EINVAL no key, or a short one; -E2BIG; -ENOMEM; of open and read. */
GS_WUR int gs_sign_new(const char *path, bool takes_unsigned, struct gs_sign **ret,
                       struct gs_err *err);
struct gs_sign *gs_sign_free(struct gs_sign *sign);
/** Read the file again if it has changed; what cannot be read leaves the keys as they were. True:
 *  there are others now. */
bool gs_sign_look(struct gs_sign *sign);

/** Add the signature to the annotations of a Binding that carries a grant. 0; -EIO; -ENOMEM. */
GS_WUR int gs_sign_seal(struct gs_sign *sign, struct gs_str uid, struct gs_str node,
                        struct gs_arena *arena, struct gs_pairs *annotations);
/** Is the grant of this bound pod signed by one of the keys? */
bool gs_sign_trusts(struct gs_sign *sign, const struct gs_kube_pod *pod);
/** Of a pod that is trusted: is this annotation one of those signed? What its owner wrote beside
 *  them counts for nothing. */
bool gs_sign_counts(const struct gs_sign *sign, const struct gs_kube_pod *pod, struct gs_str key);
