#pragma once
/* How much device memory the variables of a PTX text take. */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_cubin_source;

/** Bytes of the `.global` and `.const` variables that the text at `offset` defines, by size and
 *  dimensions; declarations (`.extern`) and what functions hold inside do not count.
 *  Returns  0 for a text without any and for anything that is no PTX. Hostile input: see cubin.h.
 *  Source   PTX ISA 8.8, 5.1 state spaces, 5.2 types, 5.4 variables. */
uint64_t gs_ptx_bytes(const struct gs_cubin_source *source, uint64_t offset);
