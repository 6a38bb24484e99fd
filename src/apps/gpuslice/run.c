/* gpuslice run: make or join a slice, start a program in it, go when it goes. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/board.h"
#include "apps/gpuslice/book.h"
#include "apps/gpuslice/hook_path.h"
#include "apps/gpuslice/loose.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/overhead.h"
#include "apps/gpuslice/plan.h"
#include "apps/gpuslice/preflight.h"
#include "apps/gpuslice/room.h"
#include "apps/gpuslice/slice.h"
#include "apps/gpuslice/supervise.h"
#include "apps/gpuslice/trace.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "contract/env.h"
#include "vendors/registry_node.h"

/** Everything `run` holds while it lives. */
struct run {
    const struct gs_opt_args *args;
    struct gs_probe probe;
    struct gs_plan plan;
    struct gs_slice slice;
    const struct gs_probe_vendor *vendor;
    struct gs_board_thread *board;
    char hook[PATH_MAX];
    char trace[PATH_MAX]; /**< empty: none */
    bool leaves_hook_out; /**< the program could not even start with it */
};

static const char *option(const struct run *run, int id)
{
    return run->args->value[id];
}

/* Limits do not nest: the hook reads one quota, and the inner one would replace the outer. */
static int check_nesting(struct gs_err *err)
{
    const char *outer = getenv(GS_ENV_SLICE);

    if (access(GS_QUOTA_DIR, F_OK) == 0)
        return gs_err_set(
            err, -EPERM,
            "this container has a grant of its own (%s), which counts: start the program without "
            "gpuslice run",
            GS_QUOTA_DIR);
    if (outer && getenv(GS_ENV_QUOTA_DIR))
        return gs_err_set(
            err, -EPERM,
            "this shell is inside slice '%s' already, and slices do not nest: start the program "
            "without gpuslice run",
            outer);
    return 0;
}

/* The hook tells processes apart by their start times. */
static int check_proc(struct gs_err *err)
{
    if (access("/proc/self/stat", R_OK) != 0)
        return gs_err_set(err, -errno,
                          "/proc cannot be read (%s), and no program is granted device memory "
                          "without it: mount -t proc proc /proc",
                          strerror(errno));
    return 0;
}

static int check_join_options(const struct run *run, struct gs_err *err)
{
    static const int excluded[] = {GS_OPTION_MEMORY,       GS_OPTION_CORES,    GS_OPTION_POLICY,
                                   GS_OPTION_DEVICE,       GS_OPTION_PRIORITY, GS_OPTION_NAME,
                                   GS_OPTION_OVERSUBSCRIBE};

    for (size_t i = 0; i < GS_ARRAY_LEN(excluded); i++)
        if (option(run, excluded[i]))
            return gs_err_set(
                err, -EINVAL,
                "--join and --%s exclude each other: a slice keeps its limits ('gpuslice "
                "resize' changes them)",
                gs_options_spec.options[excluded[i]].name);
    return 0;
}

/* The loader splits the list at blanks and colons, and has no way to write them. */
static int check_hook_path(const struct run *run, struct gs_err *err)
{
    if (access(run->hook, R_OK) != 0)
        return gs_err_set(err, -errno, "the hook library %s cannot be read: %s", run->hook,
                          strerror(errno));
    if (strpbrk(run->hook, " \t:;"))
        return gs_err_set(
            err, -EINVAL,
            "the loader cannot preload '%s': install it under a path without blanks and colons",
            run->hook);
    return 0;
}

/* Returns the number of reasons. */
static int tell_preflight(struct run *run)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf why = {0};
    char *line, *rest;
    int n = 0;

    if (gs_preflight_check(run->args->rest, &why, &run->leaves_hook_out) != 0 || why.n == 0)
        return 0;
    for (line = strtok_r(why.p, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++)
        gs_app_say("cannot be held: %s", line);
    return n;
}

/* A name nobody has to think of: what runs, and the number that makes it unique among live slices.
 */
static void default_name(const char *program, char ret[GS_SLICE_NAME])
{
    const char *slash = strrchr(program, '/');
    char word[40];

    (void)snprintf(word, sizeof(word), "%s", slash ? slash + 1 : program);
    for (char *c = word; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.", *c))
            *c = '_';
    (void)snprintf(ret, GS_SLICE_NAME, "%s%s-%d", word[0] == '.' || word[0] == '-' ? "x" : "", word,
                   getpid());
}

static void describe_command(char *const *argv, char ret[GS_SLICE_COMMAND])
{
    size_t n = 0;

    ret[0] = '\0';
    for (; *argv && n + 2 < GS_SLICE_COMMAND; argv++) {
        (void)snprintf(ret + n, GS_SLICE_COMMAND - n, "%s%s", n ? " " : "", *argv);
        n = strlen(ret);
    }
}

/* What the cards are called now: a log tells of them when there may be no driver to ask. */
static void note_cards(const struct run *run)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};

    for (size_t i = 0; i < run->plan.n_cards; i++)
        gs_buf_addf(&text, "%u\n", run->probe.card[run->plan.card[i]].index);
    if (gs_buf_check(&text) == 0 && text.n > 0) /* without it they are numbers of the slice */
        (void)!gs_file_write(run->slice.dir_fd, GS_SLICE_CARDS, text.p, text.n, NULL);
}

