#include "fake.h"

#include <errno.h>
#include <string.h>

#include "hook/gate.h"
#include "hook/share.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/linear.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/vmm.h"

struct fake fake;
struct gs_driver gs_driver_table;

static struct gs_device device = {
    .granularity = 2 * MIB, .physical_bytes = 1ull << 40, .uuid = "GPU-0"};
static int64_t graph_node[64];
static uint32_t n_graph_nodes;
static bool graph_is_chain;
/* sizes of live pointers, by (ptr - base) / 256 MiB */
#define BASE (1ull << 40)
static uint64_t size_of[4096];
static uint64_t dense_bytes;

/* ---- gate and shares ---- */

int gs_gate_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    (void)charge, (void)what;
    if (dev != 0)
        return -ENODEV;
    if (fake.limit != UINT64_MAX &&
        (bytes > fake.limit || fake.held + fake.shared > fake.limit - bytes)) {
        fake.refusals++;
        return -ENOMEM;
    }
    fake.held += bytes;
    return 0;
}

void gs_gate_release(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    (void)dev, (void)charge;
    if (bytes > fake.held)
        __builtin_trap(); /* more released than held: always a fault of the code under test */
    fake.held -= bytes;
}

void gs_gate_card_full(uint32_t dev, uint64_t bytes, const char *what)
{
    (void)dev, (void)what;
    fake.n_full++;
    fake.full_bytes = bytes;
    fake.full_held = fake.held;
}

void gs_gate_force(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    (void)dev, (void)charge;
    fake.held += bytes;
}

uint64_t gs_gate_used(uint32_t dev)
{
    (void)dev;
    return fake.held + fake.shared;
}

uint64_t gs_gate_limit(uint32_t dev)
{
    return dev == 0 ? fake.limit : 0;
}

static struct {
    struct gs_share_key key;
    uint64_t bytes;
    uint32_t refs;
} share[16];

struct gs_share_key gs_share_key_of(const void *bytes, uint32_t n)
{
    const unsigned char *p = bytes;
    struct gs_share_key key = {{1469598103934665603u, n}};

    for (uint32_t i = 0; i < n; i++)
        key.w[0] = (key.w[0] ^ p[i]) * 1099511628211u;
    return key;
}

int gs_share_join(struct gs_share_key key)
{
    for (int i = 0; i < 16; i++)
        if (share[i].refs != 0 && memcmp(&share[i].key, &key, sizeof(key)) == 0) {
            share[i].refs++;
            return i;
        }
    return -ENOENT;
}

int gs_share_publish(uint32_t dev, uint64_t bytes, struct gs_share_key key)
{
    for (int i = 0; i < 16; i++)
        if (share[i].refs == 0) {
            gs_gate_release(dev, bytes, GS_CHARGE_HELD);
            fake.shared += bytes;
            share[i].key = key;
            share[i].bytes = bytes;
            share[i].refs = 1;
            return i;
        }
    return -ENOSPC;
}

void gs_share_leave(int id)
{
    if (--share[id].refs == 0)
        fake.shared -= share[id].bytes;
}

/* ---- device ---- */

int gs_device_current(struct gs_device_here *ret_here)
{
    *ret_here = (struct gs_device_here){&device, (CUcontext)(uintptr_t)1, 1};
    return 0;
}

const struct gs_device *gs_device_by_ordinal(CUdevice ordinal)
{
    return ordinal == 0 ? &device : NULL;
}

const struct gs_device *gs_device_known(uint32_t ordinal)
{
    return ordinal == 0 ? &device : NULL;
}

void gs_driver_resolve_cuda(void)
{
}

uint64_t gs_vmm_serial(uint64_t id)
{
    return id;
}

int gs_vmm_match(uint64_t bytes, uint32_t *ret_dev)
{
    for (int i = 0; i < 16; i++)
        if (share[i].refs != 0 && share[i].bytes == bytes) {
            share[i].refs++;
            *ret_dev = 0;
            return i;
        }
    return -ENOENT;
}

int gs_linear_publish(CUdeviceptr ptr, struct gs_share_key key)
{
    (void)ptr, (void)key;
    return -ENOENT;
}

CUresult gs_nv_mem_free(CUresult (*real)(CUdeviceptr), CUdeviceptr dptr)
{
    CUresult result;

    return gs_pool_free_sync(real, dptr, &result) ? result : real(dptr);
}

/* ---- driver ---- */

