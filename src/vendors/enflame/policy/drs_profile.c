#include "vendors/enflame/policy/drs_profile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "core/size.h"
#include "model/json.h"
#include "model/register.h"

/* Digits of at most `max` at the front, cut off. */
static bool cut_number(struct gs_str *s, int32_t max, int32_t *ret)
{
    int32_t value = 0;
    size_t n = 0;

    for (; n < s->n && s->p[n] >= '0' && s->p[n] <= '9'; n++) {
        value = value * 10 + (s->p[n] - '0');
        if (value > max)
            return false;
    }
    if (n == 0 || value == 0)
        return false;
    *ret = value;
    *s = (struct gs_str){s->p + n, s->n - n};
    return true;
}

static bool read_name(struct gs_str name, struct gs_drs_profile *ret)
{
    return cut_number(&name, GS_DRS_SLICES_MAX, &ret->slices) && gs_str_skip(&name, GS_STR("g.")) &&
           cut_number(&name, 1 << 20, &ret->gb) && gs_str_eq_c(name, "gb");
}

/* The text of a value that is a text or a whole number; empty where it is neither. */
static struct gs_str text_of(yyjson_val *v, struct gs_arena *arena)
{
    if (yyjson_is_str(v))
        return gs_arena_str(arena, gs_json_text(v));
    if (yyjson_is_uint(v))
        return gs_arena_printf(arena, "%llu", (unsigned long long)yyjson_get_uint(v));
    return (struct gs_str){0};
}

static int smaller_first(const void *a, const void *b)
{
    const struct gs_drs_profile *x = a, *y = b;

    if (x->slices != y->slices)
        return x->slices < y->slices ? -1 : 1;
    if (x->gb != y->gb)
        return x->gb < y->gb ? -1 : 1;
    return 0;
}

static int read_profiles(yyjson_val *list, struct gs_arena *arena, struct gs_drs_profiles *ret,
                         struct gs_err *err)
{
    struct gs_drs_profile *at;
    yyjson_obj_iter it;
    yyjson_val *key;

    if (!yyjson_is_obj(list) || yyjson_obj_size(list) > GS_DRS_PROFILES_MAX)
        return gs_err_set(err, -EINVAL, "profiles are missing, or are too many");
    at = GS_ARENA_ARRAY(arena, yyjson_obj_size(list), struct gs_drs_profile);
    if (at == NULL)
        return -ENOMEM;
    *ret = (struct gs_drs_profiles){.at = at};
    it = yyjson_obj_iter_with(list);
    while ((key = yyjson_obj_iter_next(&it)) != NULL) {
        struct gs_drs_profile *p = &at[ret->n];

        p->name = text_of(key, arena);
        p->id = text_of(yyjson_obj_iter_get_val(key), arena);
        if (!read_name(p->name, p))
            continue;
        ret->max_slices = p->slices > ret->max_slices ? p->slices : ret->max_slices;
        ret->max_gb = p->gb > ret->max_gb ? p->gb : ret->max_gb;
        ret->n++;
    }
    if (ret->n == 0)
        return gs_err_set(err, -EINVAL, "no profile is of the form <n>g.<m>gb");
    qsort(at, ret->n, sizeof(at[0]), smaller_first);
    return gs_arena_check(arena);
}

/* It becomes part of an id, which stands between separators in grants. */
static bool is_index(struct gs_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (strchr(",:;", s.p[i]) != NULL)
            return false;
    return gs_str_is_word(s);
}

static int read_card(yyjson_val *v, struct gs_arena *arena, struct gs_drs_card *ret,
                     struct gs_err *err)
{
    struct gs_str slices = text_of(gs_json_get(v, "capacity"), arena);
    uint64_t n;

    ret->index = text_of(gs_json_get(v, "index"), arena);
    ret->minor = text_of(gs_json_get(v, "minor"), arena);
    if (!is_index(ret->index) || gs_size_parse_u64(slices, &n) != 0 || n > GS_DRS_SLICES_MAX)
        return gs_err_set(err, -EINVAL, "a device has no index, or an impossible capacity");
    ret->slices = (int32_t)n;
    return 0;
}

static int read_cards(yyjson_val *list, struct gs_arena *arena, const struct gs_drs_card **ret,
                      size_t *ret_n, struct gs_err *err)
{
    size_t n = yyjson_arr_size(list);
    struct gs_drs_card *card;
    yyjson_arr_iter it;
    yyjson_val *v;

    if (!yyjson_is_arr(list) || n > GS_REGISTER_DEVICES_MAX)
        return gs_err_set(err, -EINVAL, "devices are missing, or are too many");
    card = GS_ARENA_ARRAY(arena, n, struct gs_drs_card);
    if (card == NULL)
        return -ENOMEM;
    it = yyjson_arr_iter_with(list);
    for (size_t i = 0; (v = yyjson_arr_iter_next(&it)) != NULL; i++) {
        int rc = read_card(v, arena, &card[i], err);

        if (rc < 0)
            return rc;
    }
    *ret = card;
    *ret_n = n;
    return gs_arena_check(arena);
}

int gs_drs_profile_read(struct gs_str text, struct gs_arena *arena, struct gs_drs_profiles *ret,
                        const struct gs_drs_card **ret_card, size_t *ret_n, struct gs_err *err)
{
    struct gs_drs_profiles profiles = {0};
    const struct gs_drs_card *card = NULL;
    yyjson_doc *doc = NULL;
    yyjson_val *root;
    size_t n = 0;
    int rc = gs_json_parse(text, GS_REGISTER_BYTES_MAX, &doc, err);

    if (rc < 0)
        return rc;
    root = yyjson_doc_get_root(doc);
    rc = read_cards(yyjson_obj_get(root, "devices"), arena, &card, &n, err);
    if (rc == 0 && n > 0)
        rc = read_profiles(yyjson_obj_get(root, "profiles"), arena, &profiles, err);
    yyjson_doc_free(doc);
    if (rc < 0)
        return rc;
    *ret = profiles;
    *ret_card = card;
    *ret_n = n;
    return 0;
}

int32_t gs_drs_profile_cores(const struct gs_drs_profiles *profiles, int32_t slices)
{
    return (100 * slices + profiles->max_slices - 1) / profiles->max_slices;
}

int32_t gs_drs_profile_slices(const struct gs_drs_profiles *profiles, int32_t cores)
{
    /* each profile was rounded up by less than one percent of the card: even all together they
     * stay below a slice too much */
    return (int32_t)((int64_t)cores * profiles->max_slices / 100);
}
