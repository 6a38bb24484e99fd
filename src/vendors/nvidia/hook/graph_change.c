#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"

/* An executable graph is changed: what it cost says nothing of what it costs now. Whether the
 * driver did it or not, or half of it. */

static CUresult changed(CUgraphExec exec, CUresult result)
{
    gs_launch_graph_changed(exec);
    return result;
}

CUresult gs_nv_graph_exec_update(gs_fn_cuGraphExecUpdate *real, CUgraphExec hGraphExec,
                                 CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                 CUgraphExecUpdateResult *updateResult_out)
{
    return changed(hGraphExec, real(hGraphExec, hGraph, hErrorNode_out, updateResult_out));
}

CUresult gs_nv_graph_exec_update_v2(gs_fn_cuGraphExecUpdate_v2 *real, CUgraphExec hGraphExec,
                                    CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    return changed(hGraphExec, real(hGraphExec, hGraph, resultInfo));
}

CUresult gs_nv_graph_exec_kernel_v1(gs_fn_cuGraphExecKernelNodeSetParams *real,
                                    CUgraphExec hGraphExec, CUgraphNode hNode,
                                    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    return changed(hGraphExec, real(hGraphExec, hNode, nodeParams));
}

CUresult gs_nv_graph_exec_kernel(gs_fn_cuGraphExecKernelNodeSetParams_v2 *real,
                                 CUgraphExec hGraphExec, CUgraphNode hNode,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    return changed(hGraphExec, real(hGraphExec, hNode, nodeParams));
}

CUresult gs_nv_graph_exec_child(gs_fn_cuGraphExecChildGraphNodeSetParams *real,
                                CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
    return changed(hGraphExec, real(hGraphExec, hNode, childGraph));
}

CUresult gs_nv_graph_exec_memcpy(gs_fn_cuGraphExecMemcpyNodeSetParams *real, CUgraphExec hGraphExec,
                                 CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    return changed(hGraphExec, real(hGraphExec, hNode, copyParams, ctx));
}

CUresult gs_nv_graph_exec_memset(gs_fn_cuGraphExecMemsetNodeSetParams *real, CUgraphExec hGraphExec,
                                 CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                 CUcontext ctx)
{
    return changed(hGraphExec, real(hGraphExec, hNode, memsetParams, ctx));
}

CUresult gs_nv_graph_exec_node(gs_fn_cuGraphExecNodeSetParams *real, CUgraphExec hGraphExec,
                               CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    return changed(hGraphExec, real(hGraphExec, hNode, nodeParams));
}

CUresult gs_nv_graph_node_enable(gs_fn_cuGraphNodeSetEnabled *real, CUgraphExec hGraphExec,
                                 CUgraphNode hNode, unsigned int isEnabled)
{
    return changed(hGraphExec, real(hGraphExec, hNode, isEnabled));
}
