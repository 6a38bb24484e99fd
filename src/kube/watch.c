#include "kube/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "kube/json.h"
#include "kube/keys.h"
#include "kube/lines.h"
#include "kube/list.h"
#include "net/loop.h"

#define PAGE       500
#define TIMEOUT_S  300
#define OBJECT_MAX ((size_t)16 << 20)
#define QUERY_MAX  128
#define BACKOFF_MS 250u
/* Also where an answer says to wait longer, which whoever stands in between may write: what would
 * be decided meanwhile by what is known is wrong. */
#define BACKOFF_MAX_MS 30000u
/* Servers send a bookmark about once a minute: longer silence means that nobody is there. */
#define IDLE_MS 150000
/* Beyond the end that the server was asked to make of the watch. */
#define LATE_MS 30000
/* A stream that lived so long was a good one: the next failure starts the back-off afresh. */
#define GOOD_MS 10000

struct gs_kube_watch {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_kube_watch_fns fns;
    void *arg;
    const struct gs_kube_resource *resource;
    struct gs_buf ns, label_selector, field_selector;
    uint32_t page, timeout_s;

    struct gs_kube_keys keys;
    struct gs_kube_lines lines;
    struct gs_buf version; /**< resourceVersion up to which all is known */

    struct gs_kube_list *list; /**< while listing */
    uint64_t stream;           /**< ticket while watching; 0 none */
    struct gs_loop_timer timer;
    bool must_list;   /**< the next step is a list */
    bool must_relist; /**< asked for while a list was under way */
    uint64_t opened_ns;
    int64_t list_ms; /**< when the list under way began */
    uint32_t failures;

    struct gs_kube_watch_stats stats;
    unsigned depth; /**< of callbacks: the memory stays until the outermost is back */
    bool is_freed;
};

static void step(void *user);

static void watch_destroy(struct gs_kube_watch *w)
{
    gs_kube_keys_fini(&w->keys);
    gs_kube_lines_fini(&w->lines);
    gs_buf_fini(&w->version);
    gs_buf_fini(&w->ns);
    gs_buf_fini(&w->label_selector);
    gs_buf_fini(&w->field_selector);
    free(w);
}

static void enter(struct gs_kube_watch *w)
{
    w->depth++;
}

/* False: the caller freed it in a callback, and it is gone now. */
static bool leave(struct gs_kube_watch *w)
{
    w->depth--;
    if (!w->is_freed)
        return true;
    if (w->depth == 0)
        watch_destroy(w);
    return false;
}

static void stop(struct gs_kube_watch *w)
{
    gs_loop_timer_cancel(w->loop, &w->timer);
    if (w->list)
        gs_kube_list_cancel(w->list);
    w->list = NULL;
    if (w->stream)
        gs_kube_client_cancel(w->client, w->stream);
    w->stream = 0;
}

static void step_in(struct gs_kube_watch *w, uint32_t ms)
{
    gs_loop_timer_in(w->loop, &w->timer, ms, step, w);
}

static void heard(struct gs_kube_watch *w)
{
    w->stats.heard_ms = gs_loop_now_ms(w->loop);
}

/* Something failed: say so and try again later, ever later, never all watches at one moment. Last
 * thing a callback does. */
static void trouble(struct gs_kube_watch *w, const struct gs_err *why, uint32_t at_least_ms)
{
    uint32_t shift = w->failures < 8 ? w->failures : 8;
    uint32_t most = BACKOFF_MS << shift < BACKOFF_MAX_MS ? BACKOFF_MS << shift : BACKOFF_MAX_MS;
    uint32_t wait_ms = most / 2 + gs_kube_client_jitter(w->client, most / 2 + 1);

    if (at_least_ms > BACKOFF_MAX_MS)
        at_least_ms = BACKOFF_MAX_MS;
    if (wait_ms < at_least_ms)
        wait_ms = at_least_ms + gs_kube_client_jitter(w->client, most);
    w->failures++;
    step_in(w, wait_ms);
    if (!w->fns.trouble)
        return;
    enter(w);
    w->fns.trouble(w->arg, why, wait_ms);
    (void)leave(w); /* nothing more is done with it */
}

/* An object that is no longer there. `last` may be NULL. Only inside enter and leave. */
static void tell_deleted(struct gs_kube_watch *w, struct gs_kube_entry *entry, yyjson_val *last)
{
    struct gs_kube_key key = gs_kube_keys_key(entry);

    gs_kube_keys_take(&w->keys, entry);
    w->fns.deleted(w->arg, &key, last);
    gs_kube_keys_drop(entry);
}

