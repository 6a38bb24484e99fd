#include "kube/event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/map.h"
#include "core/list.h"
#include "kube/patch.h"
#include "kube/stamp.h"
#include "net/loop.h"

#define BURST        25
#define REFILL_S     300
#define REMEMBER     4096
#define REMEMBER_S   600
#define WAITING      1024
#define IN_FLIGHT    4
#define NORMAL_BURST 50
#define NORMAL_PER_S 20
#define SIMILAR_MAX  10 /* messages of one reason on one object; then they become one event */
#define MESSAGE_MAX  1024
#define NAME_MAX_    200
#define TIMEOUT_MS   10000

static const struct gs_str combined = {"(combined from similar events): ", 32};

enum kind {
    KIND_EVENT,  /**< one event as the API server has it */
    KIND_GROUP,  /**< how many messages a reason on an object has had */
    KIND_OBJECT, /**< how many events an object may still have */
};

/** Those waiting to be sent: warnings go first. */
struct line {
    struct entry *first, **end;
    uint32_t n;
};

/* One thing remembered. All are in one table, the longest unused goes first. */
struct entry {
    GS_LINK(struct entry) used; /**< in the events' `used` */
    struct entry *next;         /**< in the queue of those to be sent */
    char *key;
    size_t key_n;
    uint64_t used_ns;

    uint32_t left;     /**< of an object: events it may still have */
    uint64_t since_ns; /**< of an object: when `left` was right; of a group: of its first message */
    uint32_t messages; /**< of a group */

    enum kind kind;
    const struct gs_kube_resource *resource;
    struct gs_buf name, ns, object, uid, version, reason, message;
    const char *type; /**< a literal of ours */
    int64_t first_us, last_us;
    int32_t count;
    bool is_created, is_queued, is_sent, is_dirty;
    uint64_t ticket; /**< while is_sent */
    struct gs_kube_events *events;
};

struct gs_kube_events {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_buf component, host;
    uint32_t burst, refill_s, remember, remember_s, max_waiting;
    struct gs_map map;
    GS_LIST(struct entry) used; /**< that used last in front */
    struct line warnings, normals;
    uint32_t normal_burst, normal_per_s;
    uint32_t normals_left; /**< may be sent now */
    uint64_t left_ns;      /**< when that was right */
    struct gs_loop_timer pace;
    struct gs_loop_task task;
    uint32_t in_flight;
    uint64_t serial;
    struct gs_kube_events_stats stats;
};

static void pump(void *user);

static void entry_free(struct entry *e)
{
    gs_buf_fini(&e->name);
    gs_buf_fini(&e->ns);
    gs_buf_fini(&e->object);
    gs_buf_fini(&e->uid);
    gs_buf_fini(&e->version);
    gs_buf_fini(&e->reason);
    gs_buf_fini(&e->message);
    free(e->key);
    free(e);
}

static void link_used(struct gs_kube_events *s, struct entry *e)
{
    e->used_ns = gs_loop_now_ns(s->loop);
    GS_LIST_PUSH(&s->used, e, used);
}

static void forget(struct gs_kube_events *s, struct entry *e)
{
    (void)gs_map_remove(&s->map, (struct gs_str){e->key, e->key_n}); /* it is the entry itself */
    GS_LIST_REMOVE(&s->used, e, used);
    entry_free(e);
}

/* Drop what is too old, and make room for one more. False: all is on its way to the server. */
static bool make_room(struct gs_kube_events *s)
{
    uint64_t now = gs_loop_now_ns(s->loop), most = s->remember_s * GS_CLOCK_S;
    struct entry *e = s->used.last, *newer;

    for (; e && (s->map.n >= s->remember || now - e->used_ns > most); e = newer) {
        newer = e->used.prev;
        if (!e->is_queued && !e->is_sent)
            forget(s, e);
    }
    return s->map.n < s->remember;
}

/* Find or make; a made one is zeroed but for its key. NULL: no room or no memory. */
static struct entry *entry_of(struct gs_kube_events *s, enum kind kind, struct gs_str key)
{
    struct entry *e = gs_map_find(&s->map, key);

    if (e) {
        GS_LIST_REMOVE(&s->used, e, used);
        link_used(s, e);
        return e;
    }
    if (!make_room(s))
        return NULL;
    e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->key = malloc(key.n);
    if (!e->key) {
        free(e);
        return NULL;
    }
    memcpy(e->key, key.p, key.n);
    e->key_n = key.n;
    e->kind = kind;
    e->events = s;
    if (gs_map_set(&s->map, (struct gs_str){e->key, e->key_n}, e) < 0) {
        entry_free(e);
        return NULL;
    }
    link_used(s, e);
    return e;
}

