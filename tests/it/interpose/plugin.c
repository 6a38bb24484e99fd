/* A library that reaches the driver itself; linked to it (LINKED) or looking it up. */

#include <dlfcn.h>

#include "ask.h"

int plugin_lookup(void);
int plugin_next(void);
int plugin_linked(void);
int plugin_pointers(void);

/* through the plugin's own reference to dlopen and dlsym, which RTLD_DEEPBIND binds to the C
 * library */
int plugin_lookup(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    struct driver cu = {
        (fn_init *)dlsym(handle, "cuInit"),
        (fn_device_get *)dlsym(handle, "cuDeviceGet"),
        (fn_retain *)dlsym(handle, "cuDevicePrimaryCtxRetain"),
        (fn_set_current *)dlsym(handle, "cuCtxSetCurrent"),
        (fn_alloc *)dlsym(handle, "cuMemAlloc_v2"),
    };
    return ask(&cu);
}

/* "next" from here: behind this library, in which the driver's names are not defined */
int plugin_next(void)
{
    struct driver cu = {
        (fn_init *)dlsym(RTLD_NEXT, "cuInit"),
        (fn_device_get *)dlsym(RTLD_NEXT, "cuDeviceGet"),
        (fn_retain *)dlsym(RTLD_NEXT, "cuDevicePrimaryCtxRetain"),
        (fn_set_current *)dlsym(RTLD_NEXT, "cuCtxSetCurrent"),
        (fn_alloc *)dlsym(RTLD_NEXT, "cuMemAlloc_v2"),
    };
    return ask(&cu);
}

#ifdef LINKED
static struct driver table = {cuInit, cuDeviceGet, cuDevicePrimaryCtxRetain, cuCtxSetCurrent,
                              cuMemAlloc_v2};

int plugin_pointers(void)
{
    return ask(&table);
}

int plugin_linked(void)
{
    int device, rc;
    void *ctx;
    unsigned long long ptr;
    if (cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0 ||
        cuDevicePrimaryCtxRetain(&ctx, device) != 0 || cuCtxSetCurrent(ctx) != 0 ||
        cuMemAlloc_v2(&ptr, (size_t)16 << 20) != 0)
        return say("setup", 1);
    rc = cuMemAlloc_v2(&ptr, (size_t)256 << 20);
    return say(rc == OUT_OF_MEMORY ? "held" : rc == 0 ? "escaped" : "failed", rc);
}
#endif
