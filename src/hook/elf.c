#include "hook/elf.h"

#include <elf.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

/* Source: System V gABI chapter 5; the GNU hash section as described in the LSB and binutils
 * documents. */

#define VERSYM_HIDDEN 0x8000u

/** glibc writes absolute addresses into the dynamic section in memory except where that is
 * read-only (the vDSO, objects linked with -z rodynamic). Both kinds occur in one process. */
static uintptr_t absolute(const struct gs_elf *obj, ElfW(Addr) value)
{
    if (value >= obj->lo && value < obj->hi)
        return value;
    return obj->base + value;
}

static void read_segments(struct gs_elf *obj)
{
    const ElfW(Phdr) *phdr = obj->phdr;
    obj->lo = UINTPTR_MAX;
    for (uint32_t i = 0; i < obj->n_phdr; i++) {
        uintptr_t start = obj->base + phdr[i].p_vaddr;
        if (phdr[i].p_type == PT_GNU_RELRO) {
            obj->relro_lo = start;
            obj->relro_hi = start + phdr[i].p_memsz;
        }
        if (phdr[i].p_type != PT_LOAD)
            continue;
        if (start < obj->lo)
            obj->lo = start;
        if (start + phdr[i].p_memsz > obj->hi)
            obj->hi = start + phdr[i].p_memsz;
    }
}

static void read_strings(struct gs_elf *obj, const ElfW(Dyn) * dyn)
{
    for (; dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_SONAME)
            obj->soname = obj->strtab + dyn->d_un.d_val;
        else if (dyn->d_tag == DT_RPATH)
            obj->rpath = obj->strtab + dyn->d_un.d_val;
        else if (dyn->d_tag == DT_RUNPATH)
            obj->runpath = obj->strtab + dyn->d_un.d_val;
    }
}

static void read_dynamic(struct gs_elf *obj, const ElfW(Dyn) * first)
{
    for (const ElfW(Dyn) *dyn = first; dyn->d_tag != DT_NULL; dyn++) {
        const void *at = (const void *)absolute(obj, dyn->d_un.d_ptr);
        switch (dyn->d_tag) {
        case DT_SYMTAB:
            obj->symtab = at;
            break;
        case DT_STRTAB:
            obj->strtab = at;
            break;
        case DT_GNU_HASH:
            obj->gnu_hash = at;
            break;
        case DT_HASH:
            obj->sysv_hash = at;
            break;
        case DT_VERSYM:
            obj->versym = at;
            break;
        case DT_VERDEF:
            obj->verdef = at;
            break;
        case DT_VERDEFNUM:
            obj->n_verdef = (uint32_t)dyn->d_un.d_val;
            break;
        case DT_RELA:
            obj->rela = at;
            break;
        case DT_RELASZ:
            obj->n_rela = (uint32_t)(dyn->d_un.d_val / sizeof(ElfW(Rela)));
            break;
        case DT_RELACOUNT:
            obj->n_relative = (uint32_t)dyn->d_un.d_val;
            break;
        case DT_JMPREL:
            obj->jmprel = at;
            break;
        case DT_PLTRELSZ:
            obj->n_jmprel = (uint32_t)(dyn->d_un.d_val / sizeof(ElfW(Rela)));
            break;
        default:
            break;
        }
    }
    if (obj->strtab != NULL)
        read_strings(obj, first);
}

static void read_object(const struct dl_phdr_info *info, struct gs_elf *obj)
{
    memset(obj, 0, sizeof *obj);
    obj->path = info->dlpi_name != NULL ? info->dlpi_name : "";
    obj->base = info->dlpi_addr;
    obj->phdr = info->dlpi_phdr;
    obj->n_phdr = info->dlpi_phnum;
    read_segments(obj);
    for (uint32_t i = 0; i < obj->n_phdr; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_dynamic(obj, (const ElfW(Dyn) *)(obj->base + info->dlpi_phdr[i].p_vaddr));
}

struct each {
    int (*fn)(const struct gs_elf *obj, void *arg);
    void *arg;
};

static int each_one(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size; /* the fields we read have been there from the first version on */
    const struct each *each = arg;
    struct gs_elf obj;
    read_object(info, &obj);
    return each->fn(&obj, each->arg);
}

struct want {
    const char *soname;
    uintptr_t addr;
    struct gs_elf *ret_obj;
};

static int is_named(const struct gs_elf *obj, void *arg)
{
    const struct want *want = arg;
    const char *slash = strrchr(obj->path, '/');
    const char *file = slash != NULL ? slash + 1 : obj->path;
    if (strcmp(file, want->soname) != 0 &&
        (obj->soname == NULL || strcmp(obj->soname, want->soname) != 0))
        return 0;
    *want->ret_obj = *obj;
    return 1;
}

static bool version_is(const struct gs_elf *obj, uint16_t index, const char *version)
{
    const ElfW(Verdef) *def = obj->verdef;
    for (uint32_t i = 0; def != NULL && i < obj->n_verdef; i++) {
        if (def->vd_ndx == index) {
            const ElfW(Verdaux) *aux = (const void *)((const char *)def + def->vd_aux);
            return strcmp(obj->strtab + aux->vda_name, version) == 0;
        }
        if (def->vd_next == 0)
            break;
        def = (const void *)((const char *)def + def->vd_next);
    }
    return false;
}

/** Does symbol `i` define the name in the wanted version? */
static bool matches(const struct gs_elf *obj, uint32_t i, const char *name, const char *version)
{
    const ElfW(Sym) *sym = (const ElfW(Sym) *)obj->symtab + i;
    unsigned type = ELF64_ST_TYPE(sym->st_info);
    unsigned bind = ELF64_ST_BIND(sym->st_info);
    if (sym->st_shndx == SHN_UNDEF || type == STT_TLS || (bind != STB_GLOBAL && bind != STB_WEAK) ||
        strcmp(obj->strtab + sym->st_name, name) != 0)
        return false;
    if (obj->versym == NULL)
        return true;
    if (version == NULL)
        return (obj->versym[i] & VERSYM_HIDDEN) == 0;
    return version_is(obj, obj->versym[i] & (uint16_t)~VERSYM_HIDDEN, version);
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *p = (const unsigned char *)name; *p != 0; p++)
        h = h * 33 + *p;
    return h;
}

