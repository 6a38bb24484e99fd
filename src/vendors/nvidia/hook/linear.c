#include "vendors/nvidia/hook/linear.h"

#include <errno.h>
#include <stddef.h>

#include "hook/gate.h"
#include "hook/ring.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/block.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/context.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/oversub.h"
#include "vendors/nvidia/hook/pool.h"

/* Pitches are multiples of this on every card so far. */
#define PITCH_ALIGNMENT 512u

/* Allocators whose pieces never share a block. */
enum { FAMILY_PLAIN, FAMILY_MANAGED };

/* One call of the driver's function, whatever its row. */
struct request {
    const char *what;
    /* Calls the driver. On success stores the pointer and the bytes the driver had to find. */
    CUresult (*call)(const struct request *request, uint64_t *ret_ptr, uint64_t *ret_bytes);
    const void *args;
    /* Hand the program memory that we got in place of the driver's: `most` bytes at `ptr`. NULL:
     * nothing else will do. */
    void (*give)(const struct request *request, CUdeviceptr ptr);
    uint64_t least; /* bytes, no driver can do with less */
    uint64_t most;  /* bytes, reserved before the call */
    uint32_t family;
};

/* The answer of a body that undid the driver's success. */
static CUresult undo(uint64_t ptr)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    /* If this fails the card has lost memory we answer "out of memory" about; there is no better.
     */
    if (cuda->cuMemFree_v2 != NULL)
        (void)cuda->cuMemFree_v2(ptr);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool is_piece(const struct gs_device *device, uint64_t bytes)
{
    return bytes <= device->granularity / 2;
}

static struct gs_block_owner owner_of(const struct gs_device_here *here, uint32_t family)
{
    return (struct gs_block_owner){
        .granularity = here->device->granularity,
        .serial = here->serial,
        .dev = here->device->ledger,
        .family = family,
    };
}

/* Units fit 32 bits: a piece is at most half a granule, and a granule is less than 4 TiB. */
static uint32_t units_of(uint64_t bytes)
{
    return (uint32_t)((bytes + GS_BLOCK_UNIT - 1) / GS_BLOCK_UNIT);
}

/* Bring a reservation of `reserved` bytes to `actual`. */
static int settle(uint32_t dev, uint64_t reserved, uint64_t actual, const char *what)
{
    if (actual > reserved)
        return gs_pool_reserve(dev, actual - reserved, GS_CHARGE_HELD, what);
    if (actual < reserved)
        gs_gate_release(dev, reserved - actual, GS_CHARGE_HELD);
    return 0;
}

/* Bytes of a managed entry that count as such: of a piece its own, not its block's. */
static uint64_t managed_bytes(const struct gs_obj *obj)
{
    return (obj->flags & GS_LINEAR_PIECE) != 0 ? (uint64_t)obj->refs * GS_BLOCK_UNIT : obj->bytes;
}

/* The card got the memory back: so do the books. */
static void return_charge(uint64_t ptr, const struct gs_obj *obj, uint64_t granularity)
{
    struct gs_block_gone gone;

    if (GS_UNLIKELY((obj->flags & GS_LINEAR_MANAGED) != 0))
        gs_gate_managed(obj->dev, -(int64_t)managed_bytes(obj));
    if ((obj->flags & GS_LINEAR_PIECE) == 0) {
        if (obj->share >= 0)
            gs_share_leave(obj->share);
        else
            gs_gate_release(obj->dev, obj->bytes, GS_CHARGE_HELD);
        return;
    }
    if (obj->share >= 0)
        gs_share_leave(obj->share); /* its own name of the block's share */
    gone = gs_block_remove(obj->dev, granularity, ptr, (uint64_t)obj->refs * GS_BLOCK_UNIT);
    if (!gone.block)
        return;
    if (gone.share >= 0)
        gs_share_leave(gone.share);
    else
        gs_gate_release(obj->dev, granularity, GS_CHARGE_HELD);
}

