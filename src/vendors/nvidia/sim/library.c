/* Libraries: code of the process, loaded into each context at first use there. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/apictx.h"
#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/module.h"

struct gs_library {
    struct gs_object object;
    pthread_mutex_t lock;
    void *data; /* own copy of the image */
    struct gs_image image;
    struct gs_function *kernels;
};

#define LIBRARY_OF(var, handle)                                                                    \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_library *var = (struct gs_library *)handle;                                          \
    if (!gs_object_is(var, GS_OBJECT_LIBRARY))                                                     \
    return CUDA_ERROR_INVALID_HANDLE

#define KERNEL_OF(var, handle)                                                                     \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_function *var = (struct gs_function *)handle;                                        \
    if (!gs_object_is(var, GS_OBJECT_KERNEL))                                                      \
    return CUDA_ERROR_INVALID_HANDLE

/* The caller may free its image: keep one, of known length, or of the data behind a wrapper. */
static void *copy_image(const void *code)
{
    uint32_t magic;
    memcpy(&magic, code, sizeof(magic));
    if (magic == 0x466243b1u)
        memcpy(&code, (const char *)code + 8, sizeof(code));
    size_t n = code ? gs_image_length(code) : 0;
    char *p = n ? malloc(n + 8) : NULL;
    if (p) {
        memcpy(p, code, n);
        memset(p + n, 0, 8);
    }
    return p;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    GS_SIM_ENTER_READY();
    (void)jitOptions;
    (void)jitOptionsValues;
    (void)numJitOptions;
    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    if (!library || !code)
        return CUDA_ERROR_INVALID_VALUE;
    void *data = copy_image(code);
    struct gs_image img;
    int rc = data ? gs_image_read(data, 0, &img) : -ENOEXEC;
    struct gs_library *l = rc ? NULL : gs_object_new(GS_OBJECT_LIBRARY, sizeof(*l));
    if (!l) {
        free(data);
        return rc && rc != -ENOMEM ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_init(&l->lock, NULL);
    l->data = data;
    l->image = img;
    *library = (CUlibrary)l;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    GS_SIM_ENTRY;
    void *data;
    size_t size;
    CUresult r = gs_module_read_file(fileName, &data, &size);
    if (r)
        return r;
    r = cuLibraryLoadData(library, data, jitOptions, jitOptionsValues, numJitOptions,
                          libraryOptions, libraryOptionValues, numLibraryOptions);
    free(data);
    return r;
}

static struct gs_module *module_in(struct gs_library *l, struct gs_sim_ctx *ctx)
{
    struct gs_apictx *a = gs_apictx_of(ctx);
    pthread_mutex_lock(&a->lock);
    struct gs_module *m = a->modules;
    while (m && m->library != l)
        m = m->next;
    pthread_mutex_unlock(&a->lock);
    return m;
}

/* Module of a library in a context, loaded if this is the first use. */
static CUresult module_of(struct gs_library *l, struct gs_sim_ctx *ctx, struct gs_module **ret)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&l->lock);
    struct gs_module *m = module_in(l, ctx);
    if (!m) {
        r = gs_module_load(ctx, l->data, &m);
        if (!r)
            m->library = l;
    }
    pthread_mutex_unlock(&l->lock);
    if (!r)
        *ret = m;
    return r;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    LIBRARY_OF(l, library);
    for (struct gs_sim_ctx *c = gs_context_next(NULL, -1); c; c = gs_context_next(c, -1)) {
        struct gs_module *m = c->api ? module_in(l, c) : NULL;
        if (m)
            gs_module_unload(m);
    }
    for (struct gs_function *k = l->kernels, *next; k; k = next) {
        next = k->next;
        gs_module_free_function(k);
    }
    gs_image_fini(&l->image);
    free(l->data);
    pthread_mutex_destroy(&l->lock);
    gs_object_free(l);
    return CUDA_SUCCESS;
}

static CUresult kernel_of(struct gs_library *l, const char *name, struct gs_function **ret)
{
    const struct gs_image_func *d = NULL;
    pthread_mutex_lock(&l->lock);
    struct gs_function *k = l->kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    for (uint32_t i = 0; !k && !d && i < l->image.n_funcs; i++)
        if (!strcmp(l->image.func[i].name, name))
            d = &l->image.func[i];
    if (!k && (d || l->image.opaque)) {
        k = gs_module_new_function(GS_OBJECT_KERNEL, name, d);
        if (k) {
            k->library = l;
            k->next = l->kernels;
            l->kernels = k;
        }
    }
    pthread_mutex_unlock(&l->lock);
    if (!k)
        return d ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_FOUND;
    *ret = k;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    LIBRARY_OF(l, library);
    struct gs_function *k;
    if (!pKernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = kernel_of(l, name, &k);
    if (!r)
        *pKernel = (CUkernel)k;
    return r;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    LIBRARY_OF(l, lib);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = l->image.n_funcs;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    LIBRARY_OF(l, lib);
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < numKernels && i < l->image.n_funcs; i++) {
        struct gs_function *k;
        CUresult r = kernel_of(l, l->image.func[i].name, &k);
        if (r)
            return r;
        kernels[i] = (CUkernel)k;
    }
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    GS_SIM_ENTER_CTX(ctx);
    LIBRARY_OF(l, library);
    struct gs_module *m;
    if (!pMod)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = module_of(l, ctx, &m);
    if (!r)
        *pMod = (CUmodule)m;
    return r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    GS_SIM_ENTER_CTX(ctx);
    LIBRARY_OF(l, library);
    struct gs_module *m;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = module_of(l, ctx, &m);
    return r ? r : gs_module_variable(m, name, dptr, bytes);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return cuLibraryGetGlobal(dptr, bytes, library, name);
}

/* Function of a kernel in the current context. */
static CUresult function_of(struct gs_function *kernel, struct gs_function **ret)
{
    struct gs_module *m;
    struct gs_sim_ctx *ctx = gs_context_current();
    if (!ctx || !gs_context_is_alive(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult r = module_of(kernel->library, ctx, &m);
    return r ? r : gs_module_function(m, kernel->name, ret);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    KERNEL_OF(k, kernel);
    struct gs_function *f;
    if (!pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = function_of(k, &f);
    if (!r)
        *pFunc = (CUfunction)f;
    return r;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    KERNEL_OF(k, kernel);
    if (!pLib)
        return CUDA_ERROR_INVALID_VALUE;
    *pLib = (CUlibrary)k->library;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    KERNEL_OF(k, hfunc);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = k->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    KERNEL_OF(k, kernel);
    if (gs_process_device_card(dev) == GS_SIM_NONE)
        return CUDA_ERROR_INVALID_DEVICE;
    return cuFuncGetAttribute(pi, attrib, (CUfunction)(void *)k);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    KERNEL_OF(k, kernel);
    if (gs_process_device_card(dev) == GS_SIM_NONE)
        return CUDA_ERROR_INVALID_DEVICE;
    return cuFuncSetAttribute((CUfunction)(void *)k, attrib, val);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    KERNEL_OF(k, kernel);
    (void)k;
    (void)config;
    return gs_process_device_card(dev) == GS_SIM_NONE ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                              size_t *paramSize)
{
    KERNEL_OF(k, kernel);
    return cuFuncGetParamInfo((CUfunction)(void *)k, paramIndex, paramOffset, paramSize);
}
