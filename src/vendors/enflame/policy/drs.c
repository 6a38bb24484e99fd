#include "vendors/enflame/policy/drs.h"

#include <errno.h>
#include <yyjson.h>

#include "core/size.h"
#include "model/amount.h"
#include "model/fit.h"
#include "model/json_out.h"
#include "model/node.h"
#include "model/policy.h"
#include "model/request.h"
#include "vendors/enflame/policy/drs_profile.h"

enum form {
    FORM_SLICES, /* mem_mib of the request is a number of slices */
    FORM_SPEC,   /* mem_mib is GB or MiB, cores is percent */
};

/* gs_device.custom: a card and what its node can cut it into. */
struct card {
    struct gs_drs_card card;
    const struct gs_drs_profiles *profiles;
};

/* Check one amount and see that limits and requests both have it.
 * 1; 0 not there; -EINVAL with HAMi's text; -ENOMEM. */
static int mirror(struct gs_pod *pod, size_t container, struct gs_str name, int32_t max,
                  struct gs_err *err)
{
    const struct gs_container *c = &pod->container[container];
    const struct gs_str *found = gs_container_amount(c, name);
    struct gs_str text;
    int64_t value = 0;
    int rc;

    if (found == NULL)
        return 0;
    text = *found;
    rc = gs_amount_read(c, name, GS_AMOUNT_BOTH, &value);
    if (rc < 0)
        return gs_err_set(err, -EINVAL, "%.*s must be an integer", (int)name.n, name.p);
    if (value <= 0 && max == INT32_MAX)
        return gs_err_set(err, -EINVAL, "%.*s must be greater than 0", (int)name.n, name.p);
    if (value <= 0 || value > max)
        return gs_err_set(err, -EINVAL, "%.*s must be in range (0,%d]", (int)name.n, name.p, max);
    rc = gs_pod_edit(pod, GS_EDIT_LIMIT, container, name, text);
    if (rc == 0 && gs_pairs_find(&c->requests, name) == NULL)
        rc = gs_pod_edit(pod, GS_EDIT_REQUEST, container, name, text);
    return rc < 0 ? rc : 1;
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    int by_slices = mirror(pod, container, policy->names.count, INT32_MAX, err);
    int by_mem, by_core;

    if (by_slices != 0)
        return by_slices;
    by_mem = mirror(pod, container, policy->names.mem, INT32_MAX, err);
    if (by_mem < 0)
        return by_mem;
    by_core = mirror(pod, container, policy->names.core, 100, err);
    if (by_core < 0)
        return by_core;
    return by_mem > 0 || by_core > 0;
}

static void request_of(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_request *ret)
{
    const struct gs_container *c = &pod->container[container];
    const struct gs_names *names = &policy->names;
    int32_t mem = 0, cores = 0;
    int rc = gs_amount_read_i32(c, names->count, GS_AMOUNT_BOTH, 1, &mem);

    *ret = (struct gs_request){0};
    if (rc != 0) {
        if (rc > 0 && mem > 0)
            *ret = (struct gs_request){.nums = 1, .mem_mib = mem, .form = FORM_SLICES};
        return;
    }
    if (!gs_amount_is_there(c, names->mem, GS_AMOUNT_BOTH) &&
        !gs_amount_is_there(c, names->core, GS_AMOUNT_BOTH))
        return;
    if (gs_amount_read_i32(c, names->mem, GS_AMOUNT_BOTH, 1, &mem) < 0 ||
        gs_amount_read_i32(c, names->core, GS_AMOUNT_BOTH, 1, &cores) < 0)
        return;
    /* HAMi notes this form as -1 percent */
    *ret = (struct gs_request){
        .nums = 1, .mem_mib = mem, .mem_pct = -1, .cores = cores, .form = FORM_SPEC};
}

static struct gs_device device_of(struct gs_str node, const struct card *card, uint32_t position,
                                  struct gs_arena *arena)
{
    uint64_t index;

