/* Bodies of preempt before a small cluster whose cards are taken: what is understood gets a map of
 * nodes that were sent, each with no fewer victims than kube-scheduler named. The first byte
 * chooses who leaves the choice of the node. */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <yyjson.h>

#include "cluster.h"
#include "control/preempt.h"
#include "kube/config.h"
#include "model/json.h"
#include "net/loop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gs_filter_conf conf = {.device_policy = GS_STR_INIT("spread"),
                                     .node_policy = GS_STR_INIT("binpack"),
                                     .lease_ms = 1000};

/* One who holds all of a card, in NVIDIA's words: more than there is of the second. */
static void add_guest(struct gs_books *books, const char *node, int i)
{
    struct gs_arena arena = {0};
    struct gs_str *grant = GS_ARENA_ARRAY(&arena, fuzz_policies.n, struct gs_str);
    struct gs_str uid = gs_arena_printf(&arena, "guest-%s-%d", node, i);

    if (grant == NULL)
        abort();
    for (size_t k = 0; k < fuzz_policies.n; k++)
        if (strcmp(fuzz_policies.at[k]->word, "NVIDIA") == 0)
            grant[k] = gs_arena_printf(&arena, "%s-NVIDIA-%d,NVIDIA,%d,100:;", node, i,
                                       i == 0 ? 8192 : 50000);
    fuzz_need(gs_books_pod_set(books,
                               &(struct gs_books_pod){.uid = uid,
                                                      .ns = GS_STR("ns"),
                                                      .name = uid,
                                                      .node = gs_str_of(node),
                                                      .grant = grant,
                                                      .n_slots = 1,
                                                      .priority = i,
                                                      .ends_us = GS_BOOKS_STAYS},
                               NULL));
    gs_arena_fini(&arena);
}

/* The client is never asked for anything: its loop does not run. Made once. */
static struct gs_preempt *fuzz_preempt(void)
{
    static struct gs_preempt *preempt;
    static const char *const node[] = {"n1", "n2", "n3"};
    struct gs_kube_config config = {.server = "http://127.0.0.1:1", .ns = "default"};
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;

    if (preempt != NULL)
        return preempt;
    books = fuzz_books();
    for (size_t i = 0; i < GS_ARRAY_LEN(node); i++) {
        add_guest(books, node[i], 0);
        add_guest(books, node[i], 1);
    }
    fuzz_need(gs_loop_new(NULL, &loop));
    fuzz_need(gs_kube_client_new(&config, loop, NULL, &client, NULL));
    fuzz_need(
        gs_preempt_new(client, books, &(struct gs_preempt_opt){.filter = &conf}, &preempt, NULL));
    return preempt;
}

static size_t count_of(yyjson_val *victims)
{
    return yyjson_arr_size(gs_json_get(victims, "Pods"));
}

/* Is this answer's node among those that were sent, from *it on, with no more victims than here? */
static bool is_of(yyjson_val *key, yyjson_val *victims, yyjson_obj_iter *it)
{
    yyjson_val *sent;

    while ((sent = yyjson_obj_iter_next(it)) != NULL)
        if (gs_str_eq(gs_json_text(sent), gs_json_text(key)) &&
            count_of(yyjson_obj_iter_get_val(sent)) <= count_of(victims))
            return true;
    return false;
}

static void check(const char *text, size_t n, struct gs_str body)
{
    yyjson_doc *doc = yyjson_read(text, n, YYJSON_READ_ALLOW_INVALID_UNICODE);
    yyjson_doc *sent = yyjson_read(body.p, body.n, 0);
    yyjson_val *nodes = yyjson_obj_get(yyjson_doc_get_root(doc), "NodeNameToMetaVictims");
    yyjson_val *asked = gs_json_get(yyjson_doc_get_root(sent), "NodeNameToMetaVictims");
    yyjson_val *key, *victims;
    yyjson_obj_iter it;
    size_t i, max;

    if (asked == NULL)
        asked = gs_json_get(yyjson_doc_get_root(sent), "NodeNameToVictims");
    if (!yyjson_is_obj(nodes))
        abort();
    it = yyjson_obj_iter_with(asked);
    yyjson_obj_foreach(nodes, i, max, key, victims)
    {
        if (!yyjson_is_int(yyjson_obj_get(victims, "NumPDBViolations")) ||
            !is_of(key, victims, &it))
            abort();
    }
    yyjson_doc_free(sent);
    yyjson_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_preempt *preempt = fuzz_preempt();
    size_t pods = gs_books_counts(fuzz_books()).pods;
    struct gs_arena arena = {0};
    const struct gs_str body = {(const char *)data + (size > 0), size - (size > 0)};
    struct gs_err err = {0};
    char *text = NULL;
    size_t n = 0;
    int rc;

    conf.leaves_node_choice = size > 0 && (data[0] & 1) != 0;
    rc = gs_preempt_answer(preempt, body, &arena, &text, &n, &err);
    if (rc == 0)
        check(text, n, body);
    else if (rc != -EINVAL || text != NULL)
        abort();
    if (gs_books_counts(fuzz_books()).pods != pods) /* a question changes nothing */
        abort();
    free(text);
    gs_arena_fini(&arena);
    return 0;
}
