/* The linker: collects images and packs them into one that the loader reads. */
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/module.h"

#define INPUTS_MAX 256

struct link {
    struct gs_object object;
    uint32_t n;
    void *data[INPUTS_MAX];
    size_t size[INPUTS_MAX];
    void *out;
    unsigned int n_options;
    CUjit_option *options;
    void **values;
};

#define LINK_OF(var, handle)                                                                       \
    GS_SIM_ENTER_READY();                                                                          \
    struct link *var = (struct link *)handle;                                                      \
    if (!gs_object_is(var, GS_OBJECT_LINK))                                                        \
    return CUDA_ERROR_INVALID_HANDLE

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option *options, void **optionValues,
                         CUlinkState *stateOut)
{
    GS_SIM_ENTER_CTX(ctx);
    (void)ctx;
    if (!stateOut)
        return CUDA_ERROR_INVALID_VALUE;
    struct link *l = gs_object_new(GS_OBJECT_LINK, sizeof(*l));
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->n_options = numOptions;
    l->options = options; /* documented: valid until cuLinkDestroy */
    l->values = optionValues;
    *stateOut = (CUlinkState)l;
    return CUDA_SUCCESS;
}

CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues,
                      CUlinkState *stateOut)
{
    return cuLinkCreate_v2(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
                          const char *name, unsigned int numOptions, CUjit_option *options,
                          void **optionValues)
{
    LINK_OF(l, state);
    (void)name;
    (void)numOptions;
    (void)options;
    (void)optionValues;
    if (!data || !size || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES || l->n == INPUTS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_image img;
    if (type == CU_JIT_INPUT_PTX && gs_image_read(data, size, &img))
        return CUDA_ERROR_INVALID_PTX;
    if (type == CU_JIT_INPUT_PTX)
        gs_image_fini(&img);
    char *copy = malloc(size + 1);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, data, size);
    copy[size] = 0;
    l->data[l->n] = copy;
    l->size[l->n++] = size;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size,
                       const char *name, unsigned int numOptions, CUjit_option *options,
                       void **optionValues)
{
    return cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
                          unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    GS_SIM_ENTRY;
    void *data;
    size_t size;
    CUresult r = gs_module_read_file(path, &data, &size);
    if (r)
        return r;
    /* Archives of device code (libcudadevrt.a) hold nothing a kernel without code needs. */
    if (type != CU_JIT_INPUT_LIBRARY)
        r = cuLinkAddData_v2(state, type, data, size, path, numOptions, options, optionValues);
    free(data);
    return r;
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path,
                       unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    return cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    LINK_OF(l, state);
    if (!cubinOut || !sizeOut)
        return CUDA_ERROR_INVALID_VALUE;
    free(l->out);
    l->out = NULL;
    if (gs_image_pack((const void *const *)l->data, l->size, l->n, &l->out, sizeOut))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gs_module_answer_options(l->n_options, l->options, l->values);
    *cubinOut = l->out;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
    LINK_OF(l, state);
    for (uint32_t i = 0; i < l->n; i++)
        free(l->data[i]);
    free(l->out);
    gs_object_free(l);
    return CUDA_SUCCESS;
}
