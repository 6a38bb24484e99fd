#include "fake_card.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hook/attach.h"
#include "hook/engine.h"
#include "hook/learn.h"
#include "hook/ring.h"
#include "hook/share.h"
#include "vendors/nvidia/hook/block.h"
#include "vendors/nvidia/hook/context.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/vmm.h"

struct fake_world fake;

/* ---- ledger ---- */

int gs_gate_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    struct fake_device *d;
    uint64_t used;

    (void)what;
    if (dev >= FAKE_DEVICES)
        return -ENODEV;
    d = &fake.device[dev];
    used = d->held + d->extra;
    if (bytes > d->limit || used > d->limit - bytes)
        return -ENOMEM;
    *(charge == GS_CHARGE_HELD ? &d->held : &d->extra) += bytes;
    return 0;
}

void gs_gate_card_full(uint32_t dev, uint64_t bytes, const char *what)
{
    (void)what;
    assert_true(dev < FAKE_DEVICES);
    fake.n_full++;
    fake.full_bytes = bytes;
    fake.full_held = fake.device[dev].held + fake.device[dev].extra;
}

bool gs_attach_is_closed(void)
{
    return fake.closed != 0;
}

int gs_gate_try(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    return gs_gate_reserve(dev, bytes, charge, what);
}

void gs_gate_set_physical_bytes(uint32_t dev, uint64_t bytes)
{
    (void)dev, (void)bytes;
}

void gs_gate_release(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    uint64_t *sum;

    if (dev >= FAKE_DEVICES)
        return;
    sum = charge == GS_CHARGE_HELD ? &fake.device[dev].held : &fake.device[dev].extra;
    assert_true(*sum >= bytes); /* an unmatched release is a fault of the body */
    *sum -= bytes;
}

void gs_gate_force(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    *(charge == GS_CHARGE_HELD ? &fake.device[dev].held : &fake.device[dev].extra) += bytes;
}

uint64_t gs_gate_used(uint32_t dev)
{
    return dev < FAKE_DEVICES ? fake.device[dev].held + fake.device[dev].extra : 0;
}

uint64_t gs_gate_own(uint32_t dev, enum gs_charge charge)
{
    return charge == GS_CHARGE_HELD ? fake.device[dev].held : fake.device[dev].extra;
}

uint64_t gs_gate_limit(uint32_t dev)
{
    return dev < FAKE_DEVICES ? fake.device[dev].limit : 0;
}

bool gs_gate_is_oversubscribed(void)
{
    return fake.oversubscribe != 0;
}

void gs_gate_managed(uint32_t dev, int64_t bytes)
{
    if (dev < FAKE_DEVICES)
        fake.device[dev].managed += (uint64_t)bytes;
}

void gs_gate_set_context_bytes(uint32_t dev, uint64_t bytes)
{
    if (dev < FAKE_DEVICES)
        fake.device[dev].context_bytes = bytes;
}

uint64_t gs_gate_context_bytes(uint32_t dev)
{
    return dev < FAKE_DEVICES ? fake.device[dev].context_bytes : 0;
}

void gs_ring_log(enum gs_reason reason, uint32_t dev, const char *what, const uint64_t arg[4])
{
    (void)dev, (void)what, (void)arg;
    fake.last_reason = (int)reason;
}

int gs_share_publish(uint32_t dev, uint64_t bytes, struct gs_share_key key)
{
    (void)dev, (void)bytes, (void)key;
    return -ENOSPC;
}

int gs_share_name(int id, struct gs_share_key key)
{
    (void)id, (void)key;
    return -ENOSPC;
}

void gs_share_leave(int id)
{
    (void)id;
}

int gs_learn_begin(uint32_t dev)
{
    return gs_gate_context_bytes(dev) == 0 ? 1 : 0;
}

void gs_learn_end(uint32_t dev)
{
    (void)dev;
}

/* ---- pools: there are none ---- */

int gs_pool_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    return gs_gate_reserve(dev, bytes, charge, what);
}

