#include "vendors/metax/policy/sgpu_node.h"

#include <errno.h>
#include <yyjson.h>

#include "model/json.h"
#include "model/register.h"
#include "vendors/metax/policy/sgpu_card.h"

static int read_amounts(yyjson_val *v, struct gs_device *ret, int32_t *ret_zone)
{
    int rc = gs_json_int32(gs_json_get(v, "totalDevCount"), &ret->count);

    if (rc == 0)
        rc = gs_json_int32(gs_json_get(v, "totalCompute"), &ret->cores);
    if (rc == 0)
        rc = gs_json_int32(gs_json_get(v, "totalVRam"), &ret->mem_mib);
    if (rc == 0)
        rc = gs_json_int32(gs_json_get(v, "numa"), &ret->numa);
    if (rc == 0)
        rc = gs_json_int32(gs_json_get(v, "linkZone"), ret_zone);
    if (rc == 0)
        rc = gs_json_bool(gs_json_get(v, "healthy"), &ret->is_healthy);
    if (rc == 0 && (ret->count < 0 || ret->cores < 0 || ret->mem_mib < 0))
        rc = -EINVAL;
    return rc;
}

static int read_card(yyjson_val *v, uint32_t index, struct gs_arena *arena, struct gs_device *ret,
                     struct gs_err *err)
{
    struct gs_sgpu_card *card = GS_ARENA_NEW(arena, struct gs_sgpu_card);
    struct gs_str qos = {0};
    int rc;

    if (card == NULL)
        return -ENOMEM;
    *ret = (struct gs_device){.index = index, .type = GS_STR("Metax-SGPU"), .custom = card};
    rc = gs_json_str(gs_json_get(v, "uuid"), arena, &ret->id);
    if (rc == 0)
        rc = gs_json_str(gs_json_get(v, "qosPolicy"), arena, &qos);
    if (rc == 0)
        rc = read_amounts(v, ret, &card->zone);
    if (rc == 0 && ret->id.n == 0)
        rc = -EINVAL;
    if (rc == -EINVAL)
        return gs_err_set(err, rc, "device %u has no uuid, or a value of another kind", index);
    card->qos = gs_sgpu_card_qos(qos);
    return rc;
}

static int read_list(yyjson_val *list, struct gs_arena *arena, struct gs_device **ret_dev,
                     struct gs_err *err)
{
    size_t n = yyjson_arr_size(list);
    struct gs_device *dev;
    yyjson_arr_iter it;
    yyjson_val *v;

    if (!yyjson_is_arr(list) && !yyjson_is_null(list))
        return gs_err_set(err, -EINVAL, "no sdevice found on node");
    if (n > GS_REGISTER_DEVICES_MAX)
        return gs_err_set(err, -E2BIG, "%zu devices are too many", n);
    dev = GS_ARENA_ARRAY(arena, n, struct gs_device);
    if (dev == NULL)
        return -ENOMEM;
    it = yyjson_arr_iter_with(list);
    for (uint32_t i = 0; (v = yyjson_arr_iter_next(&it)) != NULL; i++) {
        int rc = read_card(v, i, arena, &dev[i], err);

        if (rc == 0)
            rc = gs_register_check(&dev[i], 1, err);
        if (rc < 0)
            return rc;
    }
    *ret_dev = dev;
    return (int)n;
}

int gs_sgpu_node_read(struct gs_str text, struct gs_arena *arena, struct gs_device **ret_dev,
                      struct gs_err *err)
{
    yyjson_doc *doc;
    int rc = gs_json_parse(text, GS_REGISTER_BYTES_MAX, &doc, err);

    if (rc < 0)
        return rc;
    rc = read_list(yyjson_doc_get_root(doc), arena, ret_dev, err);
    yyjson_doc_free(doc);
    return rc;
}
