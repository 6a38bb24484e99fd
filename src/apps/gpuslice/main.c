/* gpuslice: share GPUs between programs on one machine, without root and without a daemon. */
#include <stdbool.h>
#include <string.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/options.h"
#include "base/buf.h"
#include "base/err.h"

static int (*const command_main[GS_COMMAND_COUNT])(const struct gs_opt_args *) = {
    [GS_COMMAND_RUN] = gs_run_main,         [GS_COMMAND_TOP] = gs_top_main,
    [GS_COMMAND_LS] = gs_ls_main,           [GS_COMMAND_RESIZE] = gs_resize_main,
    [GS_COMMAND_SUSPEND] = gs_suspend_main, [GS_COMMAND_RESUME] = gs_resume_main,
    [GS_COMMAND_RM] = gs_rm_main,           [GS_COMMAND_LOG] = gs_log_main,
    [GS_COMMAND_EXPLAIN] = gs_explain_main, [GS_COMMAND_DOCTOR] = gs_doctor_main,
};

static int print_help(int command)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    gs_opt_help(&gs_options_spec, command, &buf);
    return gs_app_finish(&buf);
}

static int print_version(void)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    gs_buf_addf(&buf, "%s %s\n", gs_options_spec.program, gs_options_spec.version);
    return gs_app_finish(&buf);
}

int main(int argc, char **argv)
{
    const char *value[GS_OPTION_COUNT];
    struct gs_opt_args args = {.value = value};
    struct gs_err err = {0};
    bool help;
    int command;

    if (argc < 2) {
        gs_app_say("no command given; see 'gpuslice --help'");
        return GS_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help(-1);
    help = strcmp(argv[1], "help") == 0;
    if (help && argc == 2)
        return print_help(-1);
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    command = gs_opt_find(&gs_options_spec, argv[1 + help]);
    if (command < 0) {
        gs_app_say("unknown command '%s'; see 'gpuslice --help'", argv[1 + help]);
        return GS_EXIT_USAGE;
    }
    if (help)
        return print_help(command);
    if (gs_opt_parse(&gs_options_spec, command, argc - 2, argv + 2, &args, &err) != 0) {
        gs_app_say("%s", err.text);
        return command == GS_COMMAND_RUN ? GS_EXIT_SELF : GS_EXIT_USAGE;
    }
    if (args.value[GS_OPTION_HELP])
        return print_help(command);
    return command_main[command](&args);
}
