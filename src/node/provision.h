#pragma once
/* Slots whose containers are found out late: Allocate promises a CDI device of a name that is
 * never used again, PreStartContainer fulfils it.
 *
 * The kubelet's checkpoint says which containers hold the ids of a PreStartContainer; all of them
 * are provided for (init and app containers of a pod may share ids, each has an answer of its own),
 * so that nothing is guessed. What they were granted the watch shows (node/grants.h); where it is
 * behind, it is waited for, since an error costs ten seconds of the kubelet's.
 * No state of its own: everything is made again from checkpoint and watch.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "node/kit.h"
#include "node/kubelet_pb.h"

struct gs_edits;
struct gs_grants;
struct gs_grants_pod;
struct gs_loop;
struct gs_provision;
struct gs_provision_op;
struct gs_folders;

struct gs_provision_opt {
    struct gs_loop *loop;
    struct gs_grants *grants;
    struct gs_folders *folders;
    const struct gs_kit *kit; /**< borrowed; may change between calls */
    struct gs_str resource;
    int checkpoint_dir; /**< folder of the kubelet's checkpoint */
    int cdi_dir;        /**< folder of CDI specs; -1: none, nothing is promised */
    uint32_t wait_ms;   /**< for the watch */
    /** A container of this pod is about to start, its slot is ready. */
    void (*ready)(void *arg, const struct gs_grants_pod *pod);
    void *arg;
};

GS_WUR int gs_provision_new(const struct gs_provision_opt *opt, struct gs_provision **ret);
/** What still waits is ended by its callback, -ECANCELED. */
struct gs_provision *gs_provision_free(struct gs_provision *provision);

/** Allocate: what a container with these ids gets before anybody knows whose it is. 0; -EINVAL no
 *  ids; -ENOMEM. */
GS_WUR int gs_provision_promise(struct gs_provision *provision, const struct gs_kubelet_texts *ids,
                                struct gs_edits *edits, struct gs_err *err);

#define GS_PROVISION_LATER 1
typedef void gs_provision_fn(void *arg, int rc, const struct gs_err *err);
/** PreStartContainer.
 *  Returns  0 done; GS_PROVISION_LATER: fn comes, once, from the loop; -ENOENT the checkpoint has
 *           no container with these ids; as gs_grants_slot(), gs_folders_make(), gs_cdi_write(). */
GS_WUR int gs_provision_begin(struct gs_provision *provision, const struct gs_kubelet_texts *ids,
                              gs_provision_fn *fn, void *arg, struct gs_provision_op **ret_op,
                              struct gs_err *err);
/** fn will not come. */
void gs_provision_cancel(struct gs_provision_op *op);

/** The watch has shown or changed a pod: those that wait for it are tried again. */
void gs_provision_saw(struct gs_provision *provision, const struct gs_grants_pod *pod);
/** Make what is missing for all containers of the checkpoint, and remove what belongs to none of
 *  it: after the first list, and now and then. Nothing is done before the list is
 *  complete and the cards are known. */
void gs_provision_tidy(struct gs_provision *provision);

struct gs_provision_stats {
    uint64_t promised, begun, waited, failed, restored;
    size_t waiting;
};
void gs_provision_stats(const struct gs_provision *provision, struct gs_provision_stats *ret);

/** A container that is provided for. */
struct gs_provision_for {
    const struct gs_kit *kit;
    struct gs_folders *folders;
    const struct gs_grants_pod *pod;
    struct gs_str container;
    bool begins; /**< it is about to start: its ledger is made anew */
};
/** Its folders and limits are made, and what it gets is put into `edits`: for whoever answers in
 *  another way, too. As gs_provision_begin(). */
GS_WUR int gs_provision_container(const struct gs_provision_for *what, struct gs_edits *edits,
                                  struct gs_err *err);
