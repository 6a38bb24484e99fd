#pragma once
/* A driver and a gate made of a few numbers, for the rows that follow memory: what they were told
 * can be read back, and any driver call can be made to fail. */

#include <stdbool.h>
#include <stdint.h>

#include "vendors/nvidia/abi/cuda_types.h"

#define MIB (1ull << 20)

struct fake {
    /* the card */
    uint64_t pool_reserved, pool_used; /* of the one pool (handle 0x1000) */
    uint64_t pool_step;                /* growth is a multiple of this */
    uint64_t graph_reserved, graph_used;
    uint64_t next_ptr;
    uint64_t next_handle;
    uint32_t trims, graph_trims, attribute_reads, forwards;
    CUresult fail; /* the next real allocation or free answers this */
    bool capturing;
    int export_fd; /* what an export answers with; 0: the handle */
    bool dense;    /* pointers follow each other, as within a chunk */
    uint64_t next_dense;
    /* the gate */
    uint64_t limit;
    uint64_t held;
    uint32_t n_full;     /* times that the gate was told of a full card */
    uint64_t full_bytes; /* what there was no room for, last */
    uint64_t full_held;  /* what was charged then */
    uint64_t shared;
    uint32_t refusals;
};
extern struct fake fake;

void fake_reset(uint64_t limit);

CUresult fake_alloc_async(CUdeviceptr *ptr, size_t bytes, CUstream stream);
CUresult fake_alloc_from_pool(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult fake_free_async(CUdeviceptr ptr, CUstream stream);
CUresult fake_free(CUdeviceptr ptr);
CUresult fake_pool_create(CUmemoryPool *pool, const CUmemPoolProps *props);
CUresult fake_pool_destroy(CUmemoryPool pool);
CUresult fake_trim(CUmemoryPool pool, size_t keep);
CUresult fake_export_pointer(CUmemPoolPtrExportData *data, CUdeviceptr ptr);
CUresult fake_import_pointer(CUdeviceptr *ptr, CUmemoryPool pool, CUmemPoolPtrExportData *data);
CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult fake_release(CUmemGenericAllocationHandle handle);
CUresult fake_map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags);
CUresult fake_unmap(CUdeviceptr ptr, size_t size);
CUresult fake_retain(CUmemGenericAllocationHandle *handle, void *addr);
CUresult fake_map_array(CUarrayMapInfo *list, unsigned int count, CUstream stream);
CUresult fake_export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                     unsigned long long flags);
CUresult fake_import(CUmemGenericAllocationHandle *handle, void *os,
                     CUmemAllocationHandleType type);
CUresult fake_launch(CUgraphExec exec, CUstream stream);
CUresult fake_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult fake_exec_destroy(CUgraphExec exec);

/** Nodes of the one graph: > 0 allocates that many bytes, < 0 frees the allocation made by node -n
 * - 1, 0 is a kernel. `chain`: each depends on the one before. */
void fake_graph(const int64_t *nodes, uint32_t n, bool chain);
#define FAKE_POOL  ((CUmemoryPool)(uintptr_t)0x1000)
#define FAKE_POOL2 ((CUmemoryPool)(uintptr_t)0x2000)
#define FAKE_GRAPH ((CUgraph)(uintptr_t)0x3000)
