#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/meter.h"

/* The driver shrinks pools to their release threshold when something is synchronised. Without these
 * rows an idle process would stay charged for memory that the card has back, and its neighbours in
 * the slice would be refused. And launches that were measured are likely done now. */

static bool is_seen(CUresult result)
{
    if (result == CUDA_SUCCESS)
        gs_meter_synchronized();
    return result == CUDA_SUCCESS;
}

CUresult gs_nv_ctx_synchronize(gs_fn_cuCtxSynchronize *real)
{
    CUresult result = real();

    if (is_seen(result))
        gs_launch_seen_context(NULL);
    return result;
}

CUresult gs_nv_ctx_synchronize_v2(gs_fn_cuCtxSynchronize_v2 *real, CUcontext ctx)
{
    CUresult result = real(ctx);

    if (is_seen(result))
        gs_launch_seen_context(ctx);
    return result;
}

CUresult gs_nv_event_synchronize(gs_fn_cuEventSynchronize *real, CUevent hEvent)
{
    CUresult result = real(hEvent);

    if (is_seen(result))
        gs_launch_seen_something();
    return result;
}

CUresult gs_nv_stream_synchronize(gs_fn_cuStreamSynchronize *real, CUstream hStream)
{
    uint64_t id = gs_launch_id_of(hStream, real == gs_driver_cuda()->cuStreamSynchronize_ptsz);
    CUresult result;

    gs_launch_waiting(id);
    result = real(hStream);
    if (is_seen(result))
        gs_launch_seen(id);
    return result;
}

/* A function of the host behind work: that is how the program learns of its end, and nobody comes
 * by then. */

CUresult gs_nv_host_function(gs_fn_cuLaunchHostFunc *real, CUstream hStream, CUhostFn fn,
                             void *userData)
{
    gs_launch_telling(hStream, real == gs_driver_cuda()->cuLaunchHostFunc_ptsz);
    return real(hStream, fn, userData);
}

CUresult gs_nv_stream_callback(gs_fn_cuStreamAddCallback *real, CUstream hStream,
                               CUstreamCallback callback, void *userData, unsigned int flags)
{
    gs_launch_telling(hStream, real == gs_driver_cuda()->cuStreamAddCallback_ptsz);
    return real(hStream, callback, userData, flags);
}

/* Programs ask in a loop; only the answer that ends it matters. */

CUresult gs_nv_event_query(gs_fn_cuEventQuery *real, CUevent hEvent)
{
    CUresult result = real(hEvent);

    if (result == CUDA_SUCCESS && gs_launch_is_seeing())
        gs_launch_seen_something();
    return result;
}

CUresult gs_nv_stream_query(gs_fn_cuStreamQuery *real, CUstream hStream)
{
    CUresult result;
    uint64_t id;

    if (!gs_launch_is_seeing())
        return real(hStream);
    id = gs_launch_id_of(hStream, real == gs_driver_cuda()->cuStreamQuery_ptsz);
    gs_launch_waiting(id);
    result = real(hStream);
    if (result == CUDA_SUCCESS)
        gs_launch_seen(id);
    return result;
}
