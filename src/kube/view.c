#include "kube/view.h"

#include <errno.h>
#include <string.h>
#include <yyjson.h>

#include "kube/json.h"
#include "kube/stamp.h"
#include "kube/view_internal.h"

static enum gs_kube_got read_time(yyjson_val *obj, const char *key, int64_t *ret)
{
    struct gs_str text;
    enum gs_kube_got got = gs_kube_json_str(obj, key, &text);

    if (got == GS_KUBE_GOT && gs_kube_stamp_parse(text, ret) < 0)
        return GS_KUBE_WRONG;
    return got;
}

int gs_kube_view_fields(yyjson_val *obj, const struct gs_kube_field *field, size_t n, void *out,
                        struct gs_err *err)
{
    static const char *const what[] = {"text", "true or false", "a 32-bit whole number",
                                       "a 64-bit whole number", "a time"};

    for (size_t i = 0; i < n; i++) {
        void *at = (char *)out + field[i].offset;
        enum gs_kube_got got = GS_KUBE_WRONG;

        switch (field[i].type) {
        case GS_KUBE_FIELD_STR:
            got = gs_kube_json_str(obj, field[i].key, at);
            break;
        case GS_KUBE_FIELD_BOOL:
            got = gs_kube_json_bool(obj, field[i].key, at);
            break;
        case GS_KUBE_FIELD_I32:
            got = gs_kube_json_i32(obj, field[i].key, at);
            break;
        case GS_KUBE_FIELD_I64:
            got = gs_kube_json_i64(obj, field[i].key, at);
            break;
        case GS_KUBE_FIELD_TIME:
            got = read_time(obj, field[i].key, at);
            break;
        }
        if (got == GS_KUBE_WRONG)
            return gs_err_set(err, -EINVAL, "%s: not %s", field[i].key, what[field[i].type]);
    }
    return 0;
}

int gs_kube_view_obj(yyjson_val *obj, const char *key, yyjson_val **ret, struct gs_err *err)
{
    *ret = NULL;
    if (gs_kube_json_obj(obj, key, ret) == GS_KUBE_WRONG)
        return gs_err_set(err, -EINVAL, "%s: not an object", key);
    return 0;
}

int gs_kube_view_arr(yyjson_val *obj, const char *key, yyjson_val **ret, struct gs_err *err)
{
    *ret = NULL;
    if (gs_kube_json_arr(obj, key, ret) == GS_KUBE_WRONG)
        return gs_err_set(err, -EINVAL, "%s: not a list", key);
    return 0;
}

static int no_memory(struct gs_err *err)
{
    return gs_err_set(err, -ENOMEM, "no memory for a view");
}

static int check_count(size_t n, const char *key, struct gs_err *err)
{
    if (n > GS_KUBE_VIEW_MAX)
        return gs_err_set(err, -E2BIG, "%s: %zu entries, %d allowed", key, n, GS_KUBE_VIEW_MAX);
    return 0;
}

int gs_kube_view_pairs(yyjson_val *obj, const char *key, bool is_quantity, struct gs_arena *arena,
                       struct gs_kube_pairs *ret, struct gs_err *err)
{
    struct gs_kube_pairs pairs = {0};
    yyjson_val *map, *name;
    yyjson_obj_iter iter;
    int rc = gs_kube_view_obj(obj, key, &map, err);

    if (rc < 0 || !map)
        return rc;
    rc = check_count(yyjson_obj_size(map), key, err);
    if (rc < 0)
        return rc;
    pairs.at = GS_ARENA_ARRAY(arena, yyjson_obj_size(map), struct gs_kube_pair);
    if (!pairs.at)
        return no_memory(err);
    iter = yyjson_obj_iter_with(map);
    while ((name = yyjson_obj_iter_next(&iter)) != NULL) {
        yyjson_val *val = yyjson_obj_iter_get_val(name);
        struct gs_kube_pair *pair = &pairs.at[pairs.n];

        pair->key = gs_kube_json_text(name);
        if (is_quantity && yyjson_is_null(val))
            pair->value = GS_STR("0"); /* Quantity.UnmarshalJSON() has it so */
        if ((!is_quantity && !yyjson_is_null(val) && !yyjson_is_str(val)) ||
            gs_kube_json_quantity(val, arena, &pair->value) == GS_KUBE_WRONG)
            return gs_err_set(err, -EINVAL, "%s: '%.64s': not %s", key, pair->key.p,
                              is_quantity ? "a quantity" : "text");
        pairs.n++;
    }
    *ret = pairs;
    return 0;
}

int gs_kube_view_strs(yyjson_val *obj, const char *key, struct gs_arena *arena, struct gs_str **ret,
                      size_t *ret_n, struct gs_err *err)
{
    yyjson_val *list, *item;
    yyjson_arr_iter iter;
    struct gs_str *at;
    size_t n = 0;
    int rc = gs_kube_view_arr(obj, key, &list, err);

    if (rc < 0 || !list)
        return rc;
    rc = check_count(yyjson_arr_size(list), key, err);
    if (rc < 0)
        return rc;
    at = GS_ARENA_ARRAY(arena, yyjson_arr_size(list), struct gs_str);
    if (!at)
        return no_memory(err);
    iter = yyjson_arr_iter_with(list);
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        if (!yyjson_is_str(item) && !yyjson_is_null(item))
            return gs_err_set(err, -EINVAL, "%s[%zu]: not text", key, n);
        if (yyjson_is_str(item))
            at[n] = gs_kube_json_text(item);
        n++;
    }
    *ret = at;
    *ret_n = n;
    return 0;
}

