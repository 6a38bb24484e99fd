#include "monitor/pods.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contract/env.h"
#include "contract/names.h"
#include "contract/quota.h"
#include "kube/view.h"
#include "model/grant.h"

#define MIB ((uint64_t)1 << 20)

void gs_pods_init(struct gs_pods *pods, const struct gs_pods_keys *keys, size_t n_keys)
{
    *pods = (struct gs_pods){.keys = keys, .n_keys = n_keys};
    gs_map_init(&pods->map);
}

static void free_pod(struct gs_pods_pod *pod)
{
    if (pod == NULL)
        return;
    gs_arena_fini(&pod->arena);
    free(pod);
}

void gs_pods_fini(struct gs_pods *pods)
{
    struct gs_pods_pod *pod;
    size_t at = 0;

    while ((pod = gs_map_next(&pods->map, &at)) != NULL)
        free_pod(pod);
    gs_map_fini(&pods->map);
}

/* ---- what a container asked for ---- */

static struct gs_str env_of(const struct gs_kube_container *c, const char *name)
{
    struct gs_str value = {0};

    for (size_t i = 0; i < c->n_env; i++)
        if (gs_str_eq_c(c->env[i].name, name) && !c->env[i].is_ref)
            value = c->env[i].value;
    return value;
}

static bool is_yes(struct gs_str s)
{
    return gs_str_eq_c(s, "true") || gs_str_eq_c(s, "1");
}

/* As the hook reads them: README, "HAMi's variable". */
static void take_env(const struct gs_kube_container *from, struct gs_pods_container *to)
{
    struct gs_str policy = env_of(from, GS_ENV_CORE_POLICY);
    struct gs_str priority = env_of(from, GS_ENV_PRIORITY);

    to->policy = gs_str_eq_c(policy, "default")   ? GS_POLICY_ELASTIC
                 : gs_str_eq_c(policy, "disable") ? GS_POLICY_OFF
                                                  : GS_POLICY_FIXED;
    to->priority = gs_str_eq_c(priority, "0")   ? GS_PRIORITY_HIGH
                   : gs_str_eq_c(priority, "1") ? GS_PRIORITY_LOW
                                                : GS_PRIORITY_NONE;
    to->is_oversubscribed = is_yes(env_of(from, GS_ENV_OVERSUBSCRIBE));
    to->is_uncontrolled = is_yes(env_of(from, GS_ENV_NO_CONTROL));
}

static const struct gs_kube_container_status *status_of(const struct gs_kube_pod *pod,
                                                        struct gs_str name)
{
    for (size_t i = 0; i < pod->n_init_status; i++)
        if (gs_str_eq(pod->init_status[i].name, name))
            return &pod->init_status[i];
    for (size_t i = 0; i < pod->n_status; i++)
        if (gs_str_eq(pod->status[i].name, name))
            return &pod->status[i];
    return NULL;
}

static void take_status(const struct gs_kube_container_status *from, struct gs_arena *arena,
                        struct gs_pods_container *to)
{
    struct gs_str id = from->container_id;

    for (size_t i = 0; i + 3 <= id.n; i++) {
        if (memcmp(id.p + i, "://", 3) != 0)
            continue;
        id = (struct gs_str){id.p + i + 3, id.n - i - 3};
        break;
    }
    to->id = gs_arena_str(arena, id);
    to->state = from->state == GS_KUBE_STATE_RUNNING      ? GS_PODS_RUNNING
                : from->state == GS_KUBE_STATE_TERMINATED ? GS_PODS_ENDED
                                                          : GS_PODS_WAITING;
}

static void take_containers(const struct gs_kube_pod *from, struct gs_pods_pod *to)
{
    to->container = GS_ARENA_ARRAY(&to->arena, from->n_containers, struct gs_pods_container);
    if (to->container == NULL)
        return;
    to->n_containers = from->n_containers;
    for (size_t i = 0; i < from->n_containers; i++) {
        const struct gs_kube_container *c = &from->container[i];
        const struct gs_kube_container_status *status = status_of(from, c->name);

        to->container[i].name = gs_arena_str(&to->arena, c->name);
        take_env(c, &to->container[i]);
        if (status != NULL)
            take_status(status, &to->arena, &to->container[i]);
    }
}

/* ---- what it was granted ---- */

static struct gs_str annotation(const struct gs_kube_pod *pod, struct gs_str key)
{
    const struct gs_str *value = key.n > 0 ? gs_kube_pairs_find(&pod->meta.annotations, key) : NULL;

    return value != NULL ? *value : (struct gs_str){0};
}

static int add_slot(const struct gs_grant_slot *slot, struct gs_arena *arena,
                    struct gs_pods_container *to)
{
    struct gs_pods_device *device =
        GS_ARENA_ARRAY(arena, to->n_devices + slot->n, struct gs_pods_device);

