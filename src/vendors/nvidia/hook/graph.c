#include "vendors/nvidia/hook/graph.h"

#include <errno.h>
#include <stddef.h>

#include "hook/engine.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/graph_scan.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/meter.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/stream.h"

/* Graph memory: the driver takes it from the card when a graph with allocation nodes is first
 * launched or uploaded, keeps it for later launches and reports the sum per card. Each card's sum
 * is a meter.
 *
 * GS_OBJ_GRAPH_EXEC, one entry per (executable graph, card) that allocates; key = handle | n << 56:
 *   bytes = most it may take;  aux = epoch of its last launch, 0 none;  flags = ordinal << 8 |
 * more. */

#define MORE           1u /* another entry follows, with the next n */
#define CARD_KEY(h, n) ((uint64_t)(uintptr_t)(h) | (uint64_t)(n) << 56)
#define UPLOAD_FLAG    2u /* CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD */

static uint32_t seen_nodes; /* an allocation node was ever made in this process */
static uint32_t seen_execs; /* an executable graph with allocation nodes was ever made */

static struct gs_meter card_meter(CUdevice ordinal)
{
    return (struct gs_meter){GS_OBJ_GRAPH, (uint64_t)ordinal + 1};
}

/* A node that is larger than the limit can never run: say so at once, as a card of that size would.
 */
static CUresult check_node(const struct gs_device *device, uint64_t bytes, const char *what)
{
    uint64_t limit, need;
    int rc;

    if (device == NULL)
        return CUDA_SUCCESS;
    limit = gs_gate_limit(device->ledger);
    need = gs_device_round(device, bytes);
    if (need <= limit)
        return CUDA_SUCCESS;
    rc = gs_gate_reserve(device->ledger, need, GS_CHARGE_HELD, what); /* refuses, and logs it */
    if (rc == 0)
        gs_gate_release(device->ledger, need, GS_CHARGE_HELD);
    return gs_device_result(rc);
}

CUresult gs_graph_capture_alloc(const struct gs_device *device, uint64_t bytes, const char *what)
{
    __atomic_store_n(&seen_nodes, 1, __ATOMIC_RELAXED);
    return check_node(device, bytes, what);
}

static CUresult before_node(const CUmemPoolProps *props, uint64_t bytes, const char *what)
{
    __atomic_store_n(&seen_nodes, 1, __ATOMIC_RELAXED);
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_SUCCESS;
    return check_node(gs_device_by_ordinal(props->location.id), bytes, what);
}

