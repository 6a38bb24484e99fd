/* Managed memory: lies in the card and is counted there in full from the start. Hints are checked
 * and remembered as far as they can be asked for again. */

#include <string.h>

#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/stream.h"

#define ATTACH_GLOBAL 1U
#define ATTACH_HOST   2U

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!dptr || !bytesize || (flags != ATTACH_GLOBAL && flags != ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    return gs_linear_alloc(ctx, bytesize, GS_SIM_RANGE_MANAGED, dptr);
}

static CUresult check_hint(CUdeviceptr ptr, size_t count)
{
    struct gs_sim_range r;
    if (!ptr || !count || !gs_memory_is_valid(ptr, count) || gs_memory_find(ptr, &r))
        return CUDA_ERROR_INVALID_VALUE;
    return r.kind == GS_SIM_RANGE_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult advise(CUdeviceptr ptr, size_t count, CUmem_advise advice)
{
    GS_SIM_ENTER_CTX(ctx);
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    return check_hint(ptr, count);
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    (void)device;
    return advise(devPtr, count, advice);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    (void)location;
    return advise(devPtr, count, advice);
}

static CUresult prefetch(CUdeviceptr ptr, size_t count, CUstream stream)
{
    GS_SIM_ENTER_CTX(ctx);
    CUresult rc = check_hint(ptr, count);
    return rc ? rc : gs_stream_submit(stream, GS_STREAM_NOTHING, 0);
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    GS_SIM_ENTER_READY();
    if (dstDevice != -1 && gs_context_check_device(dstDevice)) /* -1: the host */
        return CUDA_ERROR_INVALID_DEVICE;
    return prefetch(devPtr, count, hStream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    GS_SIM_ENTER_READY();
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE && gs_context_check_device(location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    return prefetch(devPtr, count, hStream);
}

static CUresult range_attribute(void *data, size_t size, CUmem_range_attribute attribute,
                                CUdeviceptr ptr, size_t count)
{
    CUresult rc = data ? check_hint(ptr, count) : CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    /* No hint is in force: not read mostly, no preferred place (-2 = CU_DEVICE_INVALID). */
    int32_t value = attribute == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
                            attribute == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE ||
                            attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE
                        ? 0
                        : -2;
    if (attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
        attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID || !size ||
        size % sizeof(value))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t at = 0; at < size; at += sizeof(value))
        memcpy((char *)data + at, &value, sizeof(value));
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count)
{
    GS_SIM_ENTER_READY();
    return range_attribute(data, dataSize, attribute, devPtr, count);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    GS_SIM_ENTER_READY();
    CUresult rc =
        data && dataSizes && attributes && numAttributes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !rc && i < numAttributes; i++)
        rc = range_attribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    return rc;
}
