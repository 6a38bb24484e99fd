#pragma once
/* What launches take of which nothing is known, where a program makes new ones all the time: a
 * graph or a module for each launch. Each of those is of unknown length, but they are like those
 * before.
 *
 * Kernels and graphs are told apart. Threads: any; learning is the harvester's. */

#include <stdbool.h>
#include <stdint.h>

/** One took so long. */
void gs_fresh_learn(uint32_t dev, bool is_graph, uint64_t took_ns, uint64_t now_ns);
/** What the next one will take. 0: nobody can tell, because they are few, seldom, or one of the
 *  last was long. */
uint64_t gs_fresh_guess(uint32_t dev, bool is_graph, uint64_t now_ns);
/** Forked child. */
void gs_fresh_forget(void);
