#pragma once
/* Entries that are done: what their launches took, learnt and charged.
 *
 * The harvester's alone, where nothing else is said. */

#include <stdint.h>

#include "vendors/nvidia/hook/entry.h"
#include "vendors/nvidia/hook/span.h"

/** The card has passed the entry's last event; seen at `seen_ns`. */
void gs_settle_entry(const struct gs_inflight *entry, uint64_t seen_ns);
/** It will not be measured any more. By the clock it took no longer than until now. */
void gs_settle_unseen(const struct gs_inflight *entry, uint64_t now_ns);
/** What an entry says of launches before it is noted for the board, as of now; any thread. */
void gs_settle_note_covered(const struct gs_inflight *entry, uint64_t now_ns);
/** Launches by their estimates were out in that time: charge a surprise (window.h). */
void gs_settle_window(uint32_t dev, uint64_t id, struct gs_span span, uint64_t window);

/** When the newest settled entry of a stream was passed; 0 not known. Any thread. */
uint64_t gs_settle_end_of(uint64_t id);
/** When the last work of all seen done ended; 0 none was. Any thread. */
uint64_t gs_settle_last_end_ns(uint32_t dev);

/** Forked child. */
void gs_settle_forget(void);