static void set(struct gs_buf *buf, struct gs_str s)
{
    gs_buf_clear(buf);
    gs_buf_put(buf, s);
}

/* Parts are divided by NUL, which no part holds. */
static void add_part(struct gs_buf *key, struct gs_str part)
{
    gs_buf_put(key, part);
    gs_buf_addc(key, '\0', 1);
}

/* Take one of the object's allowance. */
static bool is_allowed(struct gs_kube_events *s, struct gs_str key)
{
    struct entry *e = entry_of(s, KIND_OBJECT, key);
    uint64_t now = gs_loop_now_ns(s->loop), more;

    if (!e)
        return false;
    if (e->since_ns == 0) {
        e->since_ns = now;
        e->left = s->burst;
    }
    more = (now - e->since_ns) / (s->refill_s * GS_CLOCK_S);
    e->since_ns += more * s->refill_s * GS_CLOCK_S;
    e->left = more > s->burst - e->left ? s->burst : e->left + (uint32_t)more;
    if (e->left == 0)
        return false;
    e->left--;
    return true;
}

/* Has the reason had too many messages to keep them apart? */
static bool is_folded(struct gs_kube_events *s, struct gs_str key, bool is_new)
{
    struct entry *e = entry_of(s, KIND_GROUP, key);
    uint64_t now = gs_loop_now_ns(s->loop);

    if (!e)
        return true;
    if (e->messages == 0 || now - e->since_ns > s->remember_s * GS_CLOCK_S) {
        e->messages = 0;
        e->since_ns = now;
    }
    if (is_new && e->messages <= SIMILAR_MAX)
        e->messages++;
    return is_new && e->messages > SIMILAR_MAX;
}

static void enqueue(struct gs_kube_events *s, struct entry *e)
{
    struct line *line = e->type[0] == 'W' ? &s->warnings : &s->normals;

    if (e->is_sent) {
        e->is_dirty = true;
        return;
    }
    if (e->is_queued)
        return;
    if (line->n >= s->max_waiting) {
        s->stats.dropped++;
        return;
    }
    e->is_queued = true;
    e->next = NULL;
    *line->end = e;
    line->end = &e->next;
    line->n++;
    s->stats.waiting++;
    gs_loop_defer(s->loop, &s->task, pump, s);
}

static void fill(struct entry *e, const struct gs_kube_event *event)
{
    e->resource = event->resource;
    e->type = strcmp(event->type, "Warning") == 0 ? "Warning" : "Normal";
    set(&e->ns, event->ns.n > 0 ? event->ns : GS_STR("default"));
    set(&e->object, event->name);
    set(&e->uid, event->uid);
    set(&e->reason, gs_str_of(event->reason));
}

/* A message ends at a whole character. */
static struct gs_str cut_message(struct gs_str s, size_t max)
{
    if (s.n <= max)
        return s;
    while (max > 0 && ((unsigned char)s.p[max] & 0xc0) == 0x80)
        max--;
    return (struct gs_str){s.p, max};
}

static void keep(struct gs_kube_events *s, struct entry *e, const struct gs_kube_event *event,
                 bool is_folded)
{
    struct gs_str message = cut_message(event->message, MESSAGE_MAX - combined.n);

    if (e->count == 0) {
        fill(e, event);
        e->first_us = gs_loop_unix_us(s->loop);
    }
    gs_buf_clear(&e->message);
    if (is_folded)
        gs_buf_put(&e->message, combined);
    gs_buf_put(&e->message, message);
    set(&e->version, event->resource_version);
    e->last_us = gs_loop_unix_us(s->loop);
    if (e->count < INT32_MAX)
        e->count++;
    enqueue(s, e);
}

void gs_kube_event_post(struct gs_kube_events *s, const struct gs_kube_event *event)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf key = {0};
    struct gs_str object, group, whole;
    struct entry *e;
    bool folded;
    size_t n_object, n_group;

    gs_buf_adds(&key, event->resource->plural);
    gs_buf_addc(&key, '\0', 1);
    add_part(&key, event->ns);
    add_part(&key, event->name);
    add_part(&key, event->uid);
    n_object = key.n;
    add_part(&key, gs_str_of(event->type));
    add_part(&key, gs_str_of(event->reason));
    n_group = key.n;
    gs_buf_addc(&key, '=', 1); /* no key of one kind is one of another */
    gs_buf_put(&key, event->message);
    if (gs_buf_check(&key) < 0) {
        s->stats.dropped++;
        return;
    }
    object = (struct gs_str){key.p, n_object};
    group = (struct gs_str){key.p, n_group};
    whole = (struct gs_str){key.p, key.n};
    if (!is_allowed(s, object)) {
        s->stats.dropped++;
        return;
    }
    folded = is_folded(s, group, !gs_map_find(&s->map, whole));
    if (folded) {
        key.p[n_group] = '*';
        whole.n = n_group + 1;
    }
    e = entry_of(s, KIND_EVENT, whole);
    if (!e) {
        s->stats.dropped++;
        return;
    }
    keep(s, e, event, folded);
}

