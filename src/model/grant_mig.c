#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "model/grant.h"
#include "model/json.h"

#define MIG_GRANTS_MAX 4096

static int read_placement(yyjson_val *v, size_t i, struct gs_mig_grant *g, struct gs_err *err)
{
    if (v == NULL || yyjson_is_null(v))
        return 0;
    if (!yyjson_is_obj(v))
        return gs_err_set(err, -EINVAL, "MIG allocation %zu: placement is not an object", i);
    if (gs_json_int32(gs_json_get(v, "start"), &g->start) < 0 ||
        gs_json_int32(gs_json_get(v, "size"), &g->size) < 0)
        return gs_err_set(err, -EINVAL, "MIG allocation %zu: placement is not of numbers", i);
    return 0;
}

static int read_runtime(yyjson_val *v, size_t i, struct gs_mig_grant *g, struct gs_arena *arena,
                        struct gs_err *err)
{
    yyjson_val *uuid = gs_json_get(v, "migUUID"), *gi = gs_json_get(v, "gpuInstanceID"),
               *ci = gs_json_get(v, "computeInstanceID");
    bool has_uuid = uuid != NULL && !yyjson_is_null(uuid) &&
                    !(yyjson_is_str(uuid) && gs_json_text(uuid).n == 0);
    bool has_gi = gi != NULL && !yyjson_is_null(gi), has_ci = ci != NULL && !yyjson_is_null(ci);
    int32_t gpu = 0, compute = 0;

    if (!has_uuid && !has_gi && !has_ci)
        return 0;
    if (!has_uuid || !has_gi || !has_ci)
        return gs_err_set(err, -EINVAL, "MIG allocation %zu has partial runtime identity", i);
    if (gs_json_str(uuid, arena, &g->mig_uuid) < 0 || gs_json_int32(gi, &gpu) < 0 || gpu < 0 ||
        gs_json_int32(ci, &compute) < 0 || compute < 0)
        return gs_err_set(err, -EINVAL, "MIG allocation %zu: bad runtime identity", i);
    g->gpu_instance = (uint32_t)gpu;
    g->compute_instance = (uint32_t)compute;
    g->is_realised = true;
    return 0;
}

static int read_one(yyjson_val *v, size_t i, struct gs_arena *arena, struct gs_mig_grant *g,
                    struct gs_err *err)
{
    int32_t container = 0, device = 0;
    int rc;

    if (!yyjson_is_obj(v))
        return gs_err_set(err, -EINVAL, "MIG allocation %zu is not an object", i);
    if (gs_json_int32(gs_json_get(v, "containerIndex"), &container) < 0 || container < 0 ||
        gs_json_int32(gs_json_get(v, "deviceIndex"), &device) < 0 || device < 0)
        return gs_err_set(err, -EINVAL, "MIG allocation %zu has a bad index", i);
    if (gs_json_str(gs_json_get(v, "gpuUUID"), arena, &g->gpu_uuid) < 0 ||
        gs_json_str(gs_json_get(v, "profile"), arena, &g->profile) < 0)
        return gs_err_set(err, -EINVAL, "MIG allocation %zu: gpuUUID or profile is no text", i);
    g->container = (uint32_t)container;
    g->device = (uint32_t)device;
    rc = read_placement(gs_json_get(v, "placement"), i, g, err);
    if (rc < 0)
        return rc;
    if (g->gpu_uuid.n == 0 || g->profile.n == 0 || g->size <= 0 || g->start < 0)
        return gs_err_set(err, -EINVAL, "MIG allocation %zu is incomplete", i);
    return read_runtime(v, i, g, arena, err);
}

static int by_place(const void *a, const void *b)
{
    const struct gs_mig_grant *x = a, *y = b;

    if (x->container != y->container)
        return x->container < y->container ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

static int check_twice(const struct gs_mig_grant *mig, size_t n, struct gs_arena *arena,
                       struct gs_err *err)
{
    struct gs_mig_grant *sorted = GS_ARENA_ARRAY(arena, n, struct gs_mig_grant);

    if (sorted == NULL)
        return gs_err_set(err, -ENOMEM, "no memory for MIG allocations");
    if (n == 0)
        return 0;
    memcpy(sorted, mig, n * sizeof(*mig));
    qsort(sorted, n, sizeof(*sorted), by_place);
    for (size_t i = 1; i < n; i++)
        if (by_place(&sorted[i - 1], &sorted[i]) == 0)
            return gs_err_set(err, -EINVAL,
                              "MIG allocation of container %u, device %u is there twice",
                              sorted[i].container, sorted[i].device);
    return 0;
}

static int read_all(yyjson_val *root, struct gs_arena *arena, struct gs_mig_grant **ret,
                    size_t *ret_n, struct gs_err *err)
{
    struct gs_mig_grant *mig;
    size_t n, i, max;
    yyjson_val *v;
    int rc;

    if (yyjson_is_null(root)) {
        *ret = NULL;
        *ret_n = 0;
        return 0;
    }
    if (!yyjson_is_arr(root))
        return gs_err_set(err, -EINVAL, "MIG allocations are not an array");
    n = yyjson_arr_size(root);
    if (n > MIG_GRANTS_MAX)
        return gs_err_set(err, -E2BIG, "%zu MIG allocations", n);
    mig = GS_ARENA_ARRAY(arena, n, struct gs_mig_grant);
    if (mig == NULL)
        return gs_err_set(err, -ENOMEM, "no memory for MIG allocations");
    yyjson_arr_foreach(root, i, max, v)
    {
        rc = read_one(v, i, arena, &mig[i], err);
        if (rc < 0)
            return rc;
    }
    rc = check_twice(mig, n, arena, err);
    if (rc < 0)
        return rc;
    *ret = mig;
    *ret_n = n;
    return 0;
}

int gs_grant_mig_read(struct gs_str json, struct gs_arena *arena, struct gs_mig_grant **ret,
                      size_t *ret_n, struct gs_err *err)
{
    yyjson_doc *doc = NULL;
    int rc;

    if (json.n == 0) {
        *ret = NULL;
        *ret_n = 0;
        return 0;
    }
    rc = gs_json_parse(json, GS_GRANT_BYTES_MAX, &doc, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "MIG allocations");
    rc = read_all(yyjson_doc_get_root(doc), arena, ret, ret_n, err);
    yyjson_doc_free(doc);
    return rc;
}

void gs_grant_mig_write(const struct gs_mig_grant *mig, size_t n, struct gs_buf *buf)
{
    gs_buf_adds(buf, "[");
    for (size_t i = 0; i < n; i++) {
        const struct gs_mig_grant *g = &mig[i];

        gs_buf_addf(buf,
                    "%s{\"containerIndex\":%u,\"deviceIndex\":%u,\"gpuUUID\":", i > 0 ? "," : "",
                    g->container, g->device);
        gs_json_put_str(buf, g->gpu_uuid);
        gs_buf_adds(buf, ",\"profile\":");
        gs_json_put_str(buf, g->profile);
        gs_buf_addf(buf, ",\"placement\":{\"start\":%d,\"size\":%d}", g->start, g->size);
        if (g->is_realised) {
            gs_buf_adds(buf, ",\"migUUID\":");
            gs_json_put_str(buf, g->mig_uuid);
            gs_buf_addf(buf, ",\"gpuInstanceID\":%u,\"computeInstanceID\":%u", g->gpu_instance,
                        g->compute_instance);
        }
        gs_buf_adds(buf, "}");
    }
    gs_buf_adds(buf, "]");
}
