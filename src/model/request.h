#pragma once
/* What one container asks of one vendor. */

#include <stdint.h>

/** mem_pct of a request that names memory in MiB. */
#define GS_PCT_NONE 101

struct gs_request {
    int32_t nums;    /**< cards; 0: nothing asked (or asked wrongly: HAMi drops it) */
    int32_t mem_mib; /**< of each card; 0: by mem_pct */
    int32_t mem_pct; /**< percent of a card, or GS_PCT_NONE; vendors with own rules note them */
    int32_t cores;   /**< of each card, percent (or the vendor's unit) */
    uint8_t form;    /**< vendor's own: which of several ways of asking was used; 0 the usual one */
};
