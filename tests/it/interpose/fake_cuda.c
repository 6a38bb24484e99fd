/* A driver of a dozen functions that grants everything and whose symbols carry a version, which
 * real drivers' do not. `mock` builds give it another name: a library that is not the driver. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define API __attribute__((visibility("default")))

API int cuInit(unsigned flags);
API int cuDeviceGet(int *device, int ordinal);
API int cuDeviceGetCount(int *count);
API int cuDeviceGetUuid(char *uuid, int device);
API int cuDeviceGetUuid_v2(char *uuid, int device);
API int cuDeviceTotalMem_v2(size_t *bytes, int device);
API int cuDevicePrimaryCtxRetain(void **ctx, int device);
API int cuCtxSetCurrent(void *ctx);
API int cuCtxGetCurrent(void **ctx);
API int cuCtxGetDevice(int *device);
API int cuMemAlloc_v2(unsigned long long *ptr, size_t bytes);
API int cuMemFree_v2(unsigned long long ptr);
API int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);

static void *current;

int cuInit(unsigned flags)
{
    return flags != 0;
}
int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}
int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}
int cuDeviceGetUuid(char *uuid, int device)
{
    memset(uuid, 0x11 + device, 16);
    return 0;
}
int cuDeviceGetUuid_v2(char *uuid, int device)
{
    return cuDeviceGetUuid(uuid, device);
}
int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    (void)device;
    *bytes = (size_t)8 << 30;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **ctx, int device)
{
    (void)device;
    *ctx = &current;
    return 0;
}
int cuCtxSetCurrent(void *ctx)
{
    current = ctx;
    return 0;
}
int cuCtxGetCurrent(void **ctx)
{
    *ctx = current;
    return 0;
}
int cuCtxGetDevice(int *device)
{
    *device = 0;
    return 0;
}
int cuMemAlloc_v2(unsigned long long *ptr, size_t bytes)
{
    static unsigned long long next = 0x7f0000000000ull;
    *ptr = __atomic_fetch_add(&next, (bytes + 0x1fffff) & ~0x1fffffull, __ATOMIC_RELAXED);
    return 0;
}
int cuMemFree_v2(unsigned long long ptr)
{
    return ptr == 0;
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = (size_t)8 << 30;
    return 0;
}
