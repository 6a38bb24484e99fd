#pragma once
/* Typed views of API objects over a JSON document: the fields that the control plane looks at.
 *
 * Text is borrowed from the document, arrays live in the caller's arena; a view is valid while both
 * are. Null and missing leave a field at its zero (empty text, 0, false, n = 0), as the API's own
 * decoder does; a field of a wrong type makes the whole read fail with -EINVAL, and err names it
 * ("spec.containers[2].env: not a list"). Counts are limited. Quantities stay text. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct yyjson_val;

/** More entries than this in any one list or map: -E2BIG. */
#define GS_KUBE_VIEW_MAX 65536
/** No time given. */
#define GS_KUBE_NO_TIME INT64_MIN

struct gs_kube_pair {
    struct gs_str key, value;
};

/** A map of text to text, in document order. */
struct gs_kube_pairs {
    struct gs_kube_pair *at;
    size_t n;
};

struct gs_kube_owner {
    struct gs_str api_version, kind, name, uid;
    bool is_controller;
};

struct gs_kube_meta {
    struct gs_str ns, name, uid, resource_version, generate_name;
    struct gs_kube_pairs labels, annotations;
    struct gs_kube_owner *owner;
    size_t n_owners;
    int64_t created_us;  /**< GS_KUBE_NO_TIME where not given */
    int64_t deletion_us; /**< when the object is to be gone; GS_KUBE_NO_TIME: not being deleted */
    int64_t deletion_grace_s; /**< -1 where not given */
};

struct gs_kube_env {
    struct gs_str name, value;
    bool is_ref; /**< has valueFrom: value is not known here */
};

struct gs_kube_container {
    struct gs_str name, image;
    struct gs_kube_pairs limits, requests; /**< value = quantity's text ("1k", "16Gi") */
    struct gs_kube_env *env;               /**< in document order; the last of a name counts */
    size_t n_env;
    bool is_privileged;
    bool is_init;
    bool is_sidecar; /**< init container with restartPolicy Always */
};

enum gs_kube_state {
    GS_KUBE_STATE_NONE, /**< the status says nothing (the API reads that as waiting) */
    GS_KUBE_STATE_WAITING,
    GS_KUBE_STATE_RUNNING,
    GS_KUBE_STATE_TERMINATED,
};

struct gs_kube_container_status {
    struct gs_str name, container_id;
    enum gs_kube_state state;
    struct gs_str reason; /**< of waiting or terminated */
    int32_t exit_code;    /**< while terminated */
    int32_t restarts;
    bool is_ready;
    bool is_started; /**< of a sidecar: its start-up probe passed */
};

struct gs_kube_condition {
    struct gs_str type, status, reason, message; /**< status is "True", "False" or "Unknown" */
    int64_t transition_us;                       /**< or GS_KUBE_NO_TIME */
};

enum gs_kube_phase {
    GS_KUBE_PHASE_NONE, /**< not given or not known: counts as alive */
    GS_KUBE_PHASE_PENDING,
    GS_KUBE_PHASE_RUNNING,
    GS_KUBE_PHASE_SUCCEEDED,
    GS_KUBE_PHASE_FAILED,
};

struct gs_kube_pod {
    struct gs_kube_meta meta;
    struct gs_str node_name, scheduler_name, runtime_class;
    struct gs_str priority_class, preemption_policy; /**< "", "PreemptLowerPriority" or "Never" */
    struct gs_str pod_group;                         /**< spec.schedulingGroup.podGroupName */
    int32_t priority;                                /**< 0 where not given */
    bool has_priority;
    bool is_host_network;
    size_t n_gates;  /**< schedulingGates: while any, the pod may not be scheduled */
    int64_t grace_s; /**< terminationGracePeriodSeconds; -1 where not given */
    struct gs_kube_container *container; /**< init containers first, then app containers */
    size_t n_containers, n_init;
    enum gs_kube_phase phase;
    struct gs_str nominated_node, status_reason;
    int64_t start_us; /**< status.startTime: the kubelet took it up; GS_KUBE_NO_TIME: not yet */
    struct gs_kube_condition *condition;
    size_t n_conditions;
    struct gs_kube_container_status *init_status, *status; /**< of init and of app containers */
    size_t n_init_status, n_status;
};

