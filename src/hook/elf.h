#pragma once
/* Symbols of objects that are already loaded, found without the loader's dl* functions.
 *
 * The hook exports dlsym itself, so a reference of its own would bind to itself, and newer libc
 * would stamp it with a version that older ones lack. dl_iterate_phdr has neither problem, once it
 * is found without its name (elf.c).
 *
 * Nothing here, nor in lookup.c and xlate.c, calls what a program may interpose: look-ups come from
 * programs (sanitizers) that are not ready to be called. See own_string.c. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** A view of one loaded object; valid as long as the object stays loaded. */
struct gs_elf {
    const char *path; /**< the loader's name; "" for the program itself */
    const char *soname;
    const char *rpath;   /**< NULL where there is none */
    const char *runpath; /**< NULL where there is none */
    uintptr_t base;      /**< load bias */
    uintptr_t lo, hi;    /**< [lo, hi) spans all loaded segments */
    uintptr_t relro_lo, relro_hi;
    const void *phdr; /**< ElfW(Phdr)[n_phdr] */
    const void *symtab;
    const char *strtab;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const uint16_t *versym;
    const void *verdef;
    const void *rela;   /**< DT_RELA */
    const void *jmprel; /**< DT_JMPREL */
    uint32_t n_phdr;
    uint32_t n_verdef;
    uint32_t n_rela;
    uint32_t n_relative; /**< leading entries of `rela` that name no symbol */
    uint32_t n_jmprel;
};

/** Call `fn` for each object of our namespace in load order, until it returns non-zero; that is the
 *  answer. `fn` runs under the loader's list lock: it must not load or unload. */
int gs_elf_each(int (*fn)(const struct gs_elf *obj, void *arg), void *arg);

/** The first loaded object whose DT_SONAME, or file name, is `soname`. */
bool gs_elf_find(const char *soname, struct gs_elf *ret_obj);
/** The object whose segments cover `addr`. */
bool gs_elf_at(const void *addr, struct gs_elf *ret_obj);

/** Address that the object defines for `name`, NULL when it does not.
 *  @version  NULL: the default one. Else the definition of exactly that version, as dlvsym has it:
 *            an object without version table matches every version.
 *  IFUNC symbols are resolved. Thread-local symbols are not found. */
void *gs_elf_symbol(const struct gs_elf *obj, const char *name, const char *version);
