#pragma once
/* Allocate as HAMi has it, for nodes without CDI and schedulers that speak its lock: the pod is the
 * one that the node's lock names, else the pending one that was bound first; each container takes
 * the next slot that was not handed out; the answer has everything in it. bind-phase and lock are
 * set and given back on every path.
 *
 * One at a time: each takes its slot off the pod's annotation before the next one looks.
 *
 * Threads  the loop's. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"
#include "node/kit.h"
#include "node/kubelet_pb.h"

struct gs_edits;
struct gs_grants;
struct gs_handout;
struct gs_handout_op;
struct gs_folders;

struct gs_handout_opt {
    struct gs_kube_client *client;
    struct gs_grants *grants;
    struct gs_folders *folders;
    const struct gs_kit *kit;
    struct gs_str node;
    int64_t lock_timeout_ms; /**< a lock older than this is nobody's */
};

GS_WUR int gs_handout_new(const struct gs_handout_opt *opt, struct gs_handout **ret);
/** Those that wait are ended by their callback, -ECANCELED. */
struct gs_handout *gs_handout_free(struct gs_handout *handout);

/** @edits  one for each container, valid during the call; NULL where rc is negative. */
typedef void gs_handout_fn(void *arg, int rc, const struct gs_edits *edits, size_t n,
                           const struct gs_err *err);
/** What is asked: the ids of each container, and who is told. */
struct gs_handout_want {
    const struct gs_kubelet_texts *ids;
    size_t n;
    gs_handout_fn *fn; /**< comes once, from the loop, not before gs_handout_begin() returned */
    void *arg;
};
/** 0; -EINVAL no container, or one without ids; -ENOMEM. */
GS_WUR int gs_handout_begin(struct gs_handout *handout, const struct gs_handout_want *want,
                            struct gs_handout_op **ret_op, struct gs_err *err);
/** fn will not come; what was begun is ended all the same. */
void gs_handout_cancel(struct gs_handout_op *op);

struct gs_handout_stats {
    uint64_t begun, failed;
    size_t waiting;
};
void gs_handout_stats(const struct gs_handout *handout, struct gs_handout_stats *ret);
