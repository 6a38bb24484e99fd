/* gpuslice top: cards, slices, processes. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/screen.h"
#include "apps/gpuslice/terms.h"
#include "apps/gpuslice/view.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/table.h"

#define PACE_MS 250                                 /* between the two looks of a single view */
#define ENTER   "\033[?1049h\033[?25l\033[H\033[2J" /* second screen, no cursor */
#define LEAVE   "\033[?25h\033[?1049l"

/** What the width of the terminal leaves room for; a pipe has all of it. */
struct layout {
    bool ascii;
    bool has_uuid;  /**< of cards */
    bool is_narrow; /**< a device's compute has a line of its own */
    size_t bar;
};

static bool is_ascii(void)
{
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);

        if (value && *value)
            return !strcasestr(value, "utf-8") && !strcasestr(value, "utf8");
    }
    return true;
}

static struct layout choose_layout(const struct gs_screen *screen)
{
    return (struct layout){
        .ascii = is_ascii(),
        .has_uuid = screen->columns >= 136,
        .is_narrow = screen->columns < 136,
        .bar = screen->columns < 100 ? 6 : 20,
    };
}

static void add_bar(struct gs_table *t, uint64_t part, uint64_t whole, const struct layout *layout)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf bar = {0};

    gs_table_bar(&bar, part, whole, layout->bar, layout->ascii);
    gs_table_add(t, gs_buf_text(&bar));
}

static void add_pct(struct gs_table *t, uint64_t pct)
{
    if (pct == GS_PROBE_UNKNOWN)
        gs_table_add(t, "?");
    else
        gs_table_addf(t, "%u %%", (unsigned)pct);
}

/* "2 GiB, 30 %": as `ls` has the limit of a slice. */
static void add_promised(struct gs_table *t, const struct gs_view *view, const struct gs_card *card)
{
    uint64_t cores = gs_view_promised_cores(view, card);
    char memory[GS_APP_SIZE];

    (void)gs_app_size(gs_view_promised(view, card), memory);
    if (cores > 0)
        gs_table_addf(t, "%s, %llu %%", memory, (unsigned long long)cores);
    else
        gs_table_add(t, memory);
}

static void add_used(struct gs_table *t, const struct gs_card *c, const struct layout *layout)
{
    char used[GS_APP_SIZE] = "?", total[GS_APP_SIZE];
    bool is_known = c->used_bytes != GS_PROBE_UNKNOWN;

    add_bar(t, is_known ? c->used_bytes : 0, c->total_bytes, layout);
    gs_table_addf(t, "%s / %s", is_known ? gs_app_size(c->used_bytes, used) : used,
                  gs_app_size(c->total_bytes, total));
}

static int write_cards(const struct gs_view *view, const struct layout *layout, struct gs_buf *buf)
{
    GS_CLEANUP(gs_table_fini) struct gs_table t;

    gs_table_init(&t, 7, 1u << 4);
    gs_table_add(&t, "CARD");
    gs_table_add(&t, "NAME");
    gs_table_add(&t, "MEMORY");
    gs_table_add(&t, "USED / TOTAL");
    gs_table_add(&t, "COMPUTE");
    gs_table_add(&t, "PROMISED");
    gs_table_add(&t, layout->has_uuid ? "UUID" : "");
    for (size_t i = 0; i < view->probe.n_cards; i++) {
        const struct gs_card *c = &view->probe.card[i];

        gs_table_addf(&t, "%u", c->index);
        gs_table_add(&t, c->name);
        add_used(&t, c, layout);
        add_pct(&t, c->util_pct);
        add_promised(&t, view, c);
        gs_table_add(&t, layout->has_uuid ? c->uuid : "");
    }
    return gs_table_write(&t, "", buf);
}

static void add_permille(struct gs_buf *buf, uint64_t permille)
{
    if (permille == UINT64_MAX)
        gs_buf_adds(buf, "?");
    else
        gs_buf_addf(buf, "%u.%u", (unsigned)(permille / 10), (unsigned)(permille % 10));
}

