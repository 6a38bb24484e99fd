#include "node/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "kube/base64.h"
#include "kube/json.h"
#include "node/cdi.h"
#include "node/kubelet_pb.h"

struct reader {
    struct gs_arena *arena;
    struct gs_str resource;
    size_t n_ids; /**< of all entries so far */
};

/* ---- device ids ---- */

static int add_ids(struct reader *r, yyjson_val *list, struct gs_checkpoint_entry *entry)
{
    yyjson_val *val;
    yyjson_arr_iter iter;

    if (yyjson_is_null(list))
        return 0;
    if (!yyjson_is_arr(list))
        return -EINVAL;
    iter = yyjson_arr_iter_with(list);
    while ((val = yyjson_arr_iter_next(&iter)) != NULL) {
        struct gs_str id = gs_kube_json_text(val);

        if (id.n == 0)
            return -EINVAL;
        id = gs_arena_str(r->arena, id);
        entry->id[entry->n_ids++] = id;
    }
    return gs_arena_check(r->arena);
}

static size_t count_ids(yyjson_val *ids)
{
    yyjson_obj_iter iter;
    yyjson_val *key;
    size_t n = 0;

    if (!yyjson_is_obj(ids))
        return yyjson_arr_size(ids);
    iter = yyjson_obj_iter_with(ids);
    while ((key = yyjson_obj_iter_next(&iter)) != NULL)
        n += yyjson_arr_size(yyjson_obj_iter_get_val(key));
    return n;
}

/* A list, or lists by NUMA node. */
static int read_ids(struct reader *r, yyjson_val *ids, struct gs_checkpoint_entry *entry)
{
    size_t n = count_ids(ids);
    yyjson_obj_iter iter;
    yyjson_val *key;
    int rc = 0;

    if (n > GS_CHECKPOINT_IDS - r->n_ids)
        return -E2BIG;
    r->n_ids += n;
    entry->id = GS_ARENA_ARRAY(r->arena, n, struct gs_str);
    if (entry->id == NULL)
        return -ENOMEM;
    if (!yyjson_is_obj(ids)) {
        rc = add_ids(r, ids, entry);
    } else {
        iter = yyjson_obj_iter_with(ids);
        while (rc == 0 && (key = yyjson_obj_iter_next(&iter)) != NULL)
            rc = add_ids(r, yyjson_obj_iter_get_val(key), entry);
    }
    if (entry->n_ids > 1)
        qsort(entry->id, entry->n_ids, sizeof(*entry->id), gs_str_order);
    return rc;
}

/* ---- our answer ---- */

/* Not ours, or no answer at all: no slot. */
static int read_answer(struct reader *r, yyjson_val *val, struct gs_checkpoint_entry *entry)
{
    struct gs_str text = gs_kube_json_text(val);
    struct gs_kubelet_texts cdi;
    size_t n = 0;
    char *bytes;
    int rc;

    if (text.n == 0)
        return 0;
    bytes = gs_arena_take(r->arena, gs_kube_base64_room(text.n), 1);
    if (bytes == NULL)
        return -ENOMEM;
    rc = gs_kube_base64_decode(text, bytes, &n);
    if (rc == 0)
        rc = gs_kubelet_pb_cdi(r->arena, (struct gs_str){bytes, n}, &cdi, NULL);
    for (size_t i = 0; rc == 0 && i < cdi.n && entry->slot.n == 0; i++)
        entry->slot = gs_cdi_name_of(gs_str_of(cdi.p[i]));
    return rc;
}

/* ---- entries ---- */

