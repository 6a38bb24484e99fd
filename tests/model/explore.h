#pragma once
/* Explicit-state explorer for code that touches shared memory only through core/atomics.h.
 *
 * Each process of a model runs as a coroutine on a stack of its own; every atomic operation is a
 * point where the explorer chooses who goes on, or who is killed. A state is what is in shared
 * memory and, per process, registers and stack; equal states are visited once, so all interleavings
 * are covered. Sequential consistency is assumed: the code's own orders are argued in its comments.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPLORE_PROCESSES 3u
#define EXPLORE_WORDS     64u

enum explore_life { EXPLORE_RUNS, EXPLORE_DONE, EXPLORE_DEAD };

/** Everything that processes share, and what the model remembers about them. Part of the state. */
struct explore_shared {
    uint64_t word[EXPLORE_WORDS]; /**< the model's: ledger words, witness, results */
    uint8_t life[EXPLORE_PROCESSES];
    uint8_t kills; /**< so far */
};

struct explore_model {
    uint32_t n_processes;
    uint32_t max_kills;
    /** Body of process p; returns when it has finished. */
    void (*body)(uint32_t p);
    /** A process was killed: what the kernel does about it. */
    void (*killed)(uint32_t p);
    /** NULL, or what is wrong with a state in which nobody runs any more. */
    const char *(*check_end)(void);
};

struct explore_result {
    uint64_t states;
    uint64_t ends;         /**< distinct final states */
    uint64_t stuck;        /**< states from which no end can be reached */
    const char *violation; /**< first one found, NULL none */
    char schedule[256]; /**< how it came to that: "0", "1", "2" step, "a", "b", "c" kill; cut from
                           the front */
};

extern struct explore_shared explore_shared;

/** The running process. */
uint32_t explore_self(void);
/** Let the explorer choose; call before each shared operation. */
void explore_point(void);
/** Report a broken invariant and stop exploring. */
void explore_violate(const char *what);
/** Explore all of it. */
struct explore_result explore_run(const struct explore_model *model);
