/* What the views of an object say, for comparison with another client.
 *     view pods NS NAME | view nodes - NAME */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "kube/view.h"
#include "probe.h"

static void put_pairs(struct gs_kube_merge *m, const char *const *path,
                      const struct gs_kube_pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        gs_kube_merge_pair(m, path, pairs->at[i].key, pairs->at[i].value);
}

static void put_meta(struct gs_kube_merge *m, const struct gs_kube_meta *meta)
{
    gs_kube_merge_str(m, GS_KUBE_PATH("namespace"), meta->ns);
    gs_kube_merge_str(m, GS_KUBE_PATH("name"), meta->name);
    gs_kube_merge_str(m, GS_KUBE_PATH("uid"), meta->uid);
    gs_kube_merge_str(m, GS_KUBE_PATH("version"), meta->resource_version);
    gs_kube_merge_i64(m, GS_KUBE_PATH("created_us"), meta->created_us);
    put_pairs(m, GS_KUBE_PATH("labels"), &meta->labels);
    put_pairs(m, GS_KUBE_PATH("annotations"), &meta->annotations);
}

static void put_container(struct gs_kube_merge *m, size_t i, const struct gs_kube_container *c)
{
    char key[24];

    (void)snprintf(key, sizeof(key), "%zu", i);
    gs_kube_merge_str(m, GS_KUBE_PATH("containers", key, "name"), c->name);
    gs_kube_merge_bool(m, GS_KUBE_PATH("containers", key, "init"), c->is_init);
    gs_kube_merge_bool(m, GS_KUBE_PATH("containers", key, "sidecar"), c->is_sidecar);
    gs_kube_merge_bool(m, GS_KUBE_PATH("containers", key, "privileged"), c->is_privileged);
    put_pairs(m, GS_KUBE_PATH("containers", key, "limits"), &c->limits);
    put_pairs(m, GS_KUBE_PATH("containers", key, "requests"), &c->requests);
    for (size_t k = 0; k < c->n_env; k++)
        if (!c->env[k].is_ref)
            gs_kube_merge_pair(m, GS_KUBE_PATH("containers", key, "env"), c->env[k].name,
                               c->env[k].value);
}

static void on_pod(void *arg, const struct gs_kube_result *r)
{
    struct gs_kube_merge m;
    struct gs_arena arena;
    struct gs_kube_pod p;
    struct gs_err err = {0};
    int rc;

    (void)arg;
    gs_arena_init(&arena);
    rc = gs_kube_view_pod(r->root, &arena, &p, &err);
    if (rc < 0) {
        probe_refused(rc, &err);
        gs_arena_fini(&arena);
        return;
    }
    gs_kube_merge_init(&m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("what"), GS_STR("view"));
    put_meta(&m, &p.meta);
    gs_kube_merge_str(&m, GS_KUBE_PATH("nodeName"), p.node_name);
    gs_kube_merge_str(&m, GS_KUBE_PATH("schedulerName"), p.scheduler_name);
    gs_kube_merge_str(&m, GS_KUBE_PATH("priorityClassName"), p.priority_class);
    gs_kube_merge_str(&m, GS_KUBE_PATH("preemptionPolicy"), p.preemption_policy);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("priority"), p.priority);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("grace"), p.grace_s);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("phase"), p.phase);
    for (size_t i = 0; i < p.n_containers; i++)
        put_container(&m, i, &p.container[i]);
    for (size_t i = 0; i < p.n_init_status; i++)
        gs_kube_merge_i64(&m, GS_KUBE_PATH("init_exit"), p.init_status[i].exit_code);
    probe_say(&m);
    gs_arena_fini(&arena);
}

static void on_node(void *arg, const struct gs_kube_result *r)
{
    struct gs_kube_merge m;
    struct gs_arena arena;
    struct gs_kube_node n;
    struct gs_err err = {0};
    int rc;

    (void)arg;
    gs_arena_init(&arena);
    rc = gs_kube_view_node(r->root, &arena, &n, &err);
    if (rc < 0) {
        probe_refused(rc, &err);
        gs_arena_fini(&arena);
        return;
    }
    gs_kube_merge_init(&m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("what"), GS_STR("view"));
    put_meta(&m, &n.meta);
    put_pairs(&m, GS_KUBE_PATH("capacity"), &n.capacity);
    put_pairs(&m, GS_KUBE_PATH("allocatable"), &n.allocatable);
    gs_kube_merge_bool(&m, GS_KUBE_PATH("unschedulable"), n.is_unschedulable);
    probe_say(&m);
    gs_arena_fini(&arena);
}

int probe_view(struct probe *p, char **words, struct gs_err *err)
{
    bool is_node = strcmp(words[1], "nodes") == 0;
    struct gs_kube_req req = {
        .verb = GS_KUBE_GET,
        .resource = is_node ? &gs_kube_nodes : &gs_kube_pods,
        .ns = is_node ? (struct gs_str){0} : gs_str_of(words[2]),
        .name = gs_str_of(words[3]),
    };

    return gs_kube_client_send(p->client, &req, is_node ? on_node : on_pod, p, NULL, err);
}