int gs_kube_view_items(yyjson_val *obj, const struct gs_kube_items *what, struct gs_arena *arena,
                       void *ret_at, size_t *ret_n, struct gs_err *err)
{
    yyjson_val *list, *item;
    yyjson_arr_iter iter;
    size_t n = 0;
    char *at;
    int rc = gs_kube_view_arr(obj, what->key, &list, err);

    if (rc < 0 || !list)
        return rc;
    rc = check_count(yyjson_arr_size(list), what->key, err);
    if (rc < 0)
        return rc;
    at = gs_arena_take(arena, yyjson_arr_size(list), what->size);
    if (!at)
        return no_memory(err);
    iter = yyjson_arr_iter_with(list);
    while ((item = yyjson_arr_iter_next(&iter)) != NULL) {
        if (!yyjson_is_obj(item) && !yyjson_is_null(item))
            return gs_err_set(err, -EINVAL, "%s[%zu]: not an object", what->key, n);
        rc = what->read(item, arena, at + n * what->size, err);
        if (rc < 0)
            return gs_err_wrap(err, rc, "%s[%zu]", what->key, n);
        n++;
    }
    memcpy(ret_at, &at, sizeof(at));
    *ret_n = n;
    return 0;
}

int gs_kube_view_condition(yyjson_val *item, struct gs_arena *arena, void *entry,
                           struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"type", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_condition, type)},
        {"status", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_condition, status)},
        {"reason", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_condition, reason)},
        {"message", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_condition, message)},
        {"lastTransitionTime", GS_KUBE_FIELD_TIME,
         offsetof(struct gs_kube_condition, transition_us)},
    };
    struct gs_kube_condition *c = entry;

    (void)arena; /* all is borrowed */
    c->transition_us = GS_KUBE_NO_TIME;
    return gs_kube_view_fields(item, rows, GS_ARRAY_LEN(rows), c, err);
}

static int read_owner(yyjson_val *item, struct gs_arena *arena, void *entry, struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"apiVersion", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_owner, api_version)},
        {"kind", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_owner, kind)},
        {"name", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_owner, name)},
        {"uid", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_owner, uid)},
        {"controller", GS_KUBE_FIELD_BOOL, offsetof(struct gs_kube_owner, is_controller)},
    };

    (void)arena; /* all is borrowed */
    return gs_kube_view_fields(item, rows, GS_ARRAY_LEN(rows), entry, err);
}

static int read_meta(yyjson_val *meta, struct gs_arena *arena, struct gs_kube_meta *ret,
                     struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"namespace", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_meta, ns)},
        {"name", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_meta, name)},
        {"uid", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_meta, uid)},
        {"resourceVersion", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_meta, resource_version)},
        {"generateName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_meta, generate_name)},
        {"creationTimestamp", GS_KUBE_FIELD_TIME, offsetof(struct gs_kube_meta, created_us)},
        {"deletionTimestamp", GS_KUBE_FIELD_TIME, offsetof(struct gs_kube_meta, deletion_us)},
        {"deletionGracePeriodSeconds", GS_KUBE_FIELD_I64,
         offsetof(struct gs_kube_meta, deletion_grace_s)},
    };
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->created_us = ret->deletion_us = GS_KUBE_NO_TIME;
    ret->deletion_grace_s = -1;
    rc = gs_kube_view_fields(meta, rows, GS_ARRAY_LEN(rows), ret, err);
    if (rc == 0)
        rc = gs_kube_view_pairs(meta, "labels", false, arena, &ret->labels, err);
    if (rc == 0)
        rc = gs_kube_view_pairs(meta, "annotations", false, arena, &ret->annotations, err);
    if (rc == 0)
        rc = gs_kube_view_items(meta, GS_KUBE_ITEMS("ownerReferences", *ret->owner, read_owner),
                                arena, &ret->owner, &ret->n_owners, err);
    return rc;
}

int gs_kube_view_meta(yyjson_val *val, struct gs_arena *arena, struct gs_kube_meta *ret,
                      struct gs_err *err)
{
    yyjson_val *meta;
    int rc;

    if (!yyjson_is_obj(val))
        return gs_err_set(err, -EINVAL, "not an object");
    rc = gs_kube_view_obj(val, "metadata", &meta, err);
    if (rc < 0)
        return rc;
    rc = read_meta(meta, arena, ret, err);
    return rc < 0 ? gs_err_wrap(err, rc, "metadata") : 0;
}

int gs_kube_view_begin(yyjson_val *val, struct gs_arena *arena, struct gs_kube_meta *ret,
                       struct gs_err *err)
{
    int rc = gs_kube_view_meta(val, arena, ret, err);

    if (rc == 0 && ret->name.n == 0)
        return gs_err_set(err, -EINVAL, "metadata: name: missing");
    return rc;
}

const struct gs_str *gs_kube_pairs_find(const struct gs_kube_pairs *pairs, struct gs_str key)
{
    for (size_t i = pairs->n; i > 0; i--)
        if (gs_str_eq(pairs->at[i - 1].key, key))
            return &pairs->at[i - 1].value;
    return NULL;
}

const struct gs_kube_condition *gs_kube_condition_find(const struct gs_kube_condition *condition,
                                                       size_t n, struct gs_str type)
{
    for (size_t i = 0; i < n; i++)
        if (gs_str_eq(condition[i].type, type))
            return &condition[i];
    return NULL;
}
