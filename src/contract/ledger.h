#pragma once
/* The ledger: one file per slice (container or `gpuslice run`) in which its processes reserve
 * device memory before they allocate it. The hook maps and writes it; monitor and command line read
 * it with pread and trust nothing in it.
 *
 * File:  0                    HAMi v1.2 region, mirrored for HAMi's own monitor
 * (contract/hami_region.h) GS_LEDGER_OFFSET     struct gs_ledger: head, slots, shares, log ring
 *        + sizeof             n_devices x struct gs_ledger_device
 *
 * Rules that keep it right after SIGKILL at any instruction (docs/protocol/ledger.md):
 *  - a word of a slot is written by the slot's owner alone, or by a reaper once the owner is dead;
 *  - bytes move downstream only: pending -> held or extra -> share; a reader that sums reads
 * upstream before downstream and so never misses a byte that exists (it may count one twice);
 *  - slots never move. Liveness = kernel record lock on byte `slot` of the file, and (pid, start
 * time).
 *
 * Units: bytes; nanoseconds of CLOCK_REALTIME; percent of one device. Byte order: host. */

#include <stddef.h>
#include <stdint.h>

#include "contract/hami_region.h"
#include "core/cleanup.h"

#define GS_LEDGER_MAGIC   0x3152474c45445347ull /* "GSDELGR1" in memory */
#define GS_LEDGER_VERSION 3u
#define GS_LEDGER_DEVICES 64u
#define GS_LEDGER_SLOTS   1024u
#define GS_LEDGER_SHARES  1024u
#define GS_LEDGER_RING    512u
#define GS_LEDGER_PAGE    4096u
/** Where our part begins: the mirror's size rounded up to a page. */
#define GS_LEDGER_OFFSET 2011136u

/** One process of the slice. */
struct gs_ledger_slot {
    uint64_t owner; /**< 0 free; else pid << 32 | low 32 bits of start_ticks. Claimed by CAS. */
    uint64_t start_ticks; /**< /proc/<pid>/stat field 22, clock ticks since boot */
    uint32_t pid;         /**< in the namespace of the process */
    uint32_t host_pid;    /**< 0 unknown; written by a daemon */
    uint32_t flags;       /**< GS_SLOT_* */
    uint32_t reserved0;
    uint64_t claimed_ns;
    char comm[16];
    uint64_t image; /**< gs_owner_image() of the process; 0 not known */
    uint64_t once;  /**< struct gs_owner */
    uint64_t reserved[7];
};
#define GS_SLOT_DRIVER_SEEN 1u /**< made at least one driver call through the hook */
#define GS_SLOT_UNHELD      2u /**< did something the hook cannot hold (dlmopen of a driver) */
#define GS_SLOT_SIGNALS     4u /**< SIGUSR2 suspends it and SIGUSR1 resumes it */

/** Memory that several processes hold: exported by one, imported by others. Its bytes are in
 *  gs_ledger_device.share_bytes[index] as long as one holder lives, in nobody's `held`. */
struct gs_ledger_share {
    uint64_t state;   /**< GS_SHARE_* in the low 8 bits, slot + 1 that set it in bits 8..23,
                         generation above */
    uint64_t key[2];  /**< identity of the handle, as exporter and importer both compute it */
    uint32_t device;  /**< index in this ledger; GS_SHARE_NAME | share for a further name of it */
    uint32_t creator; /**< slot of the exporter; of a name: generation of the share, low 32 bits */
    uint64_t holders[GS_LEDGER_SLOTS / 64]; /**< one bit per slot */
};
#define GS_SHARE_FREE    0u
#define GS_SHARE_CLAIMED 1u
#define GS_SHARE_LIVE    2u
#define GS_SHARE_DYING   3u
/** In `device`: the entry has no bytes. Who joins by its key also joins the share it names. */
#define GS_SHARE_NAME 0x80000000u

/** One line of the log ring, newest overwrites oldest. Text is made by the reader
 * (contract/reason.def). */
struct gs_ledger_event {
    uint64_t seq; /**< 0 empty; odd while written; else 2 x (position + 1) */
    uint64_t time_ns;
    uint32_t pid;
    uint16_t reason; /**< enum gs_reason */
    uint16_t device; /**< index in this ledger, 0xffff none */
    uint64_t arg[4]; /**< meaning per reason */
    char what[40];   /**< driver function or file, NUL padded */
    uint64_t reserved[2];
};

/** The first page of our part, a type of its own so that a reader needs no more than that on its
 * stack. */
