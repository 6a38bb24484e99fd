#include "vendors/nvidia/policy/node.h"

#include <errno.h>
#include <stdlib.h>
#include <yyjson.h>

#include "model/json.h"
#include "model/node.h"
#include "model/usual.h"
#include "vendors/nvidia/policy/mig.h"

/* --- MIG profiles of one card --- */

static int by_start(const void *a, const void *b)
{
    const struct gs_nvidia_span *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static int read_places(yyjson_val *list, struct gs_arena *arena, struct gs_nvidia_profile *ret)
{
    size_t n = yyjson_arr_size(list);
    struct gs_nvidia_span *place;

    if (n > GS_NVIDIA_PLACES_MAX || (list != NULL && !yyjson_is_arr(list)))
        return -EINVAL;
    place = GS_ARENA_ARRAY(arena, n, struct gs_nvidia_span);
    if (place == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        yyjson_val *at = yyjson_arr_get(list, i);

        if (gs_json_int32(gs_json_get(at, "start"), &place[i].start) < 0 ||
            gs_json_int32(gs_json_get(at, "size"), &place[i].size) < 0 || place[i].start < 0 ||
            place[i].size < 1)
            return -EINVAL;
    }
    qsort(place, n, sizeof(place[0]), by_start);
    ret->place = place;
    ret->n_places = n;
    return 0;
}

static int read_profile(yyjson_val *obj, struct gs_arena *arena, struct gs_nvidia_profile *ret)
{
    if (!yyjson_is_obj(obj) || gs_json_int32(gs_json_get(obj, "memoryMB"), &ret->mem_mib) < 0 ||
        gs_json_int32(gs_json_get(obj, "core"), &ret->cores) < 0 ||
        gs_json_int32(gs_json_get(obj, "sliceCount"), &ret->slices) < 0 || ret->mem_mib < 0 ||
        ret->cores < 0)
        return -EINVAL;
    ret->name = gs_arena_str(arena, gs_json_text(gs_json_get(obj, "name")));
    return read_places(gs_json_get(obj, "placements"), arena, ret);
}

static int by_size(const void *a, const void *b)
{
    const struct gs_nvidia_profile *x = a, *y = b;
    int by_mem = (x->mem_mib > y->mem_mib) - (x->mem_mib < y->mem_mib);

    return by_mem != 0 ? by_mem : (x->slices > y->slices) - (x->slices < y->slices);
}

int gs_nvidia_read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                          struct gs_device *dev, struct gs_err *err)
{
    yyjson_val *list = gs_json_get(element, "migProfiles");
    struct gs_nvidia_profile *profile;
    struct gs_nvidia_mig *mig;
    size_t n = yyjson_arr_size(list);

    (void)user;
    if (list == NULL)
        return 0;
    if (!yyjson_is_arr(list) || n > GS_NVIDIA_PROFILES_MAX)
        return gs_err_set(err, -EINVAL, "invalid migProfiles of %.*s", (int)dev->id.n, dev->id.p);
    mig = GS_ARENA_NEW(arena, struct gs_nvidia_mig);
    profile = GS_ARENA_ARRAY(arena, n, struct gs_nvidia_profile);
    if (mig == NULL || profile == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        int rc = read_profile(yyjson_arr_get(list, i), arena, &profile[i]);

        if (rc < 0)
            return rc == -EINVAL ? gs_err_set(err, rc, "invalid MIG profile %zu of %.*s", i,
                                              (int)dev->id.n, dev->id.p)
                                 : rc;
    }
    qsort(profile, n, sizeof(profile[0]), by_size);
    *mig = (struct gs_nvidia_mig){profile, n};
    dev->custom = mig;
    return gs_arena_check(arena);
}

/* --- what stands in other annotations of the node --- */

/* Index of a card; n where it is not one of the group. */
static size_t index_of(const struct gs_device *dev, size_t n, struct gs_str uuid)
{
    size_t i = 0;

    while (i < n && !gs_str_eq(dev[i].id, uuid))
        i++;
    return i;
}

static bool read_row(yyjson_val *row, const struct gs_device *dev, size_t n, int32_t *score)
{
    size_t from = index_of(dev, n, gs_json_text(gs_json_get(row, "uuid")));
    yyjson_val *map = gs_json_get(row, "score"), *name;
    yyjson_obj_iter iter;

    if (!yyjson_is_obj(row) || (map != NULL && !yyjson_is_obj(map)))
        return false;
    if (map == NULL || from == n)
        return true;
    yyjson_obj_iter_init(map, &iter);
    while ((name = yyjson_obj_iter_next(&iter)) != NULL) {
        size_t to = index_of(dev, n, gs_json_text(name));
        int32_t value = 0;

        if (gs_json_int32(yyjson_obj_iter_get_val(name), &value) < 0)
            return false;
        if (to < n && to != from)
            score[from * n + to] = value;
    }
    return true;
}

static int read_scores(struct gs_str text, const struct gs_device *dev, size_t n,
                       struct gs_arena *arena, struct gs_nvidia_facts *facts, struct gs_err *err)
{
    yyjson_doc *doc = NULL;
    yyjson_val *list;
    int32_t *score;
    int rc;

    if (n > GS_NVIDIA_SCORED_MAX)
        return 0;
    score = GS_ARENA_ARRAY(arena, n * n, int32_t);
    if (score == NULL)
        return -ENOMEM;
    rc = gs_json_parse(text, GS_REGISTER_BYTES_MAX, &doc, err);
    if (rc < 0)
        return rc;
    list = yyjson_doc_get_root(doc);
    if (!yyjson_is_arr(list) || yyjson_arr_size(list) > GS_REGISTER_DEVICES_MAX)
        rc = -EINVAL;
    for (size_t i = 0; rc == 0 && i < yyjson_arr_size(list); i++)
        if (!read_row(yyjson_arr_get(list, i), dev, n, score))
            rc = -EINVAL;
    yyjson_doc_free(doc);
    if (rc == 0)
        facts->score = score;
    return rc;
}

int gs_nvidia_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                        struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                        struct gs_err *err)
{
    const struct gs_str *scores =
        gs_pairs_find(node->annotations, GS_STR("hami.io/node-nvidia-score"));
    struct gs_nvidia_facts *facts;
    struct gs_device *dev;
    struct gs_group group = *ret;
    int rc;

    rc = gs_usual_read_register(policy, node, arena, &dev, &group, err);
    if (rc < 0)
        return rc;
    facts = GS_ARENA_NEW(arena, struct gs_nvidia_facts);
    if (facts == NULL)
        return -ENOMEM;
    facts->n = group.n;
    if (scores != NULL) {
        rc = read_scores(*scores, dev, group.n, arena, facts, err);
        if (rc < 0)
            return gs_err_wrap(err, rc, "invalid hami.io/node-nvidia-score");
    }
    group.facts = facts;
    *ret = group;
    *ret_dev = dev;
    return 0;
}
