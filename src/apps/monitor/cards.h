#pragma once
/* The cards' driver, asked on a thread of its own: a driver that hangs must not hold up metrics and
 * boards. What it says comes as callbacks on the loop's thread. */

#include <stddef.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "node/probe.h"

struct gs_cards;
struct gs_loop;

/** More processes of one card are not asked for. */
#define GS_CARDS_USES 256

struct gs_cards_fns {
    /** An answer to gs_cards_ask(). @probe NULL: it does not answer, @why says it. Borrowed for the
     *  call. */
    void (*probed)(void *user, const struct gs_probe *probe, const struct gs_err *why);
    /** About twice a second for each card of gs_cards_watch(). n below 0: it cannot say. */
    void (*watched)(void *user, const char *uuid, const struct gs_probe_use *use, int n);
};

/** Start the thread.
 *  @vendors  asked in order; borrowed for its life. */
GS_WUR int gs_cards_start(struct gs_loop *loop, const struct gs_probe_vendor *const *vendors,
                          size_t n, const struct gs_cards_fns *fns, void *user,
                          struct gs_cards **ret);
/** Stop it. Accepts NULL. Returns NULL; the object where the thread hangs in the driver: it is left
 *  to the end of the process, and the loop with it. */
struct gs_cards *gs_cards_stop(struct gs_cards *cards);

/** Ask for everything once. While an answer is outstanding: nothing more. */
void gs_cards_ask(struct gs_cards *cards);
/** Whose use is to be watched from now on. */
void gs_cards_watch(struct gs_cards *cards, const char *const *uuid, size_t n);
