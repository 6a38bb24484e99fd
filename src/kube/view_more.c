#include "kube/view_internal.h"

#include <errno.h>
#include <string.h>
#include <yyjson.h>

#include "kube/json.h"

/* Metadata, and the two objects that most kinds consist of. */
static int begin(yyjson_val *val, struct gs_arena *arena, struct gs_kube_meta *ret,
                 yyjson_val **ret_spec, yyjson_val **ret_status, struct gs_err *err)
{
    int rc = gs_kube_view_begin(val, arena, ret, err);

    if (rc == 0)
        rc = gs_kube_view_obj(val, "spec", ret_spec, err);
    return rc < 0 ? rc : gs_kube_view_obj(val, "status", ret_status, err);
}

int gs_kube_view_node(yyjson_val *val, struct gs_arena *arena, struct gs_kube_node *ret,
                      struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"unschedulable", GS_KUBE_FIELD_BOOL, offsetof(struct gs_kube_node, is_unschedulable)},
    };
    yyjson_val *spec, *status;
    int rc;

    memset(ret, 0, sizeof(*ret));
    rc = begin(val, arena, &ret->meta, &spec, &status, err);
    if (rc < 0)
        return rc;
    rc = gs_kube_view_fields(spec, rows, GS_ARRAY_LEN(rows), ret, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "spec");
    rc = gs_kube_view_pairs(status, "capacity", true, arena, &ret->capacity, err);
    if (rc == 0)
        rc = gs_kube_view_pairs(status, "allocatable", true, arena, &ret->allocatable, err);
    if (rc == 0)
        rc = gs_kube_view_items(
            status, GS_KUBE_ITEMS("conditions", *ret->condition, gs_kube_view_condition), arena,
            &ret->condition, &ret->n_conditions, err);
    return rc < 0 ? gs_err_wrap(err, rc, "status") : 0;
}

int gs_kube_view_quota(yyjson_val *val, struct gs_arena *arena, struct gs_kube_quota *ret,
                       struct gs_err *err)
{
    yyjson_val *spec, *status, *scopes, *selector, *terms;
    int rc;

    memset(ret, 0, sizeof(*ret));
    rc = begin(val, arena, &ret->meta, &spec, &status, err);
    if (rc < 0)
        return rc;
    rc = gs_kube_view_pairs(spec, "hard", true, arena, &ret->hard, err);
    if (rc == 0)
        rc = gs_kube_view_arr(spec, "scopes", &scopes, err);
    if (rc == 0)
        rc = gs_kube_view_obj(spec, "scopeSelector", &selector, err);
    if (rc == 0)
        rc = gs_kube_view_arr(selector, "matchExpressions", &terms, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "spec");
    ret->n_scopes = yyjson_arr_size(scopes) + yyjson_arr_size(terms);
    rc = gs_kube_view_pairs(status, "used", true, arena, &ret->used, err);
    return rc < 0 ? gs_err_wrap(err, rc, "status") : 0;
}

static int read_term(yyjson_val *item, struct gs_arena *arena, void *entry, struct gs_err *err)
{
    static const char *const words[] = {"In", "NotIn", "Exists", "DoesNotExist"};
    struct gs_kube_selector_term *term = entry;
    struct gs_str op = {0};

    if (gs_kube_json_str(item, "key", &term->key) != GS_KUBE_GOT)
        return gs_err_set(err, -EINVAL, "key: not text");
    if (gs_kube_json_str(item, "operator", &op) != GS_KUBE_GOT)
        return gs_err_set(err, -EINVAL, "operator: not text");
    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (gs_str_eq_c(op, words[i])) {
            term->op = (enum gs_kube_selector_op)i;
            return gs_kube_view_strs(item, "values", arena, &term->value, &term->n_values, err);
        }
    return gs_err_set(err, -EINVAL, "operator: '%.*s' is not known", (int)(op.n < 64 ? op.n : 64),
                      op.p);
}

static int read_selector(yyjson_val *spec, struct gs_arena *arena, struct gs_kube_selector *ret,
                         struct gs_err *err)
{
    struct gs_kube_selector_term *terms = NULL;
    struct gs_kube_pairs labels = {0};
    yyjson_val *selector;
    size_t n_terms = 0;
    int rc = gs_kube_view_obj(spec, "selector", &selector, err);

