#pragma once
/* The library's memory of a process as a whole. */

/** The vendor's `forget` (hook/engine.h): a forked child owns nothing of its parent's. */
void gs_init_forget(void);
