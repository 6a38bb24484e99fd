#pragma once
/* Can the hook hold a program? Known before it starts: what the file is, not what it will do. */

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"

struct gs_buf;

/** Look at the program `argv[0]` names (found along PATH as execvp does), at the interpreters of
 *  scripts, and at what `env` would start.
 *  @ret_why  one sentence per reason why the hook will not be loaded and what to do, each ended by
 *            a newline; empty where nothing speaks against it.
 *  @ret_breaks  the program's own loader is not glibc's: with the hook in LD_PRELOAD it would not
 *               start at all.
 *  Returns  0; a program that cannot be found or read gives no reason (its start will fail, or
 *           tell). -ENOMEM.
 *  Source  ld.so(8), secure-execution mode; elf(5). */
GS_WUR int gs_preflight_check(char *const *argv, struct gs_buf *ret_why, bool *ret_breaks);