static bool read_key(yyjson_val *object, struct gs_kube_key *ret, struct gs_str *ret_version)
{
    yyjson_val *meta = NULL;

    *ret = (struct gs_kube_key){0};
    *ret_version = (struct gs_str){0};
    return gs_kube_json_obj(object, "metadata", &meta) == GS_KUBE_GOT &&
           gs_kube_json_str(meta, "name", &ret->name) == GS_KUBE_GOT && ret->name.n > 0 &&
           gs_kube_json_str(meta, "namespace", &ret->ns) != GS_KUBE_WRONG &&
           gs_kube_json_str(meta, "uid", &ret->uid) != GS_KUBE_WRONG &&
           gs_kube_json_str(meta, "resourceVersion", ret_version) != GS_KUBE_WRONG;
}

/* An object as it is now. Only inside enter and leave. */
static void upsert(struct gs_kube_watch *w, const struct gs_kube_key *key, struct gs_str version,
                   yyjson_val *object)
{
    uint64_t number = gs_kube_keys_version(version);
    struct gs_kube_entry *entry = gs_kube_keys_find(&w->keys, key->ns, key->name);

    if (entry && !gs_str_eq(gs_kube_keys_key(entry).uid, key->uid)) {
        tell_deleted(w, entry, NULL); /* another of the same name: we missed the end of the first */
        entry = NULL;
    }
    if (w->is_freed)
        return;
    if (entry) {
        bool is_same = version.n > 0 && entry->version == number;

        entry->mark = w->keys.mark;
        entry->version = number;
        if (!is_same)
            w->fns.modified(w->arg, key, object);
        return;
    }
    if (gs_kube_keys_add(&w->keys, key, number) < 0) {
        w->stats.bad++; /* no memory for its name: the next list, as soon as may be, has it again */
        w->must_list = w->must_relist = true;
        return;
    }
    w->fns.added(w->arg, key, object);
}

static void on_item(void *arg, yyjson_val *object)
{
    struct gs_kube_watch *w = arg;
    struct gs_kube_key key;
    struct gs_str version;

    if (!read_key(object, &key, &version)) {
        w->stats.bad++;
        return;
    }
    enter(w);
    upsert(w, &key, version, object);
    (void)leave(w); /* the list looks for itself whether it was cancelled */
}

static void on_restart(void *arg)
{
    struct gs_kube_watch *w = arg;

    w->stats.gone++;
    w->keys.mark++;
}

/* The list is complete: what it did not show is gone. False: freed. */
static bool end_list(struct gs_kube_watch *w)
{
    bool is_first = !w->stats.is_synced;
    struct gs_kube_entry *gone = gs_kube_keys_take_unmarked(&w->keys);

    enter(w);
    while (gone) {
        struct gs_kube_entry *next = gone->next;
        struct gs_kube_key key = gs_kube_keys_key(gone);

        if (!w->is_freed)
            w->fns.deleted(w->arg, &key, NULL);
        gs_kube_keys_drop(gone);
        gone = next;
    }
    w->stats.lists++;
    w->stats.relists += !is_first;
    w->stats.is_synced = true;
    if (!w->is_freed && is_first && w->fns.synced)
        w->fns.synced(w->arg);
    if (!w->is_freed && !is_first && w->fns.relisted && !w->must_list)
        w->fns.relisted(w->arg);
    return leave(w);
}

static void on_list(void *arg, const struct gs_kube_result *result, struct gs_str version)
{
    struct gs_kube_watch *w = arg;

    w->list = NULL;
    if (result->rc < 0) {
        trouble(w, result->err, result->retry_after_ms);
        return;
    }
    heard(w);
    w->stats.listed_ms = w->list_ms;
    w->failures = 0;
    gs_buf_clear(&w->version);
    gs_buf_put(&w->version, version);
    w->must_list = w->must_relist || version.n == 0 || gs_buf_check(&w->version) < 0;
    w->must_relist = false;
    step_in(w, 0); /* before the callbacks, which may change their mind */
    (void)end_list(w);
}

static void start_list(struct gs_kube_watch *w)
{
    static const struct gs_kube_list_fns fns = {on_item, on_restart, on_list};
    struct gs_kube_list_opt opt = {
        .resource = w->resource,
        .ns = gs_buf_str(&w->ns),
        .label_selector = gs_buf_str(&w->label_selector),
        .field_selector = gs_buf_str(&w->field_selector),
        .page = w->page,
    };
    struct gs_err err = {0};

    w->list_ms = gs_loop_now_ms(w->loop);
    w->keys.mark++;
    if (gs_kube_list_start(w->client, &opt, &fns, w, &w->list, &err) < 0)
        trouble(w, &err, 0);
}

