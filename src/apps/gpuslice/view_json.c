/* A view as JSON; the shape is an interface (DESIGN.md, "gpuslice top --once --json"). */
#include <errno.h>
#include <stdlib.h>
#include <yyjson.h>

#include "apps/gpuslice/terms.h"
#include "apps/gpuslice/view.h"
#include "base/buf.h"

/* Percentages and bytes the driver does not know, and limits there are none of, are null. */
static bool add_number(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, uint64_t value)
{
    return value == UINT64_MAX ? yyjson_mut_obj_add_null(doc, obj, key)
                               : yyjson_mut_obj_add_uint(doc, obj, key, value);
}

/* Names come from drivers and files: what is no UTF-8 must not spoil the document. */
static bool add_text(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, const char *text)
{
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c > 0x7e || (unsigned char)*c < 0x20)
            return yyjson_mut_obj_add_str(doc, obj, key, "?");
    return yyjson_mut_obj_add_strcpy(doc, obj, key, text);
}

static bool add_cards(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct gs_view *view)
{
    yyjson_mut_val *cards = yyjson_mut_obj_add_arr(doc, root, "cards");
    bool ok = cards != NULL;

    for (size_t i = 0; i < view->probe.n_cards && ok; i++) {
        const struct gs_card *c = &view->probe.card[i];
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, cards);

        ok = obj && add_text(doc, obj, "uuid", c->uuid) &&
             yyjson_mut_obj_add_uint(doc, obj, "index", c->index) &&
             add_text(doc, obj, "name", c->name) &&
             add_number(doc, obj, "total_bytes", c->total_bytes) &&
             add_number(doc, obj, "used_bytes", c->used_bytes) &&
             add_number(doc, obj, "util_pct", c->util_pct) &&
             add_number(doc, obj, "promised_core_pct", gs_view_promised_cores(view, c));
    }
    return ok;
}

/* Tenths of a percent. */
static bool add_permille(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key, uint64_t value)
{
    return value == UINT64_MAX ? yyjson_mut_obj_add_null(doc, obj, key)
                               : yyjson_mut_obj_add_real(doc, obj, key, (double)value / 10.0);
}

static bool add_share(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct gs_view_slice *s,
                      const struct gs_quota_device *d)
{
    struct gs_view_share share = gs_view_share(s, d);

    return add_permille(doc, obj, "core_used_1s_pct", share.used_1s_permille) &&
           add_permille(doc, obj, "core_used_10s_pct", share.used_10s_permille) &&
           add_permille(doc, obj, "share_now_pct", share.now_permille) &&
           add_number(doc, obj, "wait_ms_per_s", share.wait_ms_per_s) &&
           yyjson_mut_obj_add_str(doc, obj, "policy", gs_quota_policy_name(d->policy)) &&
           yyjson_mut_obj_add_str(
               doc, obj, "priority",
               gs_quota_priority_name(gs_terms_priority_of(&s->slice->quota, d))) &&
           add_number(doc, obj, "managed_bytes", share.managed_bytes);
}

static bool add_devices(yyjson_mut_doc *doc, yyjson_mut_val *slice, const struct gs_view *view,
                        const struct gs_view_slice *s)
{
    yyjson_mut_val *devices = yyjson_mut_obj_add_arr(doc, slice, "devices");
    bool ok = devices != NULL;

    for (uint32_t i = 0; i < s->slice->quota.n_devices && ok; i++) {
        const struct gs_quota_device *d = &s->slice->quota.device[i];
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, devices);

        ok = obj && add_text(doc, obj, "uuid", d->uuid) &&
             add_number(doc, obj, "limit_bytes", d->limit_bytes) &&
             add_number(doc, obj, "used_bytes", gs_view_used(s, d->uuid)) &&
             yyjson_mut_obj_add_uint(doc, obj, "core_limit_pct", d->core_pct) &&
             add_number(doc, obj, "core_used_pct", gs_view_core_pct(view, s, d->uuid)) &&
             add_share(doc, obj, s, d);
    }
    return ok;
}

static bool add_processes(yyjson_mut_doc *doc, yyjson_mut_val *slice, const struct gs_view_slice *s)
{
    yyjson_mut_val *processes = yyjson_mut_obj_add_arr(doc, slice, "processes");
    bool ok = processes != NULL;

    for (size_t i = 0; i < s->n_processes && ok; i++) {
        const struct gs_view_process *p = &s->process[i];
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, processes);

        ok = obj && yyjson_mut_obj_add_uint(doc, obj, "pid", p->pid) &&
             add_number(doc, obj, "used_bytes", p->used_bytes) &&
             yyjson_mut_obj_add_bool(doc, obj, "held", p->held);
    }
    return ok;
}

static bool add_slices(yyjson_mut_doc *doc, yyjson_mut_val *root, const struct gs_view *view)
{
    yyjson_mut_val *slices = yyjson_mut_obj_add_arr(doc, root, "slices");
    bool ok = slices != NULL;

    for (size_t i = 0; i < view->slices.n && ok; i++) {
        const struct gs_view_slice *s = &view->slice[i];
        yyjson_mut_val *obj = yyjson_mut_arr_add_obj(doc, slices);

        ok = obj && add_text(doc, obj, "name", s->slice->name) &&
             yyjson_mut_obj_add_str(doc, obj, "state", gs_view_state_text(s)) &&
             add_devices(doc, obj, view, s) && add_processes(doc, obj, s);
    }
    return ok;
}

int gs_view_json(const struct gs_view *view, bool cards, struct gs_buf *buf)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = doc ? yyjson_mut_obj(doc) : NULL;
    char *text = NULL;
    size_t n = 0;

    if (root) {
        yyjson_mut_doc_set_root(doc, root);
        if (yyjson_mut_obj_add_uint(doc, root, "version", 1) &&
            (!cards || add_cards(doc, root, view)) && add_slices(doc, root, view))
            text = yyjson_mut_write(doc, 0, &n);
    }
    if (text) {
        gs_buf_add(buf, text, n);
        gs_buf_adds(buf, "\n");
    }
    free(text);
    yyjson_mut_doc_free(doc);
    return text ? gs_buf_check(buf) : -ENOMEM;
}