/* Book what the driver gave. On failure nothing stays booked and the pointer is freed. */
static CUresult commit(const struct request *request, const struct gs_device_here *here,
                       uint64_t ptr, uint64_t bytes, uint64_t reserved)
{
    uint32_t dev = here->device->ledger;
    struct gs_obj obj = {.aux = here->serial, .dev = dev, .share = -1, .refs = 1};
    struct gs_block_owner owner = owner_of(here, request->family);
    uint64_t charge = gs_device_round(here->device, bytes);
    CUresult result;

    if (is_piece(here->device, bytes)) {
        int added = gs_block_add(&owner, ptr, bytes);

        if (added < 0) {
            gs_ring_log(GS_REASON_TRACK_FULL, dev, request->what, NULL);
            result = undo(ptr);
            gs_gate_release(dev, reserved, GS_CHARGE_HELD);
            return result;
        }
        charge = added == 1 ? owner.granularity : 0;
        obj.flags = GS_LINEAR_PIECE;
        obj.refs = units_of(bytes);
    } else {
        obj.bytes = charge;
    }
    if (request->family == FAMILY_MANAGED && gs_gate_is_oversubscribed())
        obj.flags |= GS_LINEAR_MANAGED;
    if (settle(dev, reserved, charge, request->what) != 0) {
        result = undo(ptr);
        if ((obj.flags & GS_LINEAR_PIECE) != 0)
            (void)gs_block_remove(dev, owner.granularity, ptr, bytes); /* was never charged */
        gs_gate_release(dev, reserved, GS_CHARGE_HELD);
        return result;
    }
    if (GS_UNLIKELY((obj.flags & GS_LINEAR_MANAGED) != 0))
        gs_gate_managed(dev, (int64_t)managed_bytes(&obj));
    if (gs_track_put(GS_OBJ_LINEAR, ptr, &obj) != 0) {
        gs_ring_log(GS_REASON_TRACK_FULL, dev, request->what, NULL);
        result = undo(ptr);
        return_charge(ptr, &obj, owner.granularity);
        return result;
    }
    return CUDA_SUCCESS;
}

/* The card is full, the slice's `reserved` bytes are booked: managed memory, where the quota says
 * so. */
static CUresult serve_managed(const struct request *request, const struct gs_device_here *here,
                              uint64_t reserved)
{
    struct request managed = *request;
    CUdeviceptr ptr = 0;
    CUresult result = gs_oversub_allocate(here, request->most, request->what, &ptr);

    if (result != CUDA_SUCCESS) {
        gs_gate_release(here->device->ledger, reserved, GS_CHARGE_HELD);
        return gs_device_refused(result, here->device->ledger, request->most, request->what);
    }
    managed.family = FAMILY_MANAGED;
    result = commit(&managed, here, ptr, request->most, reserved);
    if (result == CUDA_SUCCESS)
        request->give(request, ptr);
    return result;
}

/* `reserved` bytes are booked: call, commit. */
static CUresult call_reserved(const struct request *request, const struct gs_device_here *here,
                              uint64_t reserved)
{
    uint64_t ptr = 0;
    uint64_t bytes = 0;
    CUresult result = request->call(request, &ptr, &bytes);

    if (GS_UNLIKELY(result == CUDA_ERROR_OUT_OF_MEMORY && request->give != NULL))
        return serve_managed(request, here, reserved);
    if (result != CUDA_SUCCESS) {
        gs_gate_release(here->device->ledger, reserved, GS_CHARGE_HELD);
        return gs_device_refused(result, here->device->ledger, request->most, request->what);
    }
    return commit(request, here, ptr, bytes, reserved);
}

static CUresult reserve_and_call(const struct request *request, const struct gs_device_here *here)
{
    uint64_t reserved = gs_device_round(here->device, request->most);
    int rc = gs_pool_reserve(here->device->ledger, reserved, GS_CHARGE_HELD, request->what);

    return rc != 0 ? gs_device_result(rc) : call_reserved(request, here, reserved);
}

/* No room for a fresh block, but for this piece in one we have: ask the driver without reserving.
 */
static CUresult allocate_in_hole(const struct request *request, const struct gs_device_here *here)
{
    uint32_t dev = here->device->ledger;
    struct gs_block_owner owner = owner_of(here, request->family);
    uint64_t ptr = 0;
    uint64_t bytes = 0;
    CUresult result;

    result = request->call(request, &ptr, &bytes);
    if (result != CUDA_SUCCESS)
        return gs_device_refused(result, dev, request->most, request->what);
    if (is_piece(here->device, bytes) && gs_block_share(dev, owner.granularity, ptr) != -ENOENT)
        return commit(request, here, ptr, bytes, 0);
    gs_block_mistrust(dev);
    return commit(request, here, ptr, bytes, 0); /* reserves what is new, or frees */
}