/* The stream cannot go on. Never inside its own callback's last use of w. */
static void cut(struct gs_kube_watch *w, const struct gs_err *why, bool must_list)
{
    gs_kube_client_cancel(w->client, w->stream);
    w->stream = 0;
    w->stats.broken++;
    w->must_list |= must_list;
    trouble(w, why, 0);
}

static void keep_version(struct gs_kube_watch *w, struct gs_str version)
{
    if (version.n == 0)
        return;
    gs_buf_clear(&w->version);
    gs_buf_put(&w->version, version);
    if (gs_buf_check(&w->version) < 0)
        w->must_list = true; /* nothing to go on from when this stream ends */
}

/* A Status in the stream: the server ends the watch. */
static void on_error(struct gs_kube_watch *w, yyjson_val *status)
{
    struct gs_str reason = {0}, message = {0};
    struct gs_err err = {0};
    int32_t code = 0;
    bool is_gone;

    (void)gs_kube_json_i32(status, "code", &code);       /* 0 where absent */
    (void)gs_kube_json_str(status, "reason", &reason);   /* empty where absent */
    (void)gs_kube_json_str(status, "message", &message); /* empty where absent */
    is_gone =
        code == 410 || gs_str_eq(reason, GS_STR("Expired")) || gs_str_eq(reason, GS_STR("Gone"));
    w->stats.gone += is_gone;
    gs_err_set(&err, is_gone ? -ESTALE : -EIO, "watch of %s ended: %d %.*s", w->resource->plural,
               (int)code, (int)(message.n < 256 ? message.n : 256), message.n ? message.p : "");
    cut(w, &err, is_gone);
}

static void on_change(struct gs_kube_watch *w, struct gs_str type, yyjson_val *object)
{
    struct gs_kube_entry *entry;
    struct gs_kube_key key;
    struct gs_str version;

    if (!read_key(object, &key, &version)) {
        w->stats.bad++;
        return;
    }
    keep_version(w, version);
    w->stats.events++;
    if (!gs_str_eq(type, GS_STR("DELETED"))) {
        upsert(w, &key, version, object);
        return;
    }
    entry = gs_kube_keys_find(&w->keys, key.ns, key.name);
    if (entry && (key.uid.n == 0 || gs_str_eq(gs_kube_keys_key(entry).uid, key.uid)))
        tell_deleted(w, entry, object);
}

static void on_bookmark(struct gs_kube_watch *w, yyjson_val *object)
{
    yyjson_val *meta = NULL;
    struct gs_str version = {0};

    w->stats.bookmarks++;
    if (gs_kube_json_obj(object, "metadata", &meta) == GS_KUBE_GOT &&
        gs_kube_json_str(meta, "resourceVersion", &version) == GS_KUBE_GOT)
        keep_version(w, version);
}

static bool on_line(void *arg, struct gs_str line)
{
    GS_CLEANUP(gs_kube_json_free_p) yyjson_doc *doc = NULL;
    struct gs_kube_watch *w = arg;
    yyjson_val *root, *object = NULL;
    struct gs_str type = {0};
    struct gs_err err = {0};
    int rc = gs_kube_json_read(line, w->lines.max, &doc, &err);

    root = yyjson_doc_get_root(doc);
    if (rc < 0 || gs_kube_json_str(root, "type", &type) != GS_KUBE_GOT ||
        gs_kube_json_obj(root, "object", &object) != GS_KUBE_GOT) {
        gs_err_set(&err, -EBADMSG, "watch of %s: not a watch event", w->resource->plural);
        w->stats.bad++;
        cut(w, &err, true);
        return false;
    }
    if (gs_str_eq(type, GS_STR("ERROR"))) {
        on_error(w, object);
        return false;
    }
    w->failures = 0;
    if (gs_str_eq(type, GS_STR("BOOKMARK")))
        on_bookmark(w, object);
    else
        on_change(w, type, object);
    return !w->is_freed && w->stream != 0;
}

static bool on_chunk(void *arg, const char *bytes, size_t n)
{
    struct gs_kube_watch *w = arg;
    struct gs_err err = {0};
    int rc;

    heard(w);
    enter(w);
    rc = gs_kube_lines_feed(&w->lines, bytes, n, on_line, w);
    if (!leave(w) || rc == 0)
        return false;
    if (rc > 0)
        return true;
    gs_err_set(&err, rc, "watch of %s: %s", w->resource->plural,
               rc == -EFBIG ? "an object is too large" : "no memory");
    cut(w, &err, true);
    return false;
}

