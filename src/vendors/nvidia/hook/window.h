#pragma once
/* How long launches that went by their estimates were out, against what was paid for them.
 *
 * From the first of them until the program sees the stream done, or until the stream's next entry,
 * the card cannot have worked longer than the clock says. What is longer than estimates and turns
 * of others explain is a surprise: it is charged, but for a little that is forgiven, and the
 * program is looked at more closely for a while. Shorter than that it is slack, in which samples
 * are believed. (docs/limiter.md: "Windows", "Attention".)
 *
 * `window`: launches << GS_LAUNCH_NS_BITS | what was charged for them, ns (launch_stream.h).
 * Threads: any, where nothing else is said. */

#include <stdbool.h>
#include <stdint.h>

/** Is so long a time of that window a surprise? */
bool gs_window_is_surprise(uint32_t dev, uint64_t out_ns, uint64_t window);
/** It was one, of `ns` beyond what was paid. Returns what is to be charged of that. The
 *  harvester's. */
uint64_t gs_window_surprise(uint32_t dev, uint64_t ns, uint64_t now_ns);

/** Launches were out so much longer than paid. The harvester's. */
void gs_window_slack(uint32_t dev, uint64_t more_ns);
/** A sample took `more_ns` more than was paid (less, where negative), and stands for that many
 *  launches that were not seen. Returns by how much those are to be corrected: by no more than they
 *  were out. The harvester's. */
int64_t gs_window_unseen(uint32_t dev, int64_t more_ns, uint64_t launches);

/** Is the program to be looked at more closely for now: launches measured one by one where it takes
 *  its time, else the ends of windows marked? gs_window_attended(): one of them was. */
bool gs_window_is_attending(uint32_t dev);
void gs_window_attended(uint32_t dev);

/** Forked child. */
void gs_window_forget(void);
