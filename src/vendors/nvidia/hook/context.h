#pragma once
/* What contexts cost and what goes with them.
 *
 * A GS_OBJ_CONTEXT entry: bytes = charged as extra (the context and its grown limits); aux =
 * serial; refs = the context's own part of bytes, in units of 512. Objects of a context carry its
 * serial in `aux` and return to the books with it. */

#include <stdint.h>

struct gs_obj;

/** Objects that end with a context; the driver has freed their memory already. */
void gs_linear_context_gone(uint64_t ptr, const struct gs_obj *obj);

/** Forked child: no context lives here. */
void gs_context_forget(void);
