#pragma once
/* One Ascend chip of the configuration and the two ways of sharing it: fixed templates that the
 * driver cuts (hard), or memory and cores as asked that a library holds (soft, "hami-core"). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/policy.h"

struct gs_vnpu_template {
    struct gs_str name;
    int32_t mem_mib, ai_core, ai_cpu;
};

struct gs_vnpu_fleet {
    const struct gs_str *count; /**< [n] count resources of all configured chips */
    size_t n;
};

/** gs_policy.conf. */
struct gs_vnpu_chip {
    struct gs_str runtime_class;    /**< for pods that name none; empty: leave it */
    int32_t allocatable, capacity;  /**< MiB: what a card offers; what counts as a whole card */
    int32_t ai_core, ai_cpu;        /**< of a card */
    struct gs_vnpu_template *templ; /**< [n_templ], ascending memory */
    size_t n_templ;
    bool is_super_pod;   /**< dies come in pairs: cards are asked for by twos */
    bool overwrites_env; /**< hide the NPUs from containers that ask for none */
    bool is_soft;        /**< nodes are in soft mode unless their annotation says otherwise */
    bool mixes_on_soft;  /**< templates may go to nodes in soft mode */
    const struct gs_vnpu_fleet *fleet;
};

/** Size of the slice that holds `mem_mib`: the smallest template, or a whole card (*ret_templ
 *  NULL).
 *  Returns  MiB, or -ERANGE where even a whole card is too small. */
GS_WUR int32_t gs_vnpu_trim(const struct gs_vnpu_chip *chip, int64_t mem_mib,
                            const struct gs_vnpu_template **ret_templ);
/** Does the pod want soft mode (huawei.com/vnpu-mode: hami-core)? */
bool gs_vnpu_is_soft(const struct gs_pod *pod);
/** The mode is one that we know: none, or hami-core. 0 or -EINVAL with a text for the user. */
GS_WUR int gs_vnpu_check_mode(const struct gs_pod *pod, struct gs_err *err);

/* Entries of gs_policy_ops, as said there. gs_wish.own: NULL where the pod is to be held by
 * templates, else it wants a soft split. */
int gs_vnpu_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                  struct gs_err *err);
int gs_vnpu_wish(const struct gs_policy *policy, const struct gs_pod *pod, struct gs_arena *arena,
                 const void **ret);
int gs_vnpu_read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                        struct gs_device *dev, struct gs_err *err);
int gs_vnpu_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                      struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                      struct gs_err *err);
int gs_vnpu_fit(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick);
double gs_vnpu_score(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread);
int gs_vnpu_annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                     struct gs_arena *arena, struct gs_pairs *ret);
