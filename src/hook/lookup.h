#pragma once
/* The loader's functions: ours, which programs call (dlsym, dlvsym, dlopen, dlmopen, exported by
 * lookup_<arch>.S), and the real ones, which we call.
 *
 * Ours change nothing but the answer for functions that have a wrapper. Names outside the vendor's
 * table jump to the real function as if we were not there. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_hook_row;

enum gs_loader_fn {
    GS_LOADER_DLSYM,
    GS_LOADER_DLVSYM,
    GS_LOADER_DLOPEN,
    GS_LOADER_DLMOPEN,
    GS_LOADER_COUNT,
};

/** The C library's own function; NULL where it has none (not glibc). Any thread. */
void *gs_lookup_real(enum gs_loader_fn fn);

/** Our counterpart of it, as exported; nobody can interpose this answer. */
void *gs_lookup_own(enum gs_loader_fn fn);

/** Programs take a pending dlerror for a failure, whatever the look-up returned: clear it. */
void gs_lookup_clear_error(void);

/** dlopen of the C library with this library as the caller; NULL where it fails. */
void *gs_lookup_open(const char *file, int flags);

/** A name that has a counterpart here. */
struct gs_lookup_name {
    const struct gs_hook_row *row; /**< NULL: one of the loader's functions */
    uint32_t lib;                  /**< of the row, index in gs_hook_vendor.libs */
    int loader;                    /**< enum gs_loader_fn; -1 a row */
};
/** Returns  false, with *ret_name untouched, for all other names. */
bool gs_lookup_name(const char *name, struct gs_lookup_name *ret_name);
