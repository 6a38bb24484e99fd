#pragma once
/* Host functions queued in streams: one thread of the process runs them in order of submission,
 * each when the card has reached its tag. The thread starts with the first one and never ends; a
 * forked child starts anew. */

#include <stdint.h>

#include "vendors/nvidia/abi/cuda_types.h"

/** Queue `fn(data)` behind tag `tag` of card `card`; *ret_seq orders it.
 *  Returns CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY. */
CUresult gs_hostcall_queue(uint32_t card, uint64_t tag, CUhostFn fn, void *data, uint64_t *ret_seq);

/** All host functions up to `seq` have returned / wait for that. A host function that asks about
 * itself is told yes. */
int gs_hostcall_is_done(uint64_t seq);
void gs_hostcall_wait(uint64_t seq);
