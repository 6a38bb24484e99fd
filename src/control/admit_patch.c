#include "control/admit_patch.h"

#include <errno.h>

#include <yyjson.h>

#include "base/buf.h"
#include "kube/base64.h"
#include "kube/patch.h"

/* What is known to be there by now: by the pod as it came, or by an operation before. */
struct made {
    bool resources, limits, requests, env;
};

struct builder {
    const struct gs_pod *pod;
    yyjson_val *object, *spec;
    struct gs_arena *arena;
    struct gs_kube_patch patch;
    struct made *made; /**< [n_containers] */
    bool has_annotations;
};

static struct gs_str number(struct builder *b, size_t n)
{
    return gs_arena_printf(b->arena, "%zu", n);
}

static struct gs_str list_of(const struct builder *b, size_t c)
{
    return c < b->pod->n_init ? GS_STR("initContainers") : GS_STR("containers");
}

static size_t index_of(const struct builder *b, size_t c)
{
    return c < b->pod->n_init ? c : c - b->pod->n_init;
}

static yyjson_val *container_of(const struct builder *b, size_t c)
{
    struct gs_str list = list_of(b, c);

    return yyjson_arr_get(yyjson_obj_getn(b->spec, list.p, list.n), index_of(b, c));
}

static void add_object(struct builder *b, struct gs_kube_pointer at)
{
    gs_kube_patch_add(&b->patch, at, yyjson_mut_obj(b->patch.doc));
}

/* /spec/containers/2/resources/limits/<key>, with what is missing on the way. */
static void set_resource(struct builder *b, const struct gs_edit *e)
{
    struct made *m = &b->made[e->container];
    bool is_limit = e->kind == GS_EDIT_LIMIT, *has_map = is_limit ? &m->limits : &m->requests;
    struct gs_str list = list_of(b, e->container), at = number(b, index_of(b, e->container));
    struct gs_str map = is_limit ? GS_STR("limits") : GS_STR("requests");
    struct gs_str spec = GS_STR("spec"), resources = GS_STR("resources");

    if (!m->resources)
        add_object(b, GS_KUBE_POINTER(spec, list, at, resources));
    if (!*has_map)
        add_object(b, GS_KUBE_POINTER(spec, list, at, resources, map));
    m->resources = *has_map = true;
    gs_kube_patch_add_str(&b->patch, GS_KUBE_POINTER(spec, list, at, resources, map, e->key),
                          e->value);
}

/* Where a variable stands in the pod's list, counting those added before this edit; n: nowhere. */
static size_t env_index(struct builder *b, const struct gs_edit *e, size_t *ret_n)
{
    yyjson_val *env = yyjson_obj_get(container_of(b, e->container), "env"), *var;
    size_t i, max, n = yyjson_arr_size(env), found = SIZE_MAX;

    yyjson_arr_foreach(env, i, max, var)
    {
        yyjson_val *name = yyjson_obj_get(var, "name");

        if (yyjson_is_str(name) &&
            gs_str_eq(e->key, (struct gs_str){yyjson_get_str(name), yyjson_get_len(name)}))
            found = i;
    }
    for (const struct gs_edit *before = b->pod->edit; before < e; before++) {
        size_t unused;

        if (before->kind != GS_EDIT_ENV || before->container != e->container ||
            env_index(b, before, &unused) < yyjson_arr_size(env))
            continue;
        if (gs_str_eq(before->key, e->key))
            found = n;
        n++;
    }
    *ret_n = n;
    return found < n ? found : n;
}

static void set_env(struct builder *b, const struct gs_edit *e)
{
    yyjson_mut_doc *doc = b->patch.doc;
    struct gs_str list = list_of(b, e->container), at = number(b, index_of(b, e->container));
    struct gs_str spec = GS_STR("spec"), env = GS_STR("env");
    yyjson_mut_val *var = yyjson_mut_obj(doc);
    size_t n, where = env_index(b, e, &n);

    (void)yyjson_mut_obj_add_strncpy(doc, var, "name", e->key.p, e->key.n);
    (void)yyjson_mut_obj_add_strncpy(doc, var, "value", e->value.p, e->value.n);
    if (!b->made[e->container].env)
        gs_kube_patch_add(&b->patch, GS_KUBE_POINTER(spec, list, at, env), yyjson_mut_arr(doc));
    b->made[e->container].env = true;
    if (where < n)
        gs_kube_patch_replace(&b->patch, GS_KUBE_POINTER(spec, list, at, env, number(b, where)),
                              var);
    else
        gs_kube_patch_add(&b->patch, GS_KUBE_POINTER(spec, list, at, env, GS_STR("-")), var);
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
        if (!b->has_annotations)
            add_object(b, GS_KUBE_POINTER(meta, GS_STR("annotations")));
        b->has_annotations = true;
        gs_kube_patch_add_str(&b->patch, GS_KUBE_POINTER(meta, GS_STR("annotations"), e->key),
                              e->value);
        break;
    case GS_EDIT_NO_ANNOTATION:
        gs_kube_patch_remove(&b->patch, GS_KUBE_POINTER(meta, GS_STR("annotations"), e->key));
        break;
    case GS_EDIT_NO_LABEL:
        gs_kube_patch_remove(&b->patch, GS_KUBE_POINTER(meta, GS_STR("labels"), e->key));
        break;
    case GS_EDIT_RUNTIME_CLASS:
        gs_kube_patch_add_str(&b->patch, GS_KUBE_POINTER(spec, GS_STR("runtimeClassName")),
                              e->value);
        break;
    case GS_EDIT_SCHEDULER:
        gs_kube_patch_add_str(&b->patch, GS_KUBE_POINTER(spec, GS_STR("schedulerName")), e->value);
        break;
    }
}

static int look_at_pod(struct builder *b)
{
    b->spec = yyjson_obj_get(b->object, "spec");
    b->has_annotations =
        yyjson_is_obj(yyjson_obj_get(yyjson_obj_get(b->object, "metadata"), "annotations"));
    b->made = GS_ARENA_ARRAY(b->arena, b->pod->n_containers, struct made);
    if (b->made == NULL)
        return -ENOMEM;
    for (size_t c = 0; c < b->pod->n_containers; c++) {
        yyjson_val *container = container_of(b, c);
        yyjson_val *resources = yyjson_obj_get(container, "resources");

        b->made[c] = (struct made){
            .resources = yyjson_is_obj(resources),
            .limits = yyjson_is_obj(yyjson_obj_get(resources, "limits")),
            .requests = yyjson_is_obj(yyjson_obj_get(resources, "requests")),
            .env = yyjson_is_arr(yyjson_obj_get(container, "env")),
        };
    }
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
        gs_kube_base64_put(&encoded, (struct gs_str){gs_buf_text(&text), text.n});
    rc = rc < 0 ? rc : gs_buf_check(&encoded);
    if (rc == 0)
        *ret = gs_arena_str(arena, (struct gs_str){gs_buf_text(&encoded), encoded.n});
    gs_buf_fini(&text);
    gs_buf_fini(&encoded);
    return rc < 0 ? -ENOMEM : gs_arena_check(arena);
}
