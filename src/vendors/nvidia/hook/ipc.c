#include <stddef.h>
#include <stdint.h>

#include "hook/share.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/linear.h"
#include "vendors/nvidia/hook/pool_ptr.h"

/* CUDA IPC: the exporter's allocation becomes a share named by the handle's 64 bytes, which the
 * driver makes the same for every call on one allocation; importers join it. */

CUresult gs_nv_ipc_get_mem_handle(gs_fn_cuIpcGetMemHandle *real, CUipcMemHandle *pHandle,
                                  CUdeviceptr dptr)
{
    const struct gs_driver *driver = gs_driver_cuda();
    CUresult result = real(pHandle, dptr);
    CUdeviceptr base = dptr;
    size_t size;

    if (result != CUDA_SUCCESS || pHandle == NULL)
        return result;
    /* A pointer into the middle shares all of the allocation it lies in. */
    if (driver->cuMemGetAddressRange_v2 == NULL ||
        driver->cuMemGetAddressRange_v2(&base, &size, dptr) != CUDA_SUCCESS)
        base = dptr;
    /* Not ours, or no room in the table: then the charge stays where it is. */
    (void)(gs_linear_publish(base, gs_share_key_of(pHandle, sizeof(*pHandle))) < 0);
    return result;
}

static int ref(struct gs_obj *obj, void *arg)
{
    (void)arg;
    obj->refs++;
    return 0;
}

static int unref(struct gs_obj *obj, void *arg)
{
    if (obj->refs > 1) {
        obj->refs--;
        return 0;
    }
    *(struct gs_obj *)arg = *obj;
    return GS_TRACK_REMOVE;
}

CUresult gs_nv_ipc_open_mem_handle(gs_fn_cuIpcOpenMemHandle_v2 *real, CUdeviceptr *pdptr,
                                   CUipcMemHandle handle, unsigned int Flags)
{
    struct gs_obj obj = {.refs = 1, .flags = GS_IMPORT_IPC};
    CUresult result;

    /* Joined before the call: the exporter may die within it. */
    obj.share = gs_share_join(gs_share_key_of(&handle, sizeof(handle)));
    result = real(pdptr, handle, Flags);
    if (obj.share < 0)
        return result; /* nobody in this slice made it */
    /* Opened before: the driver counts, and gives the same address. If it cannot be followed, the
     * exporter keeps the charge. */
    if (result != CUDA_SUCCESS || pdptr == NULL ||
        gs_track_update(GS_OBJ_IMPORT, *pdptr, ref, NULL) == 0 ||
        gs_track_put(GS_OBJ_IMPORT, *pdptr, &obj) != 0)
        gs_share_leave(obj.share);
    return result;
}

CUresult gs_nv_ipc_close_mem_handle(gs_fn_cuIpcCloseMemHandle *real, CUdeviceptr dptr)
{
    struct gs_obj obj, taken = {.share = -1};
    bool known = gs_track_get(GS_OBJ_IMPORT, dptr, &obj) && (obj.flags & GS_IMPORT_IPC) != 0;
    int rc = known ? gs_track_update(GS_OBJ_IMPORT, dptr, unref, &taken) : 0;
    CUresult result = real(dptr);

    if (!known)
        return result;
    if (result == CUDA_SUCCESS) {
        if (rc == GS_TRACK_REMOVE)
            gs_share_leave(taken.share);
        return result;
    }
    if (rc == GS_TRACK_REMOVE && gs_track_put(GS_OBJ_IMPORT, dptr, &taken) != 0)
        gs_share_leave(taken.share); /* can no longer be followed */
    else if (rc == 0)
        (void)gs_track_update(GS_OBJ_IMPORT, dptr, ref, NULL); /* gone: closed by another thread */
    return result;
}
