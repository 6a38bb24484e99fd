#pragma once
/* Physical memory handles and their mappings (cuMemCreate and its family).
 *
 * The memory lives as long as one handle or one mapping does, and a handle's number may be given
 * out again as soon as it is released. So the charge hangs on an object of our own: GS_OBJ_HANDLE
 * key = handle:         aux = id of the memory; refs = references to the handle GS_OBJ_HANDLE  key
 * = id (bit 63):    bytes = charged; share; dev; refs = handles + mappings GS_OBJ_MAPPING key =
 * start address:  aux = id; bytes = length GS_OBJ_MAPPING key = hash (bit 63):  aux = id; bytes =
 * array; a tile of a sparse array */

#include <stdint.h>

/** A sparse array (or mipmap) is destroyed: what was mapped into it is mapped no more. */
void gs_vmm_array_gone(uint64_t array);
