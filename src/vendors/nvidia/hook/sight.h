#pragma once
/* Does the driver tell how long launches take?
 *
 * Where events cannot be made, recorded or read, in a row, launches go without for a second at a
 * time: then the clock alone is believed. Threads: any. */

#include <stdbool.h>
#include <stdint.h>

/** Has timing failed so often that it is not tried now? It is tried again once a second. */
bool gs_sight_is_lost(uint64_t now_ns);
/** The driver does not do what timing needs: say so, once.
 *  @what  the driver's function; static string. */
void gs_sight_trouble(uint32_t dev, const char *what);
/** An event could not be made, recorded or read. */
void gs_sight_fail(uint32_t dev, const char *what);
/** No event will ever tell: from now on without, until it is time to try again. */
void gs_sight_lose(uint32_t dev, const char *what);
/** One was read. */
void gs_sight_good(void);
/** Forked child. */
void gs_sight_forget(void);
