#include <stdio.h>
#include <stdlib.h>

#include "apps/device-plugin/daemon.h"
#include "base/flag.h"
#include "base/log.h"

static int serve(const struct gs_plugin_flags *flags)
{
    struct gs_daemon daemon = {0};
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
    struct gs_plugin_flags flags;
    struct gs_err err = {0};

    if (gs_plugin_flags_parse(argc, argv, &flags, &err) < 0) {
        (void)fprintf(stderr, "gpuslice-device-plugin: %s\n", err.text);
        return 2;
    }
    if (flags.wants_help || flags.wants_version)
        return gs_flag_answer(flags.wants_help, gs_plugin_flags_help,
                              "gpuslice-device-plugin " GS_VERSION);
    gs_log_init(&(struct gs_log_options){
        .level = flags.debug ? GS_LOG_LEVEL_DEBUG : GS_LOG_LEVEL_INFO, .fd = -1});
    return serve(&flags);
}
