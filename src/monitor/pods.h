#pragma once
/* The pods of this node as the API has them, as far as a monitor looks at them: who is in them,
 * what each container was granted, and how it asked to be held. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_kube_pod;

/** Annotations of one vendor's grants. */
struct gs_pods_keys {
    struct gs_str allocated;  /**< what each container got */
    struct gs_str placements; /**< where inside its cards; empty: none has them */
};

struct gs_pods_device {
    struct gs_str uuid; /**< of the card */
    uint64_t mem_bytes; /**< 0: all of it */
    uint32_t core_pct;  /**< 0: none asked */
    bool is_part;       /**< a hardware partition of the card (MIG) */
};

enum gs_pods_state {
    GS_PODS_WAITING, /**< not begun, or nothing said */
    GS_PODS_RUNNING,
    GS_PODS_ENDED,
};

struct gs_pods_container {
    struct gs_str name;
    struct gs_str id; /**< as the runtime has it, without "containerd://"; empty: none yet */
    enum gs_pods_state state;
    struct gs_pods_device *device; /**< by their places in the grant */
    size_t n_devices;
    uint32_t policy;   /**< enum gs_policy */
    uint32_t priority; /**< enum gs_priority */
    bool is_oversubscribed;
    bool is_uncontrolled; /**< CUDA_DISABLE_CONTROL: no hook is put into it */
};

/** A realised partition of a card. */
struct gs_pods_part {
    size_t container;
    uint32_t device; /**< place in the container's grant */
    struct gs_str uuid, card, profile;
    uint32_t gpu_instance, compute_instance;
};

struct gs_pods_pod {
    struct gs_arena arena;
    struct gs_str uid, ns, name;
    bool is_over; /**< succeeded or failed: its containers are gone */
    struct gs_pods_container *container;
    size_t n_containers;
    struct gs_pods_part *part;
    size_t n_parts;
};

struct gs_pods {
    const struct gs_pods_keys *keys;
    size_t n_keys;
    struct gs_map map; /**< struct gs_pods_pod by UID */
};

/** @keys  borrowed for the life of the set. */
void gs_pods_init(struct gs_pods *pods, const struct gs_pods_keys *keys, size_t n_keys);
void gs_pods_fini(struct gs_pods *pods);
/** New, or as it is now. A grant that cannot be read is none, and `err` says why.
 *  Returns  0; -EINVAL the pod is known, but its grant is not; -ENOMEM: as it was before. */
GS_WUR int gs_pods_set(struct gs_pods *pods, const struct gs_kube_pod *pod, struct gs_err *err);
void gs_pods_gone(struct gs_pods *pods, struct gs_str uid);
/** NULL: not one of this node's. */
const struct gs_pods_pod *gs_pods_find(const struct gs_pods *pods, struct gs_str uid);
const struct gs_pods_container *gs_pods_find_container(const struct gs_pods_pod *pod,
                                                       struct gs_str name);
/** By the runtime's id. */
const struct gs_pods_container *gs_pods_find_id(const struct gs_pods_pod *pod, struct gs_str id);
