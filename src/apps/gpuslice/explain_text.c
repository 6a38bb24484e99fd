#include "apps/gpuslice/explain_text.h"

#include <errno.h>
#include <stdlib.h>

#include <yyjson.h>

#include "base/table.h"
#include "model/ask.h"
#include "model/request.h"

/* ---- text ---- */

/* Names and annotations come from strangers: nothing of them may drive the terminal. */
static void add(struct gs_buf *buf, struct gs_str s)
{
    for (size_t i = 0; i < s.n; i++)
        gs_buf_addc(buf, (unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f ? '?' : s.p[i], 1);
}

static void add_who(struct gs_buf *buf, const struct gs_explain_holder *h)
{
    if (h->name.n == 0) {
        gs_buf_adds(buf, "somebody unknown");
        return;
    }
    add(buf, h->ns);
    gs_buf_adds(buf, "/");
    add(buf, h->name);
}

static void add_holder(struct gs_buf *buf, const struct gs_explain_holder *h)
{
    add_who(buf, h);
    gs_buf_addf(buf, " (%d MiB, %d cores", h->mem_mib, h->cores);
    if (h->priority != 0)
        gs_buf_addf(buf, ", priority %d", h->priority);
    gs_buf_adds(buf, h->is_reservation ? ", promised)" : ")");
}

static void add_line(const struct gs_ask *ask, const struct gs_ask_line *line, struct gs_buf *buf)
{
    const struct gs_request *r = &line->request;

    gs_buf_adds(buf, "  container ");
    add(buf, ask->pod->container[line->container].name);
    gs_buf_addf(buf, ": %d %s card%s", r->nums, ask->policies->at[line->policy]->word,
                r->nums == 1 ? "" : "s");
    if (r->mem_mib > 0)
        gs_buf_addf(buf, ", %d MiB each", r->mem_mib);
    else if (r->mem_pct > 0 && r->mem_pct < GS_PCT_NONE)
        gs_buf_addf(buf, ", %d %% of the memory", r->mem_pct);
    if (r->cores > 0)
        gs_buf_addf(buf, ", %d cores", r->cores);
    gs_buf_adds(buf, "\n");
}

static void add_node(const struct gs_explain_node *n, struct gs_buf *buf)
{
    gs_buf_adds(buf, "\n");
    add(buf, n->name);
    if (n->fits) {
        gs_buf_adds(buf, ": has room, on ");
        add(buf, n->cards);
        gs_buf_adds(buf, "\n");
        return;
    }
    gs_buf_adds(buf, ": ");
    add(buf, n->reasons);
    gs_buf_adds(buf, "\n  ");
    add(buf, n->words);
    gs_buf_adds(buf, "\n");
    if (n->n_holders > 0) {
        gs_buf_adds(buf, "  ");
        add(buf, n->closest);
        gs_buf_adds(buf, " is held by:\n");
    }
    for (size_t i = 0; i < n->n_holders; i++) {
        gs_buf_adds(buf, "    ");
        add_holder(buf, &n->holder[i]);
        gs_buf_adds(buf, "\n");
    }
    gs_buf_adds(buf, n->n_ends > 0 ? "  room without " : "  no end of other pods would make room");
    for (size_t i = 0; i < n->n_ends; i++) {
        gs_buf_adds(buf, i > 0 ? " and " : "");
        add_holder(buf, &n->end[i]);
    }
    gs_buf_adds(buf, "\n");
}

void gs_explain_text(const struct gs_explanation *e, const struct gs_kube_pod *pod,
                     struct gs_buf *buf)
{
    struct gs_str key, word;

    gs_buf_adds(buf, "pod ");
    add(buf, pod->meta.ns);
    gs_buf_adds(buf, "/");
    add(buf, pod->meta.name);
    if (pod->node_name.n > 0) {
        gs_buf_adds(buf, ", on node ");
        add(buf, pod->node_name);
        gs_buf_adds(buf, " (looked at as if it came anew)");
    }
    if (e->ask.n_lines == 0) {
        gs_buf_adds(buf, " asks for no cards that are shared here\n");
        return;
    }
    gs_buf_adds(buf, ", scheduled by ");
    add(buf, pod->scheduler_name.n > 0 ? pod->scheduler_name : GS_STR("default-scheduler"));
    gs_buf_adds(buf, ", asks for:\n");
    for (size_t i = 0; i < e->ask.n_lines; i++)
        add_line(&e->ask, &e->ask.line[i], buf);
    if (gs_ask_unknown_policy(e->ask.pod, &key, &word)) {
        gs_buf_adds(buf, "Its annotation ");
        add(buf, key);
        gs_buf_adds(buf, " names \"");
        add(buf, word);
        gs_buf_adds(buf, "\", which is not known and counts for nothing.\n");
    }
    if (gs_str_eq(pod->scheduler_name, GS_STR("default-scheduler")))
        gs_buf_adds(buf,
                    "The default scheduler gives no slices: the webhook was not reached, or is "
                    "kept from this pod or its namespace.\n");
    if (pod->n_gates > 0)
        gs_buf_adds(buf, "It waits for its scheduling gates first.\n");
    if (e->n_fit > 0)
        gs_buf_addf(buf, "%zu of %zu nodes with cards have room.\n", e->n_fit, e->n_nodes);
    else {
        gs_buf_adds(buf, "No node has room: ");
        add(buf, e->sentence);
        gs_buf_adds(buf, "\n");
    }
    for (size_t i = 0; i < e->n_nodes; i++)
        add_node(&e->node[i], buf);
    for (size_t i = 0; i < e->n_troubles; i++) {
        gs_buf_adds(buf, "\n");
        add(buf, e->trouble[i].node);
        gs_buf_adds(buf, ": cannot be read: ");
        add(buf, gs_str_of(e->trouble[i].text));
        gs_buf_adds(buf, "\n");
    }
}

/* ---- JSON ---- */

static yyjson_mut_val *text_or_null(yyjson_mut_doc *doc, struct gs_str s)
{
    return s.n > 0 ? yyjson_mut_strncpy(doc, s.p, s.n) : yyjson_mut_null(doc);
}

static void put(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, struct gs_str s)
{
    (void)yyjson_mut_obj_add_val(doc, obj, key, text_or_null(doc, s));
}

static yyjson_mut_val *holders_of(yyjson_mut_doc *doc, const struct gs_explain_holder *h, size_t n)
{
    yyjson_mut_val *list = yyjson_mut_arr(doc);

    for (size_t i = 0; i < n; i++) {
        yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, list);

        put(doc, one, "namespace", h[i].ns);
        put(doc, one, "name", h[i].name);
        (void)yyjson_mut_obj_add_int(doc, one, "memory_mib", h[i].mem_mib);
        (void)yyjson_mut_obj_add_int(doc, one, "cores", h[i].cores);
        (void)yyjson_mut_obj_add_int(doc, one, "priority", h[i].priority);
        (void)yyjson_mut_obj_add_bool(doc, one, "bound", !h[i].is_reservation);
    }
    return list;
}

