#pragma once
/* From cards to what is offered: annotations of the node, and one engine for each resource. */

struct gs_daemon;
struct gs_health;
struct gs_inventory;

/** There are these cards now, in this health. */
void gs_offer_cards(struct gs_daemon *d, const struct gs_inventory *inv,
                    const struct gs_health *health);
