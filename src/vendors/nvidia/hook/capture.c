#include "vendors/nvidia/hook/capture.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "hook/spin.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"

#define ORIGINS 64u

uint32_t gs_capture_count;

/* Streams whose captures began, with the thread for the handles that mean each thread's own stream.
 * More than fit are counted for ever: launches stay right and cost a question more. */
static struct {
    CUstream stream;
    const void *thread;
} origins[ORIGINS];
static uint32_t n_origins;
static uint64_t lock; /* of the two; held across no driver call */

static _Thread_local char self __attribute__((tls_model("initial-exec")));

static const void *thread_of(CUstream stream)
{
    return (uintptr_t)stream <= GS_LAUNCH_LAST_SPECIAL ? &self : NULL;
}

static void count(uint32_t n)
{
    __atomic_store_n(&gs_capture_count, n, __ATOMIC_RELAXED);
}

static void begun(CUstream stream)
{
    gs_spin_lock(&lock);
    if (n_origins < ORIGINS) {
        origins[n_origins].stream = stream;
        origins[n_origins++].thread = thread_of(stream);
    }
    count(gs_capture_count + 1);
    gs_spin_unlock(&lock);
}

static void ended(CUstream stream)
{
    const void *thread = thread_of(stream);

    gs_spin_lock(&lock);
    for (uint32_t i = 0; i < n_origins; i++) {
        if (origins[i].stream != stream || origins[i].thread != thread)
            continue;
        origins[i] = origins[--n_origins];
        count(gs_capture_count - 1);
        break;
    }
    gs_spin_unlock(&lock);
}

static CUresult after_begin(CUresult result, CUstream stream)
{
    if (result == CUDA_SUCCESS)
        begun(stream);
    return result;
}

static bool is_per_thread_end(const void *real)
{
    return real == (const void *)(uintptr_t)gs_driver_cuda()->cuStreamEndCapture_ptsz;
}

CUresult gs_nv_begin_capture(gs_fn_cuStreamBeginCapture *real, CUstream hStream)
{
    return after_begin(real(hStream), hStream);
}

CUresult gs_nv_begin_capture_v2(gs_fn_cuStreamBeginCapture_v2 *real, CUstream hStream,
                                CUstreamCaptureMode mode)
{
    return after_begin(real(hStream, mode), hStream);
}

CUresult gs_nv_begin_capture_to_graph(gs_fn_cuStreamBeginCaptureToGraph *real, CUstream hStream,
                                      CUgraph hGraph, const CUgraphNode *dependencies,
                                      const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                      CUstreamCaptureMode mode)
{
    return after_begin(real(hStream, hGraph, dependencies, dependencyData, numDependencies, mode),
                       hStream);
}

CUresult gs_nv_begin_capture_cig(gs_fn_cuStreamBeginCaptureToCig *real, CUstream hStream,
                                 CUstreamCigCaptureParams *streamCigCaptureParams)
{
    return after_begin(real(hStream, streamCigCaptureParams), hStream);
}

CUresult gs_nv_begin_recapture(gs_fn_cuStreamBeginRecaptureToGraph *real, CUstream hStream,
                               CUstreamCaptureMode mode, CUgraph hGraph,
                               CUgraphRecaptureCallback callbackFunc, void *userData)
{
    return after_begin(real(hStream, mode, hGraph, callbackFunc, userData), hStream);
}

/* A failed end may have ended it all the same (a broken capture), or not (another thread's, another
 * stream's): the driver is asked. */
CUresult gs_nv_end_capture(gs_fn_cuStreamEndCapture *real, CUstream hStream, CUgraph *phGraph)
{
    CUresult result = real(hStream, phGraph);

    if (gs_capture_any() &&
        (result == CUDA_SUCCESS ||
         gs_capture_is_clear(hStream, is_per_thread_end((const void *)(uintptr_t)real)) > 0))
        ended(hStream);
    return result;
}

CUresult gs_nv_end_capture_cig(gs_fn_cuStreamEndCaptureToCig *real, CUstream hStream)
{
    CUresult result = real(hStream);

    if (result == CUDA_SUCCESS)
        ended(hStream);
    return result;
}

/* A stream takes its capture with it; its handle may come again. */
CUresult gs_nv_stream_destroy(gs_fn_cuStreamDestroy_v2 *real, CUstream hStream)
{
    CUresult result;

    gs_launch_telling(hStream, false);
    result = real(hStream);
    if (result == CUDA_SUCCESS && gs_capture_any())
        ended(hStream);
    if (result == CUDA_SUCCESS)
        gs_launch_stream_gone(hStream);
    return result;
}

int gs_capture_is_clear(CUstream stream, bool per_thread)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (per_thread && cuda->cuStreamIsCapturing_ptsz != NULL)
        result = cuda->cuStreamIsCapturing_ptsz(stream, &status);
    else if (cuda->cuStreamIsCapturing != NULL)
        result = cuda->cuStreamIsCapturing(stream, &status);
    if (result != CUDA_SUCCESS)
        return -EIO;
    return status == CU_STREAM_CAPTURE_STATUS_NONE ? 1 : 0;
}

struct gs_capture_relaxed gs_capture_relax(void)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    struct gs_capture_relaxed relaxed = {false, CU_STREAM_CAPTURE_MODE_RELAXED};

    /* whether anything is being captured or not: a capture may begin while this thread waits, and
     * the driver counts it before we do */
    if (cuda->cuThreadExchangeStreamCaptureMode != NULL)
        relaxed.is_on = cuda->cuThreadExchangeStreamCaptureMode(&relaxed.mode) == CUDA_SUCCESS;
    return relaxed;
}

void gs_capture_restore(struct gs_capture_relaxed *relaxed)
{
    if (relaxed->is_on) /* what worked a moment ago works again */
        (void)gs_driver_cuda()->cuThreadExchangeStreamCaptureMode(&relaxed->mode);
    relaxed->is_on = false;
}

void gs_capture_forget(void)
{
    memset(origins, 0, sizeof(origins));
    n_origins = 0;
    lock = 0;
    count(0);
}
