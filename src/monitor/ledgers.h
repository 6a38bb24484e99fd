#pragma once
/* The ledgers of the slices on one card: kept open, read by pread, nothing in them trusted. What
 * the slices' processes say of themselves becomes the arbiter's input.
 *
 * One thread at a time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "core/cleanup.h"
#include "monitor/arbiter.h"

/** How a slice was granted the card, from a source that its processes cannot write. */
struct gs_ledgers_grant {
    uint32_t core_pct; /**< 0..100; 100, and 0, none asked */
    uint32_t policy;   /**< enum gs_policy */
    uint32_t priority; /**< enum gs_priority */
    bool takes_turns;  /**< its memory may exceed the card: turns (monitor/turns.h) */
};

/** What is remembered of a slot beside the arbiter's part. */
struct gs_ledgers_note {
    uint64_t once;    /**< of the slot */
    uint64_t look_ns; /**< when its process was last seen alive or dead */
    int32_t pid;      /**< as this pid namespace has it; 0 not known */
    bool is_dead;
    uint64_t unsettled_ns;  /**< the ledger's word */
    uint64_t idle_ns;       /**< since then */
    uint64_t idle_until_ns; /**< up to when the driver's word was taken */
};

struct gs_ledgers_slice {
    struct gs_arbiter_slice arbiter;
    int fd;
    bool is_offered; /**< since gs_ledgers_begin() */
    bool is_named;   /**< the driver has named a process of it by the pid that we know */
    bool takes_turns;
    int32_t device; /**< the card's index in this ledger; -1 not known yet */
    uint32_t cap;   /**< of arbiter.process and note */
    struct gs_ledgers_note *note;
    bool has_refund; /**< arbiter.refund_ns has been set to where it goes on; by the writer */
    uint64_t refund_seen_ns; /**< of its meter: a new cumulative refund starts there */
    uint64_t managed_bytes;
    uint64_t fixed_bytes; /**< see gs_ledgers_read_memory() */
};

struct gs_ledgers {
    char uuid[96];
    struct gs_ledgers_slice *slice[GS_BOARD_SLICES];
    uint32_t n;
    /* read here first: a hostile ledger may change under a second look */
    struct gs_ledger_head head;
    struct gs_ledger_slot slot[GS_LEDGER_SLOTS]; /**< right behind the head, as in the file */
    struct gs_ledger_use use[GS_LEDGER_SLOTS];
};

_Static_assert(offsetof(struct gs_ledgers, slot) - offsetof(struct gs_ledgers, head) ==
                   offsetof(struct gs_ledger, slot),
               "head and slots are read in one go");

/** Zero the object and name its card; it is large, keep it on the heap. */
void gs_ledgers_init(struct gs_ledgers *set, const char *uuid);
void gs_ledgers_fini(struct gs_ledgers *set);

/** Begin to say which slices there are; what is not offered until gs_ledgers_end() is closed. */
void gs_ledgers_begin(struct gs_ledgers *set);
/** There is this slice. A ledger that its first process has not made yet is a slice as well, an
 *  idle one; a file of another identity under the name is another slice.
 *  Returns  0; -E2BIG more than a board has room for; -EPROTO not a regular file; -ENOMEM; else
 *           from open. */
GS_WUR int gs_ledgers_offer(struct gs_ledgers *set, int dir_fd, const char *name,
                            const struct gs_ledgers_grant *grant);
void gs_ledgers_end(struct gs_ledgers *set);

/** Read what the arbiter wants to know of every slice. One whose ledger is damaged has no
 * processes. */
void gs_ledgers_read(struct gs_ledgers *set, uint64_t now_ns);
/** Read what each slice holds on the card that the card cannot give up: fixed_bytes. */
void gs_ledgers_read_memory(struct gs_ledgers *set);

/** What the driver says a process did on the card. */
struct gs_ledgers_used {
    uint32_t pid;
    uint32_t util_pct; /**< any number; 0 it has something there and did not use it */
};
/** The driver's word on who used the card between two moments, everybody who did and perhaps
 *  others: write into the ledgers for how long the card did not work for a process that has had
 * something out since before that (`idle_ns`). Only where the driver names processes by pids that
 * we know, and all of them. */
void gs_ledgers_take_used(struct gs_ledgers *set, const struct gs_ledgers_used *used, size_t n,
                          uint64_t from_ns, uint64_t until_ns);

/** Is this a process of a slice whose hooks report what they do? */
bool gs_ledgers_knows(const struct gs_ledgers *set, uint32_t pid);
/** Does a slice on the card keep a share, go first, or take turns? */
bool gs_ledgers_is_needed(const struct gs_ledgers *set);
