/* Waiting for and writing a word of memory in stream order. Writes are done at once, as copies are;
 * a wait that is not fulfilled yet becomes a host function of the stream. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/memory.h"

enum { WAIT_GEQ = 0, WAIT_EQ = 1, WAIT_AND = 2, WAIT_NOR = 3, WAIT_KIND = 3 };

struct wait {
    CUdeviceptr addr;
    uint64_t value;
    unsigned int kind;
    unsigned int bytes;
};

static uint64_t read_word(CUdeviceptr addr, unsigned int bytes)
{
    return bytes == 4 ? __atomic_load_n((const uint32_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE)
                      : __atomic_load_n((const uint64_t *)(uintptr_t)addr, __ATOMIC_ACQUIRE);
}

static int is_fulfilled(const struct wait *w)
{
    uint64_t v = read_word(w->addr, w->bytes);
    switch (w->kind) {
    case WAIT_GEQ: /* cyclic, as documented */
        return w->bytes == 4 ? (int32_t)((uint32_t)v - (uint32_t)w->value) >= 0
                             : (int64_t)(v - w->value) >= 0;
    case WAIT_EQ:
        return v == w->value;
    case WAIT_AND:
        return (v & w->value) != 0;
    default:
        return (~(v | w->value) & (w->bytes == 4 ? UINT32_MAX : UINT64_MAX)) != 0;
    }
}

static void wait_for(void *arg)
{
    struct wait *w = arg;
    const struct timespec ts = {.tv_nsec = 50000};
    while (!is_fulfilled(w))
        nanosleep(&ts, NULL);
    free(w);
}

static CUresult check(CUstream h, CUdeviceptr addr, unsigned int bytes, struct gs_stream **ret)
{
    CUresult error;
    *ret = gs_stream_of(h, &error);
    if (!*ret)
        return error;
    if ((*ret)->capture)
        return gs_capture_refuse(*ret); /* batch memory nodes are not modelled */
    if (addr % bytes || !gs_memory_is_valid(addr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream h, const struct wait *want)
{
    struct gs_stream *s;
    CUresult r = check(h, want->addr, want->bytes, &s);
    if (r || is_fulfilled(want))
        return r;
    struct wait *w = malloc(sizeof(*w));
    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *w = *want;
    r = gs_stream_call(s, wait_for, w);
    if (r)
        free(w);
    return r;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                unsigned int flags)
{
    GS_SIM_ENTER_READY();
    struct wait w = {.addr = addr, .value = value, .kind = flags & WAIT_KIND, .bytes = 4};
    return wait_value(stream, &w);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                             unsigned int flags)
{
    return cuStreamWaitValue32_v2(stream, addr, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                unsigned int flags)
{
    GS_SIM_ENTER_READY();
    struct wait w = {.addr = addr, .value = value, .kind = flags & WAIT_KIND, .bytes = 8};
    return wait_value(stream, &w);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                             unsigned int flags)
{
    return cuStreamWaitValue64_v2(stream, addr, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                 unsigned int flags)
{
    GS_SIM_ENTER_READY();
    struct gs_stream *s;
    (void)flags;
    CUresult r = check(stream, addr, 4, &s);
    if (!r)
        __atomic_store_n((uint32_t *)(uintptr_t)addr, value, __ATOMIC_RELEASE);
    return r;
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                              unsigned int flags)
{
    return cuStreamWriteValue32_v2(stream, addr, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                 unsigned int flags)
{
    GS_SIM_ENTER_READY();
    struct gs_stream *s;
    (void)flags;
    CUresult r = check(stream, addr, 8, &s);
    if (!r)
        __atomic_store_n((uint64_t *)(uintptr_t)addr, value, __ATOMIC_RELEASE);
    return r;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                              unsigned int flags)
{
    return cuStreamWriteValue64_v2(stream, addr, value, flags);
}