struct gs_ledger_head {
    uint64_t magic; /**< stored last by the creator: non-zero means complete */
    uint32_t version;
    uint32_t n_devices;  /**< <= GS_LEDGER_DEVICES; fixed at creation */
    uint64_t file_bytes; /**< whole file, mirror included */
    uint64_t quota_generation;
    uint64_t slot_high;  /**< slots at and above this index were never claimed */
    uint64_t share_high; /**< likewise for shares */
    uint64_t ring_next;  /**< events written so far */
    uint64_t refusals;   /**< allocations refused since creation */
    uint64_t unmatched;  /**< releases larger than what was held; saturated to zero */
    uint64_t created_ns;
    uint64_t share_moves;  /**< raised before and after bytes move into a share: a sum that spans a
                              move is taken again */
    uint64_t quota_wanted; /**< generation of the newest quota file; raised by who wrote it.
                              Processes that run under another one read the file again */
    uint64_t suspended;    /**< 1: processes that attach begin suspended. Those that run go by the
                              status in their slot of HAMi's region */
    uint64_t reserved[499];
};

struct gs_ledger {
    struct gs_ledger_head head;
    struct gs_ledger_slot slot[GS_LEDGER_SLOTS];
    struct gs_ledger_share share[GS_LEDGER_SHARES];
    struct gs_ledger_event ring[GS_LEDGER_RING];
};

/** No debt is larger. It is what a program can use beyond its share before that is known, by
 * launching many long kernels that nobody knows, and then need not pay for: so it is deep. */
#define GS_LEDGER_FLOOR_NS INT64_C(-100000000000)
/** One charge is at most this: no single accident stops a slice for long. */
#define GS_LEDGER_CHARGE_NS UINT64_C(10000000000)

/** Card time of a slice that may be spent: one bucket per (slice, card). Refilled by whoever comes.
 *  A process killed between the two words loses the slice at most what one refill would have added.
 */
struct gs_ledger_bucket {
    int64_t tokens_ns;  /**< card time at hand; negative: debt */
    uint64_t refill_ns; /**< CLOCK_MONOTONIC up to which the bucket has been filled */
    uint64_t reserved[6];
};

/** What became of it, for people and for the board. Cumulative; any process adds. */
struct gs_ledger_meter {
    uint64_t used_ns;        /**< card time charged after measurement, refunds not taken off */
    uint64_t refunded_ns;    /**< given back because a neighbour had the card meanwhile */
    uint64_t refund_seen_ns; /**< the board's cumulative refund up to which that was done */
    uint64_t waits;          /**< launches that had to wait */
    uint64_t waited_ns;      /**< sum of their waits */
    uint64_t reserved[3];
};

/** Bins of the slice's card time, newest GS_LEDGER_HISTORY x GS_LEDGER_HISTORY_NS: what `top`
 * averages. A word is epoch << GS_LEDGER_HISTORY_BITS | ns, epoch = CLOCK_MONOTONIC /
 * GS_LEDGER_HISTORY_NS. */
#define GS_LEDGER_HISTORY      128u
#define GS_LEDGER_HISTORY_NS   100000000u
#define GS_LEDGER_HISTORY_BITS 37u

/** One process's work on one card. The owner of the slot writes; bins and `active_ns` tell the
 * board when the card was asked for. */
#define GS_LEDGER_BINS     32u
#define GS_LEDGER_BIN_NS   20000000u
#define GS_LEDGER_BIN_BITS 25u
struct gs_ledger_use {
    uint64_t inflight_ns; /**< charged for launches that are not measured yet: a reaper returns it,
                             less what `unsettled_ns` tells */
    uint64_t wait_since_ns; /**< CLOCK_MONOTONIC since when its oldest launch waits; 0 none */
    uint64_t active_ns;     /**< CLOCK_MONOTONIC of its newest known demand (launch or wait) */
    uint64_t busy_until_ns; /**< its queue on the card is believed to last until then */
    uint64_t used_ns;       /**< cumulative, as in the meter */
    uint64_t waited_ns;
    uint64_t launches;      /**< that took the slow path; a lower bound */
    uint64_t managed_bytes; /**< device memory served from managed memory (oversubscription) */
    /** Time in which work of the process was outstanding on the card:
     *  epoch << GS_LEDGER_BIN_BITS | ns, epoch = CLOCK_MONOTONIC / GS_LEDGER_BIN_NS. */
    uint64_t bin[GS_LEDGER_BINS];
    /** What the process knows of that, whatever neighbours did: in `time` of the bin's outstanding
     *  time, and what a mate has noted beside it, it had the card for `own`: epoch << 2
     * GS_LEDGER_KNOWN_BITS | time << GS_LEDGER_KNOWN_BITS | own, in units of GS_LEDGER_KNOWN_NS. */
    uint64_t known[GS_LEDGER_BINS];
    uint64_t unsettled_ns; /**< CLOCK_MONOTONIC since when it may have had work on the card that is
                              not charged in full yet; 0 none. Of a dead process the time from then
                              on is charged by whoever buries the slot */
    /** For so long of the time since then the card did not work for the process, as the driver
     * tells the board's writer, who is the one to write both. Good while idle_of_ns is
     * unsettled_ns. */
    uint64_t idle_ns;
    uint64_t idle_of_ns;
    uint64_t reserved[5];
};
/* a bin, and a rounding, fit; the epoch comes again after 15 days */
#define GS_LEDGER_KNOWN_NS   64u
#define GS_LEDGER_KNOWN_BITS 19u

