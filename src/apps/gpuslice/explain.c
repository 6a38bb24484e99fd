/* gpuslice explain: hands over to gpuslice-explain, which has the libraries of a cluster's client.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/options.h"
#include "base/arena.h"

#define PROGRAM "gpuslice-explain"

/* The options as they were given, then the operands. */
static char **argv_of(const struct gs_opt_args *args, struct gs_arena *arena)
{
    char **argv =
        GS_ARENA_ARRAY(arena, gs_options_spec.n_options + (size_t)args->n_rest + 3, char *);
    size_t n = 0;

    if (argv == NULL)
        return NULL;
    argv[n++] = strdup(PROGRAM); /* exec wants them writable; they live as long as we do */
    for (size_t i = 0; i < gs_options_spec.n_options; i++) {
        const struct gs_opt *opt = &gs_options_spec.options[i];
        struct gs_str text;

        if (opt->command != GS_COMMAND_EXPLAIN || args->value[i] == NULL)
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

int gs_explain_main(const struct gs_opt_args *args)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(PROGRAM) - 1);
    char **argv = argv_of(args, &arena), *slash;

    if (argv == NULL || gs_arena_check(&arena) < 0) {
        gs_app_say("out of memory");
        return GS_EXIT_FAILED;
    }
    if (n > 0) {
        path[n] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL) {
            memcpy(slash + 1, PROGRAM, sizeof(PROGRAM));
            (void)execv(path, argv); /* not beside us: then by PATH */
        }
    }
    (void)execvp(PROGRAM, argv);
    gs_app_say("%s: %s", PROGRAM, strerror(errno));
    return GS_EXIT_FAILED;
}
