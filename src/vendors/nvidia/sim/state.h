#pragma once
/* The shared file `cards` in $GPUSLICE_SIM_DIR: all that processes on one set of simulated cards
 * have in common. The tables are the truth; every sum can be computed from them again and is, after
 * a process died inside the lock.
 *
 * Lock order: gs_sim_self.lock (process) before the lock in here (all processes). The lock in here
 * is held for table work only: no callbacks, and no system call except punching and liveness
 * checks of the reaper.
 * Linked into libcuda and libnvidia-ml (each has its own copy of the mapping). */

#include <pthread.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/sim/clock.h"
#include "vendors/nvidia/sim/fault.h"
#include "vendors/nvidia/sim/layout.h"

#define GS_SIM_MAGIC       UINT64_C(0x47535349434152) /* "GSSICAR" */
#define GS_SIM_CARDS_MAX   64
#define GS_SIM_PROCS_MAX   4096
#define GS_SIM_GROUPS_MAX  1024
#define GS_SIM_OBJECTS_MAX (1U << 18)
#define GS_SIM_HOLDS_MAX   (1U << 16)
#define GS_SIM_SPAN_FACTOR 4 /* offset space of a card in multiples of its memory */
#define GS_SIM_NONE        UINT32_MAX
#define GS_SIM_DIR_ENV     "GPUSLICE_SIM_DIR"

/** What an object is; only for reports, the accounting is the same. */
enum gs_sim_kind {
    GS_SIM_FREE = 0,
    GS_SIM_BLOCK,   /* a granule that small allocations are cut from */
    GS_SIM_LINEAR,  /* one allocation larger than half a granule */
    GS_SIM_MANAGED, /* cuMemAllocManaged; see residency.h */
    GS_SIM_ARRAY,
    GS_SIM_CHUNK,   /* part of a pool */
    GS_SIM_HANDLE,  /* cuMemCreate */
    GS_SIM_CONTEXT, /* overhead of a context: bytes without a place */
    GS_SIM_KIND_COUNT
};

/** One simulated card. Written at creation and then only under the lock, except words marked
 *  atomic. */
struct gs_sim_card_state {
    char name[96];
    char uuid[16]; /* bytes as cuDeviceGetUuid gives them */
    uint64_t memory_bytes;
    uint64_t granularity; /* bytes; a power of two */
    uint64_t shift;       /* its logarithm */
    uint64_t span_units;  /* offset space in granules */
    uint64_t bitmap_at;   /* file offset of span_units bits, one per granule in use */
    uint64_t first_free;  /* no granule below this one is free */
    uint64_t used_bytes;  /* atomic reads without the lock */
    uint64_t peak_bytes;
    uint64_t migrated_bytes; /* managed memory that came to the card because a kernel used it, or by
                                prefetch; never lowered */
    uint64_t evicted_bytes;  /* managed memory that others, or the rest of itself, pushed off */
    uint64_t use_seq;        /* counts uses of managed memory */
    uint32_t lost;           /* atomic; non-zero: the card fell off the bus */
    uint32_t index;          /* own number */
    uint64_t clock_at;       /* file offset of its struct gs_clock (gs_state_clock) */
};

/** A process that called cuInit (slot number = byte locked in the file `alive`). */
struct gs_sim_proc {
    uint32_t state;      /* 0 free, 1 live */
    int32_t pid;         /* as that process sees itself */
    uint64_t start_time; /* field 22 of /proc/<pid>/stat */
    uint64_t pid_ns;     /* inode of its pid namespace; 0 unknown */
    uint32_t group;
    uint32_t contexts;  /* live contexts on any card */
    uint64_t card_mask; /* bit per card with a live context */
    char comm[16];
    uint64_t used_bytes[GS_SIM_CARDS_MAX]; /* sum over the objects it is charged for */
};

/** The witness: what one slice has and had at most on one card. */
struct gs_sim_group_use {
    uint64_t used_bytes;
    uint64_t peak_bytes; /* never lowered except by gpuslice-sim reset-peak */
};

struct gs_sim_group {
    char name[64]; /* $GPUSLICE_SIM_GROUP; group 0 is the empty name */
    struct gs_sim_group_use card[GS_SIM_CARDS_MAX];
};

