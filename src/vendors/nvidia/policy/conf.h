#pragma once
/* The section `nvidia` of HAMi's device configuration: what the file has, and what we keep of it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct cyaml_schema_value;

/** As the file has it: NULL where a key is missing. */
struct gs_nvidia_yaml_allow {
    char **model, **profile;
    uint32_t n_models, n_profiles;
};

struct gs_nvidia_yaml {
    char *count, *mem, *mem_pct, *core, *priority;
    int *overwrite_env, *disable_core_limit, *enable_numa;
    int32_t *default_mem, *default_cores, *default_count, *mem_factor, *preset_mem;
    struct gs_nvidia_yaml_allow *allow;
    uint32_t n_allow;
    char *core_policy, *runtime_class, *log_level;
    uint32_t *split_count;
    double *mem_scaling, *core_scaling;
};

extern const struct cyaml_schema_value gs_nvidia_schema;

/** MIG profiles that may be made on cards whose model has one of these words in it. */
struct gs_nvidia_allow {
    const struct gs_str *model, *profile;
    size_t n_models, n_profiles;
};

/** With the chart's defaults filled in. */
struct gs_nvidia_conf {
    bool overwrites_env;         /**< containers that ask for no card see none */
    int32_t default_mem;         /**< MiB where nothing is asked; 0: the whole card */
    int32_t default_count;       /**< cards where only memory or cores are asked; 0: none added */
    struct gs_str core_policy;   /**< "force" or "disable", put into GPU containers; else empty */
    struct gs_str runtime_class; /**< of pods with GPU containers that name none; empty: none */
    const struct gs_nvidia_allow *allow;
    size_t n_allow;
};

/** Check what the file has. `yaml` NULL: all defaults. 0; -EINVAL with err; -ENOMEM. */
GS_WUR int gs_nvidia_conf_make(const struct gs_nvidia_yaml *yaml, struct gs_arena *arena,
                               struct gs_nvidia_conf *ret, struct gs_err *err);
