#pragma once
/* A question that a child process answers: work that leaves traces in a process (a driver that is
 * initialised, variables that it reads once), may hang or may end it. */

#include <stddef.h>

#include "core/cleanup.h"

struct gs_err;

/** Run `work` in a child, whose standard output and error lead nowhere, and read what it writes to
 *  `out_fd`. The child ends when `work` returns, and is killed when time is up.
 *  @cap      of ret_answer; what comes beyond that is not read.
 *  Returns   bytes read, less than a whole answer where the child died before; -ETIMEDOUT; other
 *            negative errno where there is no child to ask.
 *  Threads   call it before the process has other threads, or let `work` be as careful as a forked
 *            child of a threaded process must be. */
GS_WUR int gs_aside_ask(void (*work)(const void *arg, int out_fd), const void *arg,
                        unsigned timeout_ms, void *ret_answer, size_t cap, struct gs_err *err);