#define GS_LEDGER_TRIAL_BITS 11u
#define GS_LEDGER_COVER      128u
#define GS_LEDGER_COVER_NS   500000u
#define GS_LEDGER_COVER_BITS 40u

struct gs_ledger_device {
    char uuid[96];           /**< "GPU-…" or "MIG-…", NUL padded */
    uint64_t limit_bytes;    /**< UINT64_MAX none */
    uint64_t physical_bytes; /**< 0 until a process has asked the driver */
    uint64_t context_bytes;  /**< what one context costs on this card; 0 until learnt */
    uint32_t core_pct;       /**< 0..100; 100 none */
    uint32_t policy;         /**< enum gs_policy */
    uint64_t refusals;
    uint64_t context_turn; /**< owner word of the process that finds context_bytes out; 0 none */
    uint64_t reserved0[6];
    struct gs_ledger_bucket bucket; /**< a cache line of its own */
    struct gs_ledger_meter meter;
    uint64_t history[GS_LEDGER_HISTORY];
    /** Who launches kernels of unknown length just now: microseconds of CLOCK_MONOTONIC since when
     *  << GS_LEDGER_TRIAL_BITS | slot + 1; 0 nobody. */
    uint64_t trial;
    /** When any process of the slice had work outstanding, in steps of GS_LEDGER_COVER_NS: epoch <<
     *  GS_LEDGER_COVER_BITS | a bit for each step of the epoch. So that time in which several had
     * is charged once. */
    uint64_t cover[GS_LEDGER_COVER];
    /** In how many of these steps, summed over the processes, one had work that another had noted:
     *  epoch << GS_LEDGER_COVER_BITS | count. The card gives turns to each of them. */
    uint64_t crowd[GS_LEDGER_COVER];
    /** CLOCK_MONOTONIC up to which what the slice may be forgiven has been used up; 0 nothing was.
     */
    uint64_t forgiven_ns;
    /** CLOCK_MONOTONIC until when a process that begins takes launches of one kind to be unlike
     * each other, because a mate found that; 0 nobody did. */
    uint64_t unlike_ns;
    uint64_t reserved[85];
    uint64_t pending[GS_LEDGER_SLOTS];
    uint64_t held[GS_LEDGER_SLOTS];
    uint64_t
        extra[GS_LEDGER_SLOTS]; /**< contexts, modules: what the driver took beside allocations */
    uint64_t share_bytes[GS_LEDGER_SHARES];
    struct gs_ledger_use use[GS_LEDGER_SLOTS];
};

_Static_assert(GS_HAMI_REGION_BYTES <= GS_LEDGER_OFFSET, "the mirror fits before our part");
_Static_assert(GS_LEDGER_OFFSET % GS_LEDGER_PAGE == 0, "our part is page aligned");
_Static_assert(sizeof(struct gs_ledger_slot) == 128, "slot layout");
_Static_assert(sizeof(struct gs_ledger_share) == 160, "share layout");
_Static_assert(sizeof(struct gs_ledger_event) == 112, "event layout");
_Static_assert(sizeof(struct gs_ledger_head) == GS_LEDGER_PAGE, "the head is one page");
_Static_assert(offsetof(struct gs_ledger, slot) == GS_LEDGER_PAGE, "slots start on a page");
_Static_assert(sizeof(struct gs_ledger) % 8 == 0, "devices are aligned");
_Static_assert(offsetof(struct gs_ledger_device, pending) == GS_LEDGER_PAGE, "device layout");
_Static_assert(offsetof(struct gs_ledger_device, bucket) == 192, "device layout");
_Static_assert(offsetof(struct gs_ledger_device, history) == 320, "device layout");
_Static_assert(GS_LEDGER_SLOTS < 1u << GS_LEDGER_TRIAL_BITS, "a slot fits");
_Static_assert(sizeof(struct gs_ledger_use) == 640, "use layout");
_Static_assert(sizeof(struct gs_ledger_device) == GS_LEDGER_PAGE + 4 * 8192 + 640 * GS_LEDGER_SLOTS,
               "device layout");

