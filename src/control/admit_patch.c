#include "control/admit_patch.h"

#include <errno.h>

#include <yyjson.h>

#include "base/buf.h"
#include "kube/base64.h"
#include "kube/patch.h"

/* A variable that an operation before has added to a container. */
struct added {
    struct added *next;
    struct gs_str name;
    size_t at; /**< index in the container's list */
};

/* A container, and what is known to be there by now: by the pod as it came, or by an operation
 * before. */
struct made {
    struct gs_str list; /**< "containers" or "initContainers" */
    struct gs_str at;   /**< index in it */
    yyjson_val *val, *env;
    size_t n_env;
    struct added *added; /**< of n_env, those of ours; latest first */
    bool has_resources, has_limits, has_requests, has_env;
};

struct builder {
    const struct gs_pod *pod;
    yyjson_val *object, *meta, *spec;
    struct gs_arena *arena;
    struct gs_kube_patch patch;
    struct made *made; /**< [n_containers] */
    bool has_annotations;
};

static struct gs_str number(struct builder *b, size_t n)
{
    return gs_arena_printf(b->arena, "%zu", n);
}

/* Sets a member of an object. By RFC 6902 "add" would do for one that is there, but not every
 * reader of patches knows that. */
static void put(struct builder *b, yyjson_val *parent, struct gs_kube_pointer at,
                yyjson_mut_val *value)
{
    struct gs_str key = at.part[at.n - 1];

    if (yyjson_obj_getn(parent, key.p, key.n) != NULL)
        gs_kube_patch_replace(&b->patch, at, value);
    else
        gs_kube_patch_add(&b->patch, at, value);
}

static void put_str(struct builder *b, yyjson_val *parent, struct gs_kube_pointer at,
                    struct gs_str value)
{
    put(b, parent, at, yyjson_mut_strncpy(b->patch.doc, value.p, value.n));
}

/* /spec/containers/2/resources/limits/<key>, with what is missing on the way. */
static void set_resource(struct builder *b, const struct gs_edit *e)
{
    struct made *m = &b->made[e->container];
    bool is_limit = e->kind == GS_EDIT_LIMIT,
         *has_map = is_limit ? &m->has_limits : &m->has_requests;
    struct gs_str map = is_limit ? GS_STR("limits") : GS_STR("requests");
    struct gs_str spec = GS_STR("spec"), resources = GS_STR("resources");

    if (!m->has_resources)
        put(b, m->val, GS_KUBE_POINTER(spec, m->list, m->at, resources),
            yyjson_mut_obj(b->patch.doc));
    if (!*has_map)
        put(b, yyjson_obj_get(m->val, "resources"),
            GS_KUBE_POINTER(spec, m->list, m->at, resources, map), yyjson_mut_obj(b->patch.doc));
    m->has_resources = *has_map = true;
    put_str(b, yyjson_obj_get(yyjson_obj_get(m->val, "resources"), map.p),
            GS_KUBE_POINTER(spec, m->list, m->at, resources, map, e->key), e->value);
}

/* Where the variable that counts stands in the container's list; n_env: nowhere. */
static size_t env_index(const struct made *m, struct gs_str name)
{
    yyjson_val *var;
    size_t i, max, found = m->n_env;

    for (const struct added *a = m->added; a != NULL; a = a->next)
        if (gs_str_eq(a->name, name))
            return a->at;
    yyjson_arr_foreach(m->env, i, max, var)
    {
        yyjson_val *has = yyjson_obj_get(var, "name");

        if (yyjson_equals_strn(has, name.p, name.n))
            found = i;
    }
    return found;
}

static void append_env(struct builder *b, struct made *m, struct gs_str name, yyjson_mut_val *var)
{
    struct gs_str spec = GS_STR("spec"), env = GS_STR("env");
    struct added *added = GS_ARENA_NEW(b->arena, struct added);

    if (!m->has_env)
        put(b, m->val, GS_KUBE_POINTER(spec, m->list, m->at, env), yyjson_mut_arr(b->patch.doc));
    m->has_env = true;
    gs_kube_patch_add(&b->patch, GS_KUBE_POINTER(spec, m->list, m->at, env, GS_STR("-")), var);
    if (added == NULL)
        return; /* told by the arena at the end */
    *added = (struct added){m->added, name, m->n_env++};
    m->added = added;
}

/* The whole variable is replaced: a value by reference goes too. */
static void set_env(struct builder *b, const struct gs_edit *e)
{
    struct made *m = &b->made[e->container];
    yyjson_mut_doc *doc = b->patch.doc;
    yyjson_mut_val *var = yyjson_mut_obj(doc);
    struct gs_str spec = GS_STR("spec"), env = GS_STR("env");
    size_t where = env_index(m, e->key);

    (void)yyjson_mut_obj_add_strncpy(doc, var, "name", e->key.p, e->key.n);
    (void)yyjson_mut_obj_add_strncpy(doc, var, "value", e->value.p, e->value.n);
    if (where < m->n_env)
        gs_kube_patch_replace(&b->patch,
                              GS_KUBE_POINTER(spec, m->list, m->at, env, number(b, where)), var);
    else
        append_env(b, m, e->key, var);
}