    if (device == NULL)
        return -ENOMEM;
    if (to->n_devices > 0)
        memcpy(device, to->device, to->n_devices * sizeof(*device));
    for (size_t i = 0; i < slot->n; i++) {
        const struct gs_grant_dev *d = &slot->dev[i];
        struct gs_str card = gs_grant_card(d->uuid);

        if (!gs_str_is_word(card))
            card = GS_STR(""); /* no card is called so, and no series */
        device[to->n_devices + i] = (struct gs_pods_device){
            .uuid = card,
            .mem_bytes = (uint64_t)d->mem_mib * MIB,
            .core_pct = d->cores <= 100 ? (uint32_t)d->cores : 100,
            .is_part = gs_grant_card(d->uuid).n != d->uuid.n, /* as v2.9 wrote it */
        };
    }
    to->device = device;
    to->n_devices += slot->n;
    return 0;
}

static int take_parts(struct gs_str text, struct gs_pods_pod *to, struct gs_err *err)
{
    struct gs_mig_grant *mig = NULL;
    size_t n = 0;
    int rc = gs_grant_mig_read(text, &to->arena, &mig, &n, err);

    if (rc < 0 || n == 0)
        return rc;
    to->part = GS_ARENA_ARRAY(&to->arena, n, struct gs_pods_part);
    for (size_t i = 0; to->part != NULL && i < n; i++) {
        struct gs_pods_container *c;

        if (mig[i].container >= to->n_containers)
            continue;
        c = &to->container[mig[i].container];
        if (mig[i].device < c->n_devices)
            c->device[mig[i].device].is_part = true;
        if (!mig[i].is_realised)
            continue;
        to->part[to->n_parts++] = (struct gs_pods_part){
            .container = mig[i].container,
            .device = mig[i].device,
            .uuid = mig[i].mig_uuid,
            .card = mig[i].gpu_uuid,
            .profile = mig[i].profile,
            .gpu_instance = mig[i].gpu_instance,
            .compute_instance = mig[i].compute_instance,
        };
    }
    return 0;
}

static int take_grant(const struct gs_kube_pod *pod, const struct gs_pods_keys *keys,
                      struct gs_pods_pod *to, struct gs_err *err)
{
    struct gs_str text = gs_arena_str(&to->arena, annotation(pod, keys->allocated));
    struct gs_str parts = annotation(pod, keys->placements);
    struct gs_grant grant = {0};
    int rc = text.n > 0 ? gs_grant_read(text, &to->arena, &grant, err) : 0;

    for (size_t i = 0; rc == 0 && i < grant.n && i < to->n_containers; i++)
        if (grant.slot[i].n > 0)
            rc = add_slot(&grant.slot[i], &to->arena, &to->container[i]);
    if (rc == 0 && parts.n > 0)
        rc = take_parts(parts, to, err);
    return rc;
}

/* ---- the set ---- */

static int replace(struct gs_pods *pods, struct gs_pods_pod *pod)
{
    struct gs_pods_pod *old = gs_map_remove(&pods->map, pod->uid);
    int rc = gs_map_set(&pods->map, pod->uid, pod);

    if (rc == 0) {
        free_pod(old);
        return 0;
    }
    free_pod(pod);
    if (old != NULL && gs_map_set(&pods->map, old->uid, old) < 0)
        free_pod(old);
    return rc;
}

int gs_pods_set(struct gs_pods *pods, const struct gs_kube_pod *pod, struct gs_err *err)
{
    struct gs_pods_pod *to = calloc(1, sizeof(*to));
    int rc = 0, bad = 0;

    if (to == NULL)
        return -ENOMEM;
    gs_arena_init(&to->arena);
    to->uid = gs_arena_str(&to->arena, pod->meta.uid);
    to->ns = gs_arena_str(&to->arena, pod->meta.ns);
    to->name = gs_arena_str(&to->arena, pod->meta.name);
    to->is_over = pod->phase == GS_KUBE_PHASE_SUCCEEDED || pod->phase == GS_KUBE_PHASE_FAILED;
    take_containers(pod, to);
    for (size_t i = 0; i < pods->n_keys; i++) {
        rc = take_grant(pod, &pods->keys[i], to, err);
        if (rc < 0)
            bad = rc;
    }
    rc = gs_arena_check(&to->arena);
    if (rc < 0) {
        free_pod(to);
        return rc;
    }
    rc = replace(pods, to);
    return rc < 0 ? rc : bad < 0 ? -EINVAL : 0;
}

void gs_pods_gone(struct gs_pods *pods, struct gs_str uid)
{
    free_pod(gs_map_remove(&pods->map, uid));
}

const struct gs_pods_pod *gs_pods_find(const struct gs_pods *pods, struct gs_str uid)
{
    return gs_map_find(&pods->map, uid);
}

const struct gs_pods_container *gs_pods_find_container(const struct gs_pods_pod *pod,
                                                       struct gs_str name)
{
    for (size_t i = 0; i < pod->n_containers; i++)
        if (gs_str_eq(pod->container[i].name, name))
            return &pod->container[i];
    return NULL;
}

const struct gs_pods_container *gs_pods_find_id(const struct gs_pods_pod *pod, struct gs_str id)
{
    for (size_t i = 0; id.n > 0 && i < pod->n_containers; i++)
        if (gs_str_eq(pod->container[i].id, id))
            return &pod->container[i];
    return NULL;
}
