#include "apps/gpuslice/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/book.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/slice.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/table.h"
#include "contract/reason.h"
#include "core/size.h"

/** Logs of ended slices that are kept. */
#define KEPT_MAX 32
/** No log of ours is longer: 512 events of one line. */
#define TEXT_MAX ((size_t)1 << 20)
/** Nor a list of cards: a number and a newline each. */
#define CARDS_MAX ((size_t)12 * GS_LEDGER_DEVICES)

static void add_time(struct gs_buf *buf, uint64_t ns)
{
    time_t s = (time_t)(ns / 1000000000u);
    char text[32];
    struct tm tm;

    if (!localtime_r(&s, &tm) || strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm) == 0)
        (void)snprintf(text, sizeof(text), "?");
    gs_buf_addf(buf, "%s.%03u", text, (unsigned)(ns / 1000000u % 1000u));
}

/** What the slice's devices are called elsewhere: the indices of its cards. */
struct cards {
    uint32_t index[GS_LEDGER_DEVICES];
    uint32_t n;
};

static void read_cards(const struct gs_slice *slice, struct cards *ret)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_str rest, line;
    uint64_t index;

    ret->n = 0;
    if (gs_file_read(slice->dir_fd, GS_SLICE_CARDS, CARDS_MAX, &text) != 0)
        return; /* one that began before there was such a file */
    rest = gs_str_of(gs_buf_text(&text));
    while (ret->n < GS_LEDGER_DEVICES && gs_str_cut(&rest, '\n', &line) &&
           gs_size_parse_u64(line, &index) == 0 && index <= UINT32_MAX)
        ret->index[ret->n++] = (uint32_t)index;
}

static void add_event(struct gs_buf *buf, const struct gs_ledger_event *event,
                      const struct cards *cards)
{
    char line[512], *text = line;
    struct gs_str_out out;

    gs_str_out_init(&out, line, sizeof(line));
    gs_reason_put(&out, event);
    add_time(buf, event->time_ns);
    gs_buf_addf(buf, "  pid %u  ", event->pid);
    if (event->device < cards->n) {
        gs_buf_addf(buf, "card %u  ", cards->index[event->device]);
        /* the sentence may begin with the number that the device has in the slice */
        if (strncmp(line, "device ", 7) == 0 && strchr(line, ':') && strchr(line, ':')[1] == ' ')
            text = strchr(line, ':') + 2;
    }
    gs_table_clean(buf, text);
    gs_buf_adds(buf, "\n");
}

/* Returns the number of events, or negative errno. */
static int render(const struct gs_slice *slice, size_t max, struct gs_buf *buf, struct gs_err *err)
{
    struct gs_ledger_event *events = calloc(GS_LEDGER_RING, sizeof(*events));
    int n = events ? gs_book_events(slice->dir_fd, events, max, err) : -ENOMEM;
    struct cards cards;

    read_cards(slice, &cards);
    for (int i = 0; i < n; i++)
        add_event(buf, &events[i], &cards);
    free(events);
    return n;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

/* Remove the oldest log of its kind, with events or without any, where there are more than
 * KEPT_MAX: slices in which nothing happened push out no others. Each call adds one, so one is
 * enough. */
static void drop_oldest(int ended_fd, bool is_empty)
{
    int fd = openat(ended_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    GS_CLEANUP(close_dir) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    char oldest[GS_SLICE_NAME + 8] = "";
    struct timespec when = {0};
    struct dirent *entry;
    int n = 0;

    if (fd >= 0 && !dir)
        gs_file_close(&fd);
    while (dir && (entry = readdir(dir)) != NULL) {
        struct stat st;

        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(oldest) ||
            fstatat(ended_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            (st.st_size == 0) != is_empty)
            continue;
        n++;
        if (!oldest[0] || st.st_mtim.tv_sec < when.tv_sec ||
            (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec < when.tv_nsec)) {
            memcpy(oldest, entry->d_name, strlen(entry->d_name) + 1); /* fits: see above */
            when = st.st_mtim;
        }
    }
    if (n > KEPT_MAX)
        (void)unlinkat(ended_fd, oldest, 0); /* one log too many is no harm */
}

void gs_log_keep(const struct gs_slice *slice, int base_fd)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    GS_CLEANUP(gs_file_close) int ended_fd = -1;
    char name[GS_SLICE_NAME + 8];

    /* of one whose programs used no card there is an empty one, too: it was no slip of the name */
    (void)!render(slice, GS_LEDGER_RING, &text, NULL);
    if (gs_buf_check(&text) != 0)
        return;
    ended_fd = gs_file_make_private(base_fd, GS_SLICE_ENDED, NULL);
    if (ended_fd < 0)
        return;
    (void)snprintf(name, sizeof(name), "%s.log", slice->name);
    (void)!gs_file_write(ended_fd, name, gs_buf_text(&text), text.n,
                         NULL); /* best effort, see header */
    drop_oldest(ended_fd, text.n == 0);
}

/* The last `max` lines. */
static const char *tail(const char *text, size_t n, size_t max)
{
    const char *p = text + n;

    if (n > 0)
        p--; /* the newline that ends the last line does not begin one */
    while (p > text && max > 0) {
        if (p[-1] == '\n' && --max == 0)
            break;
        p--;
    }
    return p;
}

static int read_ended(const char *name, size_t max, struct gs_buf *buf)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    GS_CLEANUP(gs_file_close) int base_fd = -1;
    char base[PATH_MAX], path[GS_SLICE_NAME + 32];
    int rc;

    if (!gs_slice_is_name(name))
        return -ENOENT;
    base_fd = gs_slice_home(base, NULL);
    if (base_fd < 0)
        return base_fd;
    (void)snprintf(path, sizeof(path), GS_SLICE_ENDED "/%s.log", name);
    rc = gs_file_read(base_fd, path, TEXT_MAX, &text);
    if (rc == 0)
        gs_buf_adds(buf, tail(gs_buf_text(&text), text.n, max));
    return rc;
}

int gs_log_main(const struct gs_opt_args *args)
{
    GS_CLEANUP(gs_slices_fini) struct gs_slices slices = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    const char *name = args->rest[0], *lines = args->value[GS_OPTION_LINES];
    const struct gs_slice *slice;
    struct gs_err err = {0};
    uint64_t max = GS_LEDGER_RING;
    int rc;

    if (lines && (gs_size_parse_u64(gs_str_of(lines), &max) != 0 || max == 0)) {
        gs_app_say("--lines '%s' is not a number above 0", lines);
        return GS_EXIT_USAGE;
    }
    rc = gs_slices_list(NULL, false, &slices, &err);
    if (rc != 0) {
        gs_app_say("%s", err.text);
        return GS_EXIT_FAILED;
    }
    slice = gs_slices_find(&slices, name);
    rc = slice ? render(slice, max, &buf, &err) : -ENOENT;
    if (rc == -ENOENT) {
        rc = read_ended(name, max, &buf);
        if (rc != 0 && !slice) {
            gs_app_say(
                "no slice '%s', and no log of one that has ended: of these the last %d are kept; "
                "'gpuslice ls' lists the live ones",
                name, KEPT_MAX);
            return GS_EXIT_FAILED;
        }
        rc = 0;
    }
    if (rc < 0) {
        gs_app_say("log of slice '%s': %s", name, err.text);
        return GS_EXIT_FAILED;
    }
    if (buf.n == 0)
        gs_app_say("nothing happened in slice '%s'%s that is worth a line", name,
                   slice ? "" : ", which has ended,");
    return gs_app_finish(&buf);
}
