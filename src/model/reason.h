#pragma once
/* Counts of reasons over the cards of one node, and their text in the answer of a filter. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

enum gs_reason {
#define X(name, word) GS_REASON_##name,
#include "model/reason.def"
#undef X
    GS_REASON_COUNT
};

const char *gs_reason_word(enum gs_reason reason);

/** What one walk over one node found. A plain value: copy it, compare it, keep it. */
struct gs_reasons {
    uint32_t count[GS_REASON_COUNT];
    uint32_t of;        /**< cards looked at: the denominator */
    uint32_t few_of;    /**< that of ALLOCATED_CARDS_INSUFFICIENT_REQUEST; 0: as the others */
    uint32_t collected; /**< cards that would serve, where they were too few */
    uint32_t asked;     /**< cards the request wants */
    /* For people, by the shared walk: of the cards that lack memory the one with most of it (where
     * none lacks memory: of those that lack cores the one with most of these). Known where
     * CARD_INSUFFICIENT_MEMORY or CARD_INSUFFICIENT_CORE is counted. */
    int32_t best_free_mib, need_mib;
    int32_t best_free_cores, need_cores;
    uint32_t
        best_device; /**< index into the node's devices; last: texts of a node do not name it */
};

void gs_reasons_reset(struct gs_reasons *r, uint32_t of);
static inline void gs_reasons_add(struct gs_reasons *r, enum gs_reason reason, uint32_t n)
{
    r->count[reason] += n;
}

/** "2/8 CardInsufficientMemory, 1/8 CardNotHealth": reasons sorted as text, HAMi's form;
 *  "NodeInsufficientDevice" stands bare. */
void gs_reasons_write(const struct gs_reasons *r, struct gs_buf *buf);