static bool was_removed(const struct builder *b, const struct gs_edit *e)
{
    for (const struct gs_edit *before = b->pod->edit; before < e; before++)
        if (before->kind == GS_EDIT_NO_ANNOTATION && gs_str_eq(before->key, e->key))
            return true;
    return false;
}

static void set_annotation(struct builder *b, const struct gs_edit *e)
{
    struct gs_str meta = GS_STR("metadata"), key = GS_STR("annotations");
    yyjson_val *there = was_removed(b, e) ? NULL : yyjson_obj_get(b->meta, "annotations");

    if (!b->has_annotations)
        put(b, b->meta, GS_KUBE_POINTER(meta, key), yyjson_mut_obj(b->patch.doc));
    b->has_annotations = true;
    put_str(b, there, GS_KUBE_POINTER(meta, key, e->key), e->value);
}

static void apply(struct builder *b, const struct gs_edit *e)
{
    struct gs_str meta = GS_STR("metadata"), spec = GS_STR("spec");

    switch (e->kind) {
    case GS_EDIT_LIMIT:
    case GS_EDIT_REQUEST:
        set_resource(b, e);
        break;
    case GS_EDIT_ENV:
        set_env(b, e);
        break;
    case GS_EDIT_ANNOTATION:
        set_annotation(b, e);
        break;
    case GS_EDIT_NO_ANNOTATION:
        gs_kube_patch_remove(&b->patch, GS_KUBE_POINTER(meta, GS_STR("annotations"), e->key));
        break;
    case GS_EDIT_NO_LABEL:
        gs_kube_patch_remove(&b->patch, GS_KUBE_POINTER(meta, GS_STR("labels"), e->key));
        break;
    case GS_EDIT_RUNTIME_CLASS:
        put_str(b, b->spec, GS_KUBE_POINTER(spec, GS_STR("runtimeClassName")), e->value);
        break;
    case GS_EDIT_SCHEDULER:
        put_str(b, b->spec, GS_KUBE_POINTER(spec, GS_STR("schedulerName")), e->value);
        break;
    }
}

/* The containers of one list, in its order, into m[n]. */
static void look_at_list(struct builder *b, const char *list, struct made *m, size_t n)
{
    yyjson_val *containers = yyjson_obj_get(b->spec, list), *c;
    size_t i, max;

    yyjson_arr_foreach(containers, i, max, c)
    {
        yyjson_val *resources = yyjson_obj_get(c, "resources"), *env = yyjson_obj_get(c, "env");

        if (i == n)
            return;
        m[i] = (struct made){
            .list = gs_str_of(list),
            .at = number(b, i),
            .val = c,
            .env = env,
            .n_env = yyjson_arr_size(env),
            .has_resources = yyjson_is_obj(resources),
            .has_limits = yyjson_is_obj(yyjson_obj_get(resources, "limits")),
            .has_requests = yyjson_is_obj(yyjson_obj_get(resources, "requests")),
            .has_env = yyjson_is_arr(env),
        };
    }
}

static int look_at_pod(struct builder *b)
{
    const struct gs_pod *pod = b->pod;

    b->spec = yyjson_obj_get(b->object, "spec");
    b->meta = yyjson_obj_get(b->object, "metadata");
    b->has_annotations = yyjson_is_obj(yyjson_obj_get(b->meta, "annotations"));
    b->made = GS_ARENA_ARRAY(b->arena, pod->n_containers, struct made);
    if (b->made == NULL)
        return -ENOMEM;
    look_at_list(b, "initContainers", b->made, pod->n_init);
    look_at_list(b, "containers", b->made + pod->n_init, pod->n_containers - pod->n_init);
    return 0;
}

int gs_admit_patch(const struct gs_pod *pod, yyjson_val *object, struct gs_arena *arena,
                   struct gs_str *ret)
{
    struct builder b = {.pod = pod, .object = object, .arena = arena};
    struct gs_buf text = {0}, encoded = {0};
    int rc;

    *ret = (struct gs_str){0};
    if (pod->n_edits == 0)
        return 0;
    rc = look_at_pod(&b);
    if (rc < 0)
        return rc;
    gs_kube_patch_init(&b.patch);
    for (size_t i = 0; i < pod->n_edits; i++)
        apply(&b, &pod->edit[i]);
    rc = gs_kube_patch_text(&b.patch, &text);
    gs_kube_patch_fini(&b.patch);
    if (rc == 0)
        gs_kube_base64_put(&encoded, gs_buf_str(&text));
    gs_buf_fini(&text);
    if (gs_buf_move(&encoded, arena, ret) < 0 || rc < 0)
        return -ENOMEM;
    return gs_arena_check(arena);
}
