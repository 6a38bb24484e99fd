#include "kube/view_internal.h"

#include <errno.h>
#include <string.h>
#include <yyjson.h>

#include "kube/json.h"

static int read_env(yyjson_val *item, struct gs_arena *arena, void *entry, struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"name", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_env, name)},
        {"value", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_env, value)},
    };
    struct gs_kube_env *env = entry;
    yyjson_val *from;
    int rc = gs_kube_view_fields(item, rows, GS_ARRAY_LEN(rows), env, err);

    (void)arena; /* all is borrowed */
    if (rc == 0)
        rc = gs_kube_view_obj(item, "valueFrom", &from, err);
    if (rc == 0)
        env->is_ref = from != NULL;
    return rc;
}

static int read_container(yyjson_val *item, struct gs_arena *arena, void *entry, struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"name", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_container, name)},
        {"image", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_container, image)},
    };
    static const struct gs_kube_field security_rows[] = {
        {"privileged", GS_KUBE_FIELD_BOOL, offsetof(struct gs_kube_container, is_privileged)},
    };
    struct gs_kube_container *c = entry;
    yyjson_val *resources, *security;
    struct gs_str policy = {0};
    int rc = gs_kube_view_fields(item, rows, GS_ARRAY_LEN(rows), c, err);

    if (rc == 0)
        rc = gs_kube_view_obj(item, "resources", &resources, err);
    if (rc == 0)
        rc = gs_kube_view_pairs(resources, "limits", true, arena, &c->limits, err);
    if (rc == 0)
        rc = gs_kube_view_pairs(resources, "requests", true, arena, &c->requests, err);
    if (rc == 0)
        rc = gs_kube_view_items(item, GS_KUBE_ITEMS("env", *c->env, read_env), arena, &c->env,
                                &c->n_env, err);
    if (rc == 0)
        rc = gs_kube_view_obj(item, "securityContext", &security, err);
    if (rc == 0)
        rc = gs_kube_view_fields(security, security_rows, GS_ARRAY_LEN(security_rows), c, err);
    if (rc == 0 && gs_kube_json_str(item, "restartPolicy", &policy) == GS_KUBE_WRONG)
        rc = gs_err_set(err, -EINVAL, "restartPolicy: not text");
    if (rc == 0)
        c->is_sidecar = gs_str_eq(policy, GS_STR("Always")); /* kept for init containers only */
    return rc;
}

/* Init containers and app containers in one array. */
static int read_containers(yyjson_val *spec, struct gs_arena *arena, struct gs_kube_pod *ret,
                           struct gs_err *err)
{
    struct gs_kube_container *init = NULL, *app = NULL;
    size_t n_init = 0, n_app = 0;
    int rc = gs_kube_view_items(spec, GS_KUBE_ITEMS("initContainers", *init, read_container), arena,
                                &init, &n_init, err);

    if (rc == 0)
        rc = gs_kube_view_items(spec, GS_KUBE_ITEMS("containers", *app, read_container), arena,
                                &app, &n_app, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < n_init; i++)
        init[i].is_init = true;
    for (size_t i = 0; i < n_app; i++)
        app[i].is_sidecar = false;
    ret->n_init = n_init;
    ret->n_containers = n_init + n_app;
    ret->container = n_init == 0 ? app : init;
    if (n_init == 0 || n_app == 0)
        return 0;
    ret->container = GS_ARENA_ARRAY(arena, n_init + n_app, struct gs_kube_container);
    if (!ret->container)
        return gs_err_set(err, -ENOMEM, "no memory for a view");
    memcpy(ret->container, init, n_init * sizeof(*init));
    memcpy(ret->container + n_init, app, n_app * sizeof(*app));
    return 0;
}

static int read_spec(yyjson_val *spec, struct gs_arena *arena, struct gs_kube_pod *ret,
                     struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"nodeName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, node_name)},
        {"schedulerName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, scheduler_name)},
        {"runtimeClassName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, runtime_class)},
        {"priorityClassName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, priority_class)},
        {"preemptionPolicy", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, preemption_policy)},
        {"hostNetwork", GS_KUBE_FIELD_BOOL, offsetof(struct gs_kube_pod, is_host_network)},
        {"terminationGracePeriodSeconds", GS_KUBE_FIELD_I64, offsetof(struct gs_kube_pod, grace_s)},
    };
    static const struct gs_kube_field group_rows[] = {
        {"podGroupName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, pod_group)},
    };
    yyjson_val *group, *gates;
    enum gs_kube_got got;
    int rc = gs_kube_view_fields(spec, rows, GS_ARRAY_LEN(rows), ret, err);

    if (rc < 0)
        return rc;
    got = gs_kube_json_i32(spec, "priority", &ret->priority);
    if (got == GS_KUBE_WRONG)
        return gs_err_set(err, -EINVAL, "priority: not a 32-bit whole number");
    ret->has_priority = got == GS_KUBE_GOT;
    rc = gs_kube_view_obj(spec, "schedulingGroup", &group, err);
    if (rc == 0)
        rc = gs_kube_view_fields(group, group_rows, GS_ARRAY_LEN(group_rows), ret, err);
    if (rc == 0)
        rc = gs_kube_view_arr(spec, "schedulingGates", &gates, err);
    if (rc < 0)
        return rc;
    ret->n_gates = yyjson_arr_size(gates);
    return read_containers(spec, arena, ret, err);
}

static int read_state(yyjson_val *item, struct gs_kube_container_status *s, struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"reason", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_container_status, reason)},
        {"exitCode", GS_KUBE_FIELD_I32, offsetof(struct gs_kube_container_status, exit_code)},
    };
    /* the API server fills one; of several the most final one counts */
    static const struct {
        const char *key;
        enum gs_kube_state state;
    } states[] = {
        {"terminated", GS_KUBE_STATE_TERMINATED},
        {"running", GS_KUBE_STATE_RUNNING},
        {"waiting", GS_KUBE_STATE_WAITING},
    };
    yyjson_val *state, *which;
    int rc = gs_kube_view_obj(item, "state", &state, err);

    for (size_t i = 0; rc == 0 && i < GS_ARRAY_LEN(states); i++) {
        rc = gs_kube_view_obj(state, states[i].key, &which, err);
        if (rc == 0 && which) {
            s->state = states[i].state;
            return gs_kube_view_fields(which, rows, GS_ARRAY_LEN(rows), s, err);
        }
    }
    return rc;
}

