#pragma once
/* The cards of this node, as they are now: a thread asks the driver, which may take its time, and
 * hands what it sees to the loop.
 *
 * Threads  the loop's; the thread touches nothing of the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "node/health.h"
#include "node/inventory.h"

struct gs_cards;
struct gs_loop;
struct gs_probe_vendor;

struct gs_cards_opt {
    struct gs_loop *loop;
    const struct gs_probe_vendor *vendor;
    /** There is an inventory, or another one, or a card became sick or well. */
    void (*changed)(void *arg, const struct gs_inventory *inv, const struct gs_health *health);
    /** The driver cannot be asked; it is tried again. */
    void (*trouble)(void *arg, const struct gs_err *why);
    void *arg;
};

GS_WUR int gs_cards_new(const struct gs_cards_opt *opt, struct gs_cards **ret, struct gs_err *err);
/** Waits for the thread, which looks up once a second. */
struct gs_cards *gs_cards_free(struct gs_cards *cards);
