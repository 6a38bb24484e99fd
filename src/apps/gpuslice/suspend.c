/* gpuslice suspend and resume: hold up a slice's launches and allocations, and let them go on. */
#include <errno.h>
#include <string.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/control.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/slice.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/proc.h"

static void tell(const char *name, bool suspend, const struct gs_control_reach *reach,
                 struct gs_buf *buf)
{
    if (reach->is_new)
        gs_buf_addf(buf, "slice '%s': %u process%s %s\n", name, reach->processes,
                    reach->processes == 1 ? "" : "es", suspend ? "suspended" : "resumed");
    else
        gs_buf_addf(buf, "slice '%s': %s\n", name,
                    suspend ? "already suspended" : "already running, not suspended");
    if (suspend && reach->deaf > 0)
        gs_app_say("slice '%s': %u of them use%s SIGUSR1 or SIGUSR2 %s and notice at the next "
                   "allocation only, since the slice has no --cores",
                   name, reach->deaf, reach->deaf == 1 ? "s" : "",
                   reach->deaf == 1 ? "itself" : "themselves");
}

static int change(const char *name, bool suspend, struct gs_buf *buf, struct gs_err *err)
{
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table procs = {0};
    GS_CLEANUP(gs_slices_fini) struct gs_slices slices = {0};
    struct gs_control_reach reach;
    const struct gs_slice *slice;
    int rc;

    (void)!gs_proc_list(&procs); /* without /proc the locks decide who lives */
    rc = gs_slices_list(&procs, false, &slices, err);
    if (rc != 0)
        return rc;
    slice = gs_slices_find(&slices, name);
    if (!slice || slice->state == GS_SLICE_DEAD)
        return gs_err_set(err, -ENOENT, "no live slice '%s'; 'gpuslice ls' lists them", name);
    rc = gs_control_suspend(slice->dir_fd, suspend, gs_control_is_straight(&slice->quota), &reach,
                            err);
    if (rc != 0)
        return gs_err_wrap(err, rc, "slice '%s' cannot be %s", name,
                           suspend ? "suspended" : "resumed");
    tell(name, suspend, &reach, buf);
    return 0;
}

static int run_command(const struct gs_opt_args *args, bool suspend)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    struct gs_err err = {0};

    if (change(args->rest[0], suspend, &buf, &err) != 0) {
        gs_app_say("%s", err.text);
        return GS_EXIT_FAILED;
    }
    return gs_app_finish(&buf);
}

int gs_suspend_main(const struct gs_opt_args *args)
{
    return run_command(args, true);
}

int gs_resume_main(const struct gs_opt_args *args)
{
    return run_command(args, false);
}
