#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/meter.h"

/* The driver shrinks pools to their release threshold when something is synchronised. Without these
 * rows an idle process would stay charged for memory that the card has back, and its neighbours in
 * the slice would be refused. And launches that were measured are likely done now. */

static CUresult after(CUresult result)
{
    if (result == CUDA_SUCCESS)
        gs_meter_synchronized();
    gs_launch_synchronized();
    return result;
}

CUresult gs_nv_ctx_synchronize(gs_fn_cuCtxSynchronize *real)
{
    return after(real());
}

CUresult gs_nv_ctx_synchronize_v2(gs_fn_cuCtxSynchronize_v2 *real, CUcontext ctx)
{
    return after(real(ctx));
}

CUresult gs_nv_event_synchronize(gs_fn_cuEventSynchronize *real, CUevent hEvent)
{
    return after(real(hEvent));
}

CUresult gs_nv_stream_synchronize(gs_fn_cuStreamSynchronize *real, CUstream hStream)
{
    return after(real(hStream));
}
