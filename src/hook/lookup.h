#pragma once
/* The loader's functions: ours, which programs call (dlsym, dlvsym, dlopen, dlmopen, exported by
 * lookup_<arch>.S), and the real ones, which we call. */

#include <stdint.h>

#include "core/cleanup.h"

enum gs_loader_fn {
    GS_LOADER_DLSYM,
    GS_LOADER_DLVSYM,
    GS_LOADER_DLOPEN,
    GS_LOADER_DLMOPEN,
    GS_LOADER_COUNT,
};

/** The C library's own function; NULL where it has none (not glibc). Any thread. */
void *gs_lookup_real(enum gs_loader_fn fn);

/** dlopen of the C library with this library as the caller; NULL where it fails. */
void *gs_lookup_open(const char *file, int flags);

/** Our counterpart of a driver's or the loader's function, or `real` itself. */
void *gs_lookup_translate(void *real);
