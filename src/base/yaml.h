#pragma once
/* YAML by schema (libcyaml), with the cause and the line of what is wrong in one sentence. */

#include <stddef.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct cyaml_schema_value;

/** The first key that the schema does not have, in words, with its place. */
struct gs_yaml_unknown {
    void (*tell)(void *user, const char *what);
    void *user;
};

/** Load a document. Unknown keys are ignored; `unknown` hears of the first where it is given.
 *  @ret_n   entries, where the schema is a sequence; else NULL.
 *  Returns  0; -EINVAL with cause and place; -ENOMEM.
 *  Owner    caller; release with gs_yaml_free() by the same schema. */
GS_WUR int gs_yaml_load(struct gs_str text, const struct cyaml_schema_value *schema,
                        const struct gs_yaml_unknown *unknown, void **ret, unsigned *ret_n,
                        struct gs_err *err);
/** Accepts NULL data. */
void gs_yaml_free(const struct cyaml_schema_value *schema, void *data, unsigned n);
