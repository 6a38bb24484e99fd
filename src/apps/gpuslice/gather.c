#include "apps/gpuslice/gather.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/file.h"
#include "control/feed.h"
#include "kube/config.h"
#include "kube/json.h"
#include "kube/list.h"
#include "model/node.h"
#include "net/loop.h"

#define DUMP_MAX ((size_t)2 << 30)

enum kind { NODES, PODS, QUOTAS, KINDS };

struct feeding {
    struct gs_gather *g;
    struct gs_arena arena;
    struct gs_loop *loop;
    struct gs_err err; /**< of the first list that failed */
    int rc, left;
};

struct listing {
    struct feeding *f;
    enum kind kind;
};

void gs_gather_fini(struct gs_gather *g)
{
    gs_buf_fini(&g->ns_text);
    gs_buf_fini(&g->pod);
}

/* ---- objects ---- */

static bool is_the_pod(const struct gs_gather *g, yyjson_val *object)
{
    yyjson_val *meta = yyjson_obj_get(object, "metadata");

    return yyjson_equals_strn(yyjson_obj_get(meta, "name"), g->name.p, g->name.n) &&
           yyjson_equals_strn(yyjson_obj_get(meta, "namespace"), g->ns.p, g->ns.n);
}

/* It outlives the document that it came in. */
static void keep_pod(struct gs_gather *g, yyjson_val *object)
{
    size_t n = 0;
    char *text = yyjson_val_write(object, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &n);

    gs_buf_clear(&g->pod);
    if (text != NULL)
        gs_buf_add(&g->pod, text, n);
    else
        g->pod.failed = true;
    free(text);
}

static void leave_out(struct gs_gather *g, enum kind kind, yyjson_val *object, int rc,
                      struct gs_err *err)
{
    static const char *const word[KINDS] = {"node", "pod", "quota"};
    yyjson_val *meta = yyjson_obj_get(object, "metadata");
    struct gs_str ns = gs_kube_json_text(yyjson_obj_get(meta, "namespace"));
    struct gs_str name = gs_kube_json_text(yyjson_obj_get(meta, "name"));

    if (g->n_unreadable++ > 0)
        return;
    (void)gs_err_wrap(err, rc, "%s %.*s%s%.*s", word[kind], (int)ns.n, ns.p, ns.n > 0 ? "/" : "",
                      (int)name.n, name.p);
    g->unreadable = *err;
}

static void take(struct feeding *f, enum kind kind, yyjson_val *object)
{
    struct gs_feed feed = {.books = f->g->books, .arena = &f->arena};
    struct gs_node_view view = {0};
    struct gs_kube_node node;
    struct gs_feed_pod pod;
    struct gs_err err = {0};
    int rc = 0;

    gs_arena_reset(&f->arena);
    if (kind == PODS && is_the_pod(f->g, object))
        keep_pod(f->g, object);
    else if (kind == PODS)
        rc = gs_feed_pod(&feed, object, &pod, &err);
    else if (kind == NODES)
        rc = gs_feed_node(&feed, object, &node, &view, &err);
    else
        rc = gs_feed_quota(&feed, object, &err);
    if (rc == -ENOMEM)
        f->rc = rc;
    else if (rc < 0 && gs_books_unreadable(f->g->books, view.name) == NULL) /* that is told of */
        leave_out(f->g, kind, object, rc, &err);
}

/* ---- a cluster ---- */

static void on_item(void *arg, yyjson_val *object)
{
    struct listing *l = arg;

    take(l->f, l->kind, object);
}

static void on_done(void *arg, const struct gs_kube_result *result, struct gs_str version)
{
    struct listing *l = arg;
    struct feeding *f = l->f;

    (void)version;
    if (l->kind == QUOTAS && result->rc == -EPERM)
        f->g->lacks_quotas = true;
    else if (result->rc < 0 && f->rc == 0)
        f->rc = gs_err_set(&f->err, result->rc, "%s", result->err->text);
    if (--f->left == 0)
        gs_loop_stop(f->loop);
}

