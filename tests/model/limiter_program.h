#pragma once
/* A program under the limiter, in the world's virtual time: what a vendor's hook does around each
 * launch (estimates, samples, measured launches, a bound on what is in flight), and a controller
 * that writes the board. */

#include <stdbool.h>
#include <stdint.h>

#define PROGRAM_KERNELS 6u
#define PROGRAM_ENTRIES 4096u

struct program {
    /* what it does */
    uint64_t kernel_ns[PROGRAM_KERNELS]; /**< lengths, used in turn; 0 ends the list */
    bool sync;                           /**< waits for each */
    uint64_t burst_ns, pause_ns;         /**< so much work, then host work; 0: no pauses */
    uint64_t count;                      /**< launches; 0 no end */
    /* what came of it */
    uint64_t done;
    uint64_t longest_ns; /**< wait for one admission */
    uint64_t end_ns[64]; /**< of the first launches, when they were seen done */
    /* program.c's */
    struct {
        uint64_t est_ns; /**< 0 unknown */
        uint32_t turns;  /**< samples in a row with a neighbour in them */
        uint64_t since_ns;
    } cost[PROGRAM_KERNELS];
    struct program_entry {
        uint64_t kernel, paid_ns, covers_ns, first_ns, closed_ns;
        uint32_t type;
        bool measured, unknown;
    } entry[PROGRAM_ENTRIES];
    uint64_t head, tail;
    uint64_t inflight_ns, covers_ns, first_ns, last_end_ns;
    uint32_t unknown;
};

/** With the world. */
void program_reset(void);
/** Settle what is done; for world_harvest. */
void program_harvest(uint32_t process);
/** Body of a thread; arg: struct program. One thread per process. */
void program_run(void *arg);
/** Body of a thread of a process in a slice of its own: writes the board every 20 ms for ever. */
void program_monitor(void *arg);
