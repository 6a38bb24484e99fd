#include "control/convert.h"

#include <errno.h>

#include "cluster/pairs.h"
#include "contract/names.h"

static int container_of(const struct gs_kube_container *c, struct gs_arena *arena,
                        struct gs_container *ret)
{
    int rc = gs_pairs_convert(&c->limits, arena, &ret->limits);

    if (rc == 0)
        rc = gs_pairs_convert(&c->requests, arena, &ret->requests);
    ret->env.at = GS_ARENA_ARRAY(arena, c->n_env, struct gs_pair);
    if (rc < 0 || ret->env.at == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < c->n_env; i++)
        ret->env.at[i] =
            (struct gs_pair){c->env[i].name, c->env[i].is_ref ? GS_POD_ENV_REF : c->env[i].value};
    ret->env.n = ret->env.cap = c->n_env;
    ret->name = c->name;
    ret->is_privileged = c->is_privileged;
    ret->is_init = c->is_init;
    ret->is_sidecar = c->is_sidecar;
    return 0;
}

/* What a pod gets where it says nothing, and for the kubelet to hear of it. */
#define GRACE_S  30
#define MARGIN_S 30

/* How long containers may run on when the pod is deleted by force: the kubelet gives them their
 * time even then, and a kubelet that knew of a deletion with more of it, that. Hours, where that is
 * what the pod says: they run for hours. Source: Kubernetes 1.36, pkg/kubelet/pod_workers.go,
 * calculateEffectiveGracePeriod. */
static int64_t outlives_ms(const struct gs_kube_pod *pod)
{
    int64_t grace_s = pod->grace_s < 0 ? GRACE_S : pod->grace_s;

    if (grace_s < pod->meta.deletion_grace_s)
        grace_s = pod->meta.deletion_grace_s;
    return ((grace_s < INT32_MAX ? grace_s : INT32_MAX) + MARGIN_S) * 1000;
}

static bool is_running(const struct gs_kube_pod *pod)
{
    for (size_t i = 0; i < pod->n_init_status; i++)
        if (pod->init_status[i].state == GS_KUBE_STATE_RUNNING)
            return true;
    for (size_t i = 0; i < pod->n_status; i++)
        if (pod->status[i].state == GS_KUBE_STATE_RUNNING)
            return true;
    return false;
}

/* kube-scheduler writes this whenever it gives a pod up for now: it found no node, or the Binding
 * failed. Pods that were gated carry it since they were made. Source: Kubernetes 1.36,
 * pkg/scheduler/schedule_one.go, handleSchedulingFailure; pkg/api/pod,
 * applySchedulingGatedCondition.
 */
static bool was_refused(const struct gs_kube_pod *pod)
{
    const struct gs_kube_condition *c =
        gs_kube_condition_find(pod->condition, pod->n_conditions, GS_STR("PodScheduled"));

    return c != NULL && gs_str_eq(c->status, GS_STR("False")) &&
           !gs_str_eq(c->reason, GS_STR("SchedulingGated"));
}

bool gs_convert_is_closed(const struct gs_kube_pod *pod)
{
    const struct gs_str *text = gs_kube_pairs_find(&pod->meta.annotations, GS_STR(GS_NAME_FENCE));

    if (text != NULL && text->n > 0)
        return text->p[text->n - 1] != GS_NAME_FENCE_OPEN[0];
    return was_refused(pod);
}

int gs_convert_pod(const struct gs_kube_pod *pod, struct gs_arena *arena, struct gs_pod *ret)
{
    int rc;

    *ret = (struct gs_pod){
        .arena = arena,
        .ns = pod->meta.ns,
        .name = pod->meta.name,
        .uid = pod->meta.uid,
        .version = pod->meta.resource_version,
        .is_closed = gs_convert_is_closed(pod),
        .outlives_ms = outlives_ms(pod),
        .node_name = pod->node_name,
        .scheduler_name = pod->scheduler_name,
        .runtime_class = pod->runtime_class,
        .n_containers = pod->n_containers,
        .n_init = pod->n_init,
        .container = GS_ARENA_ARRAY(arena, pod->n_containers, struct gs_container),
    };
    if (ret->container == NULL)
        return -ENOMEM;
    rc = gs_pairs_convert(&pod->meta.annotations, arena, &ret->annotations);
    if (rc == 0)
        rc = gs_pairs_convert(&pod->meta.labels, arena, &ret->labels);
    for (size_t i = 0; rc == 0 && i < pod->n_containers; i++)
        rc = container_of(&pod->container[i], arena, &ret->container[i]);
    return rc;
}

/* Every init container has been seen to end well. Sidecars do not end. */
static bool are_inits_done(const struct gs_kube_pod *pod)
{
    size_t done = 0, wanted = 0;

    for (size_t i = 0; i < pod->n_init; i++)
        wanted += !pod->container[i].is_sidecar;
    for (size_t i = 0; i < pod->n_init_status; i++) {
        const struct gs_kube_container_status *s = &pod->init_status[i];

        for (size_t c = 0; c < pod->n_init; c++)
            if (!pod->container[c].is_sidecar && gs_str_eq(pod->container[c].name, s->name))
                done += s->state == GS_KUBE_STATE_TERMINATED && s->exit_code == 0;
    }
    return wanted > 0 && done >= wanted;
}

int gs_convert_books_pod(const struct gs_kube_pod *pod, const struct gs_pod *placed,
                         const struct gs_policies *policies, struct gs_arena *arena,
                         struct gs_books_pod *ret)
{
    struct gs_str *grant = GS_ARENA_ARRAY(arena, policies->n, struct gs_str);
    struct gs_str *placements = GS_ARENA_ARRAY(arena, policies->n, struct gs_str);
    uint32_t *tag = GS_ARENA_ARRAY(arena, policies->n, uint32_t);
    bool *is_app = GS_ARENA_ARRAY(arena, pod->n_containers, bool);
    bool any_tag = false;

    if (grant == NULL || placements == NULL || tag == NULL || is_app == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < policies->n; i++) {
        const struct gs_policy *p = policies->at[i];

        grant[i] = gs_pod_annotation(placed, p->keys.allocated, NULL);
        placements[i] = gs_pod_annotation(placed, p->keys.placements, NULL);
        if (grant[i].n > 0 && p->ops->tag != NULL) {
            tag[i] = p->ops->tag(p, placed);
            any_tag = true;
        }
    }
    for (size_t c = 0; c < pod->n_containers; c++)
        is_app[c] = !pod->container[c].is_init || pod->container[c].is_sidecar;
    *ret = (struct gs_books_pod){
        .uid = pod->meta.uid,
        .ns = pod->meta.ns,
        .name = pod->meta.name,
        .node = pod->node_name,
        .grant = grant,
        .tag = any_tag ? tag : NULL,
        .placements = placements,
        .n_init = pod->n_init,
        .is_app = is_app,
        .n_slots = pod->n_containers,
        .inits_done = are_inits_done(pod),
        .is_over = pod->phase == GS_KUBE_PHASE_SUCCEEDED || pod->phase == GS_KUBE_PHASE_FAILED,
        .priority = pod->priority,
        .labels = &placed->labels,
        .start_us = pod->start_us != GS_KUBE_NO_TIME ? pod->start_us : pod->meta.created_us,
        .ends_us = pod->meta.deletion_us,
        .outlives_ms = is_running(pod) ? outlives_ms(pod) : 0,
    };
    return 0;
}