/* Side by side with others while a fresh block fits; alone and with more effort where it does not.
 */
static CUresult allocate_piece(const struct request *request, const struct gs_device_here *here)
{
    uint32_t dev = here->device->ledger;
    uint64_t reserved = gs_device_round(here->device, request->most);
    struct gs_block_owner owner = owner_of(here, request->family);
    CUresult result;

    gs_block_enter(dev);
    if (GS_LIKELY(gs_gate_try(dev, reserved, GS_CHARGE_HELD, request->what) == 0)) {
        result = call_reserved(request, here, reserved);
        gs_block_leave(dev);
        return result;
    }
    gs_block_leave(dev);

    gs_block_enter_alone(dev);
    if (request->family == FAMILY_PLAIN && gs_block_has_hole(&owner, request->most))
        result = allocate_in_hole(request, here);
    else
        result = reserve_and_call(request, here);
    gs_block_leave_alone(dev);
    return result;
}

static CUresult allocate(const struct request *request)
{
    struct gs_device_here here;
    uint64_t ptr;
    uint64_t bytes;

    /* A size of zero, or no context: the driver has an error of its own for it. */
    if (request->least == 0 || gs_device_current(&here) < 0)
        return request->call(request, &ptr, &bytes);
    if (is_piece(here.device, request->least))
        return allocate_piece(request, &here);
    return reserve_and_call(request, &here);
}

/* ---- rows ---- */

struct plain {
    CUresult (*real)(CUdeviceptr *, size_t);
    CUdeviceptr *dptr;
    size_t bytesize;
};

static CUresult call_plain(const struct request *request, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
    const struct plain *args = request->args;
    CUresult result = args->real(args->dptr, args->bytesize);

    if (result == CUDA_SUCCESS) {
        *ret_ptr = *args->dptr;
        *ret_bytes = args->bytesize;
    }
    return result;
}

static void give_plain(const struct request *request, CUdeviceptr ptr)
{
    const struct plain *args = request->args;

    *args->dptr = ptr;
}

CUresult gs_nv_mem_alloc(CUresult (*real)(CUdeviceptr *, size_t), CUdeviceptr *dptr,
                         size_t bytesize)
{
    struct plain args = {real, dptr, bytesize};

    return allocate(&(struct request){.what = "cuMemAlloc",
                                      .call = call_plain,
                                      .args = &args,
                                      .give = give_plain,
                                      .least = dptr == NULL ? 0 : bytesize,
                                      .most = bytesize,
                                      .family = FAMILY_PLAIN});
}

struct plain_v1 {
    CUresult (*real)(CUdeviceptr_v1 *, unsigned int);
    CUdeviceptr_v1 *dptr;
    unsigned int bytesize;
};

static CUresult call_plain_v1(const struct request *request, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
    const struct plain_v1 *args = request->args;
    CUresult result = args->real(args->dptr, args->bytesize);

    if (result == CUDA_SUCCESS) {
        *ret_ptr = *args->dptr;
        *ret_bytes = args->bytesize;
    }
    return result;
}

CUresult gs_nv_mem_alloc_v1(CUresult (*real)(CUdeviceptr_v1 *, unsigned int), CUdeviceptr_v1 *dptr,
                            unsigned int bytesize)
{
    struct plain_v1 args = {real, dptr, bytesize};

    /* its pointers have 32 bits, and managed memory lies anywhere */
    return allocate(&(struct request){.what = "cuMemAlloc",
                                      .call = call_plain_v1,
                                      .args = &args,
                                      .least = dptr == NULL ? 0 : bytesize,
                                      .most = bytesize,
                                      .family = FAMILY_PLAIN});
}

struct managed {
    CUresult (*real)(CUdeviceptr *, size_t, unsigned int);
    CUdeviceptr *dptr;
    size_t bytesize;
    unsigned int flags;
};

static CUresult call_managed(const struct request *request, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
    const struct managed *args = request->args;
    CUresult result = args->real(args->dptr, args->bytesize, args->flags);

    if (result == CUDA_SUCCESS) {
        *ret_ptr = *args->dptr;
        *ret_bytes = args->bytesize;
    }
    return result;
}

/* Charged in full: the driver may bring every page of it to the card. */
CUresult gs_nv_mem_alloc_managed(CUresult (*real)(CUdeviceptr *, size_t, unsigned int),
                                 CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct managed args = {real, dptr, bytesize, flags};

    return allocate(&(struct request){.what = "cuMemAllocManaged",
                                      .call = call_managed,
                                      .args = &args,
                                      .least = dptr == NULL ? 0 : bytesize,
                                      .most = bytesize,
                                      .family = FAMILY_MANAGED});
}

