/* One attempt to take 512 MiB of device memory: `take SYMBOL`. Built by test_take.py against
 * NVIDIA's cuda.h; includes nothing of ours, finds every function by dlsym.
 *
 * stdout: one line `CALL RESULT` for each driver call of the attempt, the one under trial marked
 * `*`; the attempt ends at the first call that fails. Then `used BYTES`: what cuMemGetInfo says the
 * card has lost. Exit status: 0; 2 for a symbol nobody wrote an attempt for; 3 if the driver lacks
 * the symbol. */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB  ((size_t)1 << 20)
#define TAKE (512 * MIB)

static const char *trial;
static void *driver;

static void *find(const char *name)
{
    void *f = dlsym(driver, name);
    if (!f) {
        printf("%s absent\n", name);
        exit(3);
    }
    return f;
}

static CUresult told(const char *name, CUresult rc)
{
    printf("%s%s %d\n", name, strcmp(name, trial) ? "" : "*", (int)rc);
    fflush(stdout);
    return rc;
}

/* Call a driver function by the type the header gives it; leave the attempt when it fails. */
#define TRY_AS(type, name, ...)                                                                    \
    do {                                                                                           \
        CUresult rc_ = told(name, ((__typeof__(&(type)))find(name))(__VA_ARGS__));                 \
        if (rc_ != CUDA_SUCCESS)                                                                   \
            return;                                                                                \
    } while (0)
#define TRY(fn, ...) TRY_AS(fn, #fn, __VA_ARGS__)

static CUdevice device;
static CUcontext context;
static CUdeviceptr pointer;

static const CUmemPoolProps on_card = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static CUstream stream(void)
{
    CUstream made = NULL;
    ((__typeof__(&cuStreamCreate))find("cuStreamCreate"))(&made, CU_STREAM_NON_BLOCKING);
    return made;
}

/* ---- linear memory ---- */

static void take_alloc(void)
{
    TRY(cuMemAlloc_v2, &pointer, TAKE);
}

static void take_alloc_v1(void)
{
    unsigned int old;
    TRY(cuMemAlloc, &old, (unsigned int)TAKE);
}

static void take_pitch(void)
{
    size_t pitch;
    TRY(cuMemAllocPitch_v2, &pointer, &pitch, 1 * MIB, 512, 16);
}

static void take_pitch_v1(void)
{
    unsigned int old, pitch;
    TRY(cuMemAllocPitch, &old, &pitch, (unsigned int)MIB, 512, 16);
}

/* Managed memory takes the card when it is used, or brought there. By name: headers of CUDA 13 give
 * cuMemPrefetchAsync the later signature. */
static void take_managed(void)
{
    typedef CUresult prefetch(CUdeviceptr, size_t, CUdevice, CUstream);

    TRY(cuMemAllocManaged, &pointer, TAKE, CU_MEM_ATTACH_GLOBAL);
    TRY_AS(*(prefetch *)NULL, "cuMemPrefetchAsync", pointer, TAKE, device, NULL);
}

/* ---- arrays: 16 bytes an element ---- */

