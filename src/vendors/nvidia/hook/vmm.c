#include "vendors/nvidia/hook/vmm.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "hook/share.h"
#include "hook/sys.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/pool.h"

#define ID_BIT    (1ull << 63)
#define TILE_BIT  (1ull << 63)
#define UNMATCHED 1u /* gs_obj.flags of a memory: imported, exporter not known yet */
#define EXPORTED  2u /* of a memory: a descriptor of ours was made for it */
#define BATCH     64

static uint64_t next_id = 1;
static uint32_t seen_tiles; /* something was mapped into a sparse array */

static int ref(struct gs_obj *obj, void *arg)
{
    (void)arg;
    obj->refs++;
    return 0;
}

static int ref_exported(struct gs_obj *obj, void *arg)
{
    obj->flags |= EXPORTED;
    return ref(obj, arg);
}

bool gs_vmm_ref(uint64_t id, bool exported)
{
    return gs_track_update(GS_OBJ_HANDLE, id, exported ? ref_exported : ref, NULL) == 0;
}

/* Fills *arg with what is left of it. */
static int unref(struct gs_obj *obj, void *arg)
{
    if (obj->refs > 1) {
        obj->refs--;
        *(struct gs_obj *)arg = *obj;
        return 0;
    }
    *(struct gs_obj *)arg = *obj;
    return GS_TRACK_REMOVE;
}

/* Returns the memory's flags; 0 it is gone. */
static uint32_t drop_one(uint64_t id)
{
    struct gs_obj obj;
    int rc = gs_track_update(GS_OBJ_HANDLE, id, unref, &obj);

    if (rc != GS_TRACK_REMOVE)
        return rc == 0 ? obj.flags : 0;
    if (obj.share >= 0)
        gs_share_leave(obj.share);
    else if (obj.bytes != 0)
        gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_HELD);
    return 0;
}

void gs_vmm_unref(uint64_t id)
{
    (void)drop_one(id); /* descriptors are being looked at already */
}

/* One handle or mapping of the memory less. */
static void drop_memory(uint64_t id)
{
    if ((drop_one(id) & EXPORTED) != 0)
        gs_vmm_look_at_exports();
}

/* Track new memory and its first handle. */
static int note_memory(CUmemGenericAllocationHandle handle, const struct gs_obj *memory)
{
    uint64_t id = ID_BIT | __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    struct gs_obj obj = {.aux = id, .dev = memory->dev, .share = -1, .refs = 1};

    if (gs_track_put(GS_OBJ_HANDLE, id, memory) != 0)
        return -ENOMEM;
    if (gs_track_put(GS_OBJ_HANDLE, handle, &obj) == 0)
        return 0;
    (void)gs_track_take(GS_OBJ_HANDLE, id, &obj); /* put three lines up */
    return -ENOMEM;
}

/* The card that a property list names; NULL for memory that is on none. */
static const struct gs_device *prop_device(const CUmemAllocationProp *prop)
{
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return gs_device_by_ordinal(prop->location.id);
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN)
        return gs_device_by_ordinal(prop->location.localized.deviceId);
    return NULL;
}

