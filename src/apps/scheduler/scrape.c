#include "apps/scheduler/scrape.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "apps/scheduler/state.h"
#include "base/file.h"
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

/* Pages that are in memory, by the kernel's count; 0: it does not say. */
static uint64_t resident_bytes(void)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    unsigned long long total, resident;

    if (gs_file_read(AT_FDCWD, "/proc/self/statm", 4096, &text) < 0 ||
        sscanf(gs_buf_text(&text), "%llu %llu", &total, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct gs_metrics_from look(const struct gs_daemon *d)
{
    struct rusage usage;

    memset(&usage, 0, sizeof(usage));
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail on its own process */
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
        .resident_bytes = resident_bytes(),
        .cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
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