static void put_new(struct gs_kube_events *s, struct entry *e, struct gs_kube_merge *m)
{
    const struct gs_kube_resource *r = e->resource;
    char version[64], stamp[GS_KUBE_STAMP_TEXT];

    (void)snprintf(version, sizeof(version), "%s%s%s", r->group, r->group[0] ? "/" : "",
                   r->version); /* groups of ours are short */
    gs_buf_clear(&e->name);
    gs_buf_addf(&e->name, "%.*s.%llx%04llx", NAME_MAX_, gs_buf_text(&e->object),
                (unsigned long long)e->first_us, (unsigned long long)(s->serial++ & 0xffff));
    gs_kube_merge_str(m, GS_KUBE_PATH("apiVersion"), GS_STR("v1"));
    gs_kube_merge_str(m, GS_KUBE_PATH("kind"), GS_STR("Event"));
    gs_kube_merge_str(m, GS_KUBE_PATH("metadata", "name"), gs_buf_str(&e->name));
    gs_kube_merge_str(m, GS_KUBE_PATH("metadata", "namespace"), gs_buf_str(&e->ns));
    gs_kube_merge_str(m, GS_KUBE_PATH("involvedObject", "kind"), gs_str_of(r->kind));
    gs_kube_merge_str(m, GS_KUBE_PATH("involvedObject", "apiVersion"), gs_str_of(version));
    gs_kube_merge_str(m, GS_KUBE_PATH("involvedObject", "name"), gs_buf_str(&e->object));
    if (r->is_namespaced)
        gs_kube_merge_str(m, GS_KUBE_PATH("involvedObject", "namespace"), gs_buf_str(&e->ns));
    if (e->uid.n > 0)
        gs_kube_merge_str(m, GS_KUBE_PATH("involvedObject", "uid"), gs_buf_str(&e->uid));
    if (e->version.n > 0)
        gs_kube_merge_str(m, GS_KUBE_PATH("involvedObject", "resourceVersion"),
                          gs_buf_str(&e->version));
    gs_kube_merge_str(m, GS_KUBE_PATH("type"), gs_str_of(e->type));
    gs_kube_merge_str(m, GS_KUBE_PATH("reason"), gs_buf_str(&e->reason));
    gs_kube_merge_str(m, GS_KUBE_PATH("source", "component"), gs_buf_str(&s->component));
    gs_kube_merge_str(m, GS_KUBE_PATH("reportingComponent"), gs_buf_str(&s->component));
    if (s->host.n > 0) {
        gs_kube_merge_str(m, GS_KUBE_PATH("source", "host"), gs_buf_str(&s->host));
        gs_kube_merge_str(m, GS_KUBE_PATH("reportingInstance"), gs_buf_str(&s->host));
    }
    gs_kube_merge_str(m, GS_KUBE_PATH("firstTimestamp"),
                      gs_str_of(gs_kube_stamp_text(e->first_us, false, stamp)));
}

static void on_sent(void *arg, const struct gs_kube_result *result);

static int send_one(struct gs_kube_events *s, struct entry *e)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char stamp[GS_KUBE_STAMP_TEXT];
    struct gs_kube_merge m;
    struct gs_kube_req req = {
        .verb = e->is_created ? GS_KUBE_MERGE : GS_KUBE_CREATE,
        .resource = &gs_kube_core_events,
        .timeout_ms = TIMEOUT_MS,
    };
    int rc;

    gs_kube_merge_init(&m);
    if (!e->is_created)
        put_new(s, e, &m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("message"), gs_buf_str(&e->message));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("count"), e->count);
    gs_kube_merge_str(&m, GS_KUBE_PATH("lastTimestamp"),
                      gs_str_of(gs_kube_stamp_text(e->last_us, false, stamp)));
    rc = gs_kube_merge_text(&m, &text);
    gs_kube_merge_fini(&m);
    if (rc < 0)
        return rc;
    req.ns = gs_buf_str(&e->ns);
    if (e->is_created)
        req.name = gs_buf_str(&e->name);
    req.body = gs_buf_str(&text);
    return gs_kube_client_send(s->client, &req, on_sent, e, &e->ticket, NULL);
}

