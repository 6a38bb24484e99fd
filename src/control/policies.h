#pragma once
/* Which vendors the daemon serves, and by which names: HAMi's device configuration, read as it is.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/yaml.h"
#include "core/cleanup.h"
#include "model/policy.h"

struct gs_policies_conf {
    const struct gs_policy_section *const *section; /**< the table of vendors */
    size_t n_sections;
    const char *const *enabled; /**< opt-in words that were switched on ("ascend"); ended by NULL */
    struct gs_str text;         /**< the file; p == NULL: none, every vendor by its defaults */
    const struct gs_yaml_unknown *unknown; /**< hears of keys that nobody reads; may be NULL */
};

/** Policies in the table's order, in the arena. A vendor whose section is not in the file is not
 *  served; without a file all are.
 *  Returns  0; -EINVAL (err names section, cause and line; also where no section is left); -ENOMEM.
 */
GS_WUR int gs_policies_read(const struct gs_policies_conf *conf, struct gs_arena *arena,
                            struct gs_policies *ret, struct gs_err *err);
