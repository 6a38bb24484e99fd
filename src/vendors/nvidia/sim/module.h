#pragma once
/* Loaded code: modules of a context, libraries of the process, and their functions. A kernel does
 * nothing but take time. */

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/image.h"
#include "vendors/nvidia/sim/object.h"

#define GS_FUNCTION_ATTRIBUTES 18

struct gs_module;
struct gs_library;

struct gs_function {
    struct gs_object object;
    struct gs_function *next;
    struct gs_module *module;   /**< of a CUfunction; NULL for a CUkernel */
    struct gs_library *library; /**< of a CUkernel, and of its functions */
    char *name;
    uint32_t n_params;
    const struct gs_image_param *param;
    int32_t attribute[GS_FUNCTION_ATTRIBUTES]; /**< by CUfunction_attribute */
    uint64_t cost_ns;  /**< fixed time of one launch; 0: from the size of the grid */
    uint32_t block[3]; /**< of the old launch calls */
    uint32_t sizes_known;
};

struct gs_module {
    struct gs_object object;
    struct gs_module *next;
    struct gs_sim_ctx *ctx;
    struct gs_library *library;
    struct gs_image image;
    struct gs_function *functions; /**< made at first use */
    CUdeviceptr vars;              /**< one block for all variables; 0: none */
    uint64_t *var_offset;
    uint64_t vars_bytes;
};

/** The function behind a launch: `f` may be a CUfunction or a CUkernel, or `kern` is given. NULL if
 * neither is one. */
const struct gs_function *gs_module_function_of(CUfunction f, CUkernel kern);

/** Load an image into a context. CUDA_ERROR_INVALID_IMAGE, _INVALID_PTX, _OUT_OF_MEMORY ... */
CUresult gs_module_load(struct gs_sim_ctx *ctx, const void *image, struct gs_module **ret);
void gs_module_unload(struct gs_module *m);

/** Find or make a function of a module. CUDA_ERROR_NOT_FOUND. */
CUresult gs_module_function(struct gs_module *m, const char *name, struct gs_function **ret);

/** Address and size of a variable. CUDA_ERROR_NOT_FOUND. */
CUresult gs_module_variable(struct gs_module *m, const char *name, CUdeviceptr *ret_ptr,
                            size_t *ret_bytes);

/** A function object described by `f` (NULL: unknown content), or NULL without memory. */
struct gs_function *gs_module_new_function(enum gs_object_kind kind, const char *name,
                                           const struct gs_image_func *f);
void gs_module_free_function(struct gs_function *f);

/** Whole file, NUL-terminated; free() it. CUDA_ERROR_FILE_NOT_FOUND. */
CUresult gs_module_read_file(const char *path, void **ret_data, size_t *ret_size);

/** Modelled time of one launch. */
void gs_launch_cost(const struct gs_function *f, const unsigned int grid[3],
                    const unsigned int block[3], uint64_t *ret_ns, uint32_t *ret_load);

/** Answer the options of a load or link that have outputs: empty logs. */
void gs_module_answer_options(unsigned int n, const CUjit_option *options, void **values);