static struct gs_plan_request request_of(const struct run *run)
{
    return (struct gs_plan_request){
        .memory = option(run, GS_OPTION_MEMORY),
        .cores = option(run, GS_OPTION_CORES),
        .policy = option(run, GS_OPTION_POLICY),
        .priority = option(run, GS_OPTION_PRIORITY),
        .device = option(run, GS_OPTION_DEVICE),
        .oversubscribe = option(run, GS_OPTION_OVERSUBSCRIBE) != NULL,
    };
}

static int create(struct run *run, const struct gs_slices *slices, struct gs_err *err)
{
    struct gs_plan_request request = request_of(run);
    const char *name = option(run, GS_OPTION_NAME);
    int rc;

    request.visible = getenv(run->vendor->visible_env);
    rc = gs_plan_make(&request, &run->probe, slices, &run->plan, err);
    if (rc != 0)
        return rc;
    if (name)
        (void)snprintf(run->slice.name, sizeof(run->slice.name), "%s", name);
    else
        default_name(run->args->rest[0], run->slice.name);
    if (gs_slices_find(slices, run->slice.name))
        return gs_err_set(
            err, -EEXIST,
            "a slice named '%s' exists; take another --name, or --join %s to run in it",
            run->slice.name, run->slice.name);
    describe_command(run->args->rest, run->slice.command);
    run->slice.quota = run->plan.quota;
    rc = gs_slice_create(&run->slice, err);
    if (rc == 0)
        note_cards(run);
    /* what the card lacks is served from the host where that is allowed */
    for (size_t i = 0; i < run->plan.n_cards && rc == 0 && !request.oversubscribe; i++)
        gs_room_tell(&run->probe, run->plan.card[i], slices, &run->slice,
                     run->plan.quota.device[i].limit_bytes);
    return rc;
}

static int join(struct run *run, struct gs_slices *slices, const char *name, struct gs_err *err)
{
    struct gs_slice *found;
    int rc = gs_slices_find_sound(slices, name, &found, err);

    if (rc == 0)
        rc = gs_slice_hold(found, err);
    if (rc != 0)
        return rc;
    run->slice = *found;
    found->dir_fd = found->lock_fd = -1; /* ours now */
    for (uint32_t i = 0; i < run->slice.quota.n_devices; i++) {
        int card = gs_probe_find_card(&run->probe, run->slice.quota.device[i].uuid);

        if (card >= 0)
            run->plan.card[run->plan.n_cards++] = (uint32_t)card;
    }
    return 0;
}

static int make_or_join(struct run *run, struct gs_err *err)
{
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table procs = {0};
    GS_CLEANUP(gs_slice_unlock_home) struct gs_slice_home_lock lock = {0};
    GS_CLEANUP(gs_slices_fini) struct gs_slices slices = {0};
    const char *name = option(run, GS_OPTION_JOIN);
    int rc = gs_slice_lock_home(&lock, err);

    if (rc != 0)
        return rc;
    (void)!gs_proc_list(&procs); /* without /proc the locks decide who lives */
    rc = gs_loose_list(&procs, &slices, err);
    if (rc != 0)
        return rc;
    gs_slices_collect(&slices);
    return name ? join(run, &slices, name, err) : create(run, &slices, err);
}

static int set_env(const char *name, const char *value, struct gs_err *err)
{
    if (setenv(name, value, 1) != 0)
        return gs_err_set(err, -errno, "set %s: %s", name, strerror(errno));
    return 0;
}

/* Our own environment: execvp passes it on, and ours is read by nobody else. */
static int prepare_env(const struct run *run, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf preload = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf dir = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf ledger = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf visible = {0};
    const char *before = getenv("LD_PRELOAD");
    char *board = NULL;
    int rc;

    gs_buf_addf(&preload, "%s%s%s", run->hook, before && *before ? ":" : "", before ? before : "");
    gs_buf_addf(&dir, "%s/%s", run->slice.base, run->slice.name);
    gs_buf_addf(&ledger, "%s/%s/" GS_SLICE_LEDGER, run->slice.base, run->slice.name);
    for (size_t i = 0; i < run->plan.n_cards; i++)
        gs_buf_addf(&visible, "%s%s", i ? "," : "", run->probe.card[run->plan.card[i]].uuid);
    if (gs_buf_check(&preload) || gs_buf_check(&dir) || gs_buf_check(&ledger) ||
        gs_buf_check(&visible))
        return gs_err_set(err, -ENOMEM, "out of memory");
    if (gs_board_folder(&run->slice, &board, NULL) == 0)
        rc = set_env(GS_ENV_BOARD_DIR, board, err);
    else /* start_board() will say why: slices keep to their own shares */
        rc = unsetenv(GS_ENV_BOARD_DIR) == 0 ? 0 : -errno;
    free(board);
    if (rc == 0 && !run->leaves_hook_out)
        rc = set_env("LD_PRELOAD", preload.p, err);
    if (rc == 0)
        rc = set_env(GS_ENV_QUOTA_DIR, dir.p, err);
    if (rc == 0)
        rc = set_env(GS_ENV_LEDGER, ledger.p, err);
    if (rc == 0)
        rc = set_env(GS_ENV_SLICE, run->slice.name, err);
    if (rc == 0 && !run->plan.all && visible.n > 0)
        rc = set_env(run->vendor->visible_env, visible.p, err);
    if (rc == 0 && run->trace[0])
        rc = set_env(GS_ENV_TRACE, run->trace, err);
    return rc;
}

