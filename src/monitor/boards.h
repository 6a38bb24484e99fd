#pragma once
/* The boards of a node: one for each card that slices share (monitor/board.h), written for the
 * containers whose grants ask for it. What a slice may do comes from its pod, never from its
 * ledger: without a cluster there are no boards. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "monitor/board.h"
#include "monitor/tenants.h"

struct gs_boards;

/** @folder  of the boards; borrowed. Made where it is missing, readable for all. */
GS_WUR int gs_boards_new(const char *folder, struct gs_boards **ret);
/** Accepts NULL; returns NULL. */
struct gs_boards *gs_boards_free(struct gs_boards *boards);

/** After a look: which slices there are, and who writes.
 *  @driver  NULL: no new card is begun with.
 *  @now_ns  CLOCK_MONOTONIC. */
void gs_boards_scan(struct gs_boards *boards, const struct gs_tenants *tenants,
                    const struct gs_tenants_driver *driver, uint64_t now_ns);
/** Write those that are due: every GS_BOARD_TICK_NS, five times a second where no slice of the card
 *  has asked for it for a second.
 *  @now_ns  CLOCK_MONOTONIC.
 *  Returns  in how many milliseconds to come again, 1 at least. */
uint64_t gs_boards_tick(struct gs_boards *boards, uint64_t now_ns);
/** What the driver says of one card; see gs_board_take_used(). */
void gs_boards_take_used(struct gs_boards *boards, const char *uuid,
                         const struct gs_ledgers_used *used, int n, uint64_t now_ns);
/** UUIDs of cards: those whose board is written by us, or those that slices with a board have asked
 *  for lately, for whom the driver is to be asked about strangers. Valid until the next scan.
 * Returns their number, at most `max`. */
size_t gs_boards_written(const struct gs_boards *boards, const char **ret, size_t max);
size_t gs_boards_busy(const struct gs_boards *boards, const char **ret, size_t max);
