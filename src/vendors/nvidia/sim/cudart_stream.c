/* Streams, events, captures and graphs of the runtime: the driver's, under other names. */
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/cudart.h"

RT_FORWARD(cudaStreamCreate, cuStreamCreate(pStream, 0), CUstream *pStream)
RT_FORWARD(cudaStreamCreateWithFlags, cuStreamCreate(pStream, flags), CUstream *pStream,
           unsigned int flags)
RT_FORWARD(cudaStreamCreateWithPriority, cuStreamCreateWithPriority(pStream, flags, priority),
           CUstream *pStream, unsigned int flags, int priority)
RT_FORWARD(cudaStreamDestroy, cuStreamDestroy_v2(stream), CUstream stream)
RT_FORWARD(cudaStreamSynchronize, cuStreamSynchronize(stream), CUstream stream)
RT_TWIN(cudaStreamSynchronize, _ptsz, (stream), CUstream stream)
RT_FORWARD(cudaStreamQuery, cuStreamQuery(stream), CUstream stream)
RT_TWIN(cudaStreamQuery, _ptsz, (stream), CUstream stream)
RT_FORWARD(cudaStreamWaitEvent, cuStreamWaitEvent(stream, event, flags), CUstream stream,
           CUevent event, unsigned int flags)
RT_TWIN(cudaStreamWaitEvent, _ptsz, (stream, event, flags), CUstream stream, CUevent event,
        unsigned int flags)
RT_FORWARD(cudaStreamGetPriority, cuStreamGetPriority(hStream, priority), CUstream hStream,
           int *priority)
RT_TWIN(cudaStreamGetPriority, _ptsz, (hStream, priority), CUstream hStream, int *priority)
RT_FORWARD(cudaStreamGetFlags, cuStreamGetFlags(hStream, flags), CUstream hStream,
           unsigned int *flags)
RT_TWIN(cudaStreamGetFlags, _ptsz, (hStream, flags), CUstream hStream, unsigned int *flags)
RT_FORWARD(cudaStreamGetId, cuStreamGetId(hStream, streamId), CUstream hStream,
           unsigned long long *streamId)
RT_TWIN(cudaStreamGetId, _ptsz, (hStream, streamId), CUstream hStream, unsigned long long *streamId)
RT_FORWARD(cudaStreamGetDevice, cuStreamGetDevice(hStream, dev), CUstream hStream, int *dev)
RT_TWIN(cudaStreamGetDevice, _ptsz, (hStream, dev), CUstream hStream, int *dev)
RT_FORWARD(cudaStreamGetAttribute, cuStreamGetAttribute(hStream, (CUstreamAttrID)attr, value),
           CUstream hStream, int attr, CUstreamAttrValue *value)
RT_FORWARD(cudaStreamSetAttribute, cuStreamSetAttribute(hStream, (CUstreamAttrID)attr, value),
           CUstream hStream, int attr, const CUstreamAttrValue *value)
RT_FORWARD(cudaStreamCopyAttributes, cuStreamCopyAttributes(dst, src), CUstream dst, CUstream src)
RT_FORWARD(cudaStreamAttachMemAsync,
           cuStreamAttachMemAsync(stream, (CUdeviceptr)(uintptr_t)devPtr, length, flags),
           CUstream stream, void *devPtr, size_t length, unsigned int flags)
RT_FORWARD(cudaStreamAddCallback, cuStreamAddCallback(stream, callback, userData, flags),
           CUstream stream, CUstreamCallback callback, void *userData, unsigned int flags)
RT_TWIN(cudaStreamAddCallback, _ptsz, (stream, callback, userData, flags), CUstream stream,
        CUstreamCallback callback, void *userData, unsigned int flags)
RT_FORWARD(cudaLaunchHostFunc, cuLaunchHostFunc(stream, fn, userData), CUstream stream, CUhostFn fn,
           void *userData)
RT_TWIN(cudaLaunchHostFunc, _ptsz, (stream, fn, userData), CUstream stream, CUhostFn fn,
        void *userData)

RT_FORWARD(cudaEventCreate, cuEventCreate(event, 0), CUevent *event)
RT_FORWARD(cudaEventCreateWithFlags, cuEventCreate(event, flags), CUevent *event,
           unsigned int flags)
RT_FORWARD(cudaEventDestroy, cuEventDestroy_v2(event), CUevent event)
RT_FORWARD(cudaEventRecord, cuEventRecord(event, stream), CUevent event, CUstream stream)
RT_TWIN(cudaEventRecord, _ptsz, (event, stream), CUevent event, CUstream stream)
RT_FORWARD(cudaEventRecordWithFlags, cuEventRecordWithFlags(event, stream, flags), CUevent event,
           CUstream stream, unsigned int flags)