/* height x width with the width rounded up; UINT64_MAX when that overflows. */
static uint64_t area(uint64_t width, uint64_t height, uint64_t alignment)
{
    uint64_t pitch;
    uint64_t bytes;

    if (width > UINT64_MAX - alignment)
        return UINT64_MAX;
    pitch = (width + alignment - 1) / alignment * alignment;
    return __builtin_mul_overflow(pitch, height, &bytes) ? UINT64_MAX : bytes;
}

struct pitch {
    CUresult (*real)(CUdeviceptr *, size_t *, size_t, size_t, unsigned int);
    CUdeviceptr *dptr;
    size_t *pitch;
    size_t width;
    size_t height;
    unsigned int element;
};

static CUresult call_pitch(const struct request *request, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
    const struct pitch *args = request->args;
    CUresult result = args->real(args->dptr, args->pitch, args->width, args->height, args->element);

    if (result == CUDA_SUCCESS) {
        *ret_ptr = *args->dptr;
        *ret_bytes = area(*args->pitch, args->height, 1);
    }
    return result;
}

static void give_pitch(const struct request *request, CUdeviceptr ptr)
{
    const struct pitch *args = request->args;

    *args->dptr = ptr;
    *args->pitch = (args->width + PITCH_ALIGNMENT - 1) / PITCH_ALIGNMENT * PITCH_ALIGNMENT;
}

CUresult gs_nv_mem_alloc_pitch(CUresult (*real)(CUdeviceptr *, size_t *, size_t, size_t,
                                                unsigned int),
                               CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                               size_t Height, unsigned int ElementSizeBytes)
{
    struct pitch args = {real, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes};
    bool unusable = dptr == NULL || pPitch == NULL;

    return allocate(&(struct request){.what = "cuMemAllocPitch",
                                      .call = call_pitch,
                                      .args = &args,
                                      .give = give_pitch,
                                      .least = unusable ? 0 : area(WidthInBytes, Height, 1),
                                      .most = area(WidthInBytes, Height, PITCH_ALIGNMENT),
                                      .family = FAMILY_PLAIN});
}

struct pitch_v1 {
    CUresult (*real)(CUdeviceptr_v1 *, unsigned int *, unsigned int, unsigned int, unsigned int);
    CUdeviceptr_v1 *dptr;
    unsigned int *pitch;
    unsigned int width;
    unsigned int height;
    unsigned int element;
};

static CUresult call_pitch_v1(const struct request *request, uint64_t *ret_ptr, uint64_t *ret_bytes)
{
    const struct pitch_v1 *args = request->args;
    CUresult result = args->real(args->dptr, args->pitch, args->width, args->height, args->element);

    if (result == CUDA_SUCCESS) {
        *ret_ptr = *args->dptr;
        *ret_bytes = area(*args->pitch, args->height, 1);
    }
    return result;
}

CUresult gs_nv_mem_alloc_pitch_v1(CUresult (*real)(CUdeviceptr_v1 *, unsigned int *, unsigned int,
                                                   unsigned int, unsigned int),
                                  CUdeviceptr_v1 *dptr, unsigned int *pPitch,
                                  unsigned int WidthInBytes, unsigned int Height,
                                  unsigned int ElementSizeBytes)
{
    struct pitch_v1 args = {real, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes};
    bool unusable = dptr == NULL || pPitch == NULL;

    return allocate(&(struct request){.what = "cuMemAllocPitch",
                                      .call = call_pitch_v1,
                                      .args = &args,
                                      .least = unusable ? 0 : area(WidthInBytes, Height, 1),
                                      .most = area(WidthInBytes, Height, PITCH_ALIGNMENT),
                                      .family = FAMILY_PLAIN});
}

/* ---- free ---- */

/* The granularity under which a piece was booked: that of any card with this ledger index. */
static uint64_t granularity_of(uint32_t ledger)
{
    for (uint32_t i = 0; i < GS_DEVICE_ORDINALS; i++) {
        const struct gs_device *device = gs_device_known(i);

        if (device != NULL && device->ledger == ledger)
            return device->granularity;
    }
    return 1; /* not reached: a piece was allocated on a known card */
}

