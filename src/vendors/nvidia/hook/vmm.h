#pragma once
/* Physical memory handles and their mappings (cuMemCreate and its family).
 *
 * The memory lives as long as one handle or one mapping does, and a handle's number may be given
 * out again as soon as it is released. So the charge hangs on an object of our own: GS_OBJ_HANDLE
 * key = handle:         aux = id of the memory; refs = references to the handle GS_OBJ_HANDLE  key
 * = id (bit 63):    bytes = charged; share; dev; refs = handles + mappings GS_OBJ_MAPPING key =
 * start address:  aux = id; bytes = length GS_OBJ_MAPPING key = hash (bit 63):  aux = id; bytes =
 * array; a tile of a sparse array GS_OBJ_EXPORT  key = descriptor: see vmm_export.c */

#include <stdbool.h>
#include <stdint.h>

/** Second word of the key of memory exported as a file descriptor. */
#define GS_VMM_SHARE_TAG 0x67732d766d6d2d66ull

/** A reference to the memory more; false: it is gone. `exported`: by a descriptor, so that later
 * releases look whether that is still open. */
bool gs_vmm_ref(uint64_t id, bool exported);
/** One handle, mapping or descriptor of the memory less; the last gives the charge back. */
void gs_vmm_unref(uint64_t id);

/** This process has exported the memory as descriptor `fd`: as long as that is open the card does
 * not get the memory back, whatever is released. Nobody tells us of its end, so it is looked at
 * when the memory loses a handle or a mapping, before a refusal and before an answer about used
 * memory. */
void gs_vmm_note_export(int fd, uint64_t id);
/** Give up what closed descriptors held. One load while this process has exported none. */
void gs_vmm_look_at_exports(void);
/** May a look give something back? */
bool gs_vmm_any_export(void);
/** Forked child: the descriptors are its parent's. */
void gs_vmm_forget(void);

/** Number for the memory with this id that no other process of the slice uses. */
uint64_t gs_vmm_serial(uint64_t id);

/** Join a share of `bytes` that another process exported as a file descriptor and that we do not
 * hold, the oldest first: what remains where descriptors cannot be told apart (a real driver's are
 * all of one device node; a second export of the same memory is a new file). Returns id >= 0 with
 * its ledger index in *ret_dev; -ENOENT. */
int gs_vmm_match(uint64_t bytes, uint32_t *ret_dev);

/** A sparse array (or mipmap) is destroyed: what was mapped into it is mapped no more. */
void gs_vmm_array_gone(uint64_t array);