static CUresult failed(void)
{
    CUresult result = fake.fail;

    fake.fail = CUDA_SUCCESS;
    return result;
}

static void grow(uint64_t bytes)
{
    uint64_t need;

    fake.pool_used += bytes;
    if (fake.pool_used <= fake.pool_reserved)
        return;
    need = fake.pool_used - fake.pool_reserved;
    fake.pool_reserved += (need + fake.pool_step - 1) / fake.pool_step * fake.pool_step;
}

CUresult fake_alloc_from_pool(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUresult result = failed();

    (void)pool, (void)stream;
    fake.forwards++;
    if (result != CUDA_SUCCESS)
        return result;
    if (fake.dense) {
        if (fake.next_dense == 0)
            fake.next_dense = BASE + (fake.next_ptr++ << 28);
        *ptr = fake.next_dense;
        fake.next_dense += bytes;
        dense_bytes = bytes;
    } else {
        size_of[fake.next_ptr] = bytes;
        *ptr = BASE + (fake.next_ptr++ << 28);
    }
    if (!fake.capturing)
        grow(bytes);
    return CUDA_SUCCESS;
}

CUresult fake_alloc_async(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
    return fake_alloc_from_pool(ptr, bytes, FAKE_POOL, stream);
}

CUresult fake_free(CUdeviceptr ptr)
{
    CUresult result = failed();

    if (result != CUDA_SUCCESS)
        return result;
    if (fake.dense) {
        fake.pool_used -= dense_bytes; /* all of one size in these tests */
        return CUDA_SUCCESS;
    }
    fake.pool_used -= size_of[(ptr - BASE) >> 28];
    size_of[(ptr - BASE) >> 28] = 0;
    return CUDA_SUCCESS;
}

CUresult fake_free_async(CUdeviceptr ptr, CUstream stream)
{
    (void)stream;
    return fake_free(ptr);
}

CUresult fake_pool_create(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    (void)props;
    *pool = FAKE_POOL2;
    return failed();
}

CUresult fake_pool_destroy(CUmemoryPool pool)
{
    (void)pool;
    return failed();
}

CUresult fake_trim(CUmemoryPool pool, size_t keep)
{
    uint64_t floor = fake.pool_used > keep ? fake.pool_used : keep;

    (void)pool;
    fake.trims++;
    floor = (floor + fake.pool_step - 1) / fake.pool_step * fake.pool_step;
    if (fake.pool_reserved > floor)
        fake.pool_reserved = floor;
    return CUDA_SUCCESS;
}

static CUresult pool_attribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    fake.attribute_reads++;
    if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        *(uint64_t *)value = fake.pool_reserved;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        *(uint64_t *)value = fake.pool_used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    (void)pool;
    return CUDA_SUCCESS;
}

static CUresult device_pool(CUmemoryPool *pool, CUdevice dev)
{
    (void)dev;
    *pool = FAKE_POOL;
    return CUDA_SUCCESS;
}

static CUresult device_count(int *n)
{
    *n = 1;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = fake.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult fake_export_pointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr)
{
    memset(data, 0, sizeof(*data));
    memcpy(data, &ptr, sizeof(ptr));
    return failed();
}

CUresult fake_import_pointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    (void)pool, (void)data;
    *ptr = BASE + (fake.next_ptr++ << 28);
    return failed();
}

CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)size, (void)prop, (void)flags;
    fake.forwards++;
    *handle = fake.next_handle++;
    return failed();
}

CUresult fake_release(CUmemGenericAllocationHandle handle)
{
    (void)handle;
    return failed();
}

CUresult fake_map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    (void)ptr, (void)size, (void)offset, (void)handle, (void)flags;
    return failed();
}

CUresult fake_unmap(CUdeviceptr ptr, size_t size)
{
    (void)ptr, (void)size;
    return failed();
}

CUresult fake_retain(CUmemGenericAllocationHandle *handle, void *addr)
{
    *handle = (uint64_t)(uintptr_t)addr >> 40; /* a test maps handle h at h << 40 */
    return failed();
}

CUresult fake_map_array(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
    (void)list, (void)count, (void)stream;
    return failed();
}

CUresult fake_export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                     unsigned long long flags)
{
    (void)type, (void)flags;
    memset(out, 0, 64);
    if (fake.export_fd != 0)
        memcpy(out, &fake.export_fd, sizeof(fake.export_fd));
    else
        memcpy(out, &handle, sizeof(handle));
    return failed();
}

