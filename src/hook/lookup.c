#include "hook/lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "hook/elf.h"
#include "hook/engine.h"
#include "hook/rebind.h"

/* What a filter tells its entry (lookup_<arch>.S); returned in two registers. */
struct answer {
    void *jump; /* go there with the arguments as they came; NULL: return `value` */
    void *value;
};

struct answer gs_lookup_filter_dlsym(void *handle, const char *name, const char *junk,
                                     const void *caller);
struct answer gs_lookup_filter_dlvsym(void *handle, const char *name, const char *version,
                                      const void *caller);
struct answer gs_lookup_filter_dlopen(const char *file, int flags, const void *junk,
                                      const void *caller);
struct answer gs_lookup_filter_dlmopen(Lmid_t space, const char *file, int flags,
                                       const void *caller);

/* the entries, by names that nobody can interpose */
extern char gs_lookup_own_dlsym[] __attribute__((visibility("hidden")));
extern char gs_lookup_own_dlvsym[] __attribute__((visibility("hidden")));
extern char gs_lookup_own_dlopen[] __attribute__((visibility("hidden")));
extern char gs_lookup_own_dlmopen[] __attribute__((visibility("hidden")));

static const struct {
    const char *name;
    char *own;
} loader[GS_LOADER_COUNT] = {
    [GS_LOADER_DLSYM] = {"dlsym", gs_lookup_own_dlsym},
    [GS_LOADER_DLVSYM] = {"dlvsym", gs_lookup_own_dlvsym},
    [GS_LOADER_DLOPEN] = {"dlopen", gs_lookup_own_dlopen},
    [GS_LOADER_DLMOPEN] = {"dlmopen", gs_lookup_own_dlmopen},
};

/** A function of the C library, looked for once. Racing threads store the same address. */
static void *libc_function(const char *name, void **cache)
{
    /* the dl* functions were in libdl.so.2 before glibc 2.34 */
    static const char *const sonames[] = {"libc.so.6", "libdl.so.2"};
    void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);
    if (GS_LIKELY(found != NULL))
        return found;
    for (size_t i = 0; found == NULL && i < GS_ARRAY_LEN(sonames); i++) {
        struct gs_elf obj;
        if (gs_elf_find(sonames[i], &obj))
            found = gs_elf_symbol(&obj, name, NULL);
    }
    __atomic_store_n(cache, found, __ATOMIC_RELAXED);
    return found;
}

void *gs_lookup_real(enum gs_loader_fn fn)
{
    static void *real[GS_LOADER_COUNT];
    return libc_function(loader[fn].name, &real[fn]);
}

void *gs_lookup_own(enum gs_loader_fn fn)
{
    return loader[fn].own;
}

void gs_lookup_clear_error(void)
{
    static void *real;
    char *(*error)(void) = (char *(*)(void))(uintptr_t)libc_function("dlerror", &real);
    if (error != NULL)
        (void)error();
}

void *gs_lookup_open(const char *file, int flags)
{
    void *(*real)(const char *, int) =
        (void *(*)(const char *, int))(uintptr_t)gs_lookup_real(GS_LOADER_DLOPEN);
    return real != NULL ? real(file, flags) : NULL;
}

/** The real dlsym, or dlvsym where a version is asked for, with this library as the caller. */
static void *real_symbol(void *handle, const char *name, const char *version)
{
    if (version == NULL) {
        void *(*sym)(void *, const char *) =
            (void *(*)(void *, const char *))(uintptr_t)gs_lookup_real(GS_LOADER_DLSYM);
        return sym != NULL ? sym(handle, name) : NULL;
    }
    void *(*vsym)(void *, const char *, const char *) =
        (void *(*)(void *, const char *, const char *))(uintptr_t)gs_lookup_real(GS_LOADER_DLVSYM);
    return vsym != NULL ? vsym(handle, name, version) : NULL;
}

