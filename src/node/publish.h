#pragma once
/* What a node says of its cards in annotations and offers to its kubelet: made of the inventory,
 * how the cards are, and what an administrator has set. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "node/health.h"
#include "node/inventory.h"

struct gs_probe_vendor;

struct gs_publish_from {
    const struct gs_inventory *inv;
    const struct gs_health *health;       /**< of the same inventory; NULL: all well */
    struct gs_str device_config;          /**< text of the device configuration; p == NULL: none */
    struct gs_str node_config;            /**< of the node configuration; p == NULL: none */
    struct gs_str node;                   /**< this node's name in it */
    bool as_text;                         /**< the older form of the annotation, not JSON */
    const struct gs_inventory_tell *tell; /**< hears what is left out and why; may be NULL */
};

/** A card, or a part of one, under the name that pods ask for it by. */
struct gs_offer {
    char resource[160];
    size_t card;      /**< position in the inventory */
    int part;         /**< position on the card; -1: the card */
    int32_t n_shares; /**< how many the kubelet is offered; of a part 1 */
};

struct gs_published {
    struct gs_buf registered; /**< value of register_key */
    struct gs_buf scores;     /**< value of score_key */
    size_t n_registered;      /**< cards in it */
    struct gs_offer *offer;   /**< heap; cards in order */
    size_t n_offers;
};

struct gs_publish_vendor {
    const struct gs_probe_vendor *probe;
    const char *register_key, *score_key;
    /** Returns 0; -EINVAL the device configuration is wrong, or what it wants does not go with
     * these cards (err says why): nothing may be offered; -ENOMEM. On failure *ret is empty.
     *  Owner    caller; gs_published_fini(). */
    int (*publish)(const struct gs_publish_from *from, struct gs_published *ret,
                   struct gs_err *err);
};

void gs_published_fini(struct gs_published *published);