CUresult fake_import(CUmemGenericAllocationHandle *handle, void *os, CUmemAllocationHandleType type)
{
    (void)os, (void)type;
    *handle = fake.next_handle++;
    return failed();
}

/* ---- graphs ---- */

void fake_graph(const int64_t *nodes, uint32_t n, bool chain)
{
    memcpy(graph_node, nodes, n * sizeof(*nodes));
    n_graph_nodes = n;
    graph_is_chain = chain;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *n)
{
    (void)graph;
    if (nodes != NULL)
        for (uint32_t i = 0; i < n_graph_nodes; i++)
            nodes[i] = (CUgraphNode)(uintptr_t)(i + 1);
    *n = n_graph_nodes;
    return CUDA_SUCCESS;
}

static int64_t at(CUgraphNode node)
{
    return graph_node[(uintptr_t)node - 1];
}

static CUresult node_type(CUgraphNode node, CUgraphNodeType *type)
{
    *type = at(node) > 0   ? CU_GRAPH_NODE_TYPE_MEM_ALLOC
            : at(node) < 0 ? CU_GRAPH_NODE_TYPE_MEM_FREE
                           : CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
}

static CUresult alloc_params(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    memset(params, 0, sizeof(*params));
    params->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params->bytesize = (size_t)at(node);
    params->dptr = (uintptr_t)node;
    return CUDA_SUCCESS;
}

static CUresult free_params(CUgraphNode node, CUdeviceptr *ptr)
{
    *ptr = (CUdeviceptr)-at(node);
    return CUDA_SUCCESS;
}

static CUresult dependencies(CUgraphNode node, CUgraphNode *out, size_t *n)
{
    size_t have = graph_is_chain && (uintptr_t)node > 1 ? 1 : 0;

    if (out != NULL && have != 0)
        out[0] = (CUgraphNode)((uintptr_t)node - 1);
    *n = have;
    return CUDA_SUCCESS;
}

static CUresult graph_attribute(CUdevice dev, CUgraphMem_attribute attr, void *value)
{
    (void)dev;
    *(uint64_t *)value =
        attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? fake.graph_reserved : fake.graph_used;
    return CUDA_SUCCESS;
}

static CUresult graph_trim(CUdevice dev)
{
    (void)dev;
    fake.graph_trims++;
    fake.graph_reserved = fake.graph_used;
    return CUDA_SUCCESS;
}

CUresult fake_launch(CUgraphExec exec, CUstream stream)
{
    CUresult result = failed();

    (void)exec, (void)stream;
    fake.forwards++;
    return result;
}

CUresult fake_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)graph, (void)flags;
    *exec = (CUgraphExec)(uintptr_t)(0x5000 + fake.next_handle++);
    return failed();
}

CUresult fake_exec_destroy(CUgraphExec exec)
{
    (void)exec;
    return failed();
}

void fake_reset(uint64_t limit)
{
    uint64_t ptr = fake.next_ptr, handle = fake.next_handle;

    gs_track_reset();
    memset(&fake, 0, sizeof(fake));
    memset(share, 0, sizeof(share));
    fake.limit = limit;
    fake.pool_step = 2 * MIB;
    fake.next_ptr = ptr;
    fake.next_handle = handle != 0 ? handle : 1;
    gs_driver_table = (struct gs_driver){
        .cuDeviceGetCount = device_count,
        .cuDeviceGetMemPool = device_pool,
        .cuDeviceGetDefaultMemPool = device_pool,
        .cuMemPoolGetAttribute = pool_attribute,
        .cuMemPoolTrimTo = fake_trim,
        .cuMemPoolDestroy = fake_pool_destroy,
        .cuMemFreeAsync = fake_free_async,
        .cuMemRelease = fake_release,
        .cuMemUnmap = fake_unmap,
        .cuStreamIsCapturing = is_capturing,
        .cuGraphGetNodes = get_nodes,
        .cuGraphNodeGetType = node_type,
        .cuGraphMemAllocNodeGetParams = alloc_params,
        .cuGraphMemFreeNodeGetParams = free_params,
        .cuGraphNodeGetDependencies = dependencies,
        .cuGraphExecDestroy = fake_exec_destroy,
        .cuDeviceGetGraphMemAttribute = graph_attribute,
        .cuDeviceGraphMemTrim = graph_trim,
        .cuda_known = 1,
    };
}
