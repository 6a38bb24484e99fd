#pragma once
/* Sections of a configuration as text, for tests of vendors' policies. */

#include "kit.h"

struct yaml {
    const struct cyaml_schema_value *schema;
    void *conf;                 /**< what the schema loads */
    unsigned n;                 /**< its entries, where it is a sequence */
    struct gs_policy_list list; /**< the same for make() */
};

/** Load; asserts that the text suits the schema. */
void yaml_load(struct yaml *yaml, const struct cyaml_schema_value *schema, const char *text);
void yaml_unload(struct yaml *yaml);
/** kit_init() with the section loaded from a text, in its newer shape. */
void yaml_kit(struct kit *kit, const struct gs_policy_section *section, const char *text,
              const char *word);