static void on_end(void *arg, const struct gs_kube_result *result)
{
    struct gs_kube_watch *w = arg;
    uint64_t lived_ms = (gs_loop_now_ns(w->loop) - w->opened_ns) / GS_CLOCK_MS;
    bool is_old = result->status == 410 || result->status == 400;
    struct gs_err err = {0};

    w->stream = 0;
    if (lived_ms >= GOOD_MS)
        w->failures = 0;
    if (result->rc == 0 && lived_ms >= GOOD_MS) { /* the end that was agreed upon */
        step_in(w, 0);
        return;
    }
    if (result->rc == 0)
        gs_err_set(&err, -ECONNRESET, "watch of %s ended after %u ms", w->resource->plural,
                   (unsigned)lived_ms);
    w->stats.gone += result->status == 410;
    w->stats.broken += result->status < 400;
    w->must_list |= is_old; /* 400: it cannot read that resourceVersion */
    trouble(w, result->rc == 0 ? &err : result->err, result->retry_after_ms);
}

static void start_stream(struct gs_kube_watch *w)
{
    char query[QUERY_MAX];
    struct gs_str_out out;
    uint32_t timeout_s = w->timeout_s + gs_kube_client_jitter(w->client, w->timeout_s);
    struct gs_kube_stream stream = {query, IDLE_MS, on_chunk, on_end};
    struct gs_kube_req req = {
        .verb = GS_KUBE_LIST,
        .resource = w->resource,
        .ns = gs_buf_str(&w->ns),
        .label_selector = gs_buf_str(&w->label_selector),
        .field_selector = gs_buf_str(&w->field_selector),
        .resource_version = gs_buf_str(&w->version),
        .timeout_ms = timeout_s * 1000 + LATE_MS,
    };
    struct gs_err err = {0};

    gs_str_out_init(&out, query, sizeof(query));
    gs_str_put_c(&out, "watch=1&allowWatchBookmarks=true&timeoutSeconds=");
    gs_str_put_u64(&out, timeout_s);
    gs_kube_lines_fini(&w->lines);
    w->opened_ns = gs_loop_now_ns(w->loop);
    if (gs_kube_client_stream(w->client, &req, &stream, w, &w->stream, &err) < 0) {
        trouble(w, &err, 0);
        return;
    }
    w->stats.watches++;
}

static void step(void *user)
{
    struct gs_kube_watch *w = user;

    if (w->list || w->stream)
        return;
    if (w->must_list)
        start_list(w);
    else
        start_stream(w);
}

int gs_kube_watch_new(struct gs_kube_client *client, const struct gs_kube_watch_opt *opt,
                      const struct gs_kube_watch_fns *fns, void *arg,
                      struct gs_kube_watch **ret_watch, struct gs_err *err)
{
    struct gs_kube_watch *w = calloc(1, sizeof(*w));

    if (!w)
        return gs_err_set(err, -ENOMEM, "no memory for a watch");
    w->client = client;
    w->loop = gs_kube_client_loop(client);
    w->fns = *fns;
    w->arg = arg;
    w->resource = opt->resource;
    w->page = opt->page ? opt->page : PAGE;
    w->timeout_s = opt->timeout_s ? opt->timeout_s : TIMEOUT_S;
    if (w->timeout_s > 86400)
        w->timeout_s = 86400;
    w->lines.max = opt->max_object ? opt->max_object : OBJECT_MAX;
    w->stats.heard_ms = w->stats.listed_ms = -1;
    w->must_list = true;
    gs_map_init(&w->keys.map);
    gs_buf_put(&w->ns, opt->ns);
    gs_buf_put(&w->label_selector, opt->label_selector);
    gs_buf_put(&w->field_selector, opt->field_selector);
    if (gs_buf_check(&w->ns) < 0 || gs_buf_check(&w->label_selector) < 0 ||
        gs_buf_check(&w->field_selector) < 0) {
        watch_destroy(w);
        return gs_err_set(err, -ENOMEM, "no memory for a watch");
    }
    step_in(w, 0);
    *ret_watch = w;
    return 0;
}

struct gs_kube_watch *gs_kube_watch_free(struct gs_kube_watch *watch)
{
    if (!watch)
        return NULL;
    stop(watch);
    watch->is_freed = true;
    if (watch->depth == 0)
        watch_destroy(watch);
    return NULL;
}

void gs_kube_watch_relist(struct gs_kube_watch *watch)
{
    if (watch->list) {
        watch->must_relist = true; /* the one under way may have begun too early */
        return;
    }
    stop(watch);
    watch->must_list = true;
    step_in(watch, 0);
}

void gs_kube_watch_stats(const struct gs_kube_watch *watch, struct gs_kube_watch_stats *ret)
{
    *ret = watch->stats;
    ret->objects = watch->keys.map.n;
    ret->bytes = watch->keys.bytes + watch->keys.map.cap * sizeof(struct gs_map_slot);
}
