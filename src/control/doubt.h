#pragma once
/* Bound pods whose grants are not believed: what they use may be given once more. That is right
 * for forged grants, and a disaster where the grant key was lost or HAMi's pods were forgotten: so
 * it is said aloud, with names, each time their number changes. One thread: the loop's.
 */

#include <stdbool.h>

#include "base/map.h"
#include "core/str.h"
#include "net/loop.h"

#define GS_DOUBT_TELL_MS 1000u /* changes of so long make one line of the log */

/** Start zeroed, with `loop` set. */
struct gs_doubt {
    struct gs_loop *loop;
    struct gs_map pod; /**< by UID */
    struct gs_loop_timer tell;
    size_t told; /**< pods in the last line */
};

void gs_doubt_fini(struct gs_doubt *doubt);
/** A pod as it is now. Without memory for its name it goes untold. */
void gs_doubt_saw(struct gs_doubt *doubt, struct gs_str uid, struct gs_str ns, struct gs_str name,
                  bool is_doubted);
