#include "vendors/amd/policy/node.h"

#include <errno.h>
#include <yyjson.h>

#include "model/json.h"
#include "model/node.h"
#include "model/quantity.h"
#include "model/usual.h"

static struct gs_str text_of(yyjson_val *val, struct gs_arena *arena)
{
    return yyjson_is_str(val) ? gs_arena_str(arena, gs_json_text(val)) : (struct gs_str){0};
}

/* Go writes numbers of free-form objects as it likes: 2 and 2.0 are both two. What is no whole
 * number above one is one. */
static int32_t read_unit(yyjson_val *val)
{
    double value = yyjson_get_num(val);

    return value > 1 && value <= 1024 && value == (double)(int32_t)value ? (int32_t)value : 1;
}

int gs_amd_read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                       struct gs_device *dev, struct gs_err *err)
{
    yyjson_val *info = gs_json_get(element, "custominfo");
    yyjson_val *peers = gs_json_get(info, "xgmiPeers");
    size_t n = yyjson_arr_size(peers);
    struct gs_amd_device *own;
    struct gs_str *peer;

    (void)user;
    if (n > GS_AMD_PEERS_MAX)
        return gs_err_set(err, -EINVAL, "device %.*s has more than %d xgmiPeers", (int)dev->id.n,
                          dev->id.p, GS_AMD_PEERS_MAX);
    own = GS_ARENA_NEW(arena, struct gs_amd_device);
    peer = GS_ARENA_ARRAY(arena, n, struct gs_str);
    if (own == NULL || peer == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        peer[i] = text_of(yyjson_arr_get(peers, i), arena);
    *own = (struct gs_amd_device){
        .bdf = text_of(gs_json_get(info, "pciBDF"), arena),
        .peer = peer,
        .n_peers = n,
        .cu_per_wgp = read_unit(gs_json_get(info, "cuPerWGP")),
    };
    dev->custom = own;
    return gs_arena_check(arena);
}

/* --- the node --- */

static bool lists(const struct gs_amd_device *own, struct gs_str bdf)
{
    for (size_t i = 0; i < own->n_peers; i++)
        if (gs_str_eq(own->peer[i], bdf))
            return true;
    return false;
}

static bool are_linked(const struct gs_device *a, const struct gs_device *b)
{
    const struct gs_amd_device *x = a->custom, *y = b->custom;

    if (x == NULL || y == NULL || x->bdf.n == 0 || y->bdf.n == 0)
        return false;
    return gs_str_eq(x->bdf, y->bdf) || (lists(x, y->bdf) && lists(y, x->bdf));
}

static int read_links(const struct gs_device *dev, size_t n, struct gs_arena *arena,
                      struct gs_amd_facts *facts)
{
    bool *is_linked, any = false;

    if (n > GS_AMD_LINKED_MAX)
        return 0;
    is_linked = GS_ARENA_ARRAY(arena, n * n, bool);
    if (is_linked == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (are_linked(&dev[i], &dev[j]))
                any = is_linked[i * n + j] = is_linked[j * n + i] = true;
    if (any)
        facts->is_linked = is_linked;
    return 0;
}

/* What the kubelet offers of the count resource: what may be allocated, else the capacity. */
static bool offers_any(const struct gs_policy *policy, const struct gs_node_view *node)
{
    struct gs_str name = policy->names.count;
    const struct gs_str *text = NULL;
    int64_t value;

    if (name.n == 0)
        return true;
    if (node->allocatable != NULL)
        text = gs_pairs_find(node->allocatable, name);
    if (text == NULL && node->capacity != NULL)
        text = gs_pairs_find(node->capacity, name);
    return text != NULL && gs_quantity_int(*text, &value) == 0 && value > 0;
}

int gs_amd_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    struct gs_amd_facts *facts;
    struct gs_group group = *ret;
    struct gs_device *dev = NULL;
    int rc = gs_usual_read_register(policy, node, arena, &dev, &group, err);

    if (rc < 0)
        return rc;
    if (!offers_any(policy, node)) {
        ret->n = 0;
        *ret_dev = dev;
        return 0;
    }
    facts = GS_ARENA_NEW(arena, struct gs_amd_facts);
    if (facts == NULL)
        return -ENOMEM;
    facts->n = group.n;
    rc = read_links(dev, group.n, arena, facts);
    if (rc < 0)
        return rc;
    group.facts = facts;
    *ret = group;
    *ret_dev = dev;
    return 0;
}
