/* gpuslice explain, gpuslice doctor: they hand over to gpuslice-explain and gpuslice-doctor, which
 * have libraries that the other commands start without: a cluster's client, readers of
 * configuration.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/options.h"
#include "base/arena.h"

/* The options as they were given, then the operands. */
static char **argv_of(int command, const char *program, const struct gs_opt_args *args,
                      struct gs_arena *arena)
{
    char **argv =
        GS_ARENA_ARRAY(arena, gs_options_spec.n_options + (size_t)args->n_rest + 3, char *);
    size_t n = 0;

    if (argv == NULL)
        return NULL;
    argv[n++] = strdup(program); /* exec wants them writable; they live as long as we do */
    for (size_t i = 0; i < gs_options_spec.n_options; i++) {
        const struct gs_opt *opt = &gs_options_spec.options[i];
        struct gs_str text;

        if (opt->command != command || args->value[i] == NULL)
            continue;
        text = opt->arg != NULL ? gs_arena_printf(arena, "--%s=%s", opt->name, args->value[i])
                                : gs_arena_printf(arena, "--%s", opt->name);
        argv[n++] = text.p != NULL ? strdup(text.p) : NULL;
    }
    argv[n++] = strdup("--");
    for (int i = 0; i < args->n_rest; i++)
        argv[n++] = args->rest[i];
    return argv;
}

static int hand_over(int command, const char *program, const struct gs_opt_args *args)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - strlen(program) - 2);
    char **argv = argv_of(command, program, args, &arena), *slash;

    if (argv == NULL || gs_arena_check(&arena) < 0) {
        gs_app_say("out of memory");
        return GS_EXIT_FAILED;
    }
    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL) {
            memcpy(slash + 1, program, strlen(program) + 1);
            (void)execv(path, argv); /* not beside us: then by PATH */
        }
    }
    (void)execvp(program, argv);
    gs_app_say("%s: %s", program, strerror(errno));
    return GS_EXIT_FAILED;
}

int gs_explain_main(const struct gs_opt_args *args)
{
    return hand_over(GS_COMMAND_EXPLAIN, "gpuslice-explain", args);
}

int gs_doctor_main(const struct gs_opt_args *args)
{
    return hand_over(GS_COMMAND_DOCTOR, "gpuslice-doctor", args);
}
