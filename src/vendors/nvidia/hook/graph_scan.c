#include "vendors/nvidia/hook/graph_scan.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"

#define DEPTH      32u /* child graphs within child graphs */
#define MAX_NODES  (1ull << 24)
#define MAX_PIECES 256u /* different pieces followed along a chain */

/* Node lists live in pages of our own: a hook does not use the program's allocator. */
struct list {
    CUgraphNode *nodes;
    size_t n;
    size_t next;
    size_t mapped;
};

static int list_open(const struct gs_driver *driver, CUgraph graph, struct list *ret_list)
{
    size_t n = 0, bytes;
    void *p;

    *ret_list = (struct list){0};
    if (driver->cuGraphGetNodes(graph, NULL, &n) != CUDA_SUCCESS || n == 0)
        return 0; /* a bad graph: the driver will say so */
    if (n > MAX_NODES)
        return -ENOMEM;
    bytes = n * sizeof(CUgraphNode);
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return -ENOMEM;
    *ret_list = (struct list){.nodes = p, .n = n, .mapped = bytes};
    if (driver->cuGraphGetNodes(graph, ret_list->nodes, &ret_list->n) != CUDA_SUCCESS ||
        ret_list->n > n)
        ret_list->n = 0;
    return 0;
}

static void list_close(struct list *list)
{
    if (list->nodes != NULL)
        munmap(list->nodes, list->mapped);
    *list = (struct list){0};
}

static void add(struct gs_graph_need *need, CUdevice ordinal, uint64_t bytes)
{
    uint32_t i = 0;

    while (i < need->n && need->card[i].ordinal != ordinal)
        i++;
    if (i == GS_GRAPH_CARDS)
        return; /* the reading after the launch still finds it */
    if (i == need->n) {
        need->card[i].ordinal = ordinal;
        need->card[i].bytes = 0;
        need->n++;
    }
    need->card[i].bytes =
        bytes > UINT64_MAX - need->card[i].bytes ? UINT64_MAX : need->card[i].bytes + bytes;
}

/* Size and card of an allocation node; false for memory that is on no card. */
static bool alloc_node(const struct gs_driver *driver, CUgraphNode node, CUdevice *ret_ordinal,
                       uint64_t *ret_bytes, CUdeviceptr *ret_ptr)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
    const struct gs_device *device;

    if (driver->cuGraphMemAllocNodeGetParams == NULL ||
        driver->cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS ||
        params.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return false;
    device = gs_device_by_ordinal(params.poolProps.location.id);
    if (device == NULL)
        return false;
    *ret_ordinal = params.poolProps.location.id;
    *ret_bytes = gs_device_round(device, params.bytesize);
    *ret_ptr = params.dptr;
    return true;
}

static bool is_type(const struct gs_driver *driver, CUgraphNode node, CUgraphNodeType wanted)
{
    CUgraphNodeType type;

    return driver->cuGraphNodeGetType(node, &type) == CUDA_SUCCESS && type == wanted;
}

static int sum(const struct gs_driver *driver, CUgraph graph, struct gs_graph_need *need)
{
    struct list stack[DEPTH];
    uint32_t depth = 1;
    int rc = list_open(driver, graph, &stack[0]);

    while (rc == 0 && depth != 0) {
        struct list *top = &stack[depth - 1];
        CUgraphNodeType type;
        CUgraphNode node;
        CUdeviceptr ptr;
        CUgraph child;
        CUdevice ordinal;
        uint64_t bytes;

        if (top->next == top->n) {
            list_close(top);
            depth--;
            continue;
        }
        node = top->nodes[top->next++];
        if (driver->cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
            continue;
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
            if (alloc_node(driver, node, &ordinal, &bytes, &ptr))
                add(need, ordinal, bytes);
        } else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
                   driver->cuGraphChildGraphNodeGetGraph != NULL &&
                   driver->cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS) {
            rc = depth == DEPTH ? -ENOMEM : list_open(driver, child, &stack[depth]);
            depth += rc == 0 ? 1 : 0;
        }
    }
    while (depth != 0)
        list_close(&stack[--depth]);
    return rc;
}

