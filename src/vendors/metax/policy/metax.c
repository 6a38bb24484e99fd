#include "vendors/metax/policy/metax.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <yyjson.h>

#include "model/json.h"
#include "model/node.h"
#include "model/policy.h"
#include "model/usual.h"
#include "vendors/metax/policy/sgpu.h"

/* A table of a node's topology: what a pod of so many cards loses, or gains. */
#define TABLE_MAX       1024
#define TABLE_BYTES_MAX (1u << 16)

struct entry {
    int32_t cards;
    double value;
};

struct table {
    const struct entry *at;
    size_t n;
    bool is_there;
};

struct facts {
    struct table losses, scores;
};

/* "2" as a number of cards; 0: it is none. */
static int32_t cards_of(yyjson_val *key)
{
    const char *p = yyjson_get_str(key);
    int32_t cards = 0;

    for (; *p >= '0' && *p <= '9' && cards < 100000; p++)
        cards = cards * 10 + (*p - '0');
    return *p == '\0' ? cards : 0;
}

static int read_table(struct gs_str text, struct gs_arena *arena, struct table *ret)
{
    yyjson_doc *doc;
    yyjson_val *root, *key;
    struct entry *at;
    yyjson_obj_iter it;
    size_t n = 0;
    int rc = gs_json_parse(text, TABLE_BYTES_MAX, &doc, NULL);

    if (rc < 0)
        return rc == -ENOMEM ? rc : 0; /* a table that cannot be read is none */
    root = yyjson_doc_get_root(doc);
    at = GS_ARENA_ARRAY(arena, yyjson_obj_size(root), struct entry);
    it = yyjson_obj_iter_with(root);
    while (at != NULL && n < TABLE_MAX && (key = yyjson_obj_iter_next(&it)) != NULL) {
        yyjson_val *v = yyjson_obj_iter_get_val(key);

        if (yyjson_is_num(v))
            at[n++] = (struct entry){cards_of(key), yyjson_get_num(v)};
    }
    if (at != NULL && yyjson_is_obj(root))
        *ret = (struct table){at, n, true};
    yyjson_doc_free(doc);
    return at == NULL ? -ENOMEM : 0;
}

static int read_topology(const struct gs_node_view *node, struct gs_arena *arena, struct facts *ret)
{
    const struct gs_str *losses =
        gs_pairs_find(node->annotations, GS_STR("metax-tech.com/gpu.topology.losses"));
    const struct gs_str *scores =
        gs_pairs_find(node->annotations, GS_STR("metax-tech.com/gpu.topology.scores"));
    int rc = losses != NULL ? read_table(*losses, arena, &ret->losses) : 0;

    if (rc == 0 && scores != NULL)
        rc = read_table(*scores, arena, &ret->scores);
    return rc;
}

static int read_cards(const struct gs_policy *policy, const struct gs_node_view *node,
                      struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                      struct gs_err *err)
{
    static const struct gs_device like = {
        .id = {"metax", 5},
        .type = {"Metax-GPU", 9},
        .count = 1,
        .mem_mib = 65536,
        .cores = 100,
    };
    struct facts *facts = GS_ARENA_NEW(arena, struct facts);
    int n, rc;

    if (facts == NULL)
        return -ENOMEM;
    n = gs_usual_read_capacity(policy, node, &like, arena, ret_dev, err);
    if (n < 0)
        return n;
    rc = read_topology(node, arena, facts);
    if (rc < 0)
        return rc;
    ret->n = (uint32_t)n;
    ret->facts = facts;
    return 0;
}

/* Pack where a pod of that size breaks the least; spread to where it is linked the best. */
static double score(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread)
{
    const struct facts *facts = a->group->facts;
    const struct table *table = is_spread ? &facts->scores : &facts->losses;
    size_t cards = 0;

    (void)policy;
    for (size_t c = 0; c < a->pod->n_containers; c++)
        cards += a->n_picks[c];
    if (!table->is_there || cards == 0)
        return 0;
    for (size_t i = 0; i < table->n; i++)
        if ((size_t)table->at[i].cards == cards)
            return 2000 - table->at[i].value;
    return 2000;
}

static const struct gs_policy_ops gpu_ops = {
    .admit = gs_usual_admit,
    .request = gs_usual_request,
    .read_node = read_cards,
    .score = score,
};

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct gs_metax_conf none;
    const struct gs_metax_conf *c = conf != NULL ? conf : &none;
    struct gs_sgpu_conf *sgpu = GS_ARENA_NEW(arena, struct gs_sgpu_conf);
    struct gs_policy policy[2];

    (void)is_older; /* there is one shape */
    (void)err;
    if (sgpu == NULL)
        return -ENOMEM;
    sgpu->is_topology_aware = c->is_topology_aware;
    policy[0] = (struct gs_policy){
        .word = "Metax-GPU",
        .ops = &gpu_ops,
        .names = {.count = gs_usual_name(arena, c->count, "metax-tech.com/gpu")},
        .keys = {.to_allocate = GS_STR("hami.io/metax-gpu-devices-to-allocate"),
                 .allocated = GS_STR("hami.io/metax-gpu-devices-allocated")},
        .mem_factor = 1,
        .default_cores = 100,
        .quota_factor = 1,
        .is_exclusive_at_100 = true,
    };
    policy[1] = (struct gs_policy){
        .word = "Metax-SGPU",
        .ops = &gs_sgpu_ops,
        .names = {.count = gs_usual_name(arena, c->vcount, "metax-tech.com/sgpu"),
                  .mem = gs_usual_name(arena, c->vmem, "metax-tech.com/vmemory"),
                  .core = gs_usual_name(arena, c->vcore, "metax-tech.com/vcore")},
        .keys = {.to_allocate = GS_STR("hami.io/metax-sgpu-devices-to-allocate"),
                 .allocated = GS_STR("hami.io/metax-sgpu-devices-allocated"),
                 .node_register = GS_STR("metax-tech.com/node-gpu-devices"),
                 .use_uuid = GS_STR("metax-tech.com/use-gpuuuid"),
                 .nouse_uuid = GS_STR("metax-tech.com/nouse-gpuuuid"),
                 .lock = GS_STR(GS_KEY_NODE_LOCK),
                 .own = "metax-tech.com/gpu-devices-allocated metax-tech.com/predicate-time"},
        .mem_factor = 1024,
        .default_cores = 100,
        .quota_factor = 1024,
        .has_global_ids = true,
        .writes_own_type = true,
        .is_exclusive_at_100 = true,
        .conf = sgpu,
    };
    return gs_usual_add(out, arena, policy, GS_ARRAY_LEN(policy));
}

#define NAME(key, member)                                                                          \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, struct gs_metax_conf, member, 0,              \
                           CYAML_UNLIMITED)
static const struct cyaml_schema_field fields[] = {
    NAME("resourceCountName", count),
    NAME("resourceVCountName", vcount),
    NAME("resourceVMemoryName", vmem),
    NAME("resourceVCoreName", vcore),
    CYAML_FIELD_BOOL("sgpuTopologyAware", CYAML_FLAG_OPTIONAL, struct gs_metax_conf,
                     is_topology_aware),
    CYAML_FIELD_END,
};
#undef NAME

static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct gs_metax_conf, fields),
};

const struct gs_policy_section gs_metax_section = {
    .key = "metax",
    .schema = &schema,
    .make = make,
};