static void on_sent(void *arg, const struct gs_kube_result *result)
{
    struct entry *e = arg;
    struct gs_kube_events *s = e->events;

    s->in_flight--;
    e->is_sent = false;
    if (result->rc == 0 || (!e->is_created && result->rc == -EEXIST)) {
        s->stats.posted += !e->is_created;
        s->stats.counted += e->is_created;
        e->is_created = true;
    } else if (e->is_created && result->rc == -ENOENT) {
        e->is_created = false; /* the server forgets events after an hour: tell it anew */
        e->is_dirty = true;
        e->first_us = e->last_us;
        e->count = 1;
    } else {
        s->stats.failed++;
    }
    if (e->is_dirty)
        enqueue(s, e);
    e->is_dirty = false;
    gs_loop_defer(s->loop, &s->task, pump, s);
}

/* May one that says that all went well go now? If not, the timer comes when it may. */
static bool is_normals_turn(struct gs_kube_events *s)
{
    uint64_t now = gs_loop_now_ns(s->loop), each = GS_CLOCK_S / s->normal_per_s;
    uint64_t more = (now - s->left_ns) / each;

    s->left_ns += more * each;
    s->normals_left = more > s->normal_burst - s->normals_left ? s->normal_burst
                                                               : s->normals_left + (uint32_t)more;
    if (s->normals_left > 0) {
        s->normals_left--;
        return true;
    }
    gs_loop_timer_at(s->loop, &s->pace, s->left_ns + each, pump, s);
    return false;
}

static struct entry *next_one(struct gs_kube_events *s)
{
    struct line *line = s->warnings.first ? &s->warnings : &s->normals;
    struct entry *e = line->first;

    if (!e || (line == &s->normals && !is_normals_turn(s)))
        return NULL;
    line->first = e->next;
    if (!line->first)
        line->end = &line->first;
    line->n--;
    s->stats.waiting--;
    e->is_queued = false;
    return e;
}

static void pump(void *user)
{
    struct gs_kube_events *s = user;

    while (s->in_flight < IN_FLIGHT) {
        struct entry *e = next_one(s);

        if (!e)
            return;
        if (send_one(s, e) < 0) {
            s->stats.failed++;
            continue;
        }
        e->is_sent = true;
        s->in_flight++;
    }
}

int gs_kube_events_new(struct gs_kube_client *client, const struct gs_kube_events_opt *opt,
                       struct gs_kube_events **ret_events, struct gs_err *err)
{
    struct gs_kube_events *s = calloc(1, sizeof(*s));

    if (!s)
        return gs_err_set(err, -ENOMEM, "no memory for events");
    s->client = client;
    s->loop = gs_kube_client_loop(client);
    s->warnings.end = &s->warnings.first;
    s->normals.end = &s->normals.first;
    s->normal_burst = opt->normal_burst ? opt->normal_burst : NORMAL_BURST;
    s->normal_per_s = opt->normal_per_s ? opt->normal_per_s : NORMAL_PER_S;
    s->normals_left = s->normal_burst;
    s->left_ns = gs_loop_now_ns(s->loop);
    s->burst = opt->burst ? opt->burst : BURST;
    s->refill_s = opt->refill_s ? opt->refill_s : REFILL_S;
    s->remember = opt->remember ? opt->remember : REMEMBER;
    s->remember_s = opt->remember_s ? opt->remember_s : REMEMBER_S;
    s->max_waiting = opt->max_waiting ? opt->max_waiting : WAITING;
    gs_map_init(&s->map);
    gs_buf_adds(&s->component, opt->component);
    gs_buf_adds(&s->host, opt->host ? opt->host : "");
    if (gs_buf_check(&s->component) < 0 || gs_buf_check(&s->host) < 0) {
        gs_kube_events_free(s);
        return gs_err_set(err, -ENOMEM, "no memory for events");
    }
    *ret_events = s;
    return 0;
}

struct gs_kube_events *gs_kube_events_free(struct gs_kube_events *events)
{
    struct entry *e;
    size_t pos = 0;

    if (!events)
        return NULL;
    gs_loop_task_cancel(events->loop, &events->task);
    gs_loop_timer_cancel(events->loop, &events->pace);
    while ((e = gs_map_next(&events->map, &pos)) != NULL) {
        if (e->is_sent)
            gs_kube_client_cancel(events->client, e->ticket);
        entry_free(e);
    }
    gs_map_fini(&events->map);
    gs_buf_fini(&events->component);
    gs_buf_fini(&events->host);
    free(events);
    return NULL;
}

void gs_kube_events_stats(const struct gs_kube_events *events, struct gs_kube_events_stats *ret)
{
    *ret = events->stats;
}
