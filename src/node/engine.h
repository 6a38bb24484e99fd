#pragma once
/* The device plugin of one resource: what the kubelet calls, answered by whoever knows.
 *
 *   ListAndWatch             node/shares.h of the cards that were set
 *   GetPreferredAllocation   the ids that name the cards which the pod that is probably meant was
 *                            granted; a guess, for those who read ids; nothing depends on it
 *   Allocate                 by how the plugin finds whose call it is: a promise
 *                            (node/provision.h), all at once (node/handout.h), or, for parts of
 *                            cards that are given out whole, by the ids alone
 *   PreStartContainer        node/provision.h
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "node/kit.h"
#include "node/kubelet.h"
#include "node/shares.h"

struct gs_engine;
struct gs_grants;
struct gs_grpc;
struct gs_handout;
struct gs_loop;
struct gs_provision;

/** How an Allocate is known to be whose. */
enum gs_identity {
    GS_IDENTITY_PRESTART, /**< not at all: PreStartContainer finds out */
    GS_IDENTITY_ALLOCATE, /**< by HAMi's lock */
    GS_IDENTITY_PARTS,    /**< nobody's: the ids are all there is to know */
};

struct gs_engine_opt {
    struct gs_loop *loop;
    struct gs_grpc *grpc;
    const char *folder;         /**< of the kubelet's and our sockets */
    const char *kubelet_socket; /**< absolute */
    const char *endpoint;       /**< our socket's file name */
    const char *resource;
    enum gs_identity identity;
    bool prefers;
    const struct gs_kit *kit;
    struct gs_grants *grants;
    struct gs_provision *provision; /**< with GS_IDENTITY_PRESTART */
    struct gs_handout *handout;     /**< with GS_IDENTITY_ALLOCATE */
};

/** Serve and register. The first list has to be set before (gs_engine_set_cards()), or the kubelet
 *  waits for it. Texts are borrowed. */
GS_WUR int gs_engine_new(const struct gs_engine_opt *opt, struct gs_engine **ret,
                         struct gs_err *err);
/** Calls that wait are dropped. */
struct gs_engine *gs_engine_free(struct gs_engine *engine);
/** Finish what runs, then `done(arg)`. */
void gs_engine_stop(struct gs_engine *engine, unsigned grace_ms, void (*done)(void *arg),
                    void *arg);

/** What the kubelet is to be told; nothing is sent where it is as before. 0; -E2BIG; -ENOMEM. */
GS_WUR int gs_engine_set_cards(struct gs_engine *engine, const struct gs_shares_card *card,
                               size_t n, struct gs_err *err);
/** A pod is gone: what was guessed for it is forgotten. */
void gs_engine_gone(struct gs_engine *engine, struct gs_str uid);

#define GS_ENGINE_BINS 12
/** Upper bounds of the bins in seconds; the last one has none. */
extern const double gs_engine_bin_s[GS_ENGINE_BINS - 1];

struct gs_engine_call_stats {
    uint64_t calls, failed;
    uint64_t bin[GS_ENGINE_BINS]; /**< by how long the answer took */
    double sum_s;
};

struct gs_engine_stats {
    struct gs_engine_call_stats allocate, prestart, prefer;
    size_t list_bytes, devices, healthy; /**< of the newest list */
    struct gs_kubelet_state kubelet;
};
void gs_engine_stats(const struct gs_engine *engine, struct gs_engine_stats *ret);
