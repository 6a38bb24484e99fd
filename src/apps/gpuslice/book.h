#pragma once
/* A slice's ledger as the command line sees it: read by pread, nothing in it trusted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "contract/meter.h"
#include "core/cleanup.h"

struct gs_err;
struct gs_quota;

struct gs_book_device {
    char uuid[96];
    uint64_t limit_bytes; /**< UINT64_MAX none */
    uint64_t used_bytes;  /**< live processes and shares */
    struct gs_meter meter;
};

struct gs_book_process {
    uint32_t pid;
    uint32_t flags;      /**< GS_SLOT_* */
    uint64_t used_bytes; /**< over all devices, with the shares charged to it */
};

/** What one process had to wait on one card, cumulative. */
struct gs_book_wait {
    uint64_t waited_ns; /**< sum over its launches, one that still waits included */
    uint64_t launches;  /**< that may have had to wait */
};

struct gs_book {
    struct gs_book_device device[GS_LEDGER_DEVICES];
    size_t n_devices;
    struct gs_book_process *process; /**< the live ones; heap */
    size_t n_processes;
    struct gs_book_wait *wait; /**< heap; see gs_book_wait() */
    uint64_t refusals;
    uint64_t age_ns;   /**< since the ledger was made; UINT64_MAX not known */
    uint64_t read_ns;  /**< CLOCK_MONOTONIC of the reading */
    uint64_t file_dev; /**< the ledger's identity, by which boards name the slice */
    uint64_t file_ino;
    bool is_suspended; /**< each live process, or, without any, the slice */
};

/** Read the ledger in a slice's folder. Returns 0; -ENOENT there is none yet; -EBADMSG it is not
 *  one.
 *  Owner  caller; gs_book_fini(). */
GS_WUR int gs_book_read(int dir_fd, struct gs_book *ret_book, struct gs_err *err);
/** The same of a ledger of another name. */
GS_WUR int gs_book_read_named(int dir_fd, const char *name, struct gs_book *ret_book,
                              struct gs_err *err);
void gs_book_fini(struct gs_book *book);
const struct gs_book_process *gs_book_find(const struct gs_book *book, uint32_t pid);
/** Of the process at `process` on the card at `device`, by their places in the book. */
const struct gs_book_wait *gs_book_wait(const struct gs_book *book, size_t process, size_t device);
const struct gs_book_device *gs_book_find_device(const struct gs_book *book, const char *uuid);

/** The limits of the slice with this folder: what its quota file says or, where that is spoiled,
 * what its ledger does, for that is what its programs are held to still.
 *  Returns  0; 1 by the ledger (priority and oversubscription are not in it); negative errno:
 *           neither can be read, *ret is zero. */
GS_WUR int gs_book_limits(int dir_fd, struct gs_quota *ret);

/** True where a live process owns a slot; also where reading fails for want of memory or the like.
 */
bool gs_book_has_live(int dir_fd);

/** Copy up to `max` of the newest complete events, oldest first. Returns their number or as above.
 */
GS_WUR int gs_book_events(int dir_fd, struct gs_ledger_event *ret_events, size_t max,
                          struct gs_err *err);
