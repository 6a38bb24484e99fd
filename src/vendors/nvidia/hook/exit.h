#pragma once
/* The orderly end of the program: exit(), or main() returns. */

/** Have `fn` called then; once, however often this is called. Handlers run in reverse order: call
 * it when the driver has put up its own, that is when the program has a context. Any thread; cheap
 *  after the first call. */
void gs_exit_await(void (*fn)(void));
