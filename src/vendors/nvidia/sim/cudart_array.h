#pragma once
/* Arrays of the runtime: its structures as the binary interface fixes them, and their translation
 * to the driver's.
 *
 * Source: CUDA Runtime API 12.9 and 13.5, driver_types.h and texture_types.h. Two of them grew in
 * 13.0. */

#include "vendors/nvidia/sim/cudart.h"

/** cudaChannelFormatDesc: bits of each channel, and what they mean. */
struct gs_cudart_channel {
    int x, y, z, w;
    int kind;
};

/** cudaExtent: width in elements, but in bytes for a copy that touches no array. */
struct gs_cudart_extent {
    size_t width, height, depth;
};

/** cudaPos. */
struct gs_cudart_pos {
    size_t x, y, z;
};

/** cudaPitchedPtr: pitch in bytes; ysize is the rows of one slice. */
struct gs_cudart_pitched {
    void *ptr;
    size_t pitch, xsize, ysize;
};

/** One side of cudaMemcpy3DParms: an array or a pointer, never both. */
struct gs_cudart_side {
    CUarray array;
    struct gs_cudart_pos pos;
    struct gs_cudart_pitched pointer;
};

/** cudaMemcpy3DParms. */
struct gs_cudart_copy3d {
    struct gs_cudart_side src, dst;
    struct gs_cudart_extent extent;
    int kind; /* as in gs_cudart_memory_type() */
};

/** cudaResourceDesc. */
struct gs_cudart_resource {
    CUresourcetype type;
    union {
        struct {
            CUarray array;
        } array;
        struct {
            CUmipmappedArray mipmap;
        } mipmap;
        struct {
            void *address;
            struct gs_cudart_channel channel;
            size_t bytes;
        } linear;
        struct {
            void *address;
            struct gs_cudart_channel channel;
            size_t width, height, pitch_bytes;
        } pitch2d;
#if GS_CUDART_MAJOR >= 13
        int reserved[32];
#endif
    } res;
#if GS_CUDART_MAJOR >= 13
    unsigned int flags;
#endif
};

/** cudaResourceViewDesc; its formats are the driver's. */
struct gs_cudart_view {
    unsigned int format;
    size_t width, height, depth;
    unsigned int first_level, last_level, first_layer, last_layer;
#if GS_CUDART_MAJOR >= 13
    unsigned int reserved[16];
#endif
};

/** cudaTextureDesc; its address and filter modes are the driver's. */
struct gs_cudart_texture {
    int address[3];
    int filter;
    int read_mode; /* 0 elements as they are, 1 integers as normalised floats */
    int srgb;
    float border[4];
    int normalized_coords;
    unsigned int max_anisotropy;
    int mipmap_filter;
    float mipmap_bias, min_mipmap, max_mipmap;
    int no_trilinear_optimization, seamless_cubemap;
};

/** Driver's format and number of channels of a channel description, and back.
 *  Returns CUDA_ERROR_INVALID_VALUE for a description that names no format. */
cudaError_t gs_cudart_array_format(const struct gs_cudart_channel *c, CUarray_format *ret_format,
                                   unsigned int *ret_channels);
cudaError_t gs_cudart_array_channel(CUarray_format format, unsigned int channels,
                                    struct gs_cudart_channel *ret);