void gs_pool_reconcile(uint32_t dev)
{
    (void)dev;
}

bool gs_pool_free_sync(CUresult (*real)(CUdeviceptr), CUdeviceptr ptr, CUresult *ret_result)
{
    (void)real, (void)ptr, (void)ret_result;
    return false;
}

void gs_vmm_array_gone(uint64_t array)
{
    (void)array;
}

/* ---- object table ---- */

static struct {
    enum gs_obj_kind kind;
    uint64_t key;
    struct gs_obj obj;
} table[8192];

static int slot_of(enum gs_obj_kind kind, uint64_t key)
{
    for (int i = 0; i < 8192; i++) {
        if (table[i].kind == kind && table[i].key == key)
            return i;
    }
    return -1;
}

int gs_track_put(enum gs_obj_kind kind, uint64_t key, const struct gs_obj *obj)
{
    int i = slot_of(kind, key);

    if (fake.track_full)
        return -ENOMEM;
    if (i < 0)
        i = slot_of(0, 0);
    assert_true(i >= 0);
    table[i].kind = kind;
    table[i].key = key;
    table[i].obj = *obj;
    return 0;
}

bool gs_track_get(enum gs_obj_kind kind, uint64_t key, struct gs_obj *ret_obj)
{
    int i = slot_of(kind, key);

    if (i < 0)
        return false;
    *ret_obj = table[i].obj;
    return true;
}

bool gs_track_take(enum gs_obj_kind kind, uint64_t key, struct gs_obj *ret_obj)
{
    int i = slot_of(kind, key);

    if (i < 0)
        return false;
    *ret_obj = table[i].obj;
    memset(&table[i], 0, sizeof(table[i]));
    return true;
}

int gs_track_update(enum gs_obj_kind kind, uint64_t key, int (*fn)(struct gs_obj *, void *),
                    void *arg)
{
    int i = slot_of(kind, key);
    int rc;

    if (i < 0)
        return -ENOENT;
    rc = fn(&table[i].obj, arg);
    if (rc == GS_TRACK_REMOVE)
        memset(&table[i], 0, sizeof(table[i]));
    return rc;
}

void gs_track_each(enum gs_obj_kind kind, void (*fn)(uint64_t, const struct gs_obj *, void *),
                   void *arg)
{
    for (int i = 0; i < 8192; i++) {
        if (table[i].kind == kind)
            fn(table[i].key, &table[i].obj, arg);
    }
}

/* ---- card ---- */

static struct context {
    int live;
    int device; /* card */
    int ordinal;
    uint64_t overhead;
} contexts[FAKE_CONTEXTS];
static int current = -1;

static struct memory {
    uint64_t ptr;
    uint64_t bytes; /* 0: free entry */
    uint64_t block; /* address of its block; 0 none */
    int context;
    int device;
    int managed; /* not on the card */
} memories[4096];
static uint64_t next_granule;

CUcontext fake_context(int index)
{
    return (CUcontext)(uintptr_t)(0x1000 + (uintptr_t)index * 16);
}

static int index_of(CUcontext context)
{
    return (int)(((uintptr_t)context - 0x1000) / 16);
}

void fake_make_current(CUcontext context)
{
    current = context == NULL ? -1 : index_of(context);
}

static int fails(void)
{
    return ++fake.calls == fake.fail_at;
}

static int take(int device, uint64_t bytes)
{
    struct fake_device *d = &fake.device[device];

    if (bytes > d->physical - d->taken)
        return 0;
    d->taken += bytes;
    if (d->taken > d->peak)
        d->peak = d->taken;
    return 1;
}

static uint64_t fresh(uint64_t granularity, uint64_t bytes)
{
    uint64_t n = (bytes + granularity - 1) / granularity;
    uint64_t ptr = next_granule * granularity;

    next_granule += n;
    return ptr;
}

static int block_pieces(uint64_t block)
{
    int n = 0;

    for (int i = 0; i < 4096; i++)
        n += memories[i].bytes != 0 && memories[i].block == block;
    return n;
}