static int check_overhead(const struct run *run, struct gs_err *err)
{
    for (size_t i = 0; i < run->plan.n_cards && i < run->plan.quota.n_devices; i++) {
        int rc = gs_overhead_check(&run->probe.card[run->plan.card[i]],
                                   run->plan.quota.device[i].limit_bytes, err);

        if (rc != 0)
            return rc;
    }
    return 0;
}

static void start_board(void *arg)
{
    struct run *run = arg;
    struct gs_err err = {0};

    if (gs_board_start(&run->slice, &run->probe, &run->plan, &run->board, &err) != 0)
        gs_app_say("%s; slices keep to their own shares", err.text);
}

/* Whoever leaves last removes the slice; processes that outlive us keep it. */
static void leave(struct run *run)
{
    GS_CLEANUP(gs_book_fini) struct gs_book book = {0};
    GS_CLEANUP(gs_slice_unlock_home) struct gs_slice_home_lock lock = {0};

    if (run->slice.dir_fd < 0)
        return;
    if (gs_book_read(run->slice.dir_fd, &book, NULL) == 0 && book.refusals > 0)
        gs_app_say("slice '%s': %llu request%s refused; see 'gpuslice log %s'", run->slice.name,
                   (unsigned long long)book.refusals,
                   book.refusals == 1 ? " for memory was" : "s for memory were", run->slice.name);
    if (gs_slice_lock_home(&lock, NULL) != 0)
        return;
    /* still in use, or the next command collects it */
    if (gs_slice_remove(&run->slice, NULL) == 0 && run->trace[0])
        gs_trace_close(run->trace);
}

/* What is wrong on any machine is told where there is no driver to ask, too. */
static int check_options(const struct run *run, struct gs_err *err)
{
    const struct gs_plan_request request = request_of(run);
    const char *name = option(run, GS_OPTION_NAME), *other = option(run, GS_OPTION_JOIN);
    const char *trace = option(run, GS_OPTION_TRACE);
    int rc = other ? check_join_options(run, err) : gs_plan_check(&request, err);

    if (rc == 0 && name && !gs_slice_is_name(name))
        rc = gs_err_set(err, -EINVAL,
                        "--name '%s': use letters, digits, dot, dash and underscore, at most %d, "
                        "not a dot or dash "
                        "in front",
                        name, GS_SLICE_NAME - 1);
    if (rc == 0 && other)
        rc = gs_slices_check(other, err);
    if (rc == 0 && trace)
        rc = gs_trace_check(trace, err);
    return rc;
}

static int prepare(struct run *run, struct gs_err *err)
{
    int rc = check_nesting(err);

    if (rc == 0)
        rc = check_proc(err);
    if (rc == 0)
        rc = check_options(run, err);
    if (rc == 0)
        rc = gs_probe_read(gs_registry_node, gs_registry_node_n, &run->probe, err);
    if (rc != 0)
        return rc;
    if (run->probe.lost[0])
        gs_app_say("%s", run->probe.lost);
    run->vendor = run->probe.card[0].vendor;
    rc = gs_hook_find(run->vendor, run->hook, err);
    if (rc == 0)
        rc = check_hook_path(run, err);
    if (rc == 0 && tell_preflight(run) > 0 && option(run, GS_OPTION_STRICT))
        rc = gs_err_set(err, -EPERM, "not started, because of --strict");
    if (rc == 0)
        rc = make_or_join(run, err);
    if (rc == 0)
        rc = check_overhead(run, err);
    if (rc == 0 && option(run, GS_OPTION_TRACE))
        rc = gs_trace_create(option(run, GS_OPTION_TRACE), run->trace, err);
    if (rc == 0)
        rc = prepare_env(run, err);
    return rc;
}

int gs_run_main(const struct gs_opt_args *args)
{
    /* large: the probe and quota of 64 cards */
    static struct run run;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    struct gs_err err = {0};
    int status, rc;

    run.args = args;
    gs_slice_init(&run.slice);
    /* a file larger than `ulimit -f` is an error to report, not our end; CMD gets the signal back
     */
    (void)sigaction(SIGXFSZ, &ignore, &before);
    rc = prepare(&run, &err);
    (void)sigaction(SIGXFSZ, &before, NULL);
    if (rc == 0) {
        status = gs_supervise_run(args->rest, start_board, &run);
        gs_board_stop(run.board);
    } else {
        gs_app_say("%s", err.text);
        status = GS_EXIT_SELF;
    }
    leave(&run);
    gs_slice_fini(&run.slice);
    gs_probe_fini(&run.probe);
    return status;
}