    if (gs_size_parse_u64(card->card.index, &index) != 0 || index > INT32_MAX)
        index = position;
    return (struct gs_device){
        .id = gs_arena_printf(arena, "%.*s-enflame-drs-%.*s", (int)node.n, node.p,
                              (int)card->card.index.n, card->card.index.p),
        .type = GS_STR("Enflame"),
        .index = (uint32_t)index,
        .count = card->card.slices,
        .mem_mib = card->profiles->max_gb * 1024,
        .cores = 100,
        .is_healthy = true,
        .custom = card,
    };
}

static int read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    const struct gs_str *text = gs_pairs_find(node->annotations, policy->keys.node_register);
    const struct gs_drs_card *given = NULL;
    struct gs_drs_profiles *profiles;
    struct gs_device *dev;
    struct card *card;
    size_t n = 0;
    int rc;

    if (text == NULL)
        return -ENOENT;
    profiles = GS_ARENA_NEW(arena, struct gs_drs_profiles);
    if (profiles == NULL)
        return -ENOMEM;
    rc = gs_drs_profile_read(*text, arena, profiles, &given, &n, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "annotation %.*s", (int)policy->keys.node_register.n,
                           policy->keys.node_register.p);
    card = GS_ARENA_ARRAY(arena, n, struct card);
    dev = GS_ARENA_ARRAY(arena, n, struct gs_device);
    if (card == NULL || dev == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        card[i] = (struct card){given[i], profiles};
        dev[i] = device_of(node->name, &card[i], (uint32_t)i, arena);
    }
    rc = gs_arena_check(arena);
    if (rc < 0)
        return rc;
    *ret_dev = dev;
    ret->n = (uint32_t)n;
    ret->facts = profiles;
    return 0;
}

/* The smallest profile that serves; NULL: none. */
static const struct gs_drs_profile *profile_for(const struct gs_drs_profiles *profiles,
                                                const struct gs_request *r)
{
    /* more than twice the card in GB can only be meant as MiB */
    int64_t gb = r->mem_mib > 2 * (int64_t)profiles->max_gb ? ((int64_t)r->mem_mib + 1023) / 1024
                                                            : r->mem_mib;

    for (size_t i = 0; i < profiles->n; i++) {
        const struct gs_drs_profile *p = &profiles->at[i];

        if (r->form == FORM_SLICES
                ? p->slices == r->mem_mib
                : p->gb >= gb && gs_drs_profile_cores(profiles, p->slices) >= r->cores)
            return p;
    }
    return NULL;
}

