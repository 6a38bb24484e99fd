#pragma once
/* What accelerators this machine has and who uses them, whatever the vendor. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "node/devnode.h"

struct gs_health_vendor;
struct gs_inventory_vendor;
struct gs_probe_watch;

#define GS_PROBE_CARDS   64
#define GS_PROBE_UNKNOWN UINT64_MAX

struct gs_card {
    const struct gs_probe_vendor *vendor;
    uint32_t index; /**< as the vendor's tools count */
    char uuid[96];
    char name[96];
    uint64_t total_bytes;
    uint64_t used_bytes;      /**< by everybody, or GS_PROBE_UNKNOWN */
    uint64_t util_pct;        /**< 0..100 or GS_PROBE_UNKNOWN */
    uint64_t memory_util_pct; /**< of its memory controller; likewise */
};

/** One process on one card; a process on two cards is two entries. */
struct gs_card_process {
    uint32_t card;       /**< position in gs_probe.card */
    uint32_t pid;        /**< as the driver gives it: this pid namespace on a plain machine */
    uint64_t used_bytes; /**< or GS_PROBE_UNKNOWN */
    uint64_t util_pct;   /**< recent share of the card's compute, or GS_PROBE_UNKNOWN */
};

struct gs_probe {
    struct gs_card card[GS_PROBE_CARDS];
    size_t n_cards;
    struct gs_card_process *process; /**< heap */
    size_t n_processes;
    size_t cap_processes;
    char lost[GS_ERR_TEXT]; /**< what the driver did not tell, for people; empty: it told all */
};

/** What one process does on a card. */
struct gs_probe_use {
    uint32_t pid;      /**< as the driver gives it */
    uint32_t util_pct; /**< recent part of the card's compute; the driver's word, any number */
};

/** What one vendor contributes. */
struct gs_probe_vendor {
    const char *name;        /**< for people */
    const char *room;        /**< folder below vendors/, which a build tree repeats */
    const char *visible_env; /**< variable that restricts a program to cards by UUID */
    const char *hook;        /**< file name of the hook library */
    /** Append this vendor's cards and their processes. Returns 0; -ENODEV no driver or no card;
     * other negative errno with err set. On failure nothing was appended. */
    int (*read)(struct gs_probe *probe, struct gs_err *err);
    /** What one context costs on the card. Creates one: call it in a process of its own, whose
     * driver nothing has touched yet. */
    int (*context_bytes)(const char *uuid, uint64_t *ret_bytes, struct gs_err *err);
    /** Begin to ask about one card again and again. Returns 0 or negative errno. */
    int (*watch_new)(const char *uuid, struct gs_probe_watch **ret_watch, struct gs_err *err);
    /** Processes that have something on the card, and how much they used it within the last second
     * (0 not at all): their number, at most max; or negative errno where the driver cannot say. */
    int (*watch_read)(struct gs_probe_watch *watch, struct gs_probe_use *ret_use, size_t max);
    /** Accepts NULL; returns NULL. */
    struct gs_probe_watch *(*watch_free)(struct gs_probe_watch *watch);
    const struct gs_inventory_vendor *inventory; /**< what cards there are */
    const struct gs_health_vendor *health;       /**< how they are */
    gs_devnode_list nodes;                       /**< their files below /dev */
};

/** Ask each vendor in order. Returns 0; -ENODEV none has a card (err names the first vendor's
 *  reason); a vendor's failure only counts where no other has a card.
 *  Owner  caller; gs_probe_fini() also after failure. */
GS_WUR int gs_probe_read(const struct gs_probe_vendor *const *vendors, size_t n,
                         struct gs_probe *ret_probe, struct gs_err *err);
void gs_probe_fini(struct gs_probe *probe);

/** Next card slot, or NULL when there are GS_PROBE_CARDS already; for vendors. */
struct gs_card *gs_probe_add_card(struct gs_probe *probe);
/** Record a process once per card; a second report of the same pair keeps the larger numbers.
 *  Returns 0 or -ENOMEM. */
GS_WUR int gs_probe_add_process(struct gs_probe *probe, const struct gs_card_process *process);
/** NULL where the card or the process is not known. */
const struct gs_card_process *gs_probe_find_process(const struct gs_probe *probe, uint32_t card,
                                                    uint32_t pid);
/** Position of the card with this UUID, or -ENODEV. */
int gs_probe_find_card(const struct gs_probe *probe, const char *uuid);