/* Lowest offset in `block` where `bytes` fit; UINT64_MAX none. */
static uint64_t place_in(uint64_t block, uint64_t granularity, uint64_t bytes)
{
    for (uint64_t at = 0; at + bytes <= granularity; at += 512) {
        int clash = 0;

        for (int i = 0; i < 4096 && !clash; i++) {
            const struct memory *m = &memories[i];

            clash = m->bytes != 0 && m->block == block && m->ptr < block + at + bytes &&
                    block + at < m->ptr + m->bytes;
        }
        if (!clash)
            return at;
    }
    return UINT64_MAX;
}

static CUresult place(struct memory *memory, uint64_t bytes)
{
    struct fake_device *d = &fake.device[contexts[current].device];
    uint64_t g = d->granularity;

    memory->context = current;
    memory->device = contexts[current].device;
    memory->block = 0;
    if (bytes > g / 2) {
        if (!take(memory->device, (bytes + g - 1) / g * g))
            return CUDA_ERROR_OUT_OF_MEMORY;
        memory->ptr = fresh(g, bytes);
    } else {
        uint64_t at = UINT64_MAX;

        for (int i = 0; i < 4096 && at == UINT64_MAX && !fake.worst_placement; i++) {
            if (memories[i].bytes == 0 || memories[i].block == 0 || memories[i].context != current)
                continue;
            at = place_in(memories[i].block, g, bytes);
            memory->block = memories[i].block;
        }
        if (at == UINT64_MAX) {
            if (!take(memory->device, g))
                return CUDA_ERROR_OUT_OF_MEMORY;
            memory->block = fresh(g, g);
            at = 0;
        }
        memory->ptr = memory->block + at;
    }
    memory->bytes = bytes;
    return CUDA_SUCCESS;
}