static void take_array(void)
{
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR d = {
        .Width = 8192, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    TRY(cuArrayCreate_v2, &array, &d);
}

static void take_array_v1(void)
{
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR_v1 d = {
        .Width = 8192, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    TRY(cuArrayCreate, &array, &d);
}

static void take_array3d(void)
{
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = 1024, .Height = 1024, .Depth = 32, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    TRY(cuArray3DCreate_v2, &array, &d);
}

static void take_array3d_v1(void)
{
    CUarray array;
    CUDA_ARRAY3D_DESCRIPTOR_v1 d = {
        .Width = 1024, .Height = 1024, .Depth = 32, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    TRY(cuArray3DCreate, &array, &d);
}

static void take_mipmap(void)
{
    CUmipmappedArray array;
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = 8192, .Height = 4096, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    TRY(cuMipmappedArrayCreate, &array, &d, 3);
}

/* ---- pools ---- */

static void take_async(void)
{
    CUstream s = stream();
    TRY_AS(cuMemAllocAsync, trial, &pointer, TAKE, s);
}

static void take_from_pool(void)
{
    CUstream s = stream();
    CUmemoryPool pool;
    const char *from = strcmp(trial, "cuMemPoolCreate") ? trial : "cuMemAllocFromPoolAsync";
    TRY(cuMemPoolCreate, &pool, &on_card);
    TRY_AS(cuMemAllocFromPoolAsync, from, &pointer, TAKE, pool, s);
}

static void take_device_pool(void)
{
    CUstream s = stream();
    CUmemoryPool pool;
    TRY(cuMemPoolCreate, &pool, &on_card);
    TRY(cuDeviceSetMemPool, device, pool);
    TRY(cuMemAllocAsync, &pointer, TAKE, s);
}

static void take_location_pool(void)
{
    CUstream s = stream();
    CUmemoryPool pool;
    CUmemLocation here = on_card.location;
    TRY(cuMemPoolCreate, &pool, &on_card);
    TRY(cuMemSetMemPool, &here, CU_MEM_ALLOCATION_TYPE_PINNED, pool);
    TRY(cuMemAllocAsync, &pointer, TAKE, s);
}

static void take_create(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    TRY(cuMemCreate, &handle, TAKE, &prop, 0);
}

/* ---- contexts: the simulated card's context overhead is 512 MiB in these ---- */

static void take_context(void)
{
    TRY_AS(cuCtxCreate_v2, trial, &context, 0, device);
}

static void take_context_v3(void)
{
    TRY(cuCtxCreate_v3, &context, NULL, 0, 0, device);
}

static void take_context_v4(void)
{
    TRY(cuCtxCreate_v4, &context, NULL, 0, device);
}

typedef CUresult vdpau_create(CUcontext *, unsigned int, CUdevice, unsigned int, void *);

static void take_vdpau(void)
{
    told(trial, ((vdpau_create *)find(trial))(&context, 0, device, 1, NULL));
}

static void take_primary(void)
{
    TRY(cuDevicePrimaryCtxRetain, &context, device);
}

static void take_green(void)
{
    CUdevResource all, some;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    unsigned int groups = 1;
    TRY(cuDeviceGetDevResource, device, &all, CU_DEV_RESOURCE_TYPE_SM);
    TRY(cuDevSmResourceSplitByCount, &some, &groups, &all, NULL, 0, 16);
    TRY(cuDevResourceGenerateDesc, &desc, &some, 1);
    TRY(cuGreenCtxCreate, &green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM);
    TRY(cuCtxFromGreenCtx, &context, green);
    TRY(cuCtxSetCurrent, context);
}

static void take_limit(void)
{
    TRY(cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, TAKE);
}

/* ---- graphs ---- */

/* A graph with `count` allocation nodes of `bytes` that are all live at once. Old and new forms. */
static int build(CUgraph *graph, int count, size_t bytes)
{
    *graph = NULL;
    if (((__typeof__(&cuGraphCreate))find("cuGraphCreate"))(graph, 0))
        return 1;
    for (int i = 0; i < count; i++) {
        CUgraphNode node;
        CUDA_MEM_ALLOC_NODE_PARAMS_v1 p = {.poolProps = on_card, .bytesize = bytes};
        CUresult rc = ((__typeof__(&cuGraphAddMemAllocNode))find("cuGraphAddMemAllocNode"))(
            &node, *graph, NULL, 0, &p);
        if (rc)
            return told("cuGraphAddMemAllocNode", rc) != 0;
    }
    return 0;
}

static void run(CUgraph graph)
{
    CUgraphExec exec;
    CUstream s = stream();
    TRY(cuGraphInstantiateWithFlags, &exec, graph, 0);
    TRY(cuGraphLaunch, exec, s);
    TRY(cuStreamSynchronize, s);
}

static void take_alloc_node(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS_v1 p = {.poolProps = on_card, .bytesize = TAKE};
    TRY(cuGraphCreate, &graph, 0);
    TRY(cuGraphAddMemAllocNode, &node, graph, NULL, 0, &p);
    run(graph);
}

static void take_any_node(void)
{
    CUgraph graph;
    CUgraphNode node;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    p.alloc.poolProps = on_card;
    p.alloc.bytesize = TAKE;
    TRY(cuGraphCreate, &graph, 0);
    if (!strcmp(trial, "cuGraphAddNode"))
        TRY(cuGraphAddNode, &node, graph, NULL, 0, &p);
    else
        TRY_AS(cuGraphAddNode_v2, trial, &node, graph, NULL, NULL, 0, &p);
    run(graph);
}

static void take_instantiate(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstream s = stream();
    if (build(&graph, 16, 32 * MIB))
        return;
    if (strstr(trial, "WithParams")) {
        CUDA_GRAPH_INSTANTIATE_PARAMS p = {.flags = 0};
        TRY_AS(cuGraphInstantiateWithParams, trial, &exec, graph, &p);
    } else if (strstr(trial, "WithFlags")) {
        TRY(cuGraphInstantiateWithFlags, &exec, graph, 0);
    } else {
        char text[64];
        CUgraphNode bad;
        TRY_AS(cuGraphInstantiate_v2, trial, &exec, graph, &bad, text, sizeof text);
    }
    TRY(cuGraphLaunch, exec, s);
    TRY(cuStreamSynchronize, s);
}

/* Eleven graphs of 48 MiB: each may run alone. */
static void take_launch(void)
{
    CUstream s = stream();
    for (int i = 0; i < 11; i++) {
        CUgraph graph;
        CUgraphExec exec;
        if (build(&graph, 1, 48 * MIB))
            return;
        TRY(cuGraphInstantiateWithFlags, &exec, graph, 0);
        if (strstr(trial, "Upload"))
            TRY_AS(cuGraphUpload, trial, exec, s);
        TRY_AS(cuGraphLaunch, strstr(trial, "Upload") ? "cuGraphLaunch" : trial, exec, s);
        TRY(cuStreamSynchronize, s);
    }
}

/* ---- code with a variable of 512 MiB ---- */

static const char image[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                            ".visible .global .align 16 .b8 big[536870912];\n"
                            ".visible .entry touch()\n{\n\tret;\n}\n";

static const char *image_file(void)
{
    static char name[] = "/tmp/gpuslice-take-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || write(fd, image, sizeof image) != (ssize_t)sizeof image)
        exit(1);
    close(fd);
    return name;
}

static void take_module(void)
{
    CUmodule module;
    if (!strcmp(trial, "cuModuleLoad")) {
        const char *name = image_file();
        CUresult rc = told(trial, ((__typeof__(&cuModuleLoad))find(trial))(&module, name));
        unlink(name);
        if (rc)
            return;
    } else if (!strcmp(trial, "cuModuleLoadDataEx")) {
        TRY(cuModuleLoadDataEx, &module, image, 0, NULL, NULL);
    } else {
        TRY_AS(cuModuleLoadData, trial, &module, image);
    }
    size_t bytes;
    TRY(cuModuleGetGlobal_v2, &pointer, &bytes, module, "big");
}

static void take_library(void)
{
    CUlibrary library;
    size_t bytes;
    if (!strcmp(trial, "cuLibraryLoadData")) {
        TRY(cuLibraryLoadData, &library, image, NULL, NULL, 0, NULL, NULL, 0);
    } else {
        const char *name = image_file();
        CUresult rc = told(trial, ((__typeof__(&cuLibraryLoadFromFile))find(trial))(
                                      &library, name, NULL, NULL, 0, NULL, NULL, 0));
        unlink(name);
        if (rc)
            return;
    }
    TRY(cuLibraryGetGlobal, &pointer, &bytes, library, "big");
}

/* CONTEXT: the attempt makes its own context, or none. */
static const struct attempt {
    const char *symbol;
    void (*run)(void);
    int own_context;
} attempts[] = {
    {"cuArray3DCreate", take_array3d_v1, 0},
    {"cuArray3DCreate_v2", take_array3d, 0},
    {"cuArrayCreate", take_array_v1, 0},
    {"cuArrayCreate_v2", take_array, 0},
    {"cuCtxCreate", take_context, 1},
    {"cuCtxCreate_v2", take_context, 1},
    {"cuCtxCreate_v3", take_context_v3, 1},
    {"cuCtxCreate_v4", take_context_v4, 1},
    {"cuCtxSetLimit", take_limit, 0},
    {"cuDevicePrimaryCtxRetain", take_primary, 1},
    {"cuDeviceSetMemPool", take_device_pool, 0},
    {"cuGLCtxCreate", take_context, 1},
    {"cuGLCtxCreate_v2", take_context, 1},
    {"cuGraphAddMemAllocNode", take_alloc_node, 0},
    {"cuGraphAddNode", take_any_node, 0},
    {"cuGraphAddNode_v2", take_any_node, 0},
    {"cuGraphAddNode_v3", take_any_node, 0},
    {"cuGraphInstantiate", take_instantiate, 0},
    {"cuGraphInstantiateWithFlags", take_instantiate, 0},
    {"cuGraphInstantiateWithParams", take_instantiate, 0},
    {"cuGraphInstantiateWithParams_ptsz", take_instantiate, 0},
    {"cuGraphInstantiate_v2", take_instantiate, 0},
    {"cuGraphLaunch", take_launch, 0},
    {"cuGraphLaunch_ptsz", take_launch, 0},
    {"cuGraphUpload", take_launch, 0},
    {"cuGraphUpload_ptsz", take_launch, 0},
    {"cuGreenCtxCreate", take_green, 1},
    {"cuLibraryLoadData", take_library, 0},
    {"cuLibraryLoadFromFile", take_library, 0},
    {"cuMemAlloc", take_alloc_v1, 0},
    {"cuMemAllocAsync", take_async, 0},
    {"cuMemAllocAsync_ptsz", take_async, 0},
    {"cuMemAllocFromPoolAsync", take_from_pool, 0},
    {"cuMemAllocFromPoolAsync_ptsz", take_from_pool, 0},
    {"cuMemAllocManaged", take_managed, 0},
    {"cuMemAllocPitch", take_pitch_v1, 0},
    {"cuMemAllocPitch_v2", take_pitch, 0},
    {"cuMemAlloc_v2", take_alloc, 0},
    {"cuMemCreate", take_create, 0},
    {"cuMemPoolCreate", take_from_pool, 0},
    {"cuMemSetMemPool", take_location_pool, 0},
    {"cuMipmappedArrayCreate", take_mipmap, 0},
    {"cuModuleLoad", take_module, 0},
    {"cuModuleLoadData", take_module, 0},
    {"cuModuleLoadDataEx", take_module, 0},
    {"cuModuleLoadFatBinary", take_module, 0},
    {"cuVDPAUCtxCreate", take_vdpau, 1},
    {"cuVDPAUCtxCreate_v2", take_vdpau, 1},
};

/* ---- exceptions that a limit must not refuse: 512 MiB of what is not device memory ---- */

static void free_reserve(void)
{
    TRY(cuMemAddressReserve, &pointer, TAKE, 0, 0, 0);
}

static void free_host(void)
{
    void *host;
    if (!strcmp(trial, "cuMemAllocHost_v2"))
        TRY(cuMemAllocHost_v2, &host, TAKE);
    else
        TRY(cuMemHostAlloc, &host, TAKE, CU_MEMHOSTALLOC_DEVICEMAP);
}

static void free_register(void)
{
    void *host = aligned_alloc(4096, TAKE);
    TRY(cuMemHostRegister_v2, host, TAKE, 0);
}

static void free_objects(void)
{
    CUstream s;
    CUevent e;
    CUgraph g;
    for (int i = 0; i < 100; i++) {
        TRY(cuStreamCreate, &s, CU_STREAM_NON_BLOCKING);
        TRY(cuEventCreate, &e, 0);
        TRY(cuGraphCreate, &g, 0);
    }
}

static const struct attempt harmless[] = {
    {"cuMemAddressReserve", free_reserve, 0}, {"cuMemAllocHost_v2", free_host, 0},
    {"cuMemHostAlloc", free_host, 0},         {"cuMemHostRegister_v2", free_register, 0},
    {"cuStreamCreate", free_objects, 0},
};

static const struct attempt *attempt_of(const char *symbol)
{
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        if (!strcmp(attempts[i].symbol, symbol))
            return &attempts[i];
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (!strcmp(harmless[i].symbol, symbol))
            return &harmless[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
            printf("%s %s\n", attempts[i].symbol, attempts[i].own_context ? "context" : "memory");
        return 0;
    }
    const struct attempt *a = argc == 2 ? attempt_of(argv[1]) : NULL;
    if (!a)
        return 2;
    trial = a->symbol;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (((__typeof__(&cuInit))find("cuInit"))(0) ||
        ((__typeof__(&cuDeviceGet))find("cuDeviceGet"))(&device, 0))
        return 1;
    if (!a->own_context) {
        if (((__typeof__(&cuDevicePrimaryCtxRetain))find("cuDevicePrimaryCtxRetain"))(&context,
                                                                                      device) ||
            ((__typeof__(&cuCtxSetCurrent))find("cuCtxSetCurrent"))(context))
            return 1;
    }
    a->run();
    size_t bytes_free = 0, total = 0;
    if (context && a->own_context)
        ((__typeof__(&cuCtxSetCurrent))find("cuCtxSetCurrent"))(context);
    ((__typeof__(&cuMemGetInfo_v2))find("cuMemGetInfo_v2"))(&bytes_free, &total);
    printf("used %zu\n", total - bytes_free);
    return 0;
}
