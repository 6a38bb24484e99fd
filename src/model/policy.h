#pragma once
/* The seam between decisions and vendors: one struct gs_policy per vendor word (Ascend and Iluvatar
 * have one per chip of the configuration). All functions are pure: they look at their arguments,
 * allocate from the arena they are given, and return. NULL in the table means the usual rule. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "model/device.h"
#include "model/pod.h"
#include "model/register.h"

struct cyaml_schema_value;
struct gs_fit;
struct gs_fit_rules;
struct gs_node_view;
struct gs_request;
struct gs_wish;

/** Resource names; empty: not used. */
struct gs_names {
    struct gs_str count, mem, mem_pct, core, priority;
    struct gs_str count2, mem2,
        core2; /**< second spelling read as the first (MLU); both in one container: refused */
};

/** Annotation keys; empty: none. */
struct gs_keys {
    struct gs_str to_allocate, allocated; /**< of pods */
    struct gs_str placements; /**< of pods: where inside its devices a grant lies (MIG) */
    struct gs_str node_register, handshake;                   /**< of nodes */
    struct gs_str use_uuid, nouse_uuid, use_type, nouse_type; /**< of pods */
    struct gs_str use_uuid2, nouse_uuid2;                     /**< second keys; both hold */
    struct gs_str numa_bind, link_bind; /**< of pods: all cards of a container on one NUMA node,
                                           linked to each other */
    struct gs_str
        lock;        /**< node lock taken at bind where no plugin of ours is there; empty: none */
    const char *own; /**< of pods: what a plugin believes beside the above (annotate() writes it, or
                        the plugin itself), parted by blanks; NULL: nothing */
};

/** One pod on one node, decided: what annotate() writes down. */
struct gs_assignment {
    const struct gs_pod *pod;
    const struct gs_node *node;
    const struct gs_group *group; /**< of this vendor on the node */
    const struct gs_wish *wish;
    const struct gs_pick *const
        *pick;                        /**< [n_containers]: picks of this vendor in that container */
    const size_t *n_picks;            /**< [n_containers] */
    const struct gs_request *request; /**< [n_containers] */
    int64_t now_s, now_ns;            /**< Unix time of the decision (ns: the whole of it) */
};

struct gs_policy_ops {
    /** Look at one container at admission; wish for changes by gs_pod_edit().
     *  Returns 1 it asks for this vendor, 0 it does not, -EINVAL refused (err: text for the user).
     */
    int (*admit)(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err);
    /** What the container asks for; nums = 0 where nothing or where HAMi drops it. */
    void (*request)(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                    struct gs_request *ret);
    /** Read once per pod what the pod's annotations say to this vendor alone (vgpu-mode, QoS, soft
     *  split) into *ret, in the arena: gs_wish.own. Called only for pods that ask for the vendor.
     *  NULL: nothing. 0 or -ENOMEM. */
    int (*wish)(const struct gs_policy *policy, const struct gs_pod *pod, struct gs_arena *arena,
                const void **ret);
    /** Devices of a node. 0 and *ret filled (n = 0: none); -EINVAL: unreadable, keep what was
     *  known; -ENOENT: this vendor says nothing about the node. Sets ret_dev/ret->n/ret->facts, not
     *  first. Asked by gs_node_read(). */
    int (*read_node)(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err);
    /** Read what is the vendor's own in one JSON element of keys.node_register
     *  (gs_usual_read_register() asks, `user` is NULL). NULL: nothing. */
    gs_register_more read_device;
    /** Choose devices for one container: ret_pick has room for fit->request->nums (at least 1).
     *  Returns the number chosen (AWS and others may choose other than nums), or -ENOSPC with
     *  fit->reasons filled. Does not book. NULL: gs_fit_walk() with fit rules of the vendor. */
    int (*fit)(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick);
    /** The shared walk's questions; see gs_fit_walk(). NULL: the usual. */
    const struct gs_fit_rules *rules;
    /** Add a pick to a device's use. NULL: slots + 1, memory and cores added. Must come to the
     *  same when the books ask again about the grant that was written from the pick. */
    void (*book)(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use,
                 const struct gs_pick *pick);
    /** All holders of a device have been added up: close it where books and registration do not
     *  agree (MIG grants on a card that is in another mode). NULL: never. */
    void (*audit)(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use);
    /** Added to the node's score, for the pod as a whole. NULL: 0. */
    double (*score)(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread);
    /** Annotations beside the two grant texts. NULL: none. 0 or -ENOMEM. */
    int (*annotate)(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret);
    /** Vendor's note on a pod that holds devices (gs_tenant.tag). NULL: 0. */
    uint32_t (*tag)(const struct gs_policy *policy, const struct gs_pod *pod);
};

struct gs_policy {
    const char *word; /**< "NVIDIA", "MLU", "Ascend910B3": in grants, quota and metrics */
    const struct gs_policy_ops *ops;
    struct gs_names names;
    struct gs_keys keys;
    int32_t mem_factor;    /**< MiB of one unit of the memory resource; 1 where the unit is MiB */
    int32_t default_cores; /**< where a request names none */
    int32_t quota_factor;  /**< of limits.<memory resource> in a ResourceQuota */
    bool has_core_units; /**< cores are the vendor's units of a card (compute units), not percent */
    bool writes_own_type; /**< grants carry the device's type in place of the word (AMD, MetaX sGPU)
                           */
    bool has_global_ids;  /**< device ids are the hardware's own: two nodes that register one id
                             claim  the same device. Else an id means something on its node alone */
    bool is_exclusive_at_100; /**< a request of 100 cores wants a card that nobody uses */
    const void *conf;         /**< vendor's own, in the arena of the configuration */
};

struct gs_policies {
    const struct gs_policy **at; /**< in the fixed order of the table of vendors */
    size_t n, cap;
};

/** What `conf` points to where a section's schema is a sequence: its entries, each of the schema's
 *  entry type. */
struct gs_policy_list {
    const void *at;
    size_t n;
};

/** How a vendor is configured: one section of HAMi's device configuration. */
struct gs_policy_section {
    const char *key;                         /**< "nvidia", "vnpus" */
    const struct cyaml_schema_value *schema; /**< a mapping: of a pointer to the vendor's conf
                                                struct; a sequence: of a pointer to its entries */
    const struct cyaml_schema_value *older;  /**< another accepted shape; NULL: none */
    /** Add the policies of this section. `conf`: what the schema loads (a sequence: struct
     *  gs_policy_list), borrowed for the call; NULL: none given, use the chart's defaults.
     *  `is_older`: conf is of the older shape. 0, -ENOMEM, or -EINVAL with err. */
    int (*make)(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err);
    const char *opt_in; /**< "ascend": only with the flag --enable-ascend, as HAMi has it for Ascend
                           and Iluvatar; NULL: always */
};

/** Append in the arena. 0 or -ENOMEM. */
int gs_policies_add(struct gs_policies *all, struct gs_arena *arena,
                    const struct gs_policy *policy);
/** By word; NULL: none. */
const struct gs_policy *gs_policies_find(const struct gs_policies *all, struct gs_str word);