CUresult fake_mem_alloc(CUdeviceptr *dptr, size_t bytes)
{
    CUresult result;

    if (current < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (dptr == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    for (int i = 0; i < 4096; i++) {
        if (memories[i].bytes != 0)
            continue;
        result = place(&memories[i], bytes);
        if (result == CUDA_SUCCESS)
            *dptr = memories[i].ptr;
        return result;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc_managed(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
    assert_int_equal(flags, 1);
    if (fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < 4096; i++) {
        if (memories[i].bytes != 0)
            continue;
        memories[i] = (struct memory){.ptr = fresh(2u << 20, bytes),
                                      .bytes = bytes,
                                      .context = current,
                                      .device = contexts[current].device,
                                      .managed = 1};
        *dptr = memories[i].ptr;
        fake.managed_calls++;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult advise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice device)
{
    assert_int_not_equal(ptr, 0);
    assert_int_not_equal(bytes, 0);
    assert_int_equal(device, 0);
    fake.advice |= 1u << advice;
    return CUDA_SUCCESS;
}

CUresult fake_mem_alloc_pitch(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                              unsigned int element)
{
    size_t row = (width + 511) / 512 * 512;
    CUresult result;

    (void)element;
    if (pitch == NULL || width == 0 || height == 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = fake_mem_alloc(dptr, row * height);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return result;
}

static void drop(struct memory *memory)
{
    struct fake_device *d = &fake.device[memory->device];
    uint64_t block = memory->block;
    uint64_t bytes = memory->bytes;
    int managed = memory->managed;

    memset(memory, 0, sizeof(*memory));
    if (managed)
        return; /* nobody touched it, so that the card gave nothing */
    if (block == 0)
        d->taken -= (bytes + d->granularity - 1) / d->granularity * d->granularity;
    else if (block_pieces(block) == 0)
        d->taken -= d->granularity;
}

CUresult fake_mem_free(CUdeviceptr dptr)
{
    fake.frees++;
    if (dptr == 0)
        return CUDA_SUCCESS;
    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    for (int i = 0; i < 4096; i++) {
        if (memories[i].bytes != 0 && memories[i].ptr == dptr) {
            drop(&memories[i]);
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- contexts ---- */

static CUresult make_context(int index, CUdevice dev, CUcontext *pctx)
{
    int card = fake.visible[dev];

    if (!take(card, fake.device[card].overhead))
        return CUDA_ERROR_OUT_OF_MEMORY;
    contexts[index] = (struct context){1, card, dev, fake.device[card].overhead};
    *pctx = fake_context(index);
    return CUDA_SUCCESS;
}

static void end_context(int index)
{
    for (int i = 0; i < 4096; i++) {
        if (memories[i].bytes != 0 && memories[i].context == index)
            drop(&memories[i]);
    }
    fake.device[contexts[index].device].taken -= contexts[index].overhead;
    contexts[index].live = 0;
}

/* Contexts 0..3 are the primary ones. */
CUresult fake_ctx_create(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    (void)flags;
    if (pctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (dev < 0 || dev >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    for (int i = FAKE_DEVICES; i < FAKE_CONTEXTS; i++) {
        CUresult result;

        if (contexts[i].live)
            continue;
        result = make_context(i, dev, pctx);
        if (result == CUDA_SUCCESS)
            current = i;
        return result;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult fake_ctx_destroy(CUcontext ctx)
{
    int i = index_of(ctx);

    if (ctx == NULL || i < FAKE_DEVICES || i >= FAKE_CONTEXTS || !contexts[i].live)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    end_context(i);
    if (current == i)
        current = -1;
    return CUDA_SUCCESS;
}

CUresult fake_primary_retain(CUcontext *pctx, CUdevice dev)
{
    struct fake_device *d = &fake.device[fake.visible[dev]];

    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    *pctx = fake_context(dev);
    if (d->primary_refs == 0 && make_context(dev, dev, pctx) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    d->primary_refs++;
    return CUDA_SUCCESS;
}

CUresult fake_primary_release(CUdevice dev)
{
    struct fake_device *d = &fake.device[fake.visible[dev]];

    if (d->primary_refs == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    if (--d->primary_refs == 0)
        end_context(dev);
    return CUDA_SUCCESS;
}

CUresult fake_primary_reset(CUdevice dev)
{
    struct fake_device *d = &fake.device[fake.visible[dev]];

    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    if (d->primary_refs != 0)
        end_context(dev);
    d->primary_refs = 0;
    return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice dev, unsigned int *flags, int *active)
{
    *flags = 0;
    *active = fake.device[fake.visible[dev]].primary_refs != 0;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *pctx)
{
    *pctx = current < 0 ? NULL : fake_context(current);
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    if (current < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = contexts[current].ordinal;
    return CUDA_SUCCESS;
}

CUresult fake_ctx_set_limit(CUlimit limit, size_t value)
{
    if (fails())
        return CUDA_ERROR_LAUNCH_FAILED;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
        fake.heap_limit = (value + 4095) / 4096 * 4096;
    return CUDA_SUCCESS;
}

static CUresult get_limit(size_t *value, CUlimit limit)
{
    *value = limit == CU_LIMIT_MALLOC_HEAP_SIZE ? fake.heap_limit : 1024;
    return CUDA_SUCCESS;
}

/* ---- answers ---- */

static CUresult get_uuid(CUuuid *uuid, CUdevice dev)
{
    if (dev < 0 || dev >= fake.n_devices)
        return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid, 0, sizeof(*uuid));
    uuid->bytes[0] = (char)(0xa0 + fake.visible[dev]);
    uuid->bytes[15] = 0x0f;
    return CUDA_SUCCESS;
}

static CUresult get_granularity(size_t *granularity, const CUmemAllocationProp *prop,
                                CUmemAllocationGranularity_flags option)
{
    (void)option;
    *granularity = fake.device[fake.visible[prop->location.id]].granularity;
    return CUDA_SUCCESS;
}

CUresult fake_total_mem(size_t *ret_bytes, CUdevice dev)
{
    *ret_bytes = fake.device[fake.visible[dev]].physical;
    return CUDA_SUCCESS;
}

CUresult fake_mem_get_info(size_t *ret_free, size_t *ret_total)
{
    const struct fake_device *d;

    if (current < 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    d = &fake.device[contexts[current].device];
    if (ret_free != NULL)
        *ret_free = d->physical - d->taken;
    if (ret_total != NULL)
        *ret_total = d->physical;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUdevice_attribute attribute, CUdevice dev)
{
    (void)dev;
    *value = attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? 4 : 1024;
    if (attribute == CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
        *value = !fake.no_migration;
    return CUDA_SUCCESS;
}

int gs_engine_device(const char *uuid)
{
    const char *prefix = fake.mig ? "MIG-" : "GPU-";
    unsigned long first;
    int index;

    if (strncmp(uuid, prefix, 4) != 0)
        return -ENODEV;
    assert_int_equal(strlen(uuid), 40);
    assert_string_equal(uuid + 6, "000000-0000-0000-0000-00000000000f");
    first = strtoul((char[]){uuid[4], uuid[5], '\0'}, NULL, 16);
    index = fake.granted[first - 0xa0];
    return index < 0 ? -ENODEV : index;
}

/* ---- arrays and code: the test says what they take ---- */

CUresult fake_array_create(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    CUdeviceptr ptr;
    CUresult result;

    if (array == NULL || desc == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    /* whole granules, one channel of 8 bits */
    result =
        fake_mem_alloc(&ptr, (desc->Width * desc->Height + (2u << 20) - 1) & ~(size_t)0x1fffff);
    if (result == CUDA_SUCCESS)
        *array = (CUarray)(uintptr_t)ptr;
    return result;
}

CUresult fake_array_destroy(CUarray array)
{
    return fake_mem_free((uintptr_t)array);
}

CUresult fake_module_load(CUmodule *module, const void *image)
{
    CUdeviceptr ptr = 0x77;
    CUresult result = CUDA_SUCCESS;

    if (module == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake.module_bytes != 0)
        result = fake_mem_alloc(&ptr, fake.module_bytes);
    if (result == CUDA_SUCCESS)
        *module = (CUmodule)(uintptr_t)ptr;
    return result;
}

CUresult fake_module_unload(CUmodule module)
{
    return (uintptr_t)module == 0x77 ? CUDA_SUCCESS : fake_mem_free((uintptr_t)module);
}

/* ---- NVML ---- */

static nvmlReturn_t nvml_ok(void)
{
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_by_uuid(const char *uuid, nvmlDevice_t *device)
{
    unsigned long first = strtoul((char[]){uuid[4], uuid[5], '\0'}, NULL, 16);

    *device = (nvmlDevice_t)(uintptr_t)(first - 0xa0 + 1);
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_memory(nvmlDevice_t device, nvmlMemory_t *memory)
{
    const struct fake_device *d = &fake.device[(uintptr_t)device - 1];

    *memory = (nvmlMemory_t){d->physical, d->physical - d->taken, d->taken};
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_processes(nvmlDevice_t device, unsigned int *count,
                                   nvmlProcessInfo_t *list)
{
    const struct fake_device *d = &fake.device[(uintptr_t)device - 1];

    assert_true(*count >= 2);
    list[0] = (nvmlProcessInfo_t){1, 5 << 20, 0, 0};
    list[1] = (nvmlProcessInfo_t){(unsigned int)getpid(), d->taken, 0, 0};
    *count = fake.nvml_knows_pid ? 2 : 1;
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_count(unsigned int *count)
{
    *count = (unsigned int)fake.n_devices;
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_by_index(unsigned int index, nvmlDevice_t *device)
{
    *device = (nvmlDevice_t)(uintptr_t)(index + 1);
    return NVML_SUCCESS;
}

static nvmlReturn_t nvml_uuid(nvmlDevice_t device, char *uuid, unsigned int length)
{
    static const char text[] = "GPU-a0000000-0000-0000-0000-00000000000f";

    if (length < sizeof(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(uuid, text, sizeof(text));
    uuid[5] = (char)('0' + (int)(uintptr_t)device - 1);
    return NVML_SUCCESS;
}

/* ---- look-up ---- */

#define ADDRESS(fn) ((void *)(uintptr_t)(fn))

void *gs_engine_symbol(uint32_t lib, const char *name)
{
    const struct {
        const char *name;
        void *fn;
    } functions[] = {
        {"cuArrayDestroy", ADDRESS(fake_array_destroy)},
        {"cuCtxDestroy_v2", ADDRESS(fake_ctx_destroy)},
        {"cuCtxGetCurrent", ADDRESS(get_current)},
        {"cuCtxGetDevice", ADDRESS(get_device)},
        {"cuCtxGetLimit", ADDRESS(get_limit)},
        {"cuDeviceGetAttribute", ADDRESS(get_attribute)},
        {"cuDeviceGetUuid", ADDRESS(get_uuid)},
        {"cuDeviceGetUuid_v2", ADDRESS(get_uuid)},
        {"cuDevicePrimaryCtxGetState", ADDRESS(primary_state)},
        {"cuDevicePrimaryCtxRelease_v2", ADDRESS(fake_primary_release)},
        {"cuDeviceTotalMem_v2", ADDRESS(fake_total_mem)},
        {"cuInit", ADDRESS(nvml_ok)},
        {"cuMemAdvise", ADDRESS(advise)},
        {"cuMemAllocManaged", ADDRESS(alloc_managed)},
        {"cuMemFree_v2", ADDRESS(fake_mem_free)},
        {"cuMemGetAllocationGranularity", ADDRESS(get_granularity)},
        {"cuMemGetInfo_v2", ADDRESS(fake_mem_get_info)},
        {"cuModuleUnload", ADDRESS(fake_module_unload)},
        {"nvmlDeviceGetComputeRunningProcesses_v3", ADDRESS(nvml_processes)},
        {"nvmlDeviceGetCount_v2", ADDRESS(nvml_count)},
        {"nvmlDeviceGetHandleByIndex_v2", ADDRESS(nvml_by_index)},
        {"nvmlDeviceGetHandleByUUID", ADDRESS(nvml_by_uuid)},
        {"nvmlDeviceGetMemoryInfo", ADDRESS(nvml_memory)},
        {"nvmlDeviceGetUUID", ADDRESS(nvml_uuid)},
        {"nvmlInit_v2", ADDRESS(nvml_ok)},
        {"nvmlShutdown", ADDRESS(nvml_ok)},
    };

    if (lib == GS_DRIVER_LIB_NVML && fake.no_nvml)
        return NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++) {
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].fn;
    }
    return NULL;
}

int gs_engine_load(uint32_t lib)
{
    (void)lib;
    return -ENOENT;
}

void *gs_engine_translate(void *real)
{
    return real;
}

/* ---- set-up ---- */

int fake_setup(void **state)
{
    CUcontext context;

    (void)state;
    memset(&fake, 0, sizeof(fake));
    memset(table, 0, sizeof(table));
    memset(contexts, 0, sizeof(contexts));
    memset(memories, 0, sizeof(memories));
    memset(&gs_driver_table, 0, sizeof(gs_driver_table));
    next_granule = 1024;
    current = -1;
    fake.n_devices = 1;
    fake.heap_limit = 8 << 20;
    fake.nvml_knows_pid = 1;
    for (int i = 0; i < FAKE_DEVICES; i++) {
        fake.visible[i] = i;
        fake.granted[i] = i;
        fake.device[i].granularity = 2 << 20;
        fake.device[i].physical = 1ull << 30;
        fake.device[i].limit = 64ull << 20;
        fake.device[i].context_bytes = 1; /* learnt: nothing */
    }
    gs_block_forget();
    gs_context_forget();
    gs_device_forget();
    if (fake_ctx_create(&context, 0, 0) != CUDA_SUCCESS)
        return -1;
    fake.calls = 0;
    return 0;
}

void fake_assert_books_match(int device)
{
    const struct fake_device *d = &fake.device[device];

    assert_int_equal(d->held + d->extra, d->taken);
    assert_true(d->peak <= d->limit);
}