static uint32_t sysv_hash_of(const char *name)
{
    uint32_t h = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p != 0; p++) {
        h = (h << 4) + *p;
        h ^= (h >> 24) & 0xf0u;
        h &= 0x0fffffffu;
    }
    return h;
}

/** Index in the symbol table, 0 (never a definition) when the object lacks it. */
static uint32_t find_gnu(const struct gs_elf *obj, const char *name, const char *version)
{
    const uint32_t *head = obj->gnu_hash; /* buckets, first symbol, bloom words, bloom shift */
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(head + 4);
    const uint32_t *bucket = (const uint32_t *)(bloom + head[2]);
    const uint32_t *chain = bucket + head[0];
    const uint32_t bits = 8 * sizeof(ElfW(Addr));
    uint32_t h = gnu_hash_of(name);
    if (head[0] == 0 || head[2] == 0)
        return 0;
    ElfW(Addr) word = bloom[(h / bits) & (head[2] - 1)];
    if (((word >> (h % bits)) & (word >> ((h >> head[3]) % bits)) & 1) == 0)
        return 0;
    uint32_t i = bucket[h % head[0]];
    if (i < head[1])
        return 0;
    for (;; i++) {
        uint32_t found = chain[i - head[1]];
        if (((found ^ h) >> 1) == 0 && matches(obj, i, name, version))
            return i;
        if ((found & 1) != 0)
            return 0;
    }
}

static uint32_t find_sysv(const struct gs_elf *obj, const char *name, const char *version)
{
    const uint32_t n_bucket = obj->sysv_hash[0];
    const uint32_t *bucket = obj->sysv_hash + 2;
    const uint32_t *chain = bucket + n_bucket;
    if (n_bucket == 0)
        return 0;
    for (uint32_t i = bucket[sysv_hash_of(name) % n_bucket]; i != 0; i = chain[i])
        if (matches(obj, i, name, version))
            return i;
    return 0;
}

void *gs_elf_symbol(const struct gs_elf *obj, const char *name, const char *version)
{
    uint32_t i = 0;
    if (obj->symtab == NULL || obj->strtab == NULL)
        return NULL;
    if (obj->gnu_hash != NULL)
        i = find_gnu(obj, name, version);
    else if (obj->sysv_hash != NULL)
        i = find_sysv(obj, name, version);
    if (i == 0)
        return NULL;
    const ElfW(Sym) *sym = (const ElfW(Sym) *)obj->symtab + i;
    void *at = (void *)(obj->base + sym->st_value);
    if (ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC)
        return ((void *(*)(void))(uintptr_t)at)();
    return at;
}

typedef int iterate_fn(int (*fn)(struct dl_phdr_info *info, size_t size, void *arg), void *arg);

/** The C library's dl_iterate_phdr. Its name cannot be used: TSan and MSan interpose it and need
 * their own start to be over. So look for it in the loader's list of objects, which stands as long
 * as we do up to the C library: it and all before it were there at the program's start. */
static iterate_fn *real_iterate(void)
{
    static iterate_fn *known; /* racing threads store the same address */
    struct gs_elf obj = {0};
    struct want libc = {.soname = "libc.so.6", .ret_obj = &obj};
    iterate_fn *found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    for (const struct link_map *map = _r_debug.r_map; found == NULL && map != NULL;
         map = map->l_next) {
        obj = (struct gs_elf){.path = map->l_name != NULL ? map->l_name : "",
                              .base = map->l_addr,
                              .lo = map->l_addr, /* an offset is smaller than any load address */
                              .hi = UINTPTR_MAX};
        if (map->l_ld != NULL)
            read_dynamic(&obj, map->l_ld);
        if (is_named(&obj, &libc) != 0)
            found = (iterate_fn *)(uintptr_t)gs_elf_symbol(&obj, "dl_iterate_phdr", NULL);
    }
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    return found;
}

int gs_elf_each(int (*fn)(const struct gs_elf *obj, void *arg), void *arg)
{
    struct each each = {fn, arg};
    iterate_fn *iterate = real_iterate();
    return iterate != NULL ? iterate(each_one, &each) : 0;
}

bool gs_elf_find(const char *soname, struct gs_elf *ret_obj)
{
    struct want want = {.soname = soname, .ret_obj = ret_obj};
    return gs_elf_each(is_named, &want) != 0;
}

static int covers(const struct gs_elf *obj, void *arg)
{
    const struct want *want = arg;
    if (want->addr < obj->lo || want->addr >= obj->hi)
        return 0;
    /* spans of two objects may interleave; segments do not */
    const ElfW(Phdr) *phdr = obj->phdr;
    for (uint32_t i = 0; i < obj->n_phdr; i++) {
        if (phdr[i].p_type == PT_LOAD &&
            want->addr - (obj->base + phdr[i].p_vaddr) < phdr[i].p_memsz) {
            *want->ret_obj = *obj;
            return 1;
        }
    }
    return 0;
}

bool gs_elf_at(const void *addr, struct gs_elf *ret_obj)
{
    struct want want = {.addr = (uintptr_t)addr, .ret_obj = ret_obj};
    return gs_elf_each(covers, &want) != 0;
}
