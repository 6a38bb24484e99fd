#pragma once
/* What an administrator has set for the device plugin of one node: the section `nvidia` of HAMi's
 * device configuration, and over it what the node configuration says of this node. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

#define GS_NVIDIA_NODE_CONFIG_MAX (1u << 20)

enum gs_nvidia_mig_strategy {
    GS_NVIDIA_MIG_NONE,   /**< cards as they are */
    GS_NVIDIA_MIG_SINGLE, /**< MIG devices under the name of cards: all of one profile */
    GS_NVIDIA_MIG_MIXED,  /**< MIG devices under names of their own */
};

/** With the chart's defaults filled in. Texts in the arena or static. */
struct gs_nvidia_settings {
    struct gs_str resource;   /**< of cards: nvidia.com/gpu */
    struct gs_str mode;       /**< operatingmode: hami-core, mps */
    struct gs_str log_level;  /**< LIBCUDA_LOG_LEVEL */
    int32_t split_count;      /**< shares of a card; 1 .. INT16_MAX */
    double mem_scaling;       /**< of what is registered; above 0 */
    double core_scaling;      /**< likewise */
    int32_t preset_mem_mib;   /**< of cards that do not say; 0: they are left out */
    bool enables_numa;        /**< NUMA nodes are told to the kubelet */
    bool disables_core_limit; /**< compute is not held */
    bool prefers;             /**< enablegetpreferredallocation */
    enum gs_nvidia_mig_strategy strategy;
    const char *const *drop_uuid; /**< filterdevices */
    size_t n_drop_uuids;
    const uint32_t *drop_index;
    size_t n_drop_indexes;
};

/** What is read. p == NULL: there is no such file. */
struct gs_nvidia_settings_from {
    struct gs_str device_config; /**< YAML */
    struct gs_str node_config;   /**< JSON */
    struct gs_str node;          /**< name; entries of others are passed over */
    /** Hears why the node configuration does not hold; may be NULL. */
    void (*tell)(void *user, const char *text);
    void *user;
};

/** Read both. Keys of the JSON match in any case; an entry's empty texts, zeros and `false`
 * override nothing; a later entry of this node overrides an earlier one. A node configuration that
 * is broken anywhere is told, and none of it holds, as in HAMi.
 *  Returns  0; -EINVAL the device configuration is wrong (err names cause and line), or it has no
 *           section `nvidia`; -ENOMEM. */
GS_WUR int gs_nvidia_settings_read(const struct gs_nvidia_settings_from *from,
                                   struct gs_arena *arena, struct gs_nvidia_settings *ret,
                                   struct gs_err *err);
