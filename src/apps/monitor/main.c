#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "apps/monitor/daemon.h"
#include "base/flag.h"
#include "base/log.h"

/* One heap, which gives back what a list of pods or a page took: a node has better use for it. */
static void keep_small(void)
{
    (void)mallopt(M_ARENA_MAX, 1); /* where it cannot be set, so be it */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 16);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 16);
}

static int serve(const struct gs_monitor_flags *flags)
{
    static struct gs_daemon daemon; /* a thread that hangs in the driver may outlive main */
    struct gs_err err = {0};
    int rc = gs_daemon_init(&daemon, flags, &err);

    if (rc == 0)
        rc = gs_daemon_run(&daemon);
    else
        GS_LOG_ERROR("cannot start", GS_LOG_ERR(&err));
    gs_daemon_fini(&daemon);
    return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct gs_monitor_flags flags;
    struct gs_err err = {0};

    if (gs_monitor_flags_parse(argc, argv, &flags, &err) < 0) {
        (void)fprintf(stderr, "gpuslice-monitor: %s\n", err.text);
        return 2;
    }
    if (flags.wants_help || flags.wants_version)
        return gs_flag_answer(flags.wants_help, gs_monitor_flags_help,
                              "gpuslice-monitor " GS_VERSION);
    keep_small();
    gs_log_init(&(struct gs_log_options){
        .level = flags.debug ? GS_LOG_LEVEL_DEBUG : GS_LOG_LEVEL_INFO, .fd = -1});
    return serve(&flags);
}
