#pragma once
/* What is promised on a card, whether more fits, and whether the card can keep it now. Promises are
 * kept per user; what other users were promised counts where their slices can be read. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_card;
struct gs_err;
struct gs_slice;
struct gs_slices;

/** Room for the names of slices in a message. */
#define GS_PROMISE_NAMES 160

struct gs_promise {
    uint64_t bytes; /**< sum of the memory limits */
    uint64_t
        outside; /**< in use on the card and in no slice's books; 0 where the driver is silent */
    uint64_t
        load; /**< limits and outside, an unlimited slice counted as a whole card: for choosing */
    uint64_t room; /**< what the card can really give now without what the slices may still take */
    uint32_t slices;   /**< with a memory limit on this card */
    const char *first; /**< name of one of them */
    uint64_t core_pct; /**< sum of the shares that are held (policy fixed or elastic) */
    char core_names[GS_PROMISE_NAMES]; /**< "'a' 30 %, 'b' 70 %" */
};

/** Add up the live slices, and what the driver says is in use beside them.
 *  @except  a slice that does not count, because its terms are about to change; NULL none. */
void gs_promise_read(const struct gs_card *card, const struct gs_slices *slices,
                     const struct gs_slice *except, struct gs_promise *ret);

/** What a live slice has, or may take, of the card: the greater of its limit and what it uses;
 * without a limit what it uses. Never more than there is. *ret_used: what it uses. */
uint64_t gs_promise_taken(const struct gs_card *card, const struct gs_slice *slice,
                          uint64_t *ret_used);

/** Do `bytes` (UINT64_MAX: no limit, which promises nothing) fit beside what is promised? Returns 0
 * or -ENOSPC with the numbers and the way out.
 *  @way  one more of those, behind the others: ", or ..."; may be empty. */
GS_WUR int gs_promise_check_memory(const struct gs_card *card, uint64_t bytes,
                                   const struct gs_promise *promise, const char *way,
                                   struct gs_err *err);
/** Does a share of `core_pct`? 100 is none. Returns 0 or -ENOSPC. */
GS_WUR int gs_promise_check_cores(const struct gs_card *card, uint32_t core_pct,
                                  const struct gs_promise *promise, const char *way,
                                  struct gs_err *err);
/** Can the card keep it now? So it can where there is no limit, which asks for nothing certain. */
bool gs_promise_is_kept(uint64_t bytes, const struct gs_promise *promise);
