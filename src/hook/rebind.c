#include "hook/rebind.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hook/elf.h"
#include "hook/engine.h"
#include "hook/lookup.h"
#include "hook/xlate.h"

#if defined(__x86_64__)
#define RELOC_JUMP   R_X86_64_JUMP_SLOT
#define RELOC_GLOBAL R_X86_64_GLOB_DAT
#define RELOC_WORD   R_X86_64_64
#elif defined(__aarch64__)
#define RELOC_JUMP   R_AARCH64_JUMP_SLOT
#define RELOC_GLOBAL R_AARCH64_GLOB_DAT
#define RELOC_WORD   R_AARCH64_ABS64
#endif

/* rows of all libraries, then the loader's functions */
#define NAMES_MAX (GS_XLATE_SLOTS / 2 + GS_LOADER_COUNT)

/* A pass over the loaded objects runs under the loader's list lock, where nothing may be loaded or
 * asked of the loader. So everything it needs is found before, and unbound slots take two passes:
 * the first collects the names they wait for, the second fills those that would come to hold a
 * driver's address. */
struct pass {
    void *real[GS_LOADER_COUNT];
    void *own[GS_LOADER_COUNT];
    uint64_t names[(NAMES_MAX + 63) / 64];
    uintptr_t page_bytes;
    bool fill;
};

static uint32_t name_index(const struct gs_lookup_name *known)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < gs_hook_vendor.n_libs; i++) {
        if (known->row != NULL && i == known->lib)
            return index + (uint32_t)(known->row - gs_hook_vendor.libs[i].rows);
        index += gs_hook_vendor.libs[i].n_rows;
    }
    return index + (uint32_t)known->loader;
}

/** Our counterpart of a function, from tables alone. */
static void *translate(const struct pass *pass, void *real)
{
    for (int i = 0; i < GS_LOADER_COUNT; i++)
        if (real == pass->real[i] && real != NULL)
            return pass->own[i];
    void *wrapper = gs_xlate_get(real);
    return wrapper != NULL ? wrapper : real;
}

static bool is_writable(const struct gs_elf *obj, uintptr_t addr)
{
    const ElfW(Phdr) *phdr = obj->phdr;
    for (uint32_t i = 0; i < obj->n_phdr; i++)
        if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_W) != 0 &&
            addr - (obj->base + phdr[i].p_vaddr) < phdr[i].p_memsz)
            return true;
    return false;
}

static void write_slot(const struct pass *pass, const struct gs_elf *obj, void **slot, void *value)
{
    const uintptr_t mask = pass->page_bytes - 1;
    const uintptr_t addr = (uintptr_t)slot;
    void *page = (void *)(addr & ~mask);
    /* the loader protects whole pages only */
    const bool relro = addr >= (obj->relro_lo & ~mask) && addr < (obj->relro_hi & ~mask);
    if (!is_writable(obj, addr))
        return; /* a relocation in code: nobody makes those any more */
    if (relro && mprotect(page, pass->page_bytes, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (relro)
        (void)mprotect(page, pass->page_bytes, PROT_READ); /* left writable at worst */
}

static void visit_slot(struct pass *pass, const struct gs_elf *obj, const ElfW(Rela) * rela)
{
    const uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    const ElfW(Sym) *sym = (const ElfW(Sym) *)obj->symtab + ELF64_R_SYM(rela->r_info);
    void **slot = (void **)(obj->base + rela->r_offset);
    struct gs_lookup_name known;
    if ((type != RELOC_JUMP && type != RELOC_GLOBAL && type != RELOC_WORD) || rela->r_addend != 0 ||
        ELF64_R_SYM(rela->r_info) == 0 || ((uintptr_t)slot & (sizeof(void *) - 1)) != 0)
        return;
    void *held = __atomic_load_n(slot, __ATOMIC_RELAXED);
    void *ours = translate(pass, held);
    if (ours != held) {
        write_slot(pass, obj, slot, ours);
        return;
    }
    /* bound lazily: the slot still points into the object's own linkage table */
    if (type != RELOC_JUMP || sym->st_shndx != SHN_UNDEF || (uintptr_t)held < obj->lo ||
        (uintptr_t)held >= obj->hi || !gs_lookup_name(obj->strtab + sym->st_name, &known))
        return;
    const uint32_t i = name_index(&known);
    if (!pass->fill)
        pass->names[i / 64] |= 1ull << (i % 64);
    else if ((pass->names[i / 64] >> (i % 64) & 1) != 0)
        write_slot(pass, obj, slot,
                   known.row != NULL ? known.row->wrapper : pass->own[known.loader]);
}

static int visit_object(const struct gs_elf *obj, void *arg)
{
    struct pass *pass = arg;
    if (obj->symtab == NULL || obj->strtab == NULL || gs_engine_owns(obj->lo))
        return 0; /* a driver's calls of itself are its own affair */
    if ((uintptr_t)pass->own[GS_LOADER_DLSYM] >= obj->lo &&
        (uintptr_t)pass->own[GS_LOADER_DLSYM] < obj->hi)
        return 0; /* this library */
    for (uint32_t i = obj->n_relative; i < obj->n_rela; i++)
        visit_slot(pass, obj, (const ElfW(Rela) *)obj->rela + i);
    for (uint32_t i = 0; i < obj->n_jmprel; i++)
        visit_slot(pass, obj, (const ElfW(Rela) *)obj->jmprel + i);
    return 0;
}

/** Keep of pass->names those which `handle` finds in a driver or in the C library. */
static void keep_bound(struct pass *pass, void *handle)
{
    void *(*sym)(void *, const char *) =
        (void *(*)(void *, const char *))(uintptr_t)pass->real[GS_LOADER_DLSYM];
    uint32_t i = 0;
    for (uint32_t lib = 0; lib < gs_hook_vendor.n_libs; lib++) {
        for (uint32_t row = 0; row < gs_hook_vendor.libs[lib].n_rows; row++, i++) {
            const struct gs_hook_row *want = &gs_hook_vendor.libs[lib].rows[row];
            if ((pass->names[i / 64] >> (i % 64) & 1) != 0 &&
                gs_xlate_get(sym(handle, want->symbol)) == NULL)
                pass->names[i / 64] &= ~(1ull << (i % 64));
        }
    }
    gs_lookup_clear_error();
}

static void rebind(void *handle)
{
    struct pass pass = {.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE)};
    for (int i = 0; i < GS_LOADER_COUNT; i++) {
        pass.real[i] = gs_lookup_real((enum gs_loader_fn)i);
        pass.own[i] = gs_lookup_own((enum gs_loader_fn)i);
    }
    if (pass.real[GS_LOADER_DLSYM] == NULL)
        return;
    gs_engine_resolve();
    (void)gs_elf_each(visit_object, &pass); /* the visitor never stops it */
    keep_bound(&pass, handle);
    pass.fill = true;
    (void)gs_elf_each(visit_object, &pass);
}

/** The folder the loader calls $ORIGIN for this object. */
static size_t origin_of(const struct gs_elf *obj, char *ret_dir, size_t size)
{
    size_t n = strlen(obj->path);
    if (n == 0) {
        ssize_t got = readlink("/proc/self/exe", ret_dir, size);
        n = got > 0 ? (size_t)got : 0;
    } else if (n < size) {
        memcpy(ret_dir, obj->path, n);
    } else {
        n = 0;
    }
    while (n > 0 && ret_dir[n - 1] != '/')
        n--;
    return n;
}

/** Copy `text` of `n` bytes with $ORIGIN expanded. Returns the length; 0 when it does not fit or
 * names something else that only the loader knows. */
static size_t expand(const char *text, size_t n, const struct gs_elf *from, char *ret_path,
                     size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        size_t token = 0;
        if (n - i >= 7 && strncmp(text + i, "$ORIGIN", 7) == 0)
            token = 7;
        else if (n - i >= 9 && strncmp(text + i, "${ORIGIN}", 9) == 0)
            token = 9;
        else if (text[i] == '$')
            return 0;
        if (token != 0) {
            used += origin_of(from, ret_path + used, size - used);
            i += token;
        } else {
            ret_path[used++] = text[i++];
        }
        if (used + 1 >= size)
            return 0;
    }
    return used;
}

