#include "kube/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "kube/json.h"

#define PAGE       500
#define TIMEOUT_MS 60000
#define TRY_MS     30000
/* After so many 410s the list is asked for in one piece: pages get older than the server's memory.
 */
#define RESTARTS_MAX 3

struct gs_kube_list {
    struct gs_kube_client *client;
    struct gs_kube_list_fns fns;
    void *arg;
    const struct gs_kube_resource *resource;
    struct gs_buf ns, label_selector, field_selector, page_token;
    uint32_t page, timeout_ms, restarts;
    uint64_t ticket;
    bool in_callback, is_cancelled;
};

static void on_page(void *arg, const struct gs_kube_result *result);

static void list_free(struct gs_kube_list *list)
{
    gs_buf_fini(&list->ns);
    gs_buf_fini(&list->label_selector);
    gs_buf_fini(&list->field_selector);
    gs_buf_fini(&list->page_token);
    free(list);
}

static int ask(struct gs_kube_list *list, struct gs_err *err)
{
    struct gs_kube_req req = {
        .verb = GS_KUBE_LIST,
        .resource = list->resource,
        .ns = gs_buf_str(&list->ns),
        .label_selector = gs_buf_str(&list->label_selector),
        .field_selector = gs_buf_str(&list->field_selector),
        .page = gs_buf_str(&list->page_token),
        .limit = list->page,
        .timeout_ms = list->timeout_ms,
        .try_ms = TRY_MS,
    };

    return gs_kube_client_send(list->client, &req, on_page, list, &list->ticket, err);
}

static void finish(struct gs_kube_list *list, const struct gs_kube_result *result,
                   struct gs_str version)
{
    struct gs_kube_list_fns fns = list->fns;
    void *arg = list->arg;

    list_free(list);
    fns.done(arg, result, version);
}

static void fail(struct gs_kube_list *list, int rc, const struct gs_err *err)
{
    struct gs_kube_result result = {.rc = rc, .message = gs_str_of(err->text), .err = err};

    finish(list, &result, (struct gs_str){0});
}

/* The items of a page. False where a callback cancelled the list. */
static bool give_items(struct gs_kube_list *list, yyjson_val *items)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(items);
    yyjson_val *item;

    list->in_callback = true;
    while (!list->is_cancelled && (item = yyjson_arr_iter_next(&iter)) != NULL)
        list->fns.item(list->arg, item);
    list->in_callback = false;
    return !list->is_cancelled;
}

/* The server has forgotten the moment of the first page. */
static bool restart(struct gs_kube_list *list)
{
    gs_buf_clear(&list->page_token);
    list->restarts++;
    list->page = list->restarts < RESTARTS_MAX ? list->page * 2 : 0;
    list->in_callback = true;
    if (list->fns.restart)
        list->fns.restart(list->arg);
    list->in_callback = false;
    return !list->is_cancelled;
}

/* Objects of some hundred kilobytes, which anybody may make: fewer of them at a time. */
static bool is_shrunk(struct gs_kube_list *list, const struct gs_kube_result *result)
{
    if (result->rc != -EFBIG || list->page < 2)
        return false;
    list->page /= 2;
    return true;
}

static void on_page(void *arg, const struct gs_kube_result *result)
{
    struct gs_kube_list *list = arg;
    yyjson_val *meta = NULL, *items = NULL;
    struct gs_str token = {0}, version = {0};
    struct gs_err err = {0};
    int rc;

    list->ticket = 0;
    if (result->rc < 0 && result->status == 410 && list->page_token.n > 0) {
        if (!restart(list)) {
            list_free(list);
            return;
        }
    } else if (result->rc < 0 && !is_shrunk(list, result)) {
        finish(list, result, (struct gs_str){0});
        return;
    } else if (result->rc == 0) {
        if (gs_kube_json_obj(result->root, "metadata", &meta) != GS_KUBE_GOT ||
            gs_kube_json_arr(result->root, "items", &items) == GS_KUBE_WRONG ||
            gs_kube_json_str(meta, "continue", &token) == GS_KUBE_WRONG ||
            gs_kube_json_str(meta, "resourceVersion", &version) == GS_KUBE_WRONG) {
            rc = gs_err_set(&err, -EBADMSG, "%s: the answer is no list", list->resource->plural);
            fail(list, rc, &err);
            return;
        }
        if (!give_items(list, items)) { /* items null is an empty list: Go writes it so */
            list_free(list);
            return;
        }
        if (token.n == 0) {
            finish(list, result, version);
            return;
        }
        gs_buf_clear(&list->page_token);
        gs_buf_put(&list->page_token, token);
    }
    rc = gs_buf_check(&list->page_token);
    if (rc == 0)
        rc = ask(list, &err);
    if (rc < 0)
        fail(list, rc, &err);
}

int gs_kube_list_start(struct gs_kube_client *client, const struct gs_kube_list_opt *opt,
                       const struct gs_kube_list_fns *fns, void *arg,
                       struct gs_kube_list **ret_list, struct gs_err *err)
{
    struct gs_kube_list *list = calloc(1, sizeof(*list));
    int rc = 0;

    if (!list)
        return gs_err_set(err, -ENOMEM, "no memory for a list");
    list->client = client;
    list->fns = *fns;
    list->arg = arg;
    list->resource = opt->resource;
    list->page = opt->page ? opt->page : PAGE;
    list->timeout_ms = opt->timeout_ms ? opt->timeout_ms : TIMEOUT_MS;
    gs_buf_put(&list->ns, opt->ns);
    gs_buf_put(&list->label_selector, opt->label_selector);
    gs_buf_put(&list->field_selector, opt->field_selector);
    if (gs_buf_check(&list->ns) < 0 || gs_buf_check(&list->label_selector) < 0 ||
        gs_buf_check(&list->field_selector) < 0)
        rc = gs_err_set(err, -ENOMEM, "no memory for a list");
    if (rc == 0)
        rc = ask(list, err);
    if (rc < 0) {
        list_free(list);
        return rc;
    }
    if (ret_list)
        *ret_list = list;
    return 0;
}

void gs_kube_list_cancel(struct gs_kube_list *list)
{
    if (!list)
        return;
    if (list->in_callback) {
        list->is_cancelled = true; /* freed when the callback is back */
        return;
    }
    gs_kube_client_cancel(list->client, list->ticket);
    list_free(list);
}
