#include "yaml.h"

#include <cyaml/cyaml.h>
#include <string.h>

static const cyaml_config_t config = {
    .log_fn = cyaml_log,
    .mem_fn = cyaml_mem,
    .log_level = CYAML_LOG_ERROR,
};

void yaml_load(struct yaml *yaml, const struct cyaml_schema_value *schema, const char *text)
{
    bool is_list = schema->type == CYAML_SEQUENCE;

    memset(yaml, 0, sizeof(*yaml));
    yaml->schema = schema;
    assert_int_equal(cyaml_load_data((const uint8_t *)text, strlen(text), &config, schema,
                                     &yaml->conf, is_list ? &yaml->n : NULL),
                     CYAML_OK);
    yaml->list = (struct gs_policy_list){yaml->conf, yaml->n};
}

void yaml_unload(struct yaml *yaml)
{
    assert_int_equal(cyaml_free(&config, yaml->schema, yaml->conf, yaml->n), CYAML_OK);
}

void yaml_kit(struct kit *kit, const struct gs_policy_section *section, const char *text,
              const char *word)
{
    struct yaml yaml;

    yaml_load(&yaml, section->schema, text);
    kit_init(kit, section, section->schema->type == CYAML_SEQUENCE ? &yaml.list : yaml.conf, word);
    yaml_unload(&yaml);
}