/** "dir/file" for the next folder of a colon-separated list; false at its end. Empty where the
 * folder cannot be expanded. */
static bool next_path(const char **list, const char *file, const struct gs_elf *from,
                      char *ret_path)
{
    const char *dir = *list;
    if (*dir == '\0')
        return false;
    size_t n = strcspn(dir, ":");
    *list = dir[n] == ':' ? dir + n + 1 : dir + n;
    size_t used = expand(dir, n, from, ret_path, PATH_MAX);
    size_t n_file = strlen(file);
    if (used == 0 || used + 1 + n_file >= PATH_MAX) {
        ret_path[0] = '\0';
        return true;
    }
    ret_path[used++] = '/';
    memcpy(ret_path + used, file, n_file + 1);
    return true;
}

/** Is the file in a folder of LD_LIBRARY_PATH? Those come before a RUNPATH. */
static bool in_library_path(const char *file, const struct gs_elf *from)
{
    char path[PATH_MAX];
    const char *list = getenv("LD_LIBRARY_PATH");
    while (list != NULL && next_path(&list, file, from, path))
        if (path[0] != '\0' && access(path, R_OK) == 0)
            return true;
    return false;
}

static void *open_for(const char *file, int flags, const struct gs_elf *from)
{
    char path[PATH_MAX];
    if (strchr(file, '/') != NULL) {
        size_t n = strchr(file, '$') != NULL ? expand(file, strlen(file), from, path, PATH_MAX) : 0;
        path[n] = '\0';
        return gs_lookup_open(n != 0 ? path : file, flags);
    }
    const char *list = from->runpath != NULL ? from->runpath : from->rpath;
    void *handle = list != NULL ? gs_lookup_open(file, flags | RTLD_NOLOAD) : NULL;
    if (handle != NULL)
        return handle; /* a loaded object of that name goes before any search */
    if (list == NULL || (flags & RTLD_NOLOAD) != 0 ||
        (from->runpath != NULL && in_library_path(file, from)))
        return gs_lookup_open(file, flags);
    while (next_path(&list, file, from, path)) {
        if (path[0] == '\0' || access(path, R_OK) != 0)
            continue;
        handle = gs_lookup_open(path, flags);
        if (handle != NULL)
            return handle;
    }
    return gs_lookup_open(file, flags);
}

void *gs_rebind_open(const char *file, int flags, const void *caller)
{
    struct gs_elf from;
    void *handle =
        gs_elf_at(caller, &from) ? open_for(file, flags, &from) : gs_lookup_open(file, flags);
    if (handle != NULL)
        rebind(handle);
    return handle;
}