RT_TWIN(cudaEventRecordWithFlags, _ptsz, (event, stream, flags), CUevent event, CUstream stream,
        unsigned int flags)
RT_FORWARD(cudaEventQuery, cuEventQuery(event), CUevent event)
RT_FORWARD(cudaEventSynchronize, cuEventSynchronize(event), CUevent event)
RT_FORWARD(cudaEventElapsedTime, cuEventElapsedTime_v2(ms, start, end), float *ms, CUevent start,
           CUevent end)
RT_FORWARD(cudaEventElapsedTime_v2, cuEventElapsedTime_v2(ms, start, end), float *ms, CUevent start,
           CUevent end)

/* ---- captures ---- */

RT_FORWARD(cudaStreamBeginCapture, cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode),
           CUstream stream, int mode)
RT_TWIN(cudaStreamBeginCapture, _ptsz, (stream, mode), CUstream stream, int mode)
RT_FORWARD(cudaStreamBeginCaptureToGraph,
           cuStreamBeginCaptureToGraph(stream, graph, dependencies, dependencyData, n,
                                       (CUstreamCaptureMode)mode),
           CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
           const CUgraphEdgeData *dependencyData, size_t n, int mode)
RT_FORWARD(cudaStreamEndCapture, cuStreamEndCapture(stream, pGraph), CUstream stream,
           CUgraph *pGraph)
RT_TWIN(cudaStreamEndCapture, _ptsz, (stream, pGraph), CUstream stream, CUgraph *pGraph)
RT_FORWARD(cudaStreamIsCapturing, cuStreamIsCapturing(stream, status), CUstream stream,
           CUstreamCaptureStatus *status)
RT_TWIN(cudaStreamIsCapturing, _ptsz, (stream, status), CUstream stream,
        CUstreamCaptureStatus *status)
RT_FORWARD(cudaStreamGetCaptureInfo_v3,
           cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, n),
           CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *n)
RT_FORWARD(cudaStreamGetCaptureInfo_v2,
           cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, NULL, n),
           CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **dependencies, size_t *n)
#if GS_CUDART_MAJOR == 12
RT_FORWARD(cudaStreamGetCaptureInfo,
           cuStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL), CUstream stream,
           CUstreamCaptureStatus *status, cuuint64_t *id)
RT_FORWARD(cudaStreamUpdateCaptureDependencies,
           cuStreamUpdateCaptureDependencies_v2(stream, dependencies, NULL, n, flags),
           CUstream stream, CUgraphNode *dependencies, size_t n, unsigned int flags)
#else
RT_FORWARD(cudaStreamGetCaptureInfo,
           cuStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, n),
           CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
           const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *n)
RT_FORWARD(cudaStreamUpdateCaptureDependencies,
           cuStreamUpdateCaptureDependencies_v2(stream, dependencies, edges, n, flags),
           CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t n,
           unsigned int flags)
#endif
RT_FORWARD(cudaStreamUpdateCaptureDependencies_v2,
           cuStreamUpdateCaptureDependencies_v2(stream, dependencies, edges, n, flags),
           CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t n,
           unsigned int flags)
RT_FORWARD(cudaThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode(mode),
           CUstreamCaptureMode *mode)

/* ---- graphs ---- */

RT_FORWARD(cudaGraphCreate, cuGraphCreate(pGraph, flags), CUgraph *pGraph, unsigned int flags)
RT_FORWARD(cudaGraphDestroy, cuGraphDestroy(graph), CUgraph graph)
RT_FORWARD(cudaGraphClone, cuGraphClone(ret, graph), CUgraph *ret, CUgraph graph)
RT_FORWARD(cudaGraphDestroyNode, cuGraphDestroyNode(node), CUgraphNode node)
RT_FORWARD(cudaGraphGetNodes, cuGraphGetNodes(graph, nodes, numNodes), CUgraph graph,
           CUgraphNode *nodes, size_t *numNodes)
RT_FORWARD(cudaGraphGetRootNodes, cuGraphGetRootNodes(graph, nodes, numNodes), CUgraph graph,
           CUgraphNode *nodes, size_t *numNodes)
RT_FORWARD(cudaGraphNodeGetType, cuGraphNodeGetType(node, type), CUgraphNode node,
           CUgraphNodeType *type)
RT_FORWARD(cudaGraphDebugDotPrint, cuGraphDebugDotPrint(graph, path, flags), CUgraph graph,
           const char *path, unsigned int flags)