CUresult gs_nv_mem_create(gs_fn_cuMemCreate *real, CUmemGenericAllocationHandle *handle,
                          size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
    const struct gs_driver *driver = gs_driver_cuda();
    const struct gs_device *device = prop == NULL ? NULL : prop_device(prop);
    struct gs_obj memory = {.share = -1, .refs = 1};
    CUresult result;
    int rc;

    if (device == NULL || handle == NULL || size == 0)
        return real(handle, size, prop, flags);
    memory.bytes = gs_device_round(device, size);
    memory.dev = device->ledger;
    rc = gs_pool_reserve(memory.dev, memory.bytes, GS_CHARGE_HELD, "cuMemCreate");
    if (rc != 0)
        return gs_device_result(rc);
    result = real(handle, size, prop, flags);
    if (result == CUDA_SUCCESS && note_memory(*handle, &memory) == 0)
        return result;
    gs_gate_release(memory.dev, memory.bytes, GS_CHARGE_HELD);
    if (result != CUDA_SUCCESS)
        return gs_device_refused(result, memory.dev, size, "cuMemCreate");
    if (driver->cuMemRelease != NULL)
        (void)driver->cuMemRelease(*handle); /* out of memory either way */
    *handle = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gs_nv_mem_release(gs_fn_cuMemRelease *real, CUmemGenericAllocationHandle handle)
{
    struct gs_obj obj = {0}, seen;
    CUresult result;
    int rc;

    if (!gs_track_get(GS_OBJ_HANDLE, handle, &seen) || (handle & ID_BIT) != 0)
        return real(handle);
    /* Forgotten before the call: within it the driver may give the number to another thread. */
    rc = gs_track_update(GS_OBJ_HANDLE, handle, unref, &obj);
    result = real(handle);
    if (result == CUDA_SUCCESS) {
        if (rc == GS_TRACK_REMOVE)
            drop_memory(obj.aux);
        return result;
    }
    if (rc == GS_TRACK_REMOVE && gs_track_put(GS_OBJ_HANDLE, handle, &obj) != 0)
        drop_memory(obj.aux); /* can no longer be followed */
    else if (rc == 0)
        (void)gs_track_update(GS_OBJ_HANDLE, handle, ref,
                              NULL); /* gone: released by another thread */
    return result;
}

struct find {
    uint64_t addr;
    uint64_t id;
};

static void find_mapping(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct find *f = arg;

    if ((key & TILE_BIT) == 0 && f->addr >= key && f->addr - key < obj->bytes)
        f->id = obj->aux;
}

CUresult gs_nv_mem_retain_handle(gs_fn_cuMemRetainAllocationHandle *real,
                                 CUmemGenericAllocationHandle *handle, void *addr)
{
    struct find f = {.addr = (uint64_t)(uintptr_t)addr};
    CUresult result = real(handle, addr);
    struct gs_obj obj;

    if (result != CUDA_SUCCESS || handle == NULL ||
        gs_track_update(GS_OBJ_HANDLE, *handle, ref, NULL) == 0)
        return result;
    /* All handles were released; only a mapping keeps the memory. */
    gs_track_each(GS_OBJ_MAPPING, find_mapping, &f);
    if (f.id == 0 || gs_track_update(GS_OBJ_HANDLE, f.id, ref, NULL) != 0)
        return result; /* not ours */
    obj = (struct gs_obj){.aux = f.id, .share = -1, .refs = 1};
    if (gs_track_put(GS_OBJ_HANDLE, *handle, &obj) != 0)
        drop_memory(f.id); /* the mapping still carries the charge */
    return result;
}

static int set_match(struct gs_obj *obj, void *arg)
{
    const struct gs_obj *match = arg;

    if ((obj->flags & UNMATCHED) == 0)
        return -EEXIST; /* another thread was first */
    *obj = (struct gs_obj){.dev = match->dev,
                           .share = match->share,
                           .refs = obj->refs,
                           .flags = obj->flags & EXPORTED};
    return 0;
}

/* An import whose exporter its descriptor did not tell: now its size is known. */
static void match_import(uint64_t id, uint64_t bytes)
{
    struct gs_obj memory;

    if (!gs_track_get(GS_OBJ_HANDLE, id, &memory) || (memory.flags & UNMATCHED) == 0)
        return;
    memory.share = gs_vmm_match(bytes, &memory.dev);
    if (memory.share >= 0 && gs_track_update(GS_OBJ_HANDLE, id, set_match, &memory) != 0)
        gs_share_leave(memory.share);
}

CUresult gs_nv_mem_map(gs_fn_cuMemMap *real, CUdeviceptr ptr, size_t size, size_t offset,
                       CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct gs_obj obj, mapping;
    CUresult result;

    if ((handle & ID_BIT) != 0 || !gs_track_get(GS_OBJ_HANDLE, handle, &obj) ||
        gs_track_update(GS_OBJ_HANDLE, obj.aux, ref, NULL) != 0)
        return real(ptr, size, offset, handle, flags);
    result = real(ptr, size, offset, handle, flags);
    mapping =
        (struct gs_obj){.bytes = size, .aux = obj.aux, .dev = obj.dev, .share = -1, .refs = 1};
    if (result == CUDA_SUCCESS)
        match_import(obj.aux, size);
    if (result != CUDA_SUCCESS)
        drop_memory(obj.aux);
    else if (gs_track_put(GS_OBJ_MAPPING, ptr, &mapping) != 0) {
        const struct gs_driver *driver = gs_driver_cuda();

        if (driver->cuMemUnmap != NULL && driver->cuMemUnmap(ptr, size) == CUDA_SUCCESS)
            drop_memory(obj.aux);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

struct range {
    uint64_t begin;
    uint64_t end;
    uint32_t n;
    uint64_t key[BATCH];
};

static void in_range(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct range *r = arg;

    (void)obj;
    if ((key & TILE_BIT) == 0 && key >= r->begin && key < r->end && r->n < BATCH)
        r->key[r->n++] = key;
}

static void drop_mapping(uint64_t key)
{
    struct gs_obj obj;

    if (gs_track_take(GS_OBJ_MAPPING, key, &obj))
        drop_memory(obj.aux);
}

CUresult gs_nv_mem_unmap(gs_fn_cuMemUnmap *real, CUdeviceptr ptr, size_t size)
{
    CUresult result = real(ptr, size);
    struct range r = {.begin = ptr, .end = ptr + size};
    struct gs_obj obj;

    if (result != CUDA_SUCCESS || r.end < ptr)
        return result;
    /* Mappings usually follow each other without a gap. The program owns the addresses until this
     * returns, so nobody maps here meanwhile. */
    while (r.begin < r.end && gs_track_take(GS_OBJ_MAPPING, r.begin, &obj)) {
        drop_memory(obj.aux);
        r.begin += obj.bytes == 0 ? 1 : obj.bytes;
    }
    if (r.begin >= r.end)
        return result;
    do { /* a mapping that we do not know lies between */
        r.n = 0;
        gs_track_each(GS_OBJ_MAPPING, in_range, &r);
        for (uint32_t i = 0; i < r.n; i++)
            drop_mapping(r.key[i]);
    } while (r.n == BATCH);
    return result;
}

/* Identity of what a shareable handle stands for, the same in exporter and importer. A file is told
 * by its inode. All exports of a real driver are of one device node: an exporter's `serial` tells
 * those apart in the ledger, and importers find theirs by size (gs_vmm_match). */
static bool share_key(const void *handle, int fd, CUmemAllocationHandleType type, uint64_t serial,
                      struct gs_share_key *ret_key)
{
    struct stat st;
    uint64_t id[3];

    if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
        *ret_key = gs_share_key_of(handle, 64); /* CUmemFabricHandle, CUDA 12.3: 64 bytes */
        return true;
    }
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || gs_sys_fstat(fd, &st) != 0)
        return false;
    if (S_ISCHR(st.st_mode) && serial == 0)
        return false;
    id[0] = st.st_dev;
    id[1] = st.st_ino;
    id[2] = S_ISCHR(st.st_mode) ? serial : 0;
    *ret_key = gs_share_key_of(id, sizeof(id));
    ret_key->w[1] = GS_VMM_SHARE_TAG;
    return true;
}

static int set_share(struct gs_obj *obj, void *arg)
{
    obj->share = *(const int *)arg;
    return 0;
}

CUresult gs_nv_mem_export(gs_fn_cuMemExportToShareableHandle *real, void *shareableHandle,
                          CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
                          unsigned long long flags)
{
    CUresult result = real(shareableHandle, handle, handleType, flags);
    struct gs_share_key key;
    struct gs_obj obj, memory;
    int fd = -1, id;

    if (result != CUDA_SUCCESS || shareableHandle == NULL || (handle & ID_BIT) != 0 ||
        !gs_track_get(GS_OBJ_HANDLE, handle, &obj))
        return result;
    if (handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        memcpy(&fd, shareableHandle, sizeof(fd));
        gs_vmm_note_export(fd, obj.aux);
    }
    if (!gs_track_get(GS_OBJ_HANDLE, obj.aux, &memory) || memory.share >= 0 || memory.bytes == 0)
        return result;
    /* Unique in the slice as long as the slot is ours, and the share goes with the last holder. */
    if (!share_key(shareableHandle, fd, handleType, gs_vmm_serial(obj.aux), &key))
        return result;
    id = gs_share_publish(memory.dev, memory.bytes, key);
    /* Freed meanwhile is a race of the program with itself; then nobody holds the share either. */
    if (id >= 0 && gs_track_update(GS_OBJ_HANDLE, obj.aux, set_share, &id) != 0)
        gs_share_leave(id);
    return result;
}

CUresult gs_nv_mem_import(gs_fn_cuMemImportFromShareableHandle *real,
                          CUmemGenericAllocationHandle *handle, void *osHandle,
                          CUmemAllocationHandleType shHandleType)
{
    struct gs_obj memory = {.dev = GS_DEVICE_NONE, .share = -1, .refs = 1};
    struct gs_share_key key = {{0, 0}};
    bool keyed = osHandle != NULL || shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUresult result;

    keyed = keyed && share_key(osHandle, (int)(uintptr_t)osHandle, shHandleType, 0, &key);
    if (keyed) /* before the call: the exporter may die within it */
        memory.share = gs_share_join(key);
    memory.flags = memory.share < 0 ? UNMATCHED : 0;
    result = real(handle, osHandle, shHandleType);
    /* The same memory may come in twice, or be our own: the driver then hands out the number it
     * has. If it cannot be followed, the exporter keeps the charge. */
    if ((result != CUDA_SUCCESS || handle == NULL ||
         gs_track_update(GS_OBJ_HANDLE, *handle, ref, NULL) == 0 ||
         note_memory(*handle, &memory) != 0) &&
        memory.share >= 0)
        gs_share_leave(memory.share);
    return result;
}

/* Name of a tile: where it is, whatever memory lies behind it. */
static uint64_t tile_key(const CUarrayMapInfo *info)
{
    uint64_t words[12] = {info->resourceType, (uint64_t)(uintptr_t)info->resource.array,
                          info->subresourceType};
    struct gs_share_key hash;

    if (info->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
        words[3] = info->subresource.miptail.layer;
        words[4] = info->subresource.miptail.offset;
    } else {
        words[3] = info->subresource.sparseLevel.level;
        words[4] = info->subresource.sparseLevel.layer;
        words[5] = info->subresource.sparseLevel.offsetX;
        words[6] = info->subresource.sparseLevel.offsetY;
        words[7] = info->subresource.sparseLevel.offsetZ;
    }
    hash = gs_share_key_of(words, sizeof(words));
    return hash.w[0] | TILE_BIT;
}

static void map_tile(const CUarrayMapInfo *info)
{
    CUmemGenericAllocationHandle handle = info->memHandle.memHandle;
    uint64_t key = tile_key(info);
    struct gs_obj obj, tile;

    drop_mapping(key); /* a tile may be mapped over another */
    if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP || (handle & ID_BIT) != 0 ||
        !gs_track_get(GS_OBJ_HANDLE, handle, &obj) ||
        gs_track_update(GS_OBJ_HANDLE, obj.aux, ref, NULL) != 0)
        return;
    tile = (struct gs_obj){.bytes = (uint64_t)(uintptr_t)info->resource.array,
                           .aux = obj.aux,
                           .dev = obj.dev,
                           .share = -1,
                           .refs = 1};
    __atomic_store_n(&seen_tiles, 1, __ATOMIC_RELAXED);
    if (gs_track_put(GS_OBJ_MAPPING, key, &tile) != 0)
        drop_memory(obj.aux); /* not followed: charged until the handle goes */
}

CUresult gs_nv_mem_map_array(gs_fn_cuMemMapArrayAsync *real, CUarrayMapInfo *mapInfoList,
                             unsigned int count, CUstream hStream)
{
    CUresult result = real(mapInfoList, count, hStream);

    if (result != CUDA_SUCCESS || mapInfoList == NULL)
        return result;
    for (unsigned int i = 0; i < count; i++)
        map_tile(&mapInfoList[i]);
    return result;
}

struct tiles {
    uint64_t array;
    uint32_t n;
    uint64_t key[BATCH];
};

static void of_array(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct tiles *t = arg;

    if ((key & TILE_BIT) != 0 && obj->bytes == t->array && t->n < BATCH)
        t->key[t->n++] = key;
}

void gs_vmm_array_gone(uint64_t array)
{
    struct tiles t = {.array = array};

    if (GS_LIKELY(__atomic_load_n(&seen_tiles, __ATOMIC_RELAXED) == 0))
        return;
    do {
        t.n = 0;
        gs_track_each(GS_OBJ_MAPPING, of_array, &t);
        for (uint32_t i = 0; i < t.n; i++)
            drop_mapping(t.key[i]);
    } while (t.n == BATCH);
}