/* Does each node depend on the one before it, and on nothing else? Lists come in the order in which
 * the nodes were made; a chain made in another order is summed instead. */
static bool is_chain(const struct gs_driver *driver, const struct list *list)
{
    CUgraphNode before = NULL;

    if (driver->cuGraphNodeGetDependencies == NULL)
        return false;
    for (size_t i = 0; i < list->n; i++) {
        CUgraphNode dependency = NULL;
        size_t n = 1;

        if (driver->cuGraphNodeGetDependencies(list->nodes[i], NULL, &n) != CUDA_SUCCESS ||
            n != (i == 0 ? 0u : 1u))
            return false;
        if (i != 0 &&
            (driver->cuGraphNodeGetDependencies(list->nodes[i], &dependency, &n) != CUDA_SUCCESS ||
             dependency != before))
            return false;
        before = list->nodes[i];
    }
    return true;
}

struct piece {
    CUdeviceptr ptr;
    uint64_t bytes;
    bool live;
};

/* What a chain takes from one card when memory freed earlier in it serves later nodes of the same
 * size again. Drivers may do better, none does worse. Returns false where it cannot tell. */
static bool reused(const struct gs_driver *driver, const struct list *list, CUdevice card,
                   uint64_t *ret_bytes)
{
    struct piece piece[MAX_PIECES];
    uint64_t total = 0, bytes;
    CUdeviceptr ptr;
    CUdevice ordinal;
    uint32_t n = 0, k;

    if (driver->cuGraphMemFreeNodeGetParams == NULL)
        return false;
    for (size_t i = 0; i < list->n; i++) {
        if (is_type(driver, list->nodes[i], CU_GRAPH_NODE_TYPE_GRAPH))
            return false;
        if (is_type(driver, list->nodes[i], CU_GRAPH_NODE_TYPE_MEM_ALLOC)) {
            if (!alloc_node(driver, list->nodes[i], &ordinal, &bytes, &ptr) || ordinal != card)
                continue;
            for (k = 0; k < n && (piece[k].live || piece[k].bytes != bytes); k++)
                continue;
            if (k == MAX_PIECES || bytes > UINT64_MAX - total)
                return false;
            if (k == n) {
                n++;
                total += bytes;
            }
            piece[k] = (struct piece){ptr, bytes, true};
        } else if (is_type(driver, list->nodes[i], CU_GRAPH_NODE_TYPE_MEM_FREE)) {
            if (driver->cuGraphMemFreeNodeGetParams(list->nodes[i], &ptr) != CUDA_SUCCESS)
                return false;
            for (k = 0; k < n; k++)
                if (piece[k].ptr == ptr)
                    piece[k].live = false;
        }
    }
    *ret_bytes = total;
    return true;
}

int gs_graph_scan(CUgraph graph, struct gs_graph_need *ret_need)
{
    const struct gs_driver *driver = gs_driver_cuda();
    struct list list;
    int rc;

    ret_need->n = 0;
    if (driver->cuGraphGetNodes == NULL || driver->cuGraphNodeGetType == NULL)
        return 0; /* a driver without them has no allocation nodes either */
    rc = sum(driver, graph, ret_need);
    if (rc != 0 || ret_need->n == 0)
        return rc;
    if (list_open(driver, graph, &list) != 0)
        return 0; /* the sum will do */
    if (is_chain(driver, &list)) {
        uint64_t bytes;

        for (uint32_t i = 0; i < ret_need->n; i++)
            if (reused(driver, &list, ret_need->card[i].ordinal, &bytes))
                ret_need->card[i].bytes = bytes;
    }
    list_close(&list);
    return 0;
}