    if (rc < 0 || !selector)
        return rc;
    rc = gs_kube_view_pairs(selector, "matchLabels", false, arena, &labels, err);
    if (rc == 0)
        rc = gs_kube_view_items(selector, GS_KUBE_ITEMS("matchExpressions", *terms, read_term),
                                arena, &terms, &n_terms, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "selector");
    ret->term = GS_ARENA_ARRAY(arena, labels.n + n_terms, struct gs_kube_selector_term);
    if (!ret->term)
        return gs_err_set(err, -ENOMEM, "no memory for a view");
    for (size_t i = 0; i < labels.n; i++)
        ret->term[i] =
            (struct gs_kube_selector_term){labels.at[i].key, GS_KUBE_IN, &labels.at[i].value, 1};
    if (n_terms > 0)
        memcpy(ret->term + labels.n, terms, n_terms * sizeof(*terms));
    ret->n = labels.n + n_terms;
    ret->is_given = true;
    return 0;
}

static bool has_value(const struct gs_kube_selector_term *term, struct gs_str value)
{
    for (size_t i = 0; i < term->n_values; i++)
        if (gs_str_eq(term->value[i], value))
            return true;
    return false;
}

bool gs_kube_selector_matches(const struct gs_kube_selector *selector,
                              const struct gs_kube_pairs *labels)
{
    if (!selector->is_given)
        return false;
    for (size_t i = 0; i < selector->n; i++) {
        const struct gs_kube_selector_term *term = &selector->term[i];
        const struct gs_str *value = gs_kube_pairs_find(labels, term->key);
        bool holds = false;

        switch (term->op) {
        case GS_KUBE_IN:
            holds = value && has_value(term, *value);
            break;
        case GS_KUBE_NOT_IN:
            holds = !value || !has_value(term, *value);
            break;
        case GS_KUBE_EXISTS:
            holds = value != NULL;
            break;
        case GS_KUBE_NOT_EXISTS:
            holds = value == NULL;
            break;
        }
        if (!holds)
            return false;
    }
    return true;
}

/* disruptedPods is a map of names to times. */
static int read_disrupted(yyjson_val *status, struct gs_arena *arena, struct gs_kube_pdb *ret,
                          struct gs_err *err)
{
    struct gs_kube_pairs pods = {0};
    int rc = gs_kube_view_pairs(status, "disruptedPods", false, arena, &pods, err);

    if (rc < 0)
        return rc;
    ret->disrupted = GS_ARENA_ARRAY(arena, pods.n, struct gs_str);
    if (!ret->disrupted)
        return gs_err_set(err, -ENOMEM, "no memory for a view");
    for (size_t i = 0; i < pods.n; i++)
        ret->disrupted[i] = pods.at[i].key;
    ret->n_disrupted = pods.n;
    return 0;
}

int gs_kube_view_pdb(yyjson_val *val, struct gs_arena *arena, struct gs_kube_pdb *ret,
                     struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"disruptionsAllowed", GS_KUBE_FIELD_I32,
         offsetof(struct gs_kube_pdb, disruptions_allowed)},
    };
    yyjson_val *spec, *status;
    int rc;

    memset(ret, 0, sizeof(*ret));
    rc = begin(val, arena, &ret->meta, &spec, &status, err);
    if (rc < 0)
        return rc;
    rc = read_selector(spec, arena, &ret->selector, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "spec");
    rc = gs_kube_view_fields(status, rows, GS_ARRAY_LEN(rows), ret, err);
    if (rc == 0)
        rc = read_disrupted(status, arena, ret, err);
    return rc < 0 ? gs_err_wrap(err, rc, "status") : 0;
}

int gs_kube_view_lease(yyjson_val *val, struct gs_arena *arena, struct gs_kube_lease_view *ret,
                       struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"holderIdentity", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_lease_view, holder)},
        {"leaseDurationSeconds", GS_KUBE_FIELD_I32,
         offsetof(struct gs_kube_lease_view, duration_s)},
        {"leaseTransitions", GS_KUBE_FIELD_I32, offsetof(struct gs_kube_lease_view, transitions)},
        {"renewTime", GS_KUBE_FIELD_TIME, offsetof(struct gs_kube_lease_view, renew_us)},
        {"acquireTime", GS_KUBE_FIELD_TIME, offsetof(struct gs_kube_lease_view, acquire_us)},
    };
    yyjson_val *spec;
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->renew_us = ret->acquire_us = GS_KUBE_NO_TIME;
    rc = gs_kube_view_begin(val, arena, &ret->meta, err);
    if (rc == 0)
        rc = gs_kube_view_obj(val, "spec", &spec, err);
    if (rc < 0)
        return rc;
    rc = gs_kube_view_fields(spec, rows, GS_ARRAY_LEN(rows), ret, err);
    return rc < 0 ? gs_err_wrap(err, rc, "spec") : 0;
}
