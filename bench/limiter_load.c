#include "limiter_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t load_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void give_up(const char *what, const char *why)
{
    (void)fprintf(stderr, "limiter_client: %s: %s\n", what, why);
    exit(1);
}

void load_must(CUresult rc, const char *what)
{
    if (rc == CUDA_SUCCESS)
        return;
    (void)fprintf(stderr, "limiter_client: %s failed with %d\n", what, rc);
    exit(1);
}

static uint64_t length_of(const char *name)
{
    char *unit;
    uint64_t n = name[0] == 'k' ? strtoull(name + 1, &unit, 10) : 0;

    if (n != 0 && strcmp(unit, "us") == 0)
        return n * 1000;
    if (n != 0 && strcmp(unit, "ms") == 0)
        return n * 1000000;
    if (n != 0 && strcmp(unit, "s") == 0)
        return n * 1000000000;
    give_up(name, "no kernel's name: k20us, k1ms, k1s");
    return 0;
}

void load_name_kernels(struct load *l, const char *list)
{
    char lengths[LOAD_KERNELS * 40] = "";
    size_t used = 0;

    while (*list != '\0') {
        size_t n = strcspn(list, ",");

        if (l->n == LOAD_KERNELS || n >= sizeof(l->name[0]))
            give_up(list, "too many kernels, or too long a name");
        memcpy(l->name[l->n], list, n);
        l->ns[l->n] = length_of(l->name[l->n]);
        used += (size_t)snprintf(lengths + used, sizeof(lengths) - used, "%s=%llu,", l->name[l->n],
                                 (unsigned long long)l->ns[l->n]);
        l->n++;
        list += n;
        list += *list == ',';
    }
    (void)setenv("GPUSLICE_SIM_KERNEL_NS", lengths, 1);
}

static void find(void *lib, const char *name, void *slot)
{
    void *p = dlsym(lib, name);

    if (p == NULL)
        give_up(name, "not in the driver");
    memcpy(slot, &p, sizeof(p));
}

static void find_all(void *lib, struct load_driver *d)
{
    find(lib, "cuInit", &d->init);
    find(lib, "cuDevicePrimaryCtxRetain", &d->retain);
    find(lib, "cuCtxSetCurrent", &d->set);
    find(lib, "cuCtxSynchronize", &d->sync_ctx);
    find(lib, "cuModuleLoadData", &d->load);
    find(lib, "cuModuleGetFunction", &d->function);
    find(lib, "cuLaunchKernel", &d->launch);
    find(lib, "cuLaunchKernel_ptsz", &d->launch_ptsz);
    find(lib, "cuLaunchKernelEx", &d->launch_ex);
    find(lib, "cuLaunchKernelEx_ptsz", &d->launch_ex_ptsz);
    find(lib, "cuLaunchCooperativeKernel", &d->launch_coop);
    find(lib, "cuLaunchGridAsync", &d->launch_grid);
    find(lib, "cuFuncSetBlockShape", &d->block_shape);
    find(lib, "cuStreamCreate", &d->stream_new);
    find(lib, "cuStreamSynchronize", &d->stream_sync);
    find(lib, "cuStreamQuery", &d->stream_query);
    find(lib, "cuLaunchHostFunc", &d->host_func);
    find(lib, "cuEventCreate", &d->event_new);
    find(lib, "cuEventRecord", &d->event_record);
    find(lib, "cuEventSynchronize", &d->event_sync);
    find(lib, "cuEventQuery", &d->event_query);
    find(lib, "cuEventElapsedTime", &d->event_elapsed);
    find(lib, "cuStreamBeginCapture_v2", &d->capture_begin);
    find(lib, "cuStreamEndCapture", &d->capture_end);
    find(lib, "cuGraphInstantiateWithFlags", &d->instantiate);
    find(lib, "cuGraphLaunch", &d->graph_launch);
}

/* As much PTX as a driver needs to find the entries in it. */
static void load_module(struct load *l)
{
    static char ptx[128 + LOAD_KERNELS * 64];
    size_t n =
        (size_t)snprintf(ptx, sizeof(ptx), ".version 7.0\n.target sm_70\n.address_size 64\n");
    CUmodule module;

    for (uint32_t i = 0; i < l->n; i++)
        n += (size_t)snprintf(ptx + n, sizeof(ptx) - n, ".visible .entry %s()\n{\n\tret;\n}\n",
                              l->name[i]);
    load_must(l->drv.load(&module, ptx), "cuModuleLoadData");
    for (uint32_t i = 0; i < l->n; i++) {
        load_must(l->drv.function(&l->fn[i], module, l->name[i]), "cuModuleGetFunction");
        load_must(l->drv.block_shape(l->fn[i], LOAD_THREADS, 1, 1), "cuFuncSetBlockShape");
    }
}

void load_open(struct load *l, int device)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (lib == NULL)
        give_up("libcuda.so.1", dlerror());
    find_all(lib, &l->drv);
    load_must(l->drv.init(0), "cuInit");
    load_must(l->drv.retain(&l->ctx, device), "cuDevicePrimaryCtxRetain");
    load_must(l->drv.set(l->ctx), "cuCtxSetCurrent");
    load_module(l);
}

CUresult load_launch(const struct load *l, uint32_t i, CUstream stream)
{
    const struct load_driver *d = &l->drv;
    CUfunction f = l->fn[i];
    CUlaunchConfig config = {.gridDimX = l->blocks, .gridDimY = 1, .gridDimZ = 1, .blockDimY = 1};
    unsigned n = l->blocks;

    config.blockDimX = LOAD_THREADS;
    config.blockDimZ = 1;
    config.hStream = stream;
    switch (l->api) {
    case API_EX:
        return d->launch_ex(&config, f, NULL, NULL);
    case API_EX_PTSZ:
        return d->launch_ex_ptsz(&config, f, NULL, NULL);
    case API_COOPERATIVE:
        return d->launch_coop(f, n, 1, 1, LOAD_THREADS, 1, 1, 0, stream, NULL);
    case API_GRID:
        return d->launch_grid(f, (int)n, 1, stream);
    case API_PTSZ:
        return d->launch_ptsz(f, n, 1, 1, LOAD_THREADS, 1, 1, 0, stream, NULL, NULL);
    case API_KERNEL:
    default:
        return d->launch(f, n, 1, 1, LOAD_THREADS, 1, 1, 0, stream, NULL, NULL);
    }
}
