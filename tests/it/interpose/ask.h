#pragma once
/* What every client does once it has the driver's functions, in whatever way: ask for 16 MiB, then
 * for 256 MiB. The test gives the slice 64 MiB, so the answers tell whether the hook stood in
 * between. */

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef int fn_init(unsigned flags);
typedef int fn_device_get(int *device, int ordinal);
typedef int fn_retain(void **ctx, int device);
typedef int fn_set_current(void *ctx);
typedef int fn_alloc(unsigned long long *ptr, size_t bytes);

struct driver {
    fn_init *init;
    fn_device_get *device_get;
    fn_retain *retain;
    fn_set_current *set_current;
    fn_alloc *alloc;
};

extern fn_init cuInit;
extern fn_device_get cuDeviceGet;
extern fn_retain cuDevicePrimaryCtxRetain;
extern fn_set_current cuCtxSetCurrent;
extern fn_alloc cuMemAlloc_v2;

#define OUT_OF_MEMORY 2

/** Forked children leave by _exit, so every verdict is flushed. */
static inline int say(const char *verdict, int rc)
{
    if (rc > OUT_OF_MEMORY || rc < 0)
        printf("%s %d\n", verdict, rc);
    else
        puts(verdict);
    fflush(stdout);
    while (getenv("GS_LINGER") != NULL && getchar() != EOF)
        ; /* the test looks at us meanwhile and closes our input when it has seen enough */
    return rc == OUT_OF_MEMORY ? 0 : 1;
}

/** One word on stdout: held (refused for want of memory), escaped (granted), or what failed. */
static inline int ask(const struct driver *cu)
{
    int device, rc;
    void *ctx;
    unsigned long long ptr;
    if (cu->init == NULL || cu->device_get == NULL || cu->retain == NULL ||
        cu->set_current == NULL || cu->alloc == NULL)
        return say("unresolved", 1);
    if ((rc = cu->init(0)) != 0 || (rc = cu->device_get(&device, 0)) != 0 ||
        (rc = cu->retain(&ctx, device)) != 0 || (rc = cu->set_current(ctx)) != 0 ||
        (rc = cu->alloc(&ptr, (size_t)16 << 20)) != 0)
        return say("setup", rc + 1000);
    rc = cu->alloc(&ptr, (size_t)256 << 20);
    return say(rc == OUT_OF_MEMORY ? "held" : rc == 0 ? "escaped" : "failed", rc);
}
