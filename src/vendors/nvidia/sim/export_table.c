/* cuGetExportTable: the private tables that NVIDIA's runtime 10.2 needs, as observed from outside
 * (tables and slots that were called, arguments, results; nothing was disassembled).
 *
 * One table is refused on purpose: from 11.2 on the runtime asks the driver for a computed reply by
 * which it knows a genuine driver. That check is not forged here; newer stacks run on the
 * simulator's own libcudart. */
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/apictx.h"
#include "vendors/nvidia/sim/module.h"

typedef const void *entry;
typedef void (*storage_dtor)(CUcontext ctx, void *key, void *value);

struct gs_export_value {
    struct gs_export_value *next;
    void *key;
    void *value;
    storage_dtor dtor;
};

/* ---- runtime interface ---- */

static CUresult primary_handle(CUcontext *ret, CUdevice device)
{
    struct gs_sim_ctx *ctx = gs_context_primary(device);
    if (!ctx)
        return CUDA_ERROR_INVALID_DEVICE;
    *ret = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

static CUresult load_fat_binary(CUmodule *ret, const void *wrapper, void *a, void *b,
                                unsigned long long c)
{
    (void)a;
    (void)b;
    (void)c;
    return cuModuleLoadData(ret, wrapper);
}

static CUresult do_nothing(void)
{
    return CUDA_SUCCESS;
}

#define NOTHING ((entry)(uintptr_t)do_nothing)
#define SIZE(n) ((entry)(uintptr_t)(n))

static const entry runtime_table[13] = {
    SIZE(104),
    NOTHING,
    (entry)(uintptr_t)primary_handle,
    NOTHING,
    NOTHING,
    NOTHING,
    (entry)(uintptr_t)load_fat_binary,
    NOTHING,
    NOTHING,
    NOTHING,
    NOTHING,
    NOTHING,
    NOTHING,
};

/* ---- hooks for tools: buffers nobody reads ---- */

static void hook_buffer(void **ret, size_t *ret_n)
{
    static char buffer[1024];
    *ret = buffer;
    *ret_n = sizeof(buffer);
}

static void hook_buffer_small(void **ret, size_t *ret_n)
{
    static char buffer[128];
    *ret = buffer;
    *ret_n = 14;
}

static const entry hooks_table[7] = {
    SIZE(56), NOTHING, (entry)(uintptr_t)hook_buffer,       NOTHING,
    NOTHING,  NOTHING, (entry)(uintptr_t)hook_buffer_small,
};

static const entry tls_table[4] = {SIZE(32), NOTHING, NOTHING, NOTHING};

/* ---- storage per context ---- */

static struct gs_apictx *storage_of(CUcontext handle)
{
    struct gs_sim_ctx *ctx;
    return gs_context_get(handle, &ctx) || !ctx->api ? NULL : gs_apictx_of(ctx);
}

static CUresult storage_put(CUcontext ctx, void *key, void *value, storage_dtor dtor)
{
    struct gs_apictx *a = storage_of(ctx);
    if (!a)
        return CUDA_ERROR_INVALID_CONTEXT;
    struct gs_export_value *v = calloc(1, sizeof(*v));
    if (!v)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *v = (struct gs_export_value){.key = key, .value = value, .dtor = dtor};
    pthread_mutex_lock(&a->lock);
    v->next = a->values;
    a->values = v;
    pthread_mutex_unlock(&a->lock);
    return CUDA_SUCCESS;
}

static CUresult storage_del(CUcontext ctx, void *key)
{
    struct gs_apictx *a = storage_of(ctx);
    if (!a)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&a->lock);
    struct gs_export_value **p = &a->values, *v;
    while (*p && (*p)->key != key)
        p = &(*p)->next;
    v = *p;
    if (v)
        *p = v->next;
    pthread_mutex_unlock(&a->lock);
    free(v);
    return v ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult storage_get(void **ret, CUcontext ctx, void *key)
{
    struct gs_apictx *a = storage_of(ctx);
    if (!a)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&a->lock);
    const struct gs_export_value *v = a->values;
    while (v && v->key != key)
        v = v->next;
    if (v)
        *ret = v->value;
    pthread_mutex_unlock(&a->lock);
    return v ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

void gs_export_table_forget_context(struct gs_sim_ctx *ctx)
{
    struct gs_apictx *a = gs_apictx_of(ctx);
    for (;;) {
        pthread_mutex_lock(&a->lock);
        struct gs_export_value *v = a->values;
        if (v)
            a->values = v->next;
        pthread_mutex_unlock(&a->lock);
        if (!v)
            return;
        if (v->dtor)
            v->dtor((CUcontext)ctx, v->key, v->value);
        free(v);
    }
}

/* This one has no size in front. */
static const entry storage_table[4] = {
    (entry)(uintptr_t)storage_put,
    (entry)(uintptr_t)storage_del,
    (entry)(uintptr_t)storage_get,
    NULL,
};

/* ---- context checks ---- */

static CUresult check_context(CUcontext ctx, unsigned int *ret_flag, const void **ret)
{
    (void)ctx;
    (void)ret;
    *ret_flag = 0;
    return CUDA_SUCCESS;
}

static const entry checks_table[4] = {SIZE(32), NOTHING, (entry)(uintptr_t)check_context, NOTHING};

static const struct {
    unsigned char id[16];
    const entry *table;
} tables[] = {
    {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
      0xf9},
     runtime_table},
    {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
      0x66},
     hooks_table},
    {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
      0xdc},
     tls_table},
    {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
      0x93},
     storage_table},
    {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
      0x7e},
     checks_table},
};

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    GS_SIM_ENTRY;
    if (!ppExportTable || !pExportTableId)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < GS_ARRAY_LEN(tables); i++)
        if (!memcmp(tables[i].id, pExportTableId->bytes, sizeof(tables[i].id))) {
            *ppExportTable = (const void *)tables[i].table;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}
