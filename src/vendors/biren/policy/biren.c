#include "vendors/biren/policy/biren.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/fit.h"
#include "model/usual.h"

/* Names and rules: HAMi v2.10. A Biren card is shared by count alone: nothing of its memory or
 * cores is promised to anybody. */

struct conf {
    const char *count;
};

static const struct cyaml_schema_field field[] = {
    CYAML_FIELD_STRING_PTR("resourceCountName", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct conf, count, 0, CYAML_UNLIMITED),
    CYAML_FIELD_END,
};
static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct conf, field),
};

/* HAMi takes a core total of 100 whatever the plugin says. */
static int read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                       struct gs_device *dev, struct gs_err *err)
{
    (void)user;
    (void)element;
    (void)arena;
    (void)err;
    dev->cores = 100;
    return 0;
}

static const struct gs_fit_rules rules = {.amounts = gs_usual_count_alone};
static const struct gs_policy_ops ops = {
    .admit = gs_usual_admit,
    .request = gs_usual_request,
    .read_node = gs_usual_read_register,
    .read_device = read_device,
    .rules = &rules,
};

static int make(const void *conf_at, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    const struct conf *conf = conf_at;
    const struct gs_policy policy = {
        .word = "Biren",
        .ops = &ops,
        .names.count = gs_usual_name(arena, conf != NULL ? conf->count : NULL, "birentech.com/gpu"),
        .keys =
            {
                .to_allocate = GS_STR("hami.io/Biren-devices-to-allocate"),
                .allocated = GS_STR("hami.io/Biren-devices-allocated"),
                .node_register = GS_STR("hami.io/node-biren-register"),
                .handshake = GS_STR("hami.io/node-handshake-biren"),
                .use_uuid = GS_STR("birentech.com/use-gpuuuid"),
                .nouse_uuid = GS_STR("birentech.com/nouse-gpuuuid"),
                .lock = GS_STR(GS_KEY_NODE_LOCK),
            },
        .mem_factor = 1,
        .quota_factor = 1,
    };

    (void)is_older; /* there is one shape */
    (void)err;
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_biren_section = {
    .key = "biren",
    .schema = &schema,
    .make = make,
};
