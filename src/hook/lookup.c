#include "hook/lookup.h"

#include <stddef.h>

#include "hook/elf.h"
#include "hook/engine.h"

static const char *const names[GS_LOADER_COUNT] = {
    [GS_LOADER_DLSYM] = "dlsym",
    [GS_LOADER_DLVSYM] = "dlvsym",
    [GS_LOADER_DLOPEN] = "dlopen",
    [GS_LOADER_DLMOPEN] = "dlmopen",
};

void *gs_lookup_real(enum gs_loader_fn fn)
{
    /* racing threads store the same address */
    static void *real[GS_LOADER_COUNT];
    /* in libdl.so.2 before glibc 2.34 */
    static const char *const sonames[] = {"libc.so.6", "libdl.so.2"};
    void *found = __atomic_load_n(&real[fn], __ATOMIC_RELAXED);
    for (size_t i = 0; found == NULL && i < GS_ARRAY_LEN(sonames); i++) {
        struct gs_elf obj;
        if (gs_elf_find(sonames[i], &obj))
            found = gs_elf_symbol(&obj, names[fn], NULL);
    }
    __atomic_store_n(&real[fn], found, __ATOMIC_RELAXED);
    return found;
}

void *gs_lookup_open(const char *file, int flags)
{
    void *(*real)(const char *, int) =
        (void *(*)(const char *, int))(uintptr_t)gs_lookup_real(GS_LOADER_DLOPEN);
    return real != NULL ? real(file, flags) : NULL;
}
