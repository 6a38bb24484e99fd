/* Leases and events of the probe.
 *     lead NS NAME IDENTITY [DURATION RENEW RETRY]  | resign | lease
 *     event RESOURCE NS NAME UID TYPE REASON MESSAGE ("_" is a blank) | events */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kube/event.h"
#include "kube/lease.h"
#include "probe.h"

static void say_lease(void *arg, const struct gs_kube_lease_state *s)
{
    struct gs_kube_merge m;

    (void)arg;
    gs_kube_merge_init(&m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("what"), GS_STR("lease"));
    gs_kube_merge_bool(&m, GS_KUBE_PATH("is_known"), s->is_known);
    gs_kube_merge_bool(&m, GS_KUBE_PATH("is_there"), s->is_there);
    gs_kube_merge_bool(&m, GS_KUBE_PATH("is_ours"), s->is_ours);
    gs_kube_merge_str(&m, GS_KUBE_PATH("holder"), gs_str_of(s->holder));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("duration_s"), s->duration_s);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("transitions"), s->transitions);
    probe_say(&m);
}

static uint32_t number(const char *text)
{
    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static int lead(struct probe *p, char **words, struct gs_err *err)
{
    struct gs_kube_lease_opt opt = {
        .ns = gs_str_of(words[1]),
        .name = gs_str_of(words[2]),
        .identity = strcmp(words[3], "-") != 0 ? gs_str_of(words[3]) : (struct gs_str){0},
    };

    if (words[4]) {
        opt.duration_s = number(words[4]);
        opt.renew_s = number(words[5]);
        opt.retry_s = number(words[6]);
    }
    return gs_kube_lease_new(p->client, &opt, say_lease, p, &p->lease, err);
}

static void event(struct probe *p, char **words)
{
    static const struct gs_kube_events_opt opt = {.component = "probe", .host = "here"};
    struct gs_kube_event e = {
        .resource = strcmp(words[1], "nodes") == 0 ? &gs_kube_nodes : &gs_kube_pods,
        .ns = strcmp(words[2], "-") != 0 ? gs_str_of(words[2]) : (struct gs_str){0},
        .name = gs_str_of(words[3]),
        .uid = gs_str_of(words[4]),
        .type = words[5],
        .reason = words[6],
        .message = gs_str_of(words[7]),
    };

    for (char *c = words[7]; *c; c++)
        if (*c == '_')
            *c = ' ';
    if (!p->events && gs_kube_events_new(p->client, &opt, &p->events, NULL) < 0)
        abort();
    gs_kube_event_post(p->events, &e);
}

static void say_events(struct probe *p)
{
    struct gs_kube_events_stats s = {0};
    struct gs_kube_merge m;

    if (p->events)
        gs_kube_events_stats(p->events, &s);
    gs_kube_merge_init(&m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("what"), GS_STR("events"));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("posted"), (int64_t)s.posted);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("counted"), (int64_t)s.counted);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("dropped"), (int64_t)s.dropped);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("failed"), (int64_t)s.failed);
    gs_kube_merge_i64(&m, GS_KUBE_PATH("waiting"), s.waiting);
    probe_say(&m);
}

int probe_more(struct probe *p, char **words, struct gs_err *err)
{
    struct gs_kube_lease_state state;

    if (strcmp(words[0], "lead") == 0)
        return lead(p, words, err);
    if (strcmp(words[0], "resign") == 0) {
        gs_kube_lease_resign(p->lease);
    } else if (strcmp(words[0], "lease") == 0) {
        gs_kube_lease_look(p->lease, &state);
        say_lease(p, &state);
    } else if (strcmp(words[0], "event") == 0) {
        event(p, words);
    } else if (strcmp(words[0], "events") == 0) {
        say_events(p);
    } else {
        return gs_err_set(err, -EINVAL, "no such command: %s", words[0]);
    }
    return 0;
}

void probe_more_end(struct probe *p)
{
    p->lease = gs_kube_lease_free(p->lease);
    p->events = gs_kube_events_free(p->events);
}
