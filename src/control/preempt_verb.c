/* POST /preempt: kube-scheduler has found victims for what it sees itself (processor, memory) and
 * asks whether the pod would fit. On a node where it would not, they would go for nothing. */

#include <errno.h>
#include <string.h>

#include <yyjson.h>

#include "control/convert.h"
#include "control/extender.h"
#include "control/preempt_internal.h"
#include "kube/json.h"
#include "kube/view.h"
#include "model/ask.h"
#include "model/json.h"

#define NODES_MAX 32 /* looked at; the others are not candidates */

struct verb {
    struct gs_preempt *p;
    struct gs_arena *arena;
    struct gs_arena round; /* of one node */
    struct gs_kube_pod seen;
    struct gs_pod pod;
    struct gs_ask ask;
    yyjson_mut_doc *out;
    yyjson_mut_val *nodes;
};

/* UID of an entry: of a MetaPod, or of a whole pod. */
static struct gs_str uid_of(yyjson_val *entry)
{
    yyjson_val *uid = gs_json_get(entry, "UID");

    if (uid == NULL)
        uid = gs_json_get(gs_json_get(entry, "metadata"), "uid");
    return gs_kube_json_text(uid);
}

static bool names(yyjson_val *pods, struct gs_str uid)
{
    yyjson_val *entry;
    size_t i, max;

    yyjson_arr_foreach(pods, i, max, entry)
    {
        if (gs_str_eq(uid_of(entry), uid))
            return true;
    }
    return false;
}

/* As it would be without those that kube-scheduler has chosen. */
static int plan_without(struct verb *v, struct gs_str name, yyjson_val *pods,
                        struct gs_books_guests *guests, struct gs_preempt_plan *ret)
{
    const struct gs_preempt_question q = {&v->ask, v->seen.priority, gs_loop_unix_us(v->p->loop)};
    struct gs_preempt_budgets budgets;
    struct gs_books_guest *guest;
    int rc = gs_books_guests(v->p->books, name, &v->round, guests);

    if (rc == 0)
        rc = gs_preempt_mark_asked(v->p, &v->round, guests, &guest);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < guests->n; i++)
        if (names(pods, guest[i].uid))
            guest[i].ends_us = INT64_MAX;
    rc = gs_budgets_of(v->p->budgets, guests, &v->round, &budgets);
    return rc < 0 ? rc : gs_preempt_plan_node(&q, guests, &budgets, &v->round, ret);
}

static void add_uid(struct verb *v, yyjson_mut_val *list, struct gs_str uid)
{
    yyjson_mut_val *entry = yyjson_mut_obj(v->out);

    (void)yyjson_mut_obj_add_strncpy(v->out, entry, "UID", uid.p, uid.n);
    (void)yyjson_mut_arr_append(list, entry);
}

/* Its victims, and ours where it takes more. */
static void add_node(struct verb *v, yyjson_val *key, yyjson_val *victims,
                     const struct gs_books_guests *guests, const struct gs_preempt_plan *plan)
{
    yyjson_val *pods = gs_json_get(victims, "Pods"), *entry;
    yyjson_mut_val *node = yyjson_mut_obj(v->out), *list = yyjson_mut_arr(v->out);
    int64_t violations = yyjson_get_sint(gs_json_get(victims, "NumPDBViolations"));
    bool is_beyond = false;
    size_t i, max;

    yyjson_arr_foreach(pods, i, max, entry) add_uid(v, list, uid_of(entry));
    for (i = 0; i < plan->n; i++)
        add_uid(v, list, guests->guest[plan->victim[i]].uid);
    if (plan->n > 0)
        is_beyond = __builtin_add_overflow(violations, plan->cost.violations, &violations);
    if (is_beyond)
        violations = INT64_MAX;
    (void)yyjson_mut_obj_add_val(v->out, node, "Pods", list);
    (void)yyjson_mut_obj_add_int(v->out, node, "NumPDBViolations", violations);
    (void)yyjson_mut_obj_add(v->nodes, yyjson_val_mut_copy(v->out, key), node);
}