struct gs_kube_node {
    struct gs_kube_meta meta;
    struct gs_kube_pairs capacity, allocatable;
    struct gs_kube_condition *condition;
    size_t n_conditions;
    bool is_unschedulable;
};

enum gs_kube_selector_op {
    GS_KUBE_IN,
    GS_KUBE_NOT_IN,
    GS_KUBE_EXISTS,
    GS_KUBE_NOT_EXISTS,
};

struct gs_kube_selector_term {
    struct gs_str key;
    enum gs_kube_selector_op op;
    struct gs_str *value;
    size_t n_values;
};

/** metav1.LabelSelector: all terms must hold. */
struct gs_kube_selector {
    struct gs_kube_selector_term *term; /**< matchLabels first */
    size_t n;
    bool is_given; /**< null or missing selects nothing, an empty one everything */
};

struct gs_kube_quota {
    struct gs_kube_meta meta;
    struct gs_kube_pairs hard; /**< spec.hard */
    struct gs_kube_pairs used; /**< status.used */
    size_t n_scopes;           /**< scopes and scopeSelector terms: does not count every pod */
};

struct gs_kube_pdb {
    struct gs_kube_meta meta;
    struct gs_kube_selector selector;
    int32_t disruptions_allowed;
    struct gs_str *disrupted; /**< names of pods whose eviction is under way and already counted */
    size_t n_disrupted;
};

struct gs_kube_lease_view {
    struct gs_kube_meta meta;
    struct gs_str holder; /**< empty: nobody */
    int32_t duration_s;   /**< 0 where not given */
    int32_t transitions;
    int64_t renew_us, acquire_us; /**< or GS_KUBE_NO_TIME */
};

/** Read one object. `val` is the object itself (not a list or a watch frame).
 *  Returns  0; -EINVAL wrong type, or no name where one is needed; -E2BIG too many entries;
 *           -ENOMEM. On failure the view is unspecified but refers to nothing that was freed.
 *  Threads  pure. */
GS_WUR int gs_kube_view_meta(struct yyjson_val *val, struct gs_arena *arena,
                             struct gs_kube_meta *ret, struct gs_err *err);
/** A pod without a name is taken where it has generateName (as webhooks see it). */
GS_WUR int gs_kube_view_pod(struct yyjson_val *val, struct gs_arena *arena, struct gs_kube_pod *ret,
                            struct gs_err *err);
GS_WUR int gs_kube_view_node(struct yyjson_val *val, struct gs_arena *arena,
                             struct gs_kube_node *ret, struct gs_err *err);
GS_WUR int gs_kube_view_quota(struct yyjson_val *val, struct gs_arena *arena,
                              struct gs_kube_quota *ret, struct gs_err *err);
GS_WUR int gs_kube_view_pdb(struct yyjson_val *val, struct gs_arena *arena, struct gs_kube_pdb *ret,
                            struct gs_err *err);
GS_WUR int gs_kube_view_lease(struct yyjson_val *val, struct gs_arena *arena,
                              struct gs_kube_lease_view *ret, struct gs_err *err);

/** Value of the last pair of that key; NULL where there is none. */
const struct gs_str *gs_kube_pairs_find(const struct gs_kube_pairs *pairs, struct gs_str key);
/** NULL where there is no condition of that type. */
const struct gs_kube_condition *gs_kube_condition_find(const struct gs_kube_condition *condition,
                                                       size_t n, struct gs_str type);
/** Does the selector pick an object of these labels? Source: apimachinery LabelSelectorAsSelector.
 */
bool gs_kube_selector_matches(const struct gs_kube_selector *selector,
                              const struct gs_kube_pairs *labels);
