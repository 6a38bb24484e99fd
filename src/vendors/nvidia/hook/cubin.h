#pragma once
/* How much device memory a code image asks for, as far as the image says so itself.
 *
 * The image is hostile and comes without a length: every read goes through `read`, which fails
 * instead of faulting, and every count has a limit. */

#include <stdint.h>

#include "core/cleanup.h"

/** Where an image lies. `read` copies n bytes at `offset`, all or nothing; 0 or a negative errno.
 */
struct gs_cubin_source {
    int (*read)(const struct gs_cubin_source *source, uint64_t offset, void *ret_bytes, uint32_t n);
    uint64_t base; /**< address, or a file descriptor */
};

/** An image in memory of this process. */
struct gs_cubin_source gs_cubin_in_memory(const void *image);
/** An image in an open file. */
struct gs_cubin_source gs_cubin_in_file(int fd);

/** Bytes that loading the image takes at least: for a cubin its code, constants and global
 * variables; for PTX its variables; for a fat binary those of its smallest uncompressed member.
 * Returns 0 where that cannot be known: compressed images, anything malformed. */
uint64_t gs_cubin_bytes(const struct gs_cubin_source *source);