static int list_all(struct feeding *f, struct gs_kube_client *client, struct gs_err *err)
{
    /* What a page says twice, after a list that began anew, is in the books once. */
    static const struct gs_kube_list_fns fns = {on_item, NULL, on_done};
    static const struct gs_kube_resource *const what[KINDS] = {
        [NODES] = &gs_kube_nodes, [PODS] = &gs_kube_pods, [QUOTAS] = &gs_kube_quotas};
    struct listing listing[KINDS];
    int rc = 0;

    for (enum kind i = 0; rc == 0 && i < KINDS; i++) {
        listing[i] = (struct listing){f, i};
        rc = gs_kube_list_start(client, &(struct gs_kube_list_opt){.resource = what[i]}, &fns,
                                &listing[i], NULL, err);
        f->left += rc == 0;
    }
    if (rc == 0)
        rc = gs_loop_run(f->loop);
    if (rc == 0 && f->rc < 0) {
        if (f->err.text[0] == '\0')
            (void)gs_err_set(&f->err, f->rc, "%s", strerror(-f->rc));
        return gs_err_set(err, f->rc, "%s", f->err.text);
    }
    return rc;
}

int gs_gather_cluster(struct gs_gather *g, const char *path, const char *context,
                      struct gs_err *err)
{
    struct gs_kube_config config = {0};
    struct gs_kube_client *client = NULL;
    struct feeding f = {.g = g};
    int rc = gs_kube_config_load(&(struct gs_kube_config_opt){.path = path, .context = context},
                                 &config, err);

    if (rc < 0)
        return rc;
    if (g->ns.n == 0) {
        gs_buf_adds(&g->ns_text, config.ns);
        g->ns = gs_buf_str(&g->ns_text);
    }
    rc = gs_loop_new(NULL, &f.loop);
    if (rc == 0)
        rc = gs_kube_client_new(&config, f.loop,
                                &(struct gs_kube_client_opt){.user_agent = "gpuslice-explain"},
                                &client, err);
    gs_kube_config_fini(&config);
    if (rc == 0)
        rc = list_all(&f, client, err);
    gs_kube_client_free(client);
    gs_loop_free(f.loop);
    gs_arena_fini(&f.arena);
    return rc;
}

/* ---- a dump ---- */

static int kind_of(yyjson_val *object)
{
    yyjson_val *kind = yyjson_obj_get(object, "kind");

    return yyjson_equals_str(kind, "Node")            ? NODES
           : yyjson_equals_str(kind, "Pod")           ? PODS
           : yyjson_equals_str(kind, "ResourceQuota") ? QUOTAS
                                                      : -ENOENT;
}

int gs_gather_dump(struct gs_gather *g, const char *path, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    GS_CLEANUP(gs_kube_json_free_p) yyjson_doc *doc = NULL;
    struct feeding f = {.g = g};
    yyjson_val *items, *object;
    size_t i, max;
    int rc = gs_file_read(AT_FDCWD, path, DUMP_MAX, &text);

    if (rc < 0)
        return gs_err_set(err, rc, "cannot read the dump '%s': %s", path, strerror(-rc));
    rc = gs_kube_json_read(gs_buf_str(&text), DUMP_MAX, &doc, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "%s", path);
    if (g->ns.n == 0)
        g->ns = GS_STR("default");
    items = yyjson_obj_get(yyjson_doc_get_root(doc), "items");
    if (!yyjson_is_arr(items))
        return gs_err_set(err, -EINVAL, "%s: no List of objects (kubectl get ... -o json)", path);
    yyjson_arr_foreach(items, i, max, object)
    {
        int kind = kind_of(object);

        if (kind >= 0)
            take(&f, (enum kind)kind, object);
    }
    gs_arena_fini(&f.arena);
    return f.rc < 0 ? gs_err_set(err, f.rc, "%s", strerror(-f.rc)) : 0;
}
