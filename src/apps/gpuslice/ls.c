/* gpuslice ls: the slices of this user. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/loose.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/view.h"
#include "base/buf.h"
#include "base/table.h"

static void add_devices(struct gs_table *table, const struct gs_view_slice *s)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf limits = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf used = {0};
    const struct gs_quota *q = &s->slice->quota;
    char text[GS_APP_SIZE];

    for (uint32_t i = 0; i < q->n_devices; i++) {
        gs_buf_addf(&limits, "%s%s", i ? "; " : "", gs_app_size(q->device[i].limit_bytes, text));
        if (q->device[i].core_pct < 100 && q->device[i].policy != GS_POLICY_OFF)
            gs_buf_addf(&limits, ", %u %%", q->device[i].core_pct);
        gs_buf_addf(&used, "%s%s", i ? "; " : "",
                    gs_app_size(gs_view_used(s, q->device[i].uuid), text));
    }
    gs_table_add(table, limits.n ? limits.p : "-");
    gs_table_add(table, used.n ? used.p : "-");
}

static int write_table(const struct gs_view *view, struct gs_buf *buf)
{
    GS_CLEANUP(gs_table_fini) struct gs_table table;

    gs_table_init(&table, 7, 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5);
    gs_table_add(&table, "NAME");
    gs_table_add(&table, "STATE");
    gs_table_add(&table, "LIMIT");
    gs_table_add(&table, "USED");
    gs_table_add(&table, "PROCESSES");
    gs_table_add(&table, "PARENT");
    gs_table_add(&table, "COMMAND");
    for (size_t i = 0; i < view->slices.n; i++) {
        const struct gs_view_slice *s = &view->slice[i];

        if (s->slice->uid != geteuid())
            continue;
        gs_table_add(&table, s->slice->name);
        gs_table_add(&table, gs_view_state_text(s));
        add_devices(&table, s);
        gs_table_addf(&table, "%zu", s->n_processes);
        if (gs_loose_is(s->slice)) /* nobody's `gpuslice run` */
            gs_table_add(&table, "-");
        else
            gs_table_addf(&table, "%d", s->slice->owner_pid);
        gs_table_add(&table, s->slice->command);
    }
    return gs_table_write(&table, "", buf);
}

int gs_ls_main(const struct gs_opt_args *args)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    GS_CLEANUP(gs_view_fini) struct gs_view view;
    struct gs_err err = {0};
    int rc = gs_view_read(false, &view, &err);

    if (rc != 0) {
        gs_app_say("%s", err.text);
        return GS_EXIT_FAILED;
    }
    if (args->value[GS_OPTION_LS_JSON]) {
        rc = gs_view_json(&view, false, &buf);
    } else if (args->value[GS_OPTION_QUIET]) {
        for (size_t i = 0; i < view.slices.n; i++)
            if (view.slices.p[i]->uid == geteuid() && !gs_loose_is(view.slices.p[i]))
                gs_buf_addf(&buf, "%s\n", view.slices.p[i]->name);
    } else {
        rc = write_table(&view, &buf);
    }
    if (rc != 0) {
        gs_app_say("out of memory");
        return GS_EXIT_FAILED;
    }
    return gs_app_finish(&buf);
}
