#pragma once
/* The containers of this node that use its cards: folders below <HOOK_PATH>/containers joined with
 * pods and with what the driver says of processes. Looked at again and again, a container at a
 * step, so that no look holds up the loop for long.
 *
 * All that a container's own processes wrote is taken for their word and no more: names of cards
 * count where the machine has the card or the grant names it; limits that the watchdog goes by come
 * from the grant where there is one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "monitor/folder.h"
#include "monitor/pods.h"
#include "monitor/reading.h"

/** More containers, or cards of one container, are not looked at. */
#define GS_TENANTS_MAX     1024u
#define GS_TENANTS_CARDS   64u
#define GS_TENANTS_UNKNOWN UINT64_MAX
#define GS_TENANTS_AGAIN   30u

/** A card of this machine, as its driver has it. */
struct gs_tenants_card {
    char uuid[96];
    char type[112]; /**< "NVIDIA-A100-SXM4-40GB" */
    uint32_t index;
    uint64_t total_bytes;
    uint64_t used_bytes, util_pct, memory_util_pct; /**< or GS_TENANTS_UNKNOWN */
};

/** A process on one of them. */
struct gs_tenants_process {
    uint32_t card;                 /**< place in gs_tenants_driver.card */
    uint32_t pid;                  /**< as this pid namespace has it */
    uint64_t used_bytes, util_pct; /**< or GS_TENANTS_UNKNOWN */
};

/** What the driver says, borrowed for a call. */
struct gs_tenants_driver {
    const struct gs_tenants_card *card;
    size_t n_cards;
    const struct gs_tenants_process *process;
    size_t n_processes;
};

/** How a container is kept to its part of a card: DESIGN.md, decision 5. */
enum gs_held {
    GS_HELD_HARDWARE,  /**< a partition of the card */
    GS_HELD_HOOK,      /**< our library, or HAMi's */
    GS_HELD_EXCLUSIVE, /**< it has the whole card */
    GS_HELD_NONE,
    GS_HELD_COUNT
};
const char *gs_held_word(enum gs_held held);

/** One card of a container, as it is told to others. */
struct gs_tenants_device {
    char uuid[96];
    uint32_t index; /**< of the container's cards */
    enum gs_held held;
    uint64_t limit_bytes; /**< the card's where the container has no other; or GS_TENANTS_UNKNOWN */
    uint64_t used_bytes;  /**< or GS_TENANTS_UNKNOWN */
    uint64_t util_pct;    /**< or GS_TENANTS_UNKNOWN */
    uint32_t core_pct;    /**< 0..100; 0 and 100: no share is held */
    const struct gs_reading_device *read; /**< NULL: no file says anything of it */
    uint64_t driver_bytes; /**< what the driver gives to its processes; or GS_TENANTS_UNKNOWN */
    uint32_t n_processes;  /**< that the driver shows on it */
    /* the watchdog */
    uint64_t excess_bytes; /**< beyond its slice, as the driver says; 0 within it */
    uint32_t n_looks;      /**< in a row that found it beyond */
    bool is_breach;        /**< found so often that it is told */
};

struct gs_tenant {
    char *name; /**< "<podUID>_<container>" */
    struct gs_str uid, container;
    bool has_folder;
    char file[GS_FOLDER_NAME]; /**< empty: none */
    int found;                 /**< of gs_folder_find() */
    bool is_listed;            /**< that holds as long as the folder's change time is `listed` */
    struct timespec listed;
    struct gs_reading reading;
    bool was_ledger; /**< its file was one of ours once */
    struct gs_reading_log log;
    struct gs_tenants_device *device; /**< heap */
    size_t n_devices;
    uint32_t n_unheld;   /**< processes the driver shows that are not in its ledger */
    uint64_t n_breaches; /**< so far */
    bool is_seen;        /**< by the look that goes on */
    bool is_read;        /**< once */
    bool is_going;       /**< its pod is gone, and its folder is being removed */
    int64_t keep_ms;     /**< a folder that could not be removed is not tried before */
};

struct gs_tenants_who;

struct gs_tenants_opt {
    const char *folder;   /**< <HOOK_PATH>/containers; borrowed */
    const char *proc;     /**< where the node's /proc is; borrowed */
    struct gs_pods *pods; /**< NULL: without a cluster; borrowed */
    /** A container of a pod is found to use more than its slice; again every GS_TENANTS_AGAIN looks
     *  while that lasts. From gs_tenants_end(). May be NULL. */
    void (*breach)(void *arg, const struct gs_tenants_who *who,
                   const struct gs_tenants_device *device, uint64_t slice_bytes);
    void *arg;
    int64_t resync_ms; /**< folders of gone pods stay so long */
};

struct gs_tenants;

GS_WUR int gs_tenants_new(const struct gs_tenants_opt *opt, struct gs_tenants **ret);
/** Accepts NULL; returns NULL. */
struct gs_tenants *gs_tenants_free(struct gs_tenants *tenants);

/** When a look happens. */
struct gs_tenants_now {
    int64_t ms;       /**< the loop's clock */
    uint64_t mono_ns; /**< CLOCK_MONOTONIC, as ledgers have it */
    int64_t unix_s;
    bool may_remove; /**< the pods are known so surely that folders of others may go */
};

/** Begin a look: which containers there are. Returns 0, or why the folder cannot be read (that of a
 *  machine on which nothing has run yet is not there: 0). */
GS_WUR int gs_tenants_begin(struct gs_tenants *tenants, struct gs_err *err);
/** Look at one. True while there are more. */
bool gs_tenants_step(struct gs_tenants *tenants, const struct gs_tenants_now *now);
/** End the look: join with what the driver says (NULL: it says nothing now). */
void gs_tenants_end(struct gs_tenants *tenants, const struct gs_tenants_driver *driver);

/** By name, sorted. Valid until the next gs_tenants_begin(). */
size_t gs_tenants_count(const struct gs_tenants *tenants);
const struct gs_tenant *gs_tenants_at(const struct gs_tenants *tenants, size_t i);

/** The folder of folders, -1 where there is none. Valid until the next gs_tenants_begin(). */
int gs_tenants_folder(const struct gs_tenants *tenants);

/** Who it is, now: looked up among the pods, which may have changed since the look. */
struct gs_tenants_who {
    struct gs_str ns, pod, container;
    const struct gs_pods_pod *of;            /**< NULL without a cluster */
    const struct gs_pods_container *granted; /**< likewise */
};
/** False: its pod or it is gone, or it has not begun; nothing is told of it. */
bool gs_tenants_who(const struct gs_tenants *tenants, const struct gs_tenant *tenant,
                    struct gs_tenants_who *ret);

/** One step of HAMi's feedback: every GS_FEEDBACK_MS. */
void gs_tenants_feedback(struct gs_tenants *tenants, const struct gs_tenants_now *now);
