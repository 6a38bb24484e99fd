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

#include "vendors/nvidia/hook/span.h"

/** How long may others' turns have held up this process in a stretch of time in which it wanted the
 *  card for so many turns? 0: nobody takes turns; UINT64_MAX: nobody knows how many do. */
uint64_t gs_window_turns_ns(uint32_t dev, struct gs_span span, uint64_t turns);

/** A window, or that part of it, took so long: is that a surprise? Where others of the slice may
 *  account for it there is doubt instead. */
bool gs_window_judge(uint32_t dev, struct gs_span span, uint64_t out_ns, uint64_t window);
/** It was one, of `ns` beyond what was paid. Returns what is to be charged of that. The
 *  harvester's. */
uint64_t gs_window_surprise(uint32_t dev, uint64_t ns, uint64_t now_ns);

/** Launches were out so much longer than paid, surprises included. The harvester's. */
void gs_window_slack(uint32_t dev, uint64_t more_ns);
/** A sample took `more_ns` more than was paid (less, where negative), and stands for that many
 *  launches that were not seen. Returns by how much those are to be corrected: by no more than they
 *  were out. The harvester's. */
int64_t gs_window_unseen(uint32_t dev, int64_t more_ns, uint64_t launches);

/** The process launches something. The first time it begins as others of the slice go on: closely
 *  looked at, and in doubt, where they found launches unlike their kind. A process that lives for
 *  less than a second would not find out in time, and each of a loop of those begins anew. */
void gs_window_begin(uint32_t dev);

/** Is the program to be looked at more closely for now: launches measured one by one where it takes
 *  its time, else the ends of windows marked? gs_window_attended(): one of them was. */
bool gs_window_is_attending(uint32_t dev);
void gs_window_attended(uint32_t dev);

/** A launch took so long that it was another process's of the slice, or one unlike its kind: who
 *  can tell? The next ones are all measured: what they took is then paid by whoever had it. */
void gs_window_doubt(uint32_t dev, uint64_t now_ns);
bool gs_window_is_doubtful(uint32_t dev);

/** Forked child. */
void gs_window_forget(void);