/* "compute 29.8 of 30 % fixed, 10 s 30.1 %, waits 64 %" */
static void put_share(struct gs_buf *text, const struct gs_view_slice *s,
                      const struct gs_quota_device *d)
{
    struct gs_view_share share = gs_view_share(s, d);

    gs_buf_adds(text, "compute ");
    add_permille(text, share.used_1s_permille);
    gs_buf_addf(text, " of %u %%%s%s, 10 s ", d->core_pct, d->core_pct < 100 ? " " : "",
                d->core_pct < 100 ? gs_quota_policy_name(d->policy) : "");
    add_permille(text, share.used_10s_permille);
    gs_buf_adds(text, " %");
    if (share.now_permille != UINT64_MAX && share.now_permille != d->core_pct * 10)
        gs_buf_addf(text, ", may use %u %% now", (unsigned)((share.now_permille + 5) / 10));
    if (share.wait_ms_per_s != UINT64_MAX)
        gs_buf_addf(text, ", waits %u %%", (unsigned)((share.wait_ms_per_s + 5) / 10));
}

static void put_compute(struct gs_buf *text, const struct gs_view *view,
                        const struct gs_view_slice *s, const struct gs_quota_device *d)
{
    uint64_t pct = gs_view_core_pct(view, s, d->uuid);

    if (gs_view_is_held(s, d)) {
        put_share(text, s, d);
        return;
    }
    gs_buf_adds(text, "compute ");
    if (pct == GS_PROBE_UNKNOWN)
        gs_buf_adds(text, "?");
    else
        gs_buf_addf(text, "%u", (unsigned)pct);
    /* a share that is recorded and not held says so */
    gs_buf_addf(text, " of %u %%%s%s", d->core_pct, d->core_pct < 100 ? " " : "",
                d->core_pct < 100 ? gs_quota_policy_name(d->policy) : "");
}

static void add_notes(struct gs_table *t, const struct gs_view_slice *s,
                      const struct gs_quota_device *d)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    uint64_t managed = gs_view_share(s, d).managed_bytes;
    char size[GS_APP_SIZE];

    if (s->slice->quota.priority != GS_PRIORITY_NONE)
        gs_buf_addf(&text, "%s priority", gs_quota_priority_name(s->slice->quota.priority));
    if (managed > 0 && managed != UINT64_MAX)
        gs_buf_addf(&text, "%s%s served from the host", text.n ? ", " : "",
                    gs_app_size(managed, size));
    gs_table_add(t, gs_buf_text(&text));
}

static void add_device(struct gs_table *t, const struct gs_view *view,
                       const struct gs_view_slice *s, const struct gs_quota_device *d,
                       const struct layout *layout)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf compute = {0};
    uint64_t used = gs_view_used(s, d->uuid), whole = d->limit_bytes;
    char used_text[GS_APP_SIZE], limit_text[GS_APP_SIZE];
    int card = gs_probe_find_card(&view->probe, d->uuid);

    if (whole == UINT64_MAX && card >= 0)
        whole = view->probe.card[card].total_bytes;
    if (card >= 0)
        gs_table_addf(t, "card %u", view->probe.card[card].index);
    else
        gs_table_add(t, d->uuid);
    add_bar(t, used, whole, layout);
    gs_table_addf(t, "%s / %s", gs_app_size(used, used_text),
                  d->limit_bytes == UINT64_MAX ? "no limit"
                                               : gs_app_size(d->limit_bytes, limit_text));
    if (!layout->is_narrow)
        put_compute(&compute, view, s, d);
    gs_table_add(t, gs_buf_text(&compute));
    add_notes(t, s, d);
}

static int write_devices(const struct gs_view *view, const struct gs_view_slice *s,
                         const struct layout *layout, struct gs_buf *buf)
{
    GS_CLEANUP(gs_table_fini) struct gs_table t;
    GS_CLEANUP(gs_buf_fini) struct gs_buf rows = {0};
    const struct gs_quota *q = &s->slice->quota;
    const char *row;
    int rc;

    gs_table_init(&t, 5, 0);
    for (uint32_t i = 0; i < q->n_devices; i++)
        add_device(&t, view, s, &q->device[i], layout);
    rc = gs_table_write(&t, "  ", layout->is_narrow ? &rows : buf);
    row = gs_buf_text(&rows);
    for (uint32_t i = 0; rc == 0 && layout->is_narrow && i < q->n_devices; i++) {
        size_t n = strcspn(row, "\n") + 1;

        gs_buf_add(buf, row, n);
        gs_buf_adds(buf, "    ");
        put_compute(buf, view, s, &q->device[i]);
        gs_buf_adds(buf, "\n");
        row += n;
    }
    return rc == 0 ? gs_buf_check(buf) : rc;
}