/** Physical memory. Lives while it has an owner, holds of other processes, or an exported
 * descriptor that is open somewhere. When the owner leaves, the charge passes to a process that
 * holds it. */
struct gs_sim_object {
    uint32_t kind;       /* enum gs_sim_kind; written last at birth, first at death */
    uint32_t generation; /* grows with each reuse: identities that travel carry it */
    uint32_t card;
    uint32_t owner;      /* process slot charged for it; GS_SIM_NONE = none left */
    uint32_t owner_refs; /* times the owner holds it */
    uint32_t holds;      /* entries of other processes in the table of holds */
    uint32_t group;      /* group charged */
    uint32_t context;    /* id of the owner's context */
    uint32_t exported;   /* a file export.<index>.<generation> exists */
    uint32_t next_free;
    uint64_t first_unit; /* place in the card's file, in granules */
    uint64_t units;      /* 0: no place */
    uint64_t bytes;      /* charged; of managed memory those that lie on the card */
    uint64_t size;       /* as asked for (what an importer is told) */
    uint64_t used_seq;   /* managed: use_seq of the card when it was last used */
};

/** One process other than the owner that keeps an object alive. */
struct gs_sim_hold {
    uint32_t process; /* slot; GS_SIM_NONE = free entry */
    uint32_t object;
    uint32_t generation;
    uint32_t refs;
};

struct gs_sim_state {
    uint64_t magic;
    uint64_t layout; /* sizeof(struct gs_sim_state): other builds are refused */
    uint64_t size;   /* whole file */
    uint64_t nonce;
    uint32_t n_cards;
    uint32_t zero_cost;
    uint64_t overhead_bytes;
    char model[64];
    pthread_mutex_t lock;
    uint64_t repairs;     /* times the lock's owner was found dead */
    uint64_t reaped;      /* dead processes cleaned up */
    uint32_t object_free; /* head of the list of free objects that were in use before */
    uint32_t object_top;  /* objects from here on were never used */
    uint32_t hold_top;    /* entries from here on were never used */
    uint32_t proc_top;    /* slots from here on were never used */
    uint32_t n_groups;
    uint32_t n_exported;                         /* objects with an exported descriptor */
    struct gs_fault fault;                       /* own atomics */
    struct gs_layout_card seat[GS_LAYOUT_CARDS]; /* how each sits and is split */
    struct gs_sim_card_state card[GS_SIM_CARDS_MAX];
    struct gs_sim_group group[GS_SIM_GROUPS_MAX];
    struct gs_sim_proc proc[GS_SIM_PROCS_MAX];
    struct gs_sim_hold hold[GS_SIM_HOLDS_MAX];
    struct gs_sim_object object[GS_SIM_OBJECTS_MAX];
};

/** `n` rounded up to a multiple of `to`, a power of two. */
static inline uint64_t gs_sim_align(uint64_t n, uint64_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/** Open the shared state, creating it from the environment if this is the first process
 *  (GPUSLICE_SIM_CARDS, _MEMORY, _MODEL, _OVERHEAD, _GRANULARITY, _MODE, _SLICE_US).
 *  Returns 0; -EINVAL a bad variable; -EPROTO the file is foreign or of another build; or the errno
 *  of a file operation. Idempotent; any thread. */
GS_WUR int gs_state_open(void);

/** The mapping after gs_state_open() succeeded, else NULL. */
extern struct gs_sim_state *gs_sim_state;

/** A path in the folder in use; `buf` of PATH_MAX bytes. Returns 0 or -ENAMETOOLONG. */
GS_WUR int gs_state_path(char *buf, size_t n, const char *name);

/** Take and leave the lock of all processes. If its owner died, the sums are made right first. */
void gs_state_lock(void);
void gs_state_unlock(void);

/** Make every sum, bitmap and free list agree with the tables (repair.c). Lock held. */
void gs_state_repair(void);

/** Bits of the granules in use of a card. */
uint64_t *gs_state_bitmap(uint32_t card);

/** Modelled time of work on a card; own lock, taken after the one in here. */
static inline struct gs_clock *gs_state_clock(uint32_t card)
{
    return (struct gs_clock *)(void *)((char *)gs_sim_state + gs_sim_state->card[card].clock_at);
}

/** Index of the group `name` (made if new). Lock held. Returns -ENOSPC when the table is full. */
GS_WUR int gs_state_group(const char *name);
