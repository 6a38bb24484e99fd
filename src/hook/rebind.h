#pragma once
/* Plugins opened with RTLD_DEEPBIND look in their own dependencies first and so bind to the driver
 * and to the C library's dlsym past us. After such a dlopen the slots of the loaded objects that
 * hold, or would come to hold, an address with a counterpart here are set to that counterpart.
 *
 * Limit: constructors of the opened objects run before that. */

/** dlopen(file, flags) on behalf of the code at `caller`, then rebind. Plain file names are looked
 *  for in the caller's RPATH or RUNPATH as the loader does it.
 *  Returns  the handle; NULL with dlerror set. */
void *gs_rebind_open(const char *file, int flags, const void *caller);
