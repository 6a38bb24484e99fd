#pragma once
/* Events that two processes share (CU_EVENT_INTERPROCESS): the place in the card's time lies in a
 * small file of the cards' folder. */

#include <stdint.h>

#include "vendors/nvidia/abi/cuda_types.h"

struct gs_event_shared {
    uint64_t magic;
    uint64_t tag;        /**< of the last record, in the time of the process in `slot`; atomic */
    uint64_t generation; /**< of that process (clock.h) */
    uint32_t recorded;   /**< atomic; written after the others */
    uint32_t card;
    uint32_t slot;
    uint32_t reserved;
};

/** Forget a mapping; the maker also removes the file. Accepts NULL. */
void gs_event_share_close(struct gs_event_shared *s, uint32_t serial);