static int write_processes(const struct gs_view_slice *s, bool outside, struct gs_buf *buf)
{
    GS_CLEANUP(gs_table_fini) struct gs_table t;
    char text[GS_APP_SIZE];

    gs_table_init(&t, 4, 1u << 0 | 1u << 1);
    for (size_t i = 0; i < s->n_processes; i++) {
        const struct gs_view_process *p = &s->process[i];

        gs_table_addf(&t, "%u", p->pid);
        gs_table_add(&t,
                     p->used_bytes == GS_PROBE_UNKNOWN ? "?" : gs_app_size(p->used_bytes, text));
        gs_table_add(&t, outside ? "" : p->held ? "held" : "NOT HELD");
        gs_table_add(&t, p->comm);
    }
    return gs_table_write(&t, "    ", buf);
}

static void write_notes(const struct gs_view *view, struct gs_buf *buf)
{
    if (view->probe.lost[0]) {
        gs_buf_adds(buf, "\n");
        gs_table_clean(buf, view->probe.lost);
        gs_buf_adds(buf, ".\n");
    }
    if (view->slices.n_hidden > 0)
        gs_buf_addf(buf,
                    "\nNot shown: slices that %zu other user%s may have cannot be read.\n"
                    "PROMISED leaves them out; USED of a card counts everybody.\n",
                    view->slices.n_hidden, view->slices.n_hidden == 1 ? "" : "s");
}

static int write_text(const struct gs_view *view, const struct gs_screen *screen,
                      struct gs_buf *buf)
{
    const struct layout layout = choose_layout(screen);
    int rc = 0;

    if (view->probe.n_cards > 0)
        rc = write_cards(view, &layout, buf);
    else
        gs_buf_addf(buf, "No cards: %s\n", view->no_cards.text);
    for (size_t i = 0; i < view->slices.n && rc == 0; i++) {
        const struct gs_view_slice *s = &view->slice[i];

        gs_buf_addf(buf, "\n%s  %s", s->slice->name, gs_view_state_text(s));
        if (s->slice->uid != geteuid())
            gs_buf_addf(buf, "  user %u", s->slice->uid);
        gs_buf_adds(buf, s->slice->command[0] ? "  " : "");
        gs_table_clean(buf, s->slice->command);
        gs_buf_adds(buf, "\n");
        rc = write_devices(view, s, &layout, buf);
        if (rc == 0)
            rc = write_processes(s, false, buf);
    }
    if (rc == 0 && view->slices.n == 0)
        gs_buf_adds(buf, "\nNo slices. 'gpuslice run --memory 2Gi -- CMD' makes one.\n");
    if (rc == 0 && view->outside.n_processes > 0) {
        gs_buf_adds(buf, "\nOutside any slice\n");
        rc = write_processes(&view->outside, true, buf);
    }
    write_notes(view, buf);
    return rc;
}

/* Waits per second take two looks: the second one, or the first where none ever waited. */
static int read_view(const struct gs_view *before, struct gs_view *ret, struct gs_err *err)
{
    GS_CLEANUP(gs_view_fini) struct gs_view first = {0};
    int rc = gs_view_read(true, ret, err);

    if (rc == 0 && !before && gs_view_has_waits(ret)) {
        first = *ret;
        (void)poll(NULL, 0, PACE_MS);
        rc = gs_view_read(true, ret, err);
        before = &first;
    }
    if (rc == 0 && before)
        gs_view_pace(ret, before);
    return rc;
}

/* One view to standard output.
 *  @lead    NULL, or what a terminal is told before the view is drawn over its page
 *  @before  NULL, or the view before, which this one takes the place of.
 *  Returns  an exit status; GS_EXIT_FAILED also where there is no card. */