RT_FORWARD(cudaGraphAddEmptyNode, cuGraphAddEmptyNode(ret, graph, deps, n), CUgraphNode *ret,
           CUgraph graph, const CUgraphNode *deps, size_t n)
RT_FORWARD(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode(ret, graph, deps, n, child),
           CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t n, CUgraph child)
RT_FORWARD(cudaGraphAddHostNode, cuGraphAddHostNode(ret, graph, deps, n, params), CUgraphNode *ret,
           CUgraph graph, const CUgraphNode *deps, size_t n, const CUDA_HOST_NODE_PARAMS *params)
RT_FORWARD(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode(ret, graph, deps, n, params),
           CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t n,
           CUDA_MEM_ALLOC_NODE_PARAMS *params)
RT_FORWARD(cudaGraphAddMemFreeNode,
           cuGraphAddMemFreeNode(ret, graph, deps, n, (CUdeviceptr)(uintptr_t)dptr),
           CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t n, void *dptr)
RT_FORWARD(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags(ret, graph, flags),
           CUgraphExec *ret, CUgraph graph, unsigned long long flags)
/* 12 and later: the form with flags. */
RT_FORWARD(cudaGraphInstantiate, cuGraphInstantiateWithFlags(ret, graph, flags), CUgraphExec *ret,
           CUgraph graph, unsigned long long flags)
RT_FORWARD(cudaGraphInstantiateWithParams, cuGraphInstantiateWithParams(ret, graph, params),
           CUgraphExec *ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
RT_FORWARD(cudaGraphLaunch, cuGraphLaunch(exec, stream), CUgraphExec exec, CUstream stream)
RT_TWIN(cudaGraphLaunch, _ptsz, (exec, stream), CUgraphExec exec, CUstream stream)
RT_FORWARD(cudaGraphUpload, cuGraphUpload(exec, stream), CUgraphExec exec, CUstream stream)
RT_FORWARD(cudaGraphExecDestroy, cuGraphExecDestroy(exec), CUgraphExec exec)
RT_FORWARD(cudaGraphExecGetFlags, cuGraphExecGetFlags(exec, flags), CUgraphExec exec,
           cuuint64_t *flags)
RT_FORWARD(cudaGraphExecUpdate, cuGraphExecUpdate_v2(exec, graph, info), CUgraphExec exec,
           CUgraph graph, CUgraphExecUpdateResultInfo *info)
RT_FORWARD(cudaGraphRetainUserObject, cuGraphRetainUserObject(graph, object, count, flags),
           CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
RT_FORWARD(cudaGraphReleaseUserObject, cuGraphReleaseUserObject(graph, object, count),
           CUgraph graph, CUuserObject object, unsigned int count)
RT_FORWARD(cudaUserObjectCreate, cuUserObjectCreate(ret, ptr, destroy, refs, flags),
           CUuserObject *ret, void *ptr, CUhostFn destroy, unsigned int refs, unsigned int flags)
RT_FORWARD(cudaUserObjectRetain, cuUserObjectRetain(object, count), CUuserObject object,
           unsigned int count)
RT_FORWARD(cudaUserObjectRelease, cuUserObjectRelease(object, count), CUuserObject object,
           unsigned int count)
RT_FORWARD(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim(dev), int dev)
RT_FORWARD(cudaDeviceGetGraphMemAttribute,
           cuDeviceGetGraphMemAttribute(dev, (CUgraphMem_attribute)attr, value), int dev, int attr,
           void *value)
RT_FORWARD(cudaDeviceSetGraphMemAttribute,
           cuDeviceSetGraphMemAttribute(dev, (CUgraphMem_attribute)attr, value), int dev, int attr,
           void *value)

struct kernel_node_params {
    void *func;
    struct dim3 gridDim, blockDim;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
};

RT(cudaGraphAddKernelNode, CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, size_t n,
   const struct kernel_node_params *p)
{
    CUDA_KERNEL_NODE_PARAMS k = {0};
    cudaError_t e = gs_cudart_enter();
    if (!e && !p)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = gs_cudart_kernel(p->func, &k.func);
    if (e)
        return gs_cudart_done(e);
    k.gridDimX = p->gridDim.x;
    k.gridDimY = p->gridDim.y;
    k.gridDimZ = p->gridDim.z;
    k.blockDimX = p->blockDim.x;
    k.blockDimY = p->blockDim.y;
    k.blockDimZ = p->blockDim.z;
    k.sharedMemBytes = p->sharedMemBytes;
    k.kernelParams = p->kernelParams;
    k.extra = p->extra;
    return gs_cudart_done(cuGraphAddKernelNode_v2(ret, graph, deps, n, &k));
}
