#pragma once
/* Where the hook library of a vendor is. */

#include <limits.h>

#include "core/cleanup.h"

struct gs_err;
struct gs_probe_vendor;

/** Variable that names it in place of the installed one. */
#define GS_HOOK_ENV "GPUSLICE_HOOK"

/** The library $GPUSLICE_HOOK names, else the one installed beside this program, else the one of
 * the build tree this program is in. Returns 0 or negative errno with err. */
GS_WUR int gs_hook_find(const struct gs_probe_vendor *vendor, char ret_path[PATH_MAX],
                        struct gs_err *err);