static const struct gs_hook_row *find_row(const struct gs_hook_lib *lib, const char *name)
{
    uint32_t lo = 0;
    uint32_t hi = lib->n_rows;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        int order = strcmp(name, lib->rows[mid].symbol);
        if (order == 0)
            return &lib->rows[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

bool gs_lookup_name(const char *name, struct gs_lookup_name *ret_name)
{
    for (uint32_t i = 0; i < gs_hook_vendor.n_libs; i++) {
        const struct gs_hook_lib *lib = &gs_hook_vendor.libs[i];
        if (strncmp(name, lib->prefix, strlen(lib->prefix)) != 0)
            continue;
        const struct gs_hook_row *row = find_row(lib, name);
        if (row != NULL) {
            *ret_name = (struct gs_lookup_name){row, i, -1};
            return true;
        }
    }
    if (name[0] != 'd' || name[1] != 'l')
        return false;
    for (int i = 0; i < GS_LOADER_COUNT; i++) {
        if (strcmp(name, loader[i].name) == 0) {
            *ret_name = (struct gs_lookup_name){NULL, 0, i};
            return true;
        }
    }
    return false;
}

/* Our counterpart of a driver's or the loader's function, or `real` itself. May resolve a driver
 * library that has been loaded meanwhile. */
static void *translate(void *real)
{
    for (int i = 0; real != NULL && i < GS_LOADER_COUNT; i++)
        if (real == gs_lookup_real((enum gs_loader_fn)i))
            return loader[i].own;
    return gs_engine_translate(real);
}

static void *own_of(const struct gs_lookup_name *known)
{
    return known->row != NULL ? known->row->wrapper : loader[known->loader].own;
}

/** Our function, if the driver (or the C library) that it stands for is loaded and defines it. */
static void *own_if_loaded(const struct gs_lookup_name *known, const char *name,
                           const char *version)
{
    struct gs_elf obj;
    const char *soname = known->row != NULL ? gs_hook_vendor.libs[known->lib].soname : "libc.so.6";
    if (!gs_elf_find(soname, &obj) || gs_elf_symbol(&obj, name, version) == NULL)
        return NULL;
    gs_lookup_clear_error();
    return own_of(known);
}

/** Look behind this library: what the program would find if we were not loaded. The loader does
 * that for RTLD_NEXT asked from here. A library of the same function names that is not the driver
 * (a mock, a recorder) stays what it is; with no such symbol at all, dlerror is set and NULL
 * returned. */
static void *behind_us(const struct gs_lookup_name *known, const char *name, const char *version)
{
    void *found = real_symbol(RTLD_NEXT, name, version);
    if (found != NULL)
        return translate(found);
    /* not in the global scope: the caller's own scope may hold it, which only the loader knows */
    return own_if_loaded(known, name, version);
}

struct next {
    const void *caller;
    const char *name;
    const char *version;
    const struct gs_elf *from;
    bool after; /* past the caller's object */
    bool us;    /* this library comes after the caller's */
    void *found;
};

static int look_after(const struct gs_elf *obj, void *arg)
{
    struct next *next = arg;
    if (!next->after) {
        next->after = obj->base == next->from->base;
        return 0;
    }
    if ((uintptr_t)gs_lookup_own_dlsym >= obj->lo && (uintptr_t)gs_lookup_own_dlsym < obj->hi) {
        next->us = true;
        return 1;
    }
    next->found = gs_elf_symbol(obj, next->name, next->version);
    return next->found != NULL;
}

/** RTLD_NEXT. The real function cannot be asked on the caller's behalf, so walk the objects after
 * the caller's in load order; that is the order of the caller's scope, save for objects that only
 * others may see. */
static struct answer look_next(const struct gs_lookup_name *known, const char *name,
                               const char *version, const void *caller, void *real)
{
    struct gs_elf from;
    struct next next = {.name = name, .version = version, .from = &from};
    if (!gs_elf_at(caller, &from))
        return (struct answer){real, NULL};
    (void)gs_elf_each(look_after, &next); /* the answer is in `next` */
    if (next.us)
        return (struct answer){NULL, behind_us(known, name, version)};
    if (next.found == NULL)
        next.found = own_if_loaded(known, name, version);
    if (next.found == NULL)
        return (struct answer){real, NULL}; /* fails there, with dlerror in the caller's words */
    return (struct answer){NULL, translate(next.found)};
}

static struct answer look_up(void *handle, const char *name, const char *version,
                             const void *caller, void *real)
{
    struct gs_lookup_name known;
    if (name == NULL || !gs_lookup_name(name, &known))
        return (struct answer){real, NULL};
    if (handle == RTLD_NEXT)
        return look_next(&known, name, version, caller, real);
    if (handle == RTLD_DEFAULT)
        return (struct answer){NULL, behind_us(&known, name, version)};
    void *found = real_symbol(handle, name, version);
    if (found == own_of(&known)) /* the handle's scope is the program's, where we come first */
        found = behind_us(&known, name, version);
    return (struct answer){NULL, translate(found)};
}

struct answer gs_lookup_filter_dlsym(void *handle, const char *name, const char *junk,
                                     const void *caller)
{
    (void)junk; /* the third register; dlsym has two arguments */
    return look_up(handle, name, NULL, caller, gs_lookup_real(GS_LOADER_DLSYM));
}

struct answer gs_lookup_filter_dlvsym(void *handle, const char *name, const char *version,
                                      const void *caller)
{
    void *real = gs_lookup_real(GS_LOADER_DLVSYM);
    if (version == NULL)
        return (struct answer){real, NULL};
    return look_up(handle, name, version, caller, real);
}

struct answer gs_lookup_filter_dlopen(const char *file, int flags, const void *junk,
                                      const void *caller)
{
    void *real = gs_lookup_real(GS_LOADER_DLOPEN);
    (void)junk;
    if (file == NULL || (flags & RTLD_DEEPBIND) == 0 || real == NULL)
        return (struct answer){real, NULL};
    return (struct answer){NULL, gs_rebind_open(file, flags, caller)};
}

struct answer gs_lookup_filter_dlmopen(Lmid_t space, const char *file, int flags,
                                       const void *caller)
{
    void *real = gs_lookup_real(GS_LOADER_DLMOPEN);
    if (space == LM_ID_BASE && file != NULL && (flags & RTLD_DEEPBIND) != 0 && real != NULL)
        return (struct answer){NULL, gs_rebind_open(file, flags, caller)};
    if (space != LM_ID_BASE)
        gs_engine_note_unheld("dlmopen");
    return (struct answer){real, NULL};
}