static int read_entry(struct reader *r, yyjson_val *val, struct gs_checkpoint_entry *ret)
{
    struct gs_checkpoint_entry entry = {0};
    int rc;

    if (gs_kube_json_str(val, "PodUID", &entry.pod_uid) != GS_KUBE_GOT ||
        gs_kube_json_str(val, "ContainerName", &entry.container) != GS_KUBE_GOT ||
        entry.pod_uid.n == 0 || entry.container.n == 0)
        return -EINVAL;
    entry.pod_uid = gs_arena_str(r->arena, entry.pod_uid);
    entry.container = gs_arena_str(r->arena, entry.container);
    rc = read_ids(r, yyjson_obj_get(val, "DeviceIDs"), &entry);
    if (rc == 0)
        rc = read_answer(r, yyjson_obj_get(val, "AllocResp"), &entry);
    if (rc == 0)
        *ret = entry;
    return rc;
}

static int read_entries(struct reader *r, yyjson_val *list, struct gs_checkpoint *ret)
{
    yyjson_arr_iter iter = yyjson_arr_iter_with(list);
    yyjson_val *val;

    ret->entry = GS_ARENA_ARRAY(r->arena, yyjson_arr_size(list), struct gs_checkpoint_entry);
    if (ret->entry == NULL)
        return -ENOMEM;
    while ((val = yyjson_arr_iter_next(&iter)) != NULL) {
        struct gs_str resource = {0};
        int rc;

        if (gs_kube_json_str(val, "ResourceName", &resource) != GS_KUBE_GOT ||
            !gs_str_eq(resource, r->resource))
            continue;
        rc = read_entry(r, val, &ret->entry[ret->n]);
        if (rc == -ENOMEM || rc == -E2BIG)
            return rc;
        if (rc == 0)
            ret->n++;
        else
            ret->n_odd++;
    }
    return 0;
}

int gs_checkpoint_read(struct gs_str text, struct gs_str resource, struct gs_arena *arena,
                       struct gs_checkpoint *ret, struct gs_err *err)
{
    GS_CLEANUP(gs_kube_json_free_p) yyjson_doc *doc = NULL;
    struct reader r = {.arena = arena, .resource = resource};
    struct gs_checkpoint checkpoint = {0};
    yyjson_val *data, *list = NULL;
    int rc = gs_kube_json_read(text, GS_CHECKPOINT_BYTES, &doc, err);

    if (rc < 0)
        return rc;
    if (gs_kube_json_obj(yyjson_doc_get_root(doc), "Data", &data) != GS_KUBE_GOT)
        return gs_err_set(err, -EINVAL, "no object 'Data' in it");
    switch (gs_kube_json_arr(data, "PodDeviceEntries", &list)) {
    case GS_KUBE_GOT:
        break;
    case GS_KUBE_NULL: /* nobody has a device */
        *ret = checkpoint;
        return 0;
    case GS_KUBE_MISSING:
    case GS_KUBE_WRONG:
        return gs_err_set(err, -EINVAL, "no list 'Data.PodDeviceEntries' in it");
    }
    if (yyjson_arr_size(list) > GS_CHECKPOINT_ENTRIES)
        return gs_err_set(err, -E2BIG, "more than %u entries", GS_CHECKPOINT_ENTRIES);
    rc = read_entries(&r, list, &checkpoint);
    if (rc == 0)
        rc = gs_arena_check(arena);
    if (rc < 0)
        return gs_err_set(err, rc, "%s", rc == -E2BIG ? "too many device ids" : "no memory");
    *ret = checkpoint;
    return 0;
}

int gs_checkpoint_load(int dirfd, struct gs_str resource, struct gs_arena *arena,
                       struct gs_checkpoint *ret, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    int rc = gs_file_read(dirfd, GS_CHECKPOINT_FILE, GS_CHECKPOINT_BYTES, &text);

    if (rc < 0)
        return gs_err_set(err, rc, GS_CHECKPOINT_FILE ": %s", strerror(-rc));
    rc = gs_checkpoint_read(gs_buf_str(&text), resource, arena, ret, err);
    return rc < 0 ? gs_err_wrap(err, rc, GS_CHECKPOINT_FILE) : 0;
}

bool gs_checkpoint_holds(const struct gs_checkpoint_entry *entry, const struct gs_str *id, size_t n)
{
    if (entry->n_ids != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!gs_str_eq(entry->id[i], id[i]))
            return false;
    return true;
}
