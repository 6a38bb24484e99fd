#pragma once
/* PTX text, and the two ways any reader adds to an image. Internal to image*.c. */

#include <stddef.h>

#include "vendors/nvidia/sim/image.h"

/** Function `name` (n bytes) of `img`, added if new; NULL when memory is short. */
struct gs_image_func *gs_image_ptx_func(struct gs_image *img, const char *name, size_t n);

/** Add a variable unless one of that name is there; name and initial bytes are copied. 0 or
 * -ENOMEM. */
GS_WUR int gs_image_ptx_var(struct gs_image *img, const struct gs_image_var *v, size_t name_n);

/** Read `n` bytes of PTX. Returns 0, -ENOEXEC (no PTX), -ENOMEM. */
GS_WUR int gs_image_ptx_read(const char *text, size_t n, struct gs_image *img);
