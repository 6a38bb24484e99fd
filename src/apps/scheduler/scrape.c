#include "apps/scheduler/scrape.h"

#include <errno.h>
#include <stdlib.h>

#include "apps/scheduler/state.h"
#include "base/proc.h"
#include "control/metrics_page.h"

#define PAGES_MAX 4 /* at once: a page of a large cluster is tens of MiB */

struct scrape {
    struct gs_daemon *d;
    struct gs_metrics_page page;
    struct gs_http_later *later;
    struct gs_loop_task task;
};

static void end(struct scrape *s)
{
    s->d->n_scrapes--;
    gs_loop_task_cancel(s->d->loop, &s->task);
    gs_metrics_page_fini(&s->page);
    free(s);
}

static void on_gone(void *user)
{
    end(user);
}

static void on_step(void *user)
{
    struct scrape *s = user;
    struct gs_http_reply reply = {0};

    if (!gs_metrics_page_step(&s->page)) {
        gs_loop_defer(s->d->loop, &s->task, on_step, s);
        return;
    }
    gs_http_server_reply_take(&reply, 200, "text/plain; version=0.0.4; charset=utf-8",
                              &s->page.text);
    gs_http_server_answer(s->later, &reply);
    end(s);
}

static struct gs_metrics_from look(const struct gs_daemon *d)
{
    struct gs_proc_use use;

    gs_proc_self_use(&use);
    return (struct gs_metrics_from){
        .metrics = d->stats,
        .books = d->books,
        .registry = d->registry,
        .binder = d->binder,
        .fence = d->fence,
        .preempt = d->preempt,
        .retry = d->retry,
        .client = d->client,
        .events = d->events,
        .listener = {{"extender", d->server}, {"local", d->local}, {"metrics", d->metrics}},
        .version = GS_VERSION,
        .now_ms = gs_loop_now_ms(d->loop),
        .start_unix_s = d->start_unix_s,
        .resident_bytes = use.resident_bytes,
        .cpu_s = use.cpu_s,
        .has_legacy = d->flags->legacy_metrics,
    };
}

int gs_scrape_get(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct scrape *s;

    if (d->n_scrapes >= PAGES_MAX) {
        gs_http_server_reply_text(reply, 503, "too many readers at once\n");
        return 0;
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return -ENOMEM;
    s->d = d;
    s->page.from = look(d);
    s->later = gs_http_server_later(req, on_gone, s);
    if (s->later == NULL) {
        free(s);
        return -ENOMEM;
    }
    d->n_scrapes++;
    gs_loop_defer(d->loop, &s->task, on_step, s);
    return GS_HTTP_LATER;
}
