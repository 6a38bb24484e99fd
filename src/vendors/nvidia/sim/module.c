#include "vendors/nvidia/sim/module.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vendors/nvidia/sim/apictx.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/texture.h"

#define IMAGE_FILE_MAX (1 << 30)

struct gs_function *gs_module_new_function(enum gs_object_kind kind, const char *name,
                                           const struct gs_image_func *f)
{
    struct gs_function *fn = gs_object_new(kind, sizeof(*fn));
    if (!fn)
        return NULL;
    fn->name = strdup(name);
    if (!fn->name) {
        gs_object_free(fn);
        return NULL;
    }
    int32_t *a = fn->attribute;
    a[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = f ? f->max_threads : 1024;
    a[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = f ? f->shared_bytes : 0;
    a[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = f ? f->local_bytes : 0;
    a[CU_FUNC_ATTRIBUTE_NUM_REGS] = f ? f->regs : 32;
    a[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 80;
    a[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 80;
    a[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] =
        49152 - a[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
    a[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
    if (f) {
        fn->n_params = f->n_params;
        fn->param = f->param;
        fn->sizes_known = 1;
    }
    for (int i = 0; i < 3; i++)
        fn->block[i] = 1;
    return fn;
}

void gs_module_free_function(struct gs_function *f)
{
    free(f->name);
    f->name = NULL;
    gs_object_free(f);
}

const struct gs_function *gs_module_function_of(CUfunction f, CUkernel kern)
{
    const void *h = f ? (const void *)f : (const void *)kern;
    if (GS_LIKELY(gs_object_is(h, GS_OBJECT_FUNCTION)) || gs_object_is(h, GS_OBJECT_KERNEL))
        return h;
    return NULL;
}

/* Memory for all variables, with their first values. */
static CUresult place_variables(struct gs_module *m)
{
    uint64_t bytes = 0;
    if (!m->image.n_vars)
        return CUDA_SUCCESS;
    m->var_offset = calloc(m->image.n_vars, sizeof(*m->var_offset));
    if (!m->var_offset)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < m->image.n_vars; i++) {
        uint64_t align = m->image.var[i].align < 256 ? 256 : m->image.var[i].align;
        if (align > 65536)
            align = 65536;
        bytes = (bytes + align - 1) / align * align;
        m->var_offset[i] = bytes;
        if (__builtin_add_overflow(bytes, m->image.var[i].bytes, &bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult r = gs_memory_alloc(m->ctx, bytes, &m->vars);
    if (r)
        return r;
    m->vars_bytes = bytes;
    for (uint32_t i = 0; i < m->image.n_vars; i++) {
        const struct gs_image_var *v = &m->image.var[i];
        char *at = (char *)(uintptr_t)(m->vars + m->var_offset[i]);
        if (v->init)
            memcpy(at, v->init, v->bytes);
    }
    return CUDA_SUCCESS;
}

CUresult gs_module_load(struct gs_sim_ctx *ctx, const void *image, struct gs_module **ret)
{
    struct gs_image img;
    int rc = gs_image_read(image, 0, &img);
    if (rc == -ENOMEM)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (rc)
        return CUDA_ERROR_INVALID_IMAGE;
    struct gs_module *m = gs_object_new(GS_OBJECT_MODULE, sizeof(*m));
    if (!m) {
        gs_image_fini(&img);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->ctx = ctx;
    m->image = img;
    CUresult r = place_variables(m);
    if (r) {
        gs_image_fini(&m->image);
        free(m->var_offset);
        gs_object_free(m);
        return r;
    }
    struct gs_apictx *a = gs_apictx_of(ctx);
    pthread_mutex_lock(&a->lock);
    m->next = a->modules;
    a->modules = m;
    pthread_mutex_unlock(&a->lock);
    *ret = m;
    return CUDA_SUCCESS;
}

static void free_module(struct gs_module *m)
{
    for (struct gs_function *f = m->functions, *next; f; f = next) {
        next = f->next;
        gs_module_free_function(f);
    }
    if (m->vars)
        (void)gs_memory_free(m->vars);
    gs_image_fini(&m->image);
    free(m->var_offset);
    gs_object_free(m);
}

void gs_module_unload(struct gs_module *m)
{
    struct gs_apictx *a = gs_apictx_of(m->ctx);
    pthread_mutex_lock(&a->lock);
    struct gs_module **p = &a->modules;
    while (*p && *p != m)
        p = &(*p)->next;
    if (*p)
        *p = m->next;
    pthread_mutex_unlock(&a->lock);
    free_module(m);
}

void gs_module_forget_context(struct gs_sim_ctx *ctx)
{
    struct gs_apictx *a = gs_apictx_of(ctx);
    for (struct gs_module *m = a->modules, *next; m; m = next) {
        next = m->next;
        free_module(m);
    }
    a->modules = NULL;
}

CUresult gs_module_function(struct gs_module *m, const char *name, struct gs_function **ret)
{
    struct gs_apictx *a = gs_apictx_of(m->ctx);
    const struct gs_image_func *d = NULL;
    struct gs_function *f;
    pthread_mutex_lock(&a->lock);
    for (f = m->functions; f && strcmp(f->name, name) != 0; f = f->next)
        ;
    for (uint32_t i = 0; !f && !d && i < m->image.n_funcs; i++)
        if (!strcmp(m->image.func[i].name, name))
            d = &m->image.func[i];
    if (!f && (d || m->image.opaque)) {
        f = gs_module_new_function(GS_OBJECT_FUNCTION, name, d);
        if (f) {
            f->module = m;
            f->library = m->library;
            f->next = m->functions;
            m->functions = f;
        }
    }
    pthread_mutex_unlock(&a->lock);
    if (!f)
        return d ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_FOUND;
    *ret = f;
    return CUDA_SUCCESS;
}

CUresult gs_module_variable(struct gs_module *m, const char *name, CUdeviceptr *ret_ptr,
                            size_t *ret_bytes)
{
    for (uint32_t i = 0; i < m->image.n_vars; i++)
        if (!strcmp(m->image.var[i].name, name)) {
            if (ret_ptr)
                *ret_ptr = m->vars + m->var_offset[i];
            if (ret_bytes)
                *ret_bytes = m->image.var[i].bytes;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult gs_module_read_file(const char *path, void **ret_data, size_t *ret_size)
{
    struct stat st;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    CUresult r = CUDA_ERROR_INVALID_IMAGE;
    char *data = NULL;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size < IMAGE_FILE_MAX) {
        size_t size = (size_t)st.st_size, at = 0;
        data = malloc(size + 1);
        while (data && at < size) {
            ssize_t n = read(fd, data + at, size - at);
            if (n <= 0)
                break;
            at += (size_t)n;
        }
        if (data && at == size) {
            data[size] = 0;
            *ret_data = data;
            *ret_size = size;
            data = NULL;
            r = CUDA_SUCCESS;
        }
    }
    free(data);
    (void)close(fd);
    return r;
}

#define MODULE_OF(var, handle)                                                                     \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_module *var = (struct gs_module *)handle;                                            \
    if (!gs_object_is(var, GS_OBJECT_MODULE))                                                      \
    return CUDA_ERROR_INVALID_HANDLE

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_module *m;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = gs_module_load(ctx, image, &m);
    if (!r)
        *module = (CUmodule)m;
    return r;
}

/* Values of size options are passed in place of pointers. */
void gs_module_answer_options(unsigned int n, const CUjit_option *options, void **values)
{
    for (unsigned int i = 0; i < n && options && values; i++) {
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
            options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            values[i] = NULL;
        if ((options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER) &&
            values[i])
            *(char *)values[i] = 0;
    }
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    GS_SIM_ENTRY;
    CUresult r = cuModuleLoadData(module, image);
    if (!r)
        gs_module_answer_options(numOptions, options, optionValues);
    return r;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    GS_SIM_ENTRY;
    return cuModuleLoadData(module, fatCubin);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    GS_SIM_ENTER_READY();
    void *data;
    size_t size;
    CUresult r = gs_module_read_file(fname, &data, &size);
    if (r)
        return r;
    r = cuModuleLoadData(module, data);
    free(data);
    return r;
}

CUresult cuModuleUnload(CUmodule hmod)
{
    MODULE_OF(m, hmod);
    if (m->library)
        return CUDA_ERROR_NOT_PERMITTED; /* goes with its library */
    gs_module_unload(m);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    GS_SIM_ENTRY;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    const char *env = getenv("CUDA_MODULE_LOADING");
    *mode = env && !strcmp(env, "EAGER") ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    MODULE_OF(m, hmod);
    struct gs_function *f;
    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = gs_module_function(m, name, &f);
    if (!r)
        *hfunc = (CUfunction)f;
    return r;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    MODULE_OF(m, mod);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = m->image.n_funcs;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    MODULE_OF(m, mod);
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < numFunctions && i < m->image.n_funcs; i++) {
        struct gs_function *f;
        CUresult r = gs_module_function(m, m->image.func[i].name, &f);
        if (r)
            return r;
        functions[i] = (CUfunction)f;
    }
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    MODULE_OF(m, hmod);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    return gs_module_variable(m, name, dptr, bytes);
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod,
                           const char *name)
{
    GS_SIM_ENTRY;
    CUdeviceptr p = 0;
    size_t n = 0;
    CUresult r = cuModuleGetGlobal_v2(&p, &n, hmod, name);
    if (r)
        return r;
    if (p > UINT32_MAX)
        return CUDA_ERROR_INVALID_VALUE; /* the 32-bit form cannot say it */
    if (dptr)
        *dptr = (CUdeviceptr_v1)p;
    if (bytes)
        *bytes = (unsigned int)n;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
    MODULE_OF(m, hmod);
    (void)m;
    if (!pTexRef || !name)
        return CUDA_ERROR_INVALID_VALUE;
    return cuTexRefCreate(pTexRef);
}

CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
    MODULE_OF(m, hmod);
    if (!pSurfRef || !name)
        return CUDA_ERROR_INVALID_VALUE;
    (void)m;
    return cuTexRefCreate((CUtexref *)(void *)pSurfRef);
}