static int show(bool json, const char *lead, struct gs_view *before)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf page = {0};
    GS_CLEANUP(gs_view_fini) struct gs_view view = {0};
    struct gs_screen screen;
    struct gs_err err = {0};
    int rc = read_view(before && before->slice ? before : NULL, &view, &err), status;

    gs_screen_read(&screen);
    if (rc == 0)
        rc = json ? gs_view_json(&view, true, &buf) : write_text(&view, &screen, &buf);
    if (rc != 0) {
        gs_app_say("%s", err.text[0] ? err.text : "out of memory");
        return GS_EXIT_FAILED;
    }
    if (lead) {
        gs_buf_adds(&page, lead);
        gs_screen_draw(&screen, &buf, &page);
    }
    status = gs_app_finish(lead ? &page : &buf);
    if (json && view.probe.n_cards == 0)
        gs_app_say("%s", view.no_cards.text);
    if (json && view.probe.lost[0])
        gs_app_say("%s", view.probe.lost);
    if (json && view.slices.n_hidden > 0)
        gs_app_say("not shown: slices that %zu other user%s may have cannot be read",
                   view.slices.n_hidden, view.slices.n_hidden == 1 ? "" : "s");
    if (status == 0 && view.probe.n_cards == 0)
        status = GS_EXIT_FAILED;
    if (before) {
        gs_view_fini(before);
        *before = view;
        view = (struct gs_view){0};
    }
    return status;
}

static int parse_interval(const char *text, int *ret_ms)
{
    char *end;
    double s;

    if (!text) {
        *ret_ms = 1000;
        return 0;
    }
    errno = 0;
    s = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(s) || s < 0.1 || s > 3600.0)
        return -EINVAL;
    *ret_ms = (int)(s * 1000.0);
    return 0;
}

static void set_raw(const struct termios *before)
{
    struct termios raw = *before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw); /* without it q needs a return key */
}

/* Returns true when the user wants to leave. */
static bool wait_for_key(int ms, int signal_fd, bool *keys, const struct termios *before)
{
    struct pollfd fd[2] = {{.fd = signal_fd, .events = POLLIN},
                           {.fd = *keys ? STDIN_FILENO : -1, .events = POLLIN}};
    struct signalfd_siginfo info;
    char key = 0;

    if (poll(fd, 2, ms) <= 0)
        return false;
    if (fd[1].revents) {
        if (read(STDIN_FILENO, &key, 1) <= 0)
            *keys = false; /* closed: only the clock and signals are left */
        if (key == 'q' || key == 'Q')
            return true;
    }
    if (fd[0].revents && read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCONT && *keys)
            set_raw(before);
        return info.ssi_signo != SIGCONT && info.ssi_signo != SIGWINCH;
    }
    return false;
}

static int live(int ms)
{
    GS_CLEANUP(gs_file_close) int signal_fd = -1;
    GS_CLEANUP(gs_view_fini) struct gs_view last = {0};
    struct termios before;
    bool keys = tcgetattr(STDIN_FILENO, &before) == 0;
    sigset_t set;
    int status;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGCONT);
    (void)sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
        (signal_fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0) {
        gs_app_say("cannot take signals: %s", strerror(errno));
        return GS_EXIT_FAILED;
    }
    if (keys)
        set_raw(&before);
    status = show(false, ENTER, &last);
    while (status == 0 && !wait_for_key(ms, signal_fd, &keys, &before))
        status = show(false, "", &last);
    if (tcgetattr(STDIN_FILENO, &(struct termios){0}) == 0 && keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    (void)fputs(LEAVE, stdout);
    (void)fflush(stdout); /* a terminal that is gone needs no repair */
    if (status != 0 && last.no_cards.text[0])
        gs_app_say("%s", last.no_cards.text); /* it went with the second screen */
    return status;
}

int gs_top_main(const struct gs_opt_args *args)
{
    GS_CLEANUP(gs_view_fini) struct gs_view last = {0};
    const char *interval = args->value[GS_OPTION_INTERVAL];
    bool json = args->value[GS_OPTION_JSON] != NULL;
    int ms, status;

    if (parse_interval(interval, &ms) != 0) {
        gs_app_say("--interval '%s' is not a number of seconds from 0.1 to 3600", interval);
        return GS_EXIT_USAGE;
    }
    if (args->value[GS_OPTION_ONCE] || ((json || !isatty(STDOUT_FILENO)) && !interval))
        return show(json, NULL, NULL);
    if (!json && isatty(STDOUT_FILENO))
        return live(ms);
    while ((status = show(json, NULL, &last)) == 0) {
        if (poll(NULL, 0, ms) < 0 && errno != EINTR)
            return GS_EXIT_FAILED;
        if (!json && write(STDOUT_FILENO, "\n", 1) < 0)
            return GS_EXIT_FAILED;
    }
    return status;
}