/* The entry leaves the table before the driver is asked, because the driver may give the address to
 * another thread the moment it is free. */
static bool free_tracked(CUresult (*call)(const void *args, uint64_t ptr), const void *args,
                         uint64_t ptr, CUresult *ret_result)
{
    struct gs_obj obj;
    bool piece;

    if (!gs_track_take(GS_OBJ_LINEAR, ptr, &obj))
        return false;
    piece = (obj.flags & GS_LINEAR_PIECE) != 0;
    if (piece)
        gs_block_enter(obj.dev);
    *ret_result = call(args, ptr);
    if (*ret_result == CUDA_SUCCESS)
        return_charge(ptr, &obj, piece ? granularity_of(obj.dev) : 1);
    else
        (void)!gs_track_put(GS_OBJ_LINEAR, ptr, &obj); /* else it stays charged: never too little */
    if (piece)
        gs_block_leave(obj.dev);
    return true;
}

static CUresult call_free(const void *args, uint64_t ptr)
{
    CUresult (*const *real)(CUdeviceptr) = args;

    return (*real)(ptr);
}

CUresult gs_nv_mem_free(CUresult (*real)(CUdeviceptr), CUdeviceptr dptr)
{
    CUresult result;

    if (free_tracked(call_free, &real, dptr, &result))
        return result;
    if (dptr != 0 && gs_pool_free_sync(real, dptr, &result))
        return result;
    return real(dptr);
}

static CUresult call_free_v1(const void *args, uint64_t ptr)
{
    CUresult (*const *real)(CUdeviceptr_v1) = args;

    return (*real)((CUdeviceptr_v1)ptr);
}

CUresult gs_nv_mem_free_v1(CUresult (*real)(CUdeviceptr_v1), CUdeviceptr_v1 dptr)
{
    CUresult result;

    if (free_tracked(call_free_v1, &real, dptr, &result))
        return result;
    return real(dptr);
}

/* ---- the end of a context, sharing ---- */

void gs_linear_context_gone(uint64_t ptr, const struct gs_obj *obj)
{
    return_charge(ptr, obj, (obj->flags & GS_LINEAR_PIECE) != 0 ? granularity_of(obj->dev) : 1);
}

struct publication {
    struct gs_share_key key;
    int id;
};

/* Under the entry's lock, so that two threads publish once; the share table never calls back. */
static int publish(struct gs_obj *obj, void *arg)
{
    struct publication *publication = arg;

    if (obj->share < 0) {
        publication->id = gs_share_publish(obj->dev, obj->bytes, publication->key);
        if (publication->id >= 0)
            obj->share = publication->id;
        return 0;
    }
    publication->id = obj->share;
    return 0;
}

/* `id` is the share of the piece's block, perhaps under the handle of another piece. */
static int name_piece(struct gs_obj *obj, void *arg)
{
    struct publication *publication = arg;
    int id;

    if (obj->share >= 0)
        return 0;
    id = gs_share_name(publication->id, publication->key);
    if (id >= 0 && id != publication->id)
        obj->share = id;
    return 0;
}

/* A handle opens the whole block of its piece: the block becomes a share, once, and each piece a
 * name of it. */
static void publish_piece(uint32_t dev, uint64_t ptr, struct publication *publication)
{
    uint64_t granularity = granularity_of(dev);

    publication->id = gs_block_share(dev, granularity, ptr);
    if (publication->id == -1) {
        publication->id = gs_share_publish(dev, granularity, publication->key);
        if (publication->id >= 0)
            gs_block_set_share(dev, granularity, ptr, publication->id);
    } else if (publication->id >= 0) {
        (void)gs_track_update(GS_OBJ_LINEAR, ptr, name_piece, publication);
    }
}

int gs_linear_publish(CUdeviceptr ptr, struct gs_share_key key)
{
    struct publication publication = {.key = key, .id = -ENOENT};
    struct gs_obj obj;

    if (!gs_track_get(GS_OBJ_LINEAR, ptr, &obj))
        return -ENOENT;
    if ((obj.flags & GS_LINEAR_PIECE) == 0) {
        (void)gs_track_update(GS_OBJ_LINEAR, ptr, publish, &publication);
        return publication.id;
    }
    gs_block_enter_alone(obj.dev); /* two threads, two pieces of one block */
    publish_piece(obj.dev, ptr, &publication);
    gs_block_leave_alone(obj.dev);
    return publication.id;
}