static int read_container_status(yyjson_val *item, struct gs_arena *arena, void *entry,
                                 struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"name", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_container_status, name)},
        {"containerID", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_container_status, container_id)},
        {"restartCount", GS_KUBE_FIELD_I32, offsetof(struct gs_kube_container_status, restarts)},
        {"ready", GS_KUBE_FIELD_BOOL, offsetof(struct gs_kube_container_status, is_ready)},
        {"started", GS_KUBE_FIELD_BOOL, offsetof(struct gs_kube_container_status, is_started)},
    };
    int rc = gs_kube_view_fields(item, rows, GS_ARRAY_LEN(rows), entry, err);

    (void)arena; /* all is borrowed */
    return rc < 0 ? rc : read_state(item, entry, err);
}

static enum gs_kube_phase phase_of(struct gs_str text)
{
    static const struct {
        const char *word;
        enum gs_kube_phase phase;
    } words[] = {
        {"Pending", GS_KUBE_PHASE_PENDING},
        {"Running", GS_KUBE_PHASE_RUNNING},
        {"Succeeded", GS_KUBE_PHASE_SUCCEEDED},
        {"Failed", GS_KUBE_PHASE_FAILED},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(words); i++)
        if (gs_str_eq_c(text, words[i].word))
            return words[i].phase;
    return GS_KUBE_PHASE_NONE;
}

static int read_status(yyjson_val *status, struct gs_arena *arena, struct gs_kube_pod *ret,
                       struct gs_err *err)
{
    static const struct gs_kube_field rows[] = {
        {"nominatedNodeName", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, nominated_node)},
        {"reason", GS_KUBE_FIELD_STR, offsetof(struct gs_kube_pod, status_reason)},
        {"startTime", GS_KUBE_FIELD_TIME, offsetof(struct gs_kube_pod, start_us)},
    };
    struct gs_str phase = {0};
    int rc = gs_kube_view_fields(status, rows, GS_ARRAY_LEN(rows), ret, err);

    if (rc < 0)
        return rc;
    if (gs_kube_json_str(status, "phase", &phase) == GS_KUBE_WRONG)
        return gs_err_set(err, -EINVAL, "phase: not text");
    ret->phase = phase_of(phase);
    rc = gs_kube_view_items(status,
                            GS_KUBE_ITEMS("conditions", *ret->condition, gs_kube_view_condition),
                            arena, &ret->condition, &ret->n_conditions, err);
    if (rc == 0)
        rc = gs_kube_view_items(
            status,
            GS_KUBE_ITEMS("initContainerStatuses", *ret->init_status, read_container_status), arena,
            &ret->init_status, &ret->n_init_status, err);
    if (rc == 0)
        rc = gs_kube_view_items(
            status, GS_KUBE_ITEMS("containerStatuses", *ret->status, read_container_status), arena,
            &ret->status, &ret->n_status, err);
    return rc;
}

int gs_kube_view_pod(yyjson_val *val, struct gs_arena *arena, struct gs_kube_pod *ret,
                     struct gs_err *err)
{
    yyjson_val *spec, *status;
    int rc;

    memset(ret, 0, sizeof(*ret));
    ret->grace_s = -1;
    ret->start_us = GS_KUBE_NO_TIME;
    rc = gs_kube_view_meta(val, arena, &ret->meta, err);
    if (rc < 0)
        return rc;
    if (ret->meta.name.n == 0 && ret->meta.generate_name.n == 0)
        return gs_err_set(err, -EINVAL, "metadata: name: missing");
    rc = gs_kube_view_obj(val, "spec", &spec, err);
    if (rc < 0)
        return rc;
    rc = read_spec(spec, arena, ret, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "spec");
    rc = gs_kube_view_obj(val, "status", &status, err);
    if (rc < 0)
        return rc;
    rc = read_status(status, arena, ret, err);
    return rc < 0 ? gs_err_wrap(err, rc, "status") : 0;
}