CUresult gs_nv_graph_add_mem_alloc_node(gs_fn_cuGraphAddMemAllocNode *real,
                                        CUgraphNode *phGraphNode, CUgraph hGraph,
                                        const CUgraphNode *dependencies, size_t numDependencies,
                                        CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    if (nodeParams != NULL) {
        CUresult result =
            before_node(&nodeParams->poolProps, nodeParams->bytesize, "cuGraphAddMemAllocNode");

        if (result != CUDA_SUCCESS)
            return result;
    }
    return real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

static CUresult before_any_node(const CUgraphNodeParams *params)
{
    if (params == NULL || params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_SUCCESS;
    return before_node(&params->alloc.poolProps, params->alloc.bytesize, "cuGraphAddNode");
}

CUresult gs_nv_graph_add_node(gs_fn_cuGraphAddNode *real, CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              CUgraphNodeParams *nodeParams)
{
    CUresult result = before_any_node(nodeParams);

    return result != CUDA_SUCCESS
               ? result
               : real(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult gs_nv_graph_add_node_v2(gs_fn_cuGraphAddNode_v2 *real, CUgraphNode *phGraphNode,
                                 CUgraph hGraph, const CUgraphNode *dependencies,
                                 const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                 CUgraphNodeParams *nodeParams)
{
    CUresult result = before_any_node(nodeParams);

    return result != CUDA_SUCCESS ? result
                                  : real(phGraphNode, hGraph, dependencies, dependencyData,
                                         numDependencies, nodeParams);
}

CUresult gs_nv_graph_add_node_v3(gs_fn_cuGraphAddNode_v3 *real, CUgraphNode *phGraphNode,
                                 CUgraph hGraph, const CUgraphNode *dependencies,
                                 const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                 CUgraphNodeParams *nodeParams)
{
    return gs_nv_graph_add_node_v2(real, phGraphNode, hGraph, dependencies, dependencyData,
                                   numDependencies, nodeParams);
}

/* One launch: what was reserved on each card that the graph allocates on. */
struct launch {
    uint32_t n;
    struct {
        CUdevice ordinal;
        uint64_t reserved;
    } card[GS_GRAPH_CARDS];
};

static int reserve_card(struct launch *l, CUdevice ordinal, uint64_t bytes, const char *what)
{
    const struct gs_device *device = gs_device_by_ordinal(ordinal);
    struct gs_meter m = card_meter(ordinal);

    if (device == NULL || l->n == GS_GRAPH_CARDS)
        return 0;
    if (gs_meter_open(m, device, 0) != 0)
        return -ENOMEM;
    if (bytes != 0) {
        int rc = gs_meter_reserve(m, device->ledger, bytes, what);

        if (rc != 0)
            return rc;
    }
    l->card[l->n].ordinal = ordinal;
    l->card[l->n++].reserved = bytes;
    return 0;
}

static void cancel(const struct launch *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->card[i].reserved != 0)
            gs_meter_cancel(card_meter(l->card[i].ordinal), l->card[i].reserved);
}

/* The driver has not launched it: the grants go back. */
static CUresult refused(const struct launch *l, CUresult result, const char *what)
{
    cancel(l);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct gs_device *device = gs_device_by_ordinal(l->card[i].ordinal);

        if (device != NULL && l->card[i].reserved != 0)
            (void)gs_device_refused(result, device->ledger, l->card[i].reserved, what);
    }
    return result;
}

static void settle(const struct launch *l)
{
    for (uint32_t i = 0; i < l->n; i++) /* without `what` it cannot fail: the launch is under way */
        (void)gs_meter_settle(card_meter(l->card[i].ordinal), l->card[i].reserved, NULL);
}

/* What an executable graph may still take. One that ran since the last trim has its memory already;
 * only the reading afterwards is left to do. */
static int reserve_exec(CUgraphExec exec, struct gs_obj *first, struct launch *l, const char *what)
{
    uint64_t epoch = gs_meter_epoch();
    struct gs_obj obj = *first;

    for (uint32_t n = 0;; n++) {
        int rc = reserve_card(l, (CUdevice)GS_METER_ORDINAL(obj.flags),
                              obj.aux == epoch ? 0 : obj.bytes, what);

        if (rc != 0) {
            cancel(l);
            return rc;
        }
        if ((obj.flags & MORE) == 0 ||
            !gs_track_get(GS_OBJ_GRAPH_EXEC, CARD_KEY(exec, n + 1), &obj))
            return 0;
    }
}

static int set_epoch(struct gs_obj *obj, void *arg)
{
    obj->aux = *(const uint64_t *)arg;
    return 0;
}

static CUresult run(gs_fn_cuGraphLaunch *real, CUgraphExec exec, CUstream stream, bool per_thread,
                    const char *what)
{
    uint64_t epoch = gs_meter_epoch();
    struct launch l = {0};
    struct gs_obj obj;
    CUresult result;
    int rc;

    /* A launch into a capture is recorded; its memory is found when that graph is instantiated. */
    if (!gs_track_get(GS_OBJ_GRAPH_EXEC, CARD_KEY(exec, 0), &obj) ||
        gs_stream_is_capturing(stream, per_thread))
        return real(exec, stream);
    rc = reserve_exec(exec, &obj, &l, what);
    if (rc != 0)
        return gs_device_result(rc);
    result = real(exec, stream);
    if (result != CUDA_SUCCESS)
        return refused(&l, result, what);
    settle(&l);
    for (uint32_t n = 0; n < l.n; n++)
        (void)gs_track_update(GS_OBJ_GRAPH_EXEC, CARD_KEY(exec, n), set_epoch, &epoch);
    return result;
}

/* The launch with its memory. */
static CUresult run_any(gs_fn_cuGraphLaunch *real, CUgraphExec exec, CUstream stream,
                        bool per_thread)
{
    if (GS_LIKELY(__atomic_load_n(&seen_execs, __ATOMIC_RELAXED) == 0))
        return real(exec, stream);
    return run(real, exec, stream, per_thread, "cuGraphLaunch");
}

/* A graph is limited as one launch: what its kernels launch themselves lies between the same two
 * events. */
CUresult gs_nv_graph_launch(gs_fn_cuGraphLaunch *real, CUgraphExec hGraph, CUstream hStream)
{
    bool per_thread = real == gs_driver_cuda()->cuGraphLaunch_ptsz;
    struct gs_launch l;

    if (GS_LIKELY(__atomic_load_n(&gs_engine.launch_free, __ATOMIC_RELAXED) != 0))
        return run_any(real, hGraph, hStream, per_thread);
    l.what = "cuGraphLaunch";
    l.stream = hStream;
    l.handle = (uintptr_t)hGraph;
    l.shape = GS_LAUNCH_GRAPH_SHAPE;
    l.blocks = 0;
    l.per_block = l.quarter = 0;
    l.per_thread = per_thread;
    if (gs_launch_pay(&l))
        return gs_launch_paid(&l, run_any(real, hGraph, hStream, per_thread));
    gs_launch_begin(&l);
    return gs_launch_end(&l, run_any(real, hGraph, hStream, per_thread));
}

CUresult gs_nv_graph_upload(gs_fn_cuGraphUpload *real, CUgraphExec hGraph, CUstream hStream)
{
    if (__atomic_load_n(&seen_execs, __ATOMIC_RELAXED) == 0)
        return real(hGraph, hStream);
    return run(real, hGraph, hStream, real == gs_driver_cuda()->cuGraphUpload_ptsz,
               "cuGraphUpload");
}

/* Remember what an executable graph may take. */
static int note_exec(CUgraphExec exec, const struct gs_graph_need *need, bool uploaded)
{
    for (uint32_t n = need->n;
         n-- != 0;) { /* the first last: it is the one that launches look for */
        const struct gs_device *device = gs_device_by_ordinal(need->card[n].ordinal);
        struct gs_obj obj = {
            .bytes = need->card[n].bytes,
            .aux = uploaded ? gs_meter_epoch() : 0,
            .dev = device == NULL ? GS_DEVICE_NONE : device->ledger,
            .share = -1,
            .flags = (uint32_t)need->card[n].ordinal << GS_METER_ORDINAL_SHIFT |
                     (n + 1 < need->n ? MORE : 0),
        };

        if (gs_track_put(GS_OBJ_GRAPH_EXEC, CARD_KEY(exec, n), &obj) != 0)
            return -ENOMEM;
    }
    __atomic_store_n(&seen_execs, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Around an instantiation: find the need, call, remember. */
struct making {
    struct gs_graph_need need;
    struct launch launch;
    bool upload;
};

static CUresult before_making(struct making *mk, CUgraph graph, unsigned long long flags,
                              const char *what)
{
    int rc;

    mk->need.n = 0;
    mk->launch.n = 0;
    mk->upload = (flags & UPLOAD_FLAG) != 0;
    if (GS_LIKELY(__atomic_load_n(&seen_nodes, __ATOMIC_RELAXED) == 0))
        return CUDA_SUCCESS;
    if (gs_graph_scan(graph, &mk->need) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < mk->need.n; i++) {
        rc = reserve_card(&mk->launch, mk->need.card[i].ordinal,
                          mk->upload ? mk->need.card[i].bytes : 0, what);
        if (rc != 0) {
            cancel(&mk->launch);
            return gs_device_result(rc);
        }
    }
    return CUDA_SUCCESS;
}

static CUresult after_making(struct making *mk, CUresult result, CUgraphExec *exec)
{
    const struct gs_driver *driver = gs_driver_cuda();

    if (mk->need.n == 0)
        return result;
    if (result != CUDA_SUCCESS || exec == NULL) {
        cancel(&mk->launch);
        return result;
    }
    settle(&mk->launch);
    if (note_exec(*exec, &mk->need, mk->upload) == 0)
        return result;
    if (driver->cuGraphExecDestroy != NULL)
        (void)driver->cuGraphExecDestroy(*exec); /* out of memory either way */
    *exec = NULL;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gs_nv_graph_instantiate(gs_fn_cuGraphInstantiateWithFlags *real, CUgraphExec *phGraphExec,
                                 CUgraph hGraph, unsigned long long flags)
{
    struct making mk;
    CUresult result = before_making(&mk, hGraph, 0, "cuGraphInstantiateWithFlags");

    if (result != CUDA_SUCCESS)
        return result;
    return after_making(&mk, real(phGraphExec, hGraph, flags), phGraphExec);
}

CUresult gs_nv_graph_instantiate_v1(gs_fn_cuGraphInstantiate_v2 *real, CUgraphExec *phGraphExec,
                                    CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                    size_t bufferSize)
{
    struct making mk;
    CUresult result = before_making(&mk, hGraph, 0, "cuGraphInstantiate");

    if (result != CUDA_SUCCESS)
        return result;
    return after_making(&mk, real(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
                        phGraphExec);
}

CUresult gs_nv_graph_instantiate_params(gs_fn_cuGraphInstantiateWithParams *real,
                                        CUgraphExec *phGraphExec, CUgraph hGraph,
                                        CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    struct making mk;
    CUresult result =
        before_making(&mk, hGraph, instantiateParams == NULL ? 0 : instantiateParams->flags,
                      "cuGraphInstantiateWithParams");

    if (result != CUDA_SUCCESS) {
        if (instantiateParams != NULL)
            instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
        return result;
    }
    return after_making(&mk, real(phGraphExec, hGraph, instantiateParams), phGraphExec);
}

CUresult gs_nv_graph_exec_destroy(gs_fn_cuGraphExecDestroy *real, CUgraphExec hGraphExec)
{
    struct gs_obj obj[GS_GRAPH_CARDS];
    uint32_t n = 0;
    CUresult result;

    gs_launch_graph_gone(hGraphExec);
    if (__atomic_load_n(&seen_execs, __ATOMIC_RELAXED) == 0)
        return real(hGraphExec);
    while (n < GS_GRAPH_CARDS && (n == 0 || (obj[n - 1].flags & MORE) != 0) &&
           gs_track_take(GS_OBJ_GRAPH_EXEC, CARD_KEY(hGraphExec, n), &obj[n]))
        n++;
    result = real(hGraphExec);
    if (result != CUDA_SUCCESS) {
        while (n-- != 0)
            if (gs_track_put(GS_OBJ_GRAPH_EXEC, CARD_KEY(hGraphExec, n), &obj[n]) != 0)
                gs_meter_freed(); /* launched unchecked from now on, but still read */
        return result;
    }
    gs_meter_freed();
    for (uint32_t i = 0; i < n; i++) /* without `what` it cannot fail */
        (void)gs_meter_settle(card_meter((CUdevice)GS_METER_ORDINAL(obj[i].flags)), 0, NULL);
    return result;
}

CUresult gs_nv_graph_destroy(gs_fn_cuGraphDestroy *real, CUgraph hGraph)
{
    CUresult result = real(hGraph);

    if (__atomic_load_n(&seen_nodes, __ATOMIC_RELAXED) != 0)
        gs_meter_freed();
    return result;
}

CUresult gs_nv_graph_mem_trim(gs_fn_cuDeviceGraphMemTrim *real, CUdevice device)
{
    CUresult result = real(device);

    if (result == CUDA_SUCCESS && gs_meter_any()) {
        gs_meter_trimmed();
        (void)gs_meter_settle(card_meter(device), 0, NULL); /* without `what` it cannot fail */
    }
    return result;
}
