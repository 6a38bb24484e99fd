#pragma once
/* What cards a node has, where they sit and what links them, whatever the vendor: what a device
 * plugin registers and a doctor reports. Asked anew each time; how much of a card is in use and by
 * whom is another question (node/probe.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"

#define GS_INVENTORY_CARDS   64
#define GS_INVENTORY_PARTS   8
#define GS_INVENTORY_UUID    96
#define GS_INVENTORY_UNKNOWN UINT32_MAX

/** How far apart two cards of a machine sit, nearer is more. */
enum gs_near {
    GS_NEAR_UNKNOWN,
    GS_NEAR_CROSS_CPU,     /**< on different processors */
    GS_NEAR_SAME_CPU,      /**< below different host bridges of one processor */
    GS_NEAR_HOST_BRIDGE,   /**< below one host bridge */
    GS_NEAR_MULTI_SWITCH,  /**< several PCI Express switches between them */
    GS_NEAR_SINGLE_SWITCH, /**< one */
    GS_NEAR_SAME_BOARD,
    GS_NEAR_COUNT
};

/** What one card has to another: a place, and links of the vendor's own between the two. */
struct gs_link {
    enum gs_near near;
    uint32_t n_lanes;
};

/** A fixed partition of a card, with memory of its own in hardware. */
struct gs_part {
    char uuid[GS_INVENTORY_UUID];
    char profile[32];           /**< "1g.5gb", "1g.10gb+me" */
    uint32_t index;             /**< as the vendor counts on its card */
    uint32_t instance, compute; /**< the vendor's numbers of it */
    uint64_t mem_bytes;         /**< 0: the vendor does not say */
};

struct gs_inventory_card {
    char uuid[GS_INVENTORY_UUID];
    char name[96];   /**< as the vendor has it */
    char pci[32];    /**< "0000:65:00.0", as sysfs has it; empty: not known */
    uint32_t index;  /**< as the vendor's tools count */
    uint32_t minor;  /**< of its device node; GS_INVENTORY_UNKNOWN */
    int32_t numa;    /**< 0 where nobody knows */
    uint64_t memory; /**< bytes; 0: the vendor does not say */
    bool is_split;   /**< given out in parts (MIG): the card as a whole is not */
    struct gs_part part[GS_INVENTORY_PARTS];
    size_t n_parts;
};

struct gs_inventory {
    struct gs_inventory_card *card; /**< by index, ascending; heap */
    size_t n;
    struct gs_link *link; /**< [n * n], of (from, to) as `from` has it; heap */
    char driver[96];      /**< version; empty: not known */
    char runtime[32];     /**< newest version of the programs' interface it serves: "12.4" */
};

/** Hears what could not be asked and what that means, a sentence each. */
struct gs_inventory_tell {
    void (*tell)(void *user, const char *text);
    void *user;
};

/** What one vendor contributes. */
struct gs_inventory_vendor {
    const char *name; /**< for people */
    /** Append cards, ascending by index, with their links; a card that cannot be asked something
     * hides no other one, and what it cannot say is told. @sysfs "/sys".
     * Returns 0 (there may be no card); -ENODEV no driver; other negative errno with err. */
    int (*read)(const char *sysfs, const struct gs_inventory_tell *tell, struct gs_inventory *inv,
                struct gs_err *err);
};

/** Ask one vendor. Returns 0, also where it has no card; as gs_inventory_vendor.read.
 *  Owner    caller; gs_inventory_fini() also after failure. */
GS_WUR int gs_inventory_read(const struct gs_inventory_vendor *vendor, const char *sysfs,
                             const struct gs_inventory_tell *tell, struct gs_inventory *ret,
                             struct gs_err *err);
void gs_inventory_fini(struct gs_inventory *inv);

/** Which cards an administrator takes out (filterdevices of HAMi's node configuration). */
struct gs_inventory_filter {
    const char *const *uuid;
    size_t n_uuids;
    const uint32_t *index;
    size_t n_indexes;
};

/** A UUID is compared in any case. */
bool gs_inventory_is_dropped(const struct gs_inventory_card *card,
                             const struct gs_inventory_filter *filter);

/** Position of a card, or of the card that has this part; -ENODEV. *ret_part: the part's position,
 *  or -1. */
int gs_inventory_find(const struct gs_inventory *inv, const char *uuid, int *ret_part);

/** For vendors. Room for all cards before the first is added; 0 or -ENOMEM. */
GS_WUR int gs_inventory_reserve(struct gs_inventory *inv);
/** Next card, zeroed but for what is not known; NULL when there are GS_INVENTORY_CARDS. Links of
 *  all pairs are set afterwards, by gs_inventory_link(). */
struct gs_inventory_card *gs_inventory_add(struct gs_inventory *inv);
/** What `from` has to `to`; NULL out of range. Not before all cards were added. */
struct gs_link *gs_inventory_link(struct gs_inventory *inv, size_t from, size_t to);
/** Say something to whoever listens; `tell` may be NULL. */
void gs_inventory_say(const struct gs_inventory_tell *tell, const char *fmt, ...) GS_PRINTF(2, 3);

/** NUMA node of a PCI device, 0 where sysfs does not know: a machine of one node says -1.
 *  Source   Linux, Documentation/ABI/testing/sysfs-bus-pci, numa_node. */
int32_t gs_inventory_numa(const char *sysfs, const char *pci);

/** Score of a pair of cards as HAMi publishes it, more is nearer: 10 on different processors to 60
 * on one board, and 100 for each link. What the two cards say of each other has to agree: where one
 *  has links that the other does not know of, nobody knows what they are worth.
 *  Returns  the score; 0 and *ret_is_odd where they disagree (may be NULL).
 *  Source   HAMi v2.10 device plugin, pair scores. */
int32_t gs_inventory_score(struct gs_link from, struct gs_link back, bool *ret_is_odd);
