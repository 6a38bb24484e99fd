#pragma once
/* What a device image contains: kernels with their parameters, and variables with their sizes.
 *
 * Reads PTX text, cubins (ELF) and fat binaries, plain or with LZ4. Nothing is executed, so code is
 * ignored; an image whose content cannot be read (zstd, LTO-IR) is "opaque": every kernel name then
 * exists. Source: PTX ISA 8.x grammar of .entry, .global and .const; fatbinary_section.h (wrapper);
 * the layout of fat binary entries and of .nv.info as public tools print them (cuobjdump -elf),
 * checked on NVRTC 12 output. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

#define GS_IMAGE_PARAMS_MAX 64

struct gs_image_param {
    uint32_t offset;
    uint32_t size;
};

struct gs_image_func {
    char *name;
    uint32_t n_params;
    int32_t regs;         /**< per thread */
    int32_t shared_bytes; /**< static */
    int32_t local_bytes;  /**< per thread */
    int32_t max_threads;  /**< per block */
    struct gs_image_param param[GS_IMAGE_PARAMS_MAX];
};

struct gs_image_var {
    char *name;
    uint64_t bytes;
    uint64_t align;
    const void *init; /**< bytes bytes, or NULL for zero */
};

struct gs_image {
    struct gs_image_func *func;
    struct gs_image_var *var;
    uint32_t n_funcs;
    uint32_t n_vars;
    int opaque;
    int ptx_only; /**< nothing but PTX was found */
};

/** Read `data` (PTX must end in NUL unless `size` is given; 0 = take sizes from the headers).
 *  Returns  0; -ENOEXEC not an image; -EBADMSG damaged; -ENOMEM.
 *  Owner    caller; release with gs_image_fini(). Nothing is borrowed from `data`. */
GS_WUR int gs_image_read(const void *data, size_t size, struct gs_image *ret);
void gs_image_fini(struct gs_image *img);

/** Length of an image that carries its own size (ELF, fat binary, text up to NUL); 0 if it is none.
 */
size_t gs_image_length(const void *data);

/** Pack `n` images into one fat binary that gs_image_read() understands.
 *  Returns 0 or -ENOMEM; *ret_data from malloc. */
GS_WUR int gs_image_pack(const void *const *data, const size_t *size, uint32_t n, void **ret_data,
                         size_t *ret_size);