static enum gs_reason question(const struct gs_fit *fit, uint32_t at,
                               const struct gs_drs_profile *profile)
{
    const struct gs_device *dev = &fit->node->dev[at];
    const struct gs_use *use = &fit->use[at];
    enum gs_reason why = gs_fit_ask(fit, at);

    if (why != GS_REASON_COUNT)
        return why;
    if (fit->policy->is_mutex && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    if (profile == NULL)
        return GS_REASON_MODE_NOT_FIT;
    /* grants have slices as cores */
    if (dev->count - gs_drs_profile_slices(fit->group->facts, use->cores) < profile->slices)
        return GS_REASON_CARD_TIME_SLICING_EXHAUSTED;
    return GS_REASON_COUNT;
}

static int fit_slice(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    const struct gs_drs_profiles *profiles = fit->group->facts;
    const struct gs_drs_profile *profile = profile_for(profiles, fit->request);

    (void)policy;
    gs_reasons_reset(fit->reasons, fit->group->n);
    for (uint32_t i = fit->group->n; i > 0; i--) {
        uint32_t at = fit->order[i - 1];
        enum gs_reason why = question(fit, at, profile);

        if (why == GS_REASON_COUNT) {
            *ret_pick = (struct gs_pick){
                .dev = at,
                .mem_mib = profile->gb * 1024,
                .cores = gs_drs_profile_cores(profiles, profile->slices),
                .profile = profile->name,
            };
            return 1;
        }
        gs_reasons_add(fit->reasons, why, 1);
    }
    return -ENOSPC;
}

static const struct gs_drs_profile *profile_named(const struct gs_drs_profiles *profiles,
                                                  struct gs_str name)
{
    for (size_t i = 0; i < profiles->n; i++)
        if (gs_str_eq(profiles->at[i].name, name))
            return &profiles->at[i];
    return NULL;
}

/* What the annotations say, gathered over the containers. */
struct written {
    struct gs_str index, minor; /* comma lists */
    int32_t slices;
    yyjson_mut_doc *doc;
};

static struct gs_str joined(struct gs_arena *arena, struct gs_str list, struct gs_str more)
{
    return gs_arena_printf(arena, "%.*s%s%.*s", (int)list.n, list.n > 0 ? list.p : "",
                           list.n > 0 ? "," : "", (int)more.n, more.n > 0 ? more.p : "");
}

static int write_slice(struct written *w, struct gs_arena *arena, struct gs_str container,
                       const struct card *card, struct gs_str profile_name)
{
    const struct gs_drs_profile *profile = profile_named(card->profiles, profile_name);
    yyjson_mut_val *key = yyjson_mut_strn(w->doc, container.p, container.n);
    yyjson_mut_val *v = yyjson_mut_obj(w->doc);

    if (profile == NULL)
        return -EINVAL; /* fit_slice() took it from the same table */
    w->index = joined(arena, w->index, card->card.index);
    w->minor = joined(arena, w->minor, card->card.minor);
    w->slices += profile->slices;
    return yyjson_mut_obj_add_bool(w->doc, v, "allocated", false) &&
                   yyjson_mut_obj_add_int(w->doc, v, "request", profile->slices) &&
                   yyjson_mut_obj_add_strn(w->doc, v, "profileID", profile->id.p, profile->id.n) &&
                   yyjson_mut_obj_add_strn(w->doc, v, "profileName", profile->name.p,
                                           profile->name.n) &&
                   yyjson_mut_obj_add(yyjson_mut_doc_get_root(w->doc), key, v)
               ? 0
               : -ENOMEM;
}

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    yyjson_alc alc = gs_json_out_alc(arena);
    struct written w = {.doc = yyjson_mut_doc_new(&alc)};

    (void)policy;
    if (w.doc == NULL)
        return -ENOMEM;
    yyjson_mut_doc_set_root(w.doc, yyjson_mut_obj(w.doc));
    for (size_t c = 0; c < a->pod->n_containers; c++)
        for (size_t i = 0; i < a->n_picks[c]; i++) {
            int rc = write_slice(&w, arena, a->pod->container[c].name,
                                 a->node->dev[a->pick[c][i].dev].custom, a->pick[c][i].profile);

            if (rc < 0)
                return rc;
        }
    if (w.slices == 0)
        return 0;
    (void)gs_pairs_set(ret, arena, GS_STR("enflame.com/gcu-assigned"), GS_STR("false"));
    (void)gs_pairs_set(ret, arena, GS_STR("enflame.com/gcu-assigned-time"),
                       gs_arena_printf(arena, "%lld", (long long)a->now_ns));
    (void)gs_pairs_set(ret, arena, GS_STR("enflame.com/gcu-assigned-index"), w.index);
    (void)gs_pairs_set(ret, arena, GS_STR("enflame.com/gcu-assigned-id"), w.index);
    (void)gs_pairs_set(ret, arena, GS_STR("enflame.com/gcu-assigned-minor"), w.minor);
    (void)gs_pairs_set(ret, arena, GS_STR("enflame.com/gcu-request-size"),
                       gs_arena_printf(arena, "%d", w.slices));
    (void)gs_pairs_set(ret, arena, GS_STR("assigned-containers"), gs_json_out_text(w.doc, arena));
    return gs_arena_check(arena); /* says it for all of them */
}

const struct gs_policy_ops gs_drs_ops = {
    .admit = admit,
    .request = request_of,
    .read_node = read_node,
    .fit = fit_slice,
    .annotate = annotate,
};