static int look_at_nodes(struct verb *v, yyjson_val *map)
{
    yyjson_val *key, *victims;
    size_t i, max;

    if (map == NULL) /* absent or null: no node was sent */
        return 0;
    yyjson_obj_foreach(map, i, max, key, victims)
    {
        struct gs_str name = gs_kube_json_text(key);
        struct gs_books_guests guests = {0};
        struct gs_preempt_plan plan = {0};
        int rc;

        if (i == NODES_MAX)
            break;
        gs_arena_reset(&v->round);
        rc = v->ask.n_lines == 0
                 ? 0
                 : plan_without(v, name, gs_json_get(victims, "Pods"), &guests, &plan);
        if (rc == 0)
            add_node(v, key, victims, &guests, &plan);
        else if (rc != -ENOSPC && rc != -ENOENT)
            return rc;
    }
    return 0;
}

/* Victims are being asked for this pod already, or will be now: not twice. */
static bool is_under_way(const struct gs_preempt *p, struct gs_str uid)
{
    struct gs_preempt_want *w = gs_map_find(&p->wants, uid);

    if (w != NULL)
        gs_preempt_hurry(w);
    return w != NULL && w->step != GS_PREEMPT_RESTING;
}

static int read_pod(struct verb *v, yyjson_val *root, struct gs_err *err)
{
    const struct gs_ask_flags flags = {v->p->opt.filter->device_policy,
                                       v->p->opt.filter->node_policy, NULL};
    yyjson_val *pod = NULL;
    int rc = gs_json_only(root, "Pod", &pod, err);

    if (rc == 0 && pod == NULL)
        rc = gs_err_set(err, -EINVAL, "preemption args missing pod");
    if (rc == 0)
        rc = gs_kube_view_pod(pod, v->arena, &v->seen, err);
    if (rc == 0)
        rc = gs_convert_pod(&v->seen, v->arena, &v->pod);
    return rc < 0 ? rc : gs_books_ask(v->p->books, &v->pod, &flags, v->arena, &v->ask, err);
}

static int answer(struct verb *v, yyjson_val *root, char **ret, size_t *ret_n, struct gs_err *err)
{
    yyjson_val *map = NULL, *whole = NULL;
    yyjson_mut_val *reply;
    int rc = read_pod(v, root, err);

    if (rc == 0)
        rc = gs_json_only(root, "NodeNameToMetaVictims", &map, err);
    if (rc == 0)
        rc = gs_json_only(root, "NodeNameToVictims", &whole, err);
    if (rc < 0)
        return rc;
    map = map != NULL ? map : whole;
    if (map != NULL && !yyjson_is_obj(map))
        return gs_err_set(err, -EINVAL, "preemption args: nodes are no map of names to victims");
    v->out = yyjson_mut_doc_new(NULL);
    v->nodes = yyjson_mut_obj(v->out);
    reply = yyjson_mut_obj(v->out);
    if (!is_under_way(v->p, v->pod.uid))
        rc = look_at_nodes(v, map);
    if (rc == 0 && !yyjson_mut_obj_add_val(v->out, reply, "NodeNameToMetaVictims", v->nodes))
        rc = -ENOMEM;
    yyjson_mut_doc_set_root(v->out, reply);
    *ret = rc == 0 ? yyjson_mut_write(v->out, YYJSON_WRITE_ALLOW_INVALID_UNICODE, ret_n) : NULL;
    yyjson_mut_doc_free(v->out);
    return rc < 0 ? rc : *ret != NULL ? 0 : -ENOMEM;
}

int gs_preempt_answer(struct gs_preempt *p, struct gs_str body, struct gs_arena *arena, char **ret,
                      size_t *ret_n, struct gs_err *err)
{
    struct verb v = {.p = p, .arena = arena};
    yyjson_doc *doc;
    yyjson_val *root;
    int rc = gs_kube_json_read(body, GS_EXTENDER_BODY_MAX, &doc, err);

    if (rc < 0)
        return rc == -ENOMEM ? rc : -EINVAL;
    root = yyjson_doc_get_root(doc);
    rc = yyjson_is_null(root) ? gs_err_set(err, -EINVAL, "preemption args missing pod")
                              : answer(&v, root, ret, ret_n, err);
    yyjson_doc_free(doc);
    gs_arena_fini(&v.round);
    return rc == -E2BIG ? -EINVAL : rc;
}
