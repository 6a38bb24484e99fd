#include <errno.h>
#include <stdlib.h>

#include <yyjson.h>

#include "base/buf.h"
#include "monitor/page.h"

typedef yyjson_mut_doc doc;
typedef yyjson_mut_val val;

static void put_text(doc *d, val *at, const char *key, struct gs_str s)
{
    yyjson_mut_obj_add_strncpy(d, at, key, s.p != NULL ? s.p : "", s.n);
}

/* null: not known */
static void put_known(doc *d, val *at, const char *key, uint64_t value)
{
    if (value == GS_TENANTS_UNKNOWN)
        yyjson_mut_obj_add_null(d, at, key);
    else
        yyjson_mut_obj_add_uint(d, at, key, value);
}

static void put_card(doc *d, val *cards, const struct gs_tenants_card *c)
{
    val *at = yyjson_mut_arr_add_obj(d, cards);

    put_text(d, at, "uuid", gs_str_of(c->uuid));
    yyjson_mut_obj_add_uint(d, at, "index", c->index);
    put_text(d, at, "type", gs_str_of(c->type));
    put_known(d, at, "total_bytes", c->total_bytes);
    put_known(d, at, "used_bytes", c->used_bytes);
    put_known(d, at, "util_pct", c->util_pct);
}

static void put_device(doc *d, val *devices, const struct gs_tenants_device *dev)
{
    val *at = yyjson_mut_arr_add_obj(d, devices);

    put_text(d, at, "uuid", gs_str_of(dev->uuid));
    yyjson_mut_obj_add_uint(d, at, "index", dev->index);
    put_text(d, at, "held", gs_str_of(gs_held_word(dev->held)));
    put_known(d, at, "limit_bytes", dev->limit_bytes);
    put_known(d, at, "used_bytes", dev->used_bytes);
    put_known(d, at, "driver_bytes", dev->driver_bytes);
    yyjson_mut_obj_add_uint(d, at, "excess_bytes", dev->is_breach ? dev->excess_bytes : 0);
    put_known(d, at, "util_pct", dev->util_pct);
    yyjson_mut_obj_add_uint(d, at, "core_limit_pct", dev->core_pct > 0 ? dev->core_pct : 100);
}

static const char *file_word(const struct gs_tenant *tenant)
{
    static const char *const word[] = {
        [GS_READING_NONE] = "none",
        [GS_READING_LEDGER] = "ledger",
        [GS_READING_REGION] = "region",
        [GS_READING_DAMAGED] = "damaged",
    };

    return word[tenant->reading.kind];
}

static void put_container(doc *d, val *containers, const struct gs_tenant *tenant,
                          const struct gs_tenants_who *who)
{
    val *at = yyjson_mut_arr_add_obj(d, containers), *devices;

    put_text(d, at, "namespace", who->ns);
    put_text(d, at, "pod", who->pod);
    put_text(d, at, "container", who->container);
    put_text(d, at, "pod_uid", tenant->uid);
    put_text(d, at, "file", gs_str_of(file_word(tenant)));
    yyjson_mut_obj_add_uint(d, at, "processes", tenant->reading.n_pids);
    yyjson_mut_obj_add_uint(d, at, "unheld_processes", tenant->n_unheld);
    devices = yyjson_mut_obj_add_arr(d, at, "devices");
    for (size_t i = 0; i < tenant->n_devices; i++)
        put_device(d, devices, &tenant->device[i]);
}

int gs_page_json(const struct gs_page_from *from, struct gs_buf *buf)
{
    doc *d = yyjson_mut_doc_new(NULL);
    val *root = yyjson_mut_obj(d), *cards, *containers;
    char *text;
    size_t n;

    if (d == NULL || root == NULL) {
        yyjson_mut_doc_free(d);
        return -ENOMEM;
    }
    yyjson_mut_doc_set_root(d, root);
    yyjson_mut_obj_add_uint(d, root, "version", 1);
    put_text(d, root, "node", from->node);
    yyjson_mut_obj_add_bool(d, root, "driver_up", from->driver != NULL);
    cards = yyjson_mut_obj_add_arr(d, root, "cards");
    for (size_t i = 0; from->driver != NULL && i < from->driver->n_cards; i++)
        put_card(d, cards, &from->driver->card[i]);
    containers = yyjson_mut_obj_add_arr(d, root, "containers");
    for (size_t i = 0; i < gs_tenants_count(from->tenants); i++) {
        const struct gs_tenant *tenant = gs_tenants_at(from->tenants, i);
        struct gs_tenants_who who;

        if (gs_tenants_who(from->tenants, tenant, &who))
            put_container(d, containers, tenant, &who);
    }
    text = yyjson_mut_write(d, YYJSON_WRITE_ALLOW_INVALID_UNICODE, &n);
    yyjson_mut_doc_free(d);
    if (text == NULL)
        return -ENOMEM;
    gs_buf_add(buf, text, n);
    gs_buf_addc(buf, '\n', 1);
    free(text);
    return gs_buf_check(buf);
}