/** Bytes of a whole ledger file for n_devices. */
static inline uint64_t gs_ledger_file_bytes(uint32_t n_devices)
{
    return GS_LEDGER_OFFSET + sizeof(struct gs_ledger) +
           (uint64_t)n_devices * sizeof(struct gs_ledger_device);
}

/* Reading a ledger that may be hostile: pread only, every value bounds-checked, never mapped. */

/** Read exactly `n` bytes at `at`, by raw system calls. Returns 0; -EPROTO the file ends before;
 * -errno from the kernel. */
GS_WUR int gs_ledger_pread(int fd, void *buf, size_t n, uint64_t at);

/** Is the open file a complete ledger?
 *  Returns  0 and the device count; -ENODATA empty or still being created (its creator may have
 * died); -EPROTO something else, damaged, or of another version; -errno from the kernel. */
GS_WUR int gs_ledger_check(int fd, uint32_t *ret_n_devices);

/** One device's books. Sums saturate at UINT64_MAX. */
struct gs_ledger_books {
    char uuid[96]; /**< always NUL-terminated */
    uint64_t limit_bytes;
    uint64_t physical_bytes;
    uint64_t context_bytes;
    uint64_t refusals;
    uint64_t used_bytes; /**< live slots and shares, pending reservations left out */
    uint64_t dead_bytes; /**< of slots whose process is gone, not freed yet; not in used_bytes */
    uint32_t core_pct;   /**< 0..100 */
    uint32_t policy;     /**< below GS_POLICY_COUNT */
    uint64_t slot_bytes[GS_LEDGER_SLOTS]; /**< per process: held + extra + shares charged to it */
    int64_t tokens_ns;                    /**< card time at hand; negative: debt */
    struct gs_ledger_meter meter;
    uint64_t history[GS_LEDGER_HISTORY]; /**< for gs_ledger_used_bp() */
    uint64_t managed_bytes;              /**< of live slots */
    struct gs_ledger_work {
        uint64_t used_ns; /**< each as in struct gs_ledger_use; 0 where the process is dead */
        uint64_t waited_ns;
        uint64_t wait_since_ns;
        uint64_t launches;
        uint64_t managed_bytes;
    } work[GS_LEDGER_SLOTS];
};

/** A whole ledger at one moment, as far as a running one can be read: 3.5 MB, on the caller's
 * heap. */
struct gs_ledger_snapshot {
    uint32_t n_devices;
    uint32_t n_slots;  /**< slots at and above were never used, and are not set here */
    uint32_t n_shares; /**< likewise */
    uint64_t quota_generation;
    uint64_t refusals;
    uint64_t unmatched;
    uint64_t created_ns;
    uint64_t suspended;                    /**< not 0: the slice is */
    uint8_t is_suspended[GS_LEDGER_SLOTS]; /**< 1: a live slot whose status says so */
    uint8_t is_live[GS_LEDGER_SLOTS]; /**< 1: claimed, and its byte is locked or its process runs */
    /** Pid of the byte's lock as the reader's pid namespace has it; 0 unlocked, -1 it cannot be
     * named. */
    int32_t holder_pid[GS_LEDGER_SLOTS];
    struct gs_ledger_slot slot[GS_LEDGER_SLOTS];
    struct gs_ledger_share share[GS_LEDGER_SHARES];
    struct gs_ledger_books device[GS_LEDGER_DEVICES];
};

/** Read all of it. Shares are charged to their creator while it holds them, else to the lowest live
 *  holder, else they are dead. Returns 0 or as gs_ledger_check; *ret is undefined then. */
GS_WUR int gs_ledger_read(int fd, struct gs_ledger_snapshot *ret);

/** Average use of the card by the slice, refunds taken off, in basis points of the card (at most
 * 10000): over the whole bins of the last `span_ns` before the one that `now_ns` lies in.
 *  @history  of a snapshot; @now_ns CLOCK_MONOTONIC; @span_ns up to 12 s, at least one bin.
 *  Threads   pure. */
uint32_t gs_ledger_used_bp(const uint64_t history[GS_LEDGER_HISTORY], uint64_t now_ns,
                           uint64_t span_ns);

/** Copy the newest complete events, oldest first, that have a position at or above `from`.
 *  Returns the count (at most max); *ret_next is the position to ask from next time. */
GS_WUR int gs_ledger_read_events(int fd, uint64_t from, struct gs_ledger_event *ret_events,
                                 uint32_t max, uint64_t *ret_next);
