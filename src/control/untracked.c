#include "control/untracked.h"

#include <errno.h>

#include <yyjson.h>

#include "contract/names.h"
#include "kube/json.h"

static int text_of(yyjson_val *val, struct gs_arena *arena, struct gs_str *ret)
{
    if (!yyjson_is_str(val))
        return -EINVAL;
    *ret = gs_arena_str(arena, gs_kube_json_text(val));
    return gs_arena_check(arena);
}

static int read_cards(yyjson_val *root, struct gs_arena *arena, struct gs_untracked *out)
{
    size_t i, max, n = yyjson_arr_size(root);
    yyjson_val *val;
    int rc = 0;

    if (!yyjson_is_arr(root))
        return -EINVAL;
    if (n > GS_UNTRACKED_CARDS_MAX)
        return -E2BIG;
    out->card = GS_ARENA_ARRAY(arena, n, struct gs_str);
    if (out->card == NULL)
        return -ENOMEM;
    yyjson_arr_foreach(root, i, max, val)
    {
        if (rc == 0)
            rc = text_of(val, arena, &out->card[i]);
    }
    out->n_cards = n;
    return rc;
}

/* The annotations that the pod had, those of them that say what it holds. */
static int read_pod(yyjson_val *key, yyjson_val *val, const struct gs_policies *policies,
                    struct gs_arena *arena, struct gs_untracked_pod *out)
{
    int rc = text_of(key, arena, &out->uid);
    yyjson_val *text;

    if (rc < 0 || out->uid.n == 0 || !yyjson_is_obj(val))
        return rc < 0 ? rc : -EINVAL;
    out->grant = GS_ARENA_ARRAY(arena, policies->n, struct gs_str);
    out->placements = GS_ARENA_ARRAY(arena, policies->n, struct gs_str);
    if (out->grant == NULL || out->placements == NULL)
        return -ENOMEM;
    for (size_t i = 0; rc == 0 && i < policies->n; i++) {
        const struct gs_keys *keys = &policies->at[i]->keys;

        text = yyjson_obj_getn(val, keys->allocated.p, keys->allocated.n);
        if (text != NULL && keys->allocated.n > 0)
            rc = text_of(text, arena, &out->grant[i]);
        text = yyjson_obj_getn(val, keys->placements.p, keys->placements.n);
        if (rc == 0 && text != NULL && keys->placements.n > 0)
            rc = text_of(text, arena, &out->placements[i]);
    }
    return rc;
}

static int read_pods(yyjson_val *root, const struct gs_policies *policies, struct gs_arena *arena,
                     struct gs_untracked *out)
{
    size_t i, max, n = yyjson_obj_size(root);
    yyjson_val *key, *val;
    int rc = 0;

    if (!yyjson_is_obj(root))
        return -EINVAL;
    if (n > GS_UNTRACKED_PODS_MAX)
        return -E2BIG;
    out->pod = GS_ARENA_ARRAY(arena, n, struct gs_untracked_pod);
    if (out->pod == NULL)
        return -ENOMEM;
    yyjson_obj_foreach(root, i, max, key, val)
    {
        if (rc == 0)
            rc = read_pod(key, val, policies, arena, &out->pod[i]);
    }
    out->n_pods = n;
    return rc;
}

int gs_untracked_read(const struct gs_pairs *annotations, const struct gs_policies *policies,
                      struct gs_arena *arena, struct gs_untracked *ret, struct gs_err *err)
{
    static const char *const key[] = {GS_NAME_UNTRACKED, GS_NAME_HELD};
    struct gs_untracked out = {0};

    for (size_t i = 0; i < GS_ARRAY_LEN(key); i++) {
        const struct gs_str *text = gs_pairs_find(annotations, gs_str_of(key[i]));
        yyjson_doc *doc;
        int rc;

        if (text == NULL || text->n == 0)
            continue;
        rc = gs_kube_json_read(*text, GS_UNTRACKED_BYTES_MAX, &doc, err);
        if (rc < 0)
            return gs_err_wrap(err, rc == -EFBIG ? -E2BIG : rc, "%s", key[i]);
        rc = i == 0 ? read_cards(yyjson_doc_get_root(doc), arena, &out)
                    : read_pods(yyjson_doc_get_root(doc), policies, arena, &out);
        yyjson_doc_free(doc);
        if (rc < 0)
            return gs_err_set(err, rc, "%s: %s", key[i],
                              rc == -E2BIG    ? "too many entries"
                              : rc == -ENOMEM ? "no memory"
                              : i == 0        ? "not a list of texts"
                                              : "not a map of pods to their annotations");
    }
    *ret = out;
    return 0;
}