static void add_json_node(yyjson_mut_doc *doc, yyjson_mut_val *list,
                          const struct gs_explain_node *n)
{
    yyjson_mut_val *node = yyjson_mut_arr_add_obj(doc, list), *closest = yyjson_mut_null(doc);

    put(doc, node, "name", n->name);
    (void)yyjson_mut_obj_add_bool(doc, node, "fits", n->fits);
    put(doc, node, "cards", n->cards);
    put(doc, node, "reasons", n->reasons);
    put(doc, node, "words", n->words);
    if (n->closest.n > 0) {
        closest = yyjson_mut_obj(doc);
        put(doc, closest, "card", n->closest);
        (void)yyjson_mut_obj_add_val(doc, closest, "holders",
                                     holders_of(doc, n->holder, n->n_holders));
    }
    (void)yyjson_mut_obj_add_val(doc, node, "closest", closest);
    (void)yyjson_mut_obj_add_val(doc, node, "room_without",
                                 n->n_ends > 0 ? holders_of(doc, n->end, n->n_ends)
                                               : yyjson_mut_null(doc));
}

static yyjson_mut_val *asks_of(yyjson_mut_doc *doc, const struct gs_ask *ask)
{
    yyjson_mut_val *list = yyjson_mut_arr(doc);

    for (size_t i = 0; i < ask->n_lines; i++) {
        const struct gs_ask_line *line = &ask->line[i];
        yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, list);

        put(doc, one, "container", ask->pod->container[line->container].name);
        put(doc, one, "vendor", gs_str_of(ask->policies->at[line->policy]->word));
        (void)yyjson_mut_obj_add_int(doc, one, "cards", line->request.nums);
        (void)yyjson_mut_obj_add_int(doc, one, "memory_mib", line->request.mem_mib);
        (void)yyjson_mut_obj_add_int(doc, one, "memory_percent",
                                     line->request.mem_pct < GS_PCT_NONE ? line->request.mem_pct
                                                                         : 0);
        (void)yyjson_mut_obj_add_int(doc, one, "cores", line->request.cores);
    }
    return list;
}

int gs_explain_json(const struct gs_explanation *e, const struct gs_kube_pod *pod,
                    struct gs_buf *buf)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *nodes = yyjson_mut_arr(doc), *of, *bad;
    char *text;
    size_t n = 0;

    yyjson_mut_doc_set_root(doc, root);
    (void)yyjson_mut_obj_add_int(doc, root, "version", 1);
    of = yyjson_mut_obj_add_obj(doc, root, "pod");
    put(doc, of, "namespace", pod->meta.ns);
    put(doc, of, "name", pod->meta.name);
    put(doc, of, "uid", pod->meta.uid);
    put(doc, of, "node", pod->node_name);
    put(doc, of, "scheduler", pod->scheduler_name);
    (void)yyjson_mut_obj_add_val(doc, root, "asks", asks_of(doc, &e->ask));
    for (size_t i = 0; i < e->n_nodes; i++)
        add_json_node(doc, nodes, &e->node[i]);
    (void)yyjson_mut_obj_add_val(doc, root, "nodes", nodes);
    bad = yyjson_mut_obj_add_arr(doc, root, "unreadable");
    for (size_t i = 0; i < e->n_troubles; i++) {
        yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, bad);

        put(doc, one, "node", e->trouble[i].node);
        put(doc, one, "why", gs_str_of(e->trouble[i].text));
    }
    (void)yyjson_mut_obj_add_uint(doc, root, "fit", e->n_fit);
    put(doc, root, "sentence", e->sentence);
    text = yyjson_mut_write(doc, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &n);
    if (text != NULL)
        gs_buf_add(buf, text, n);
    gs_buf_adds(buf, "\n");
    yyjson_mut_doc_free(doc);
    if (text == NULL)
        return -ENOMEM;
    free(text);
    return gs_buf_check(buf);
}
