#pragma once
/* A world in virtual time for the limiter's core: processes with threads, each slice with a ledger
 * in plain memory, and one card that processes with work have in turns of 2 ms, round robin.
 *
 * A thread is a coroutine. It gives up the processor where it waits: in gs_limiter_sleep(), which
 * this world defines together with gs_limiter_clock(), and in the calls below. Everything follows
 * from the calls and one seed: a run is the same every time. Units: ns. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/board.h"
#include "hook/limiter.h"

#define WORLD_SLICES    3u
#define WORLD_PROCESSES 8u
#define WORLD_THREADS   72u

/** What a thread that waits in the limiter calls, with its process's number. */
extern void (*world_harvest)(uint32_t process);

/** Start afresh at virtual time 1000 s. */
void world_reset(uint64_t seed);
/** A slice with a share of the card. Returns its number. */
uint32_t world_slice(uint32_t core_pct, uint32_t policy);
/** A process of it, attached, with one thread that runs body(arg). Returns its number. */
uint32_t world_process(uint32_t slice, void (*body)(void *arg), void *arg);
/** One more thread. */
void world_thread(uint32_t process, void (*body)(void *arg), void *arg);
/** Run until a moment, counted from the reset; then nothing moves. */
void world_run(uint64_t until_ns);

/** SIGKILL: its threads stop where they are, its work leaves the card. */
void world_kill(uint32_t process);
/** Kill whoever passes the n-th labelled step from now on (1: the next); 0 nobody. */
void world_kill_at_step(uint64_t n);
bool world_is_dead(uint32_t process);
/** SIGSTOP: its threads do not run; what is on the card goes on. */
void world_stop(uint32_t process, bool stopped);

/** Since the reset. */
uint64_t world_ns(void);
/** Card time that a slice has had so far, as the card knows it. */
uint64_t world_used(uint32_t slice);
/** A slice's entry of the board; its `share_bp` 0: no board. */
extern struct gs_board_slice world_board[WORLD_SLICES];
struct gs_ledger *world_ledger(uint32_t slice);
struct gs_ledger_device *world_device(uint32_t slice);
/** A new quota: every process of the slice takes it over when it next looks. */
void world_resize(uint32_t slice, uint32_t core_pct);

/* In a thread: */

/** The program does something else. */
void world_delay(uint64_t ns);
/** Put a kernel on the card, behind what this process has there. Returns its number. */
uint64_t world_launch(uint64_t ns);
bool world_is_done(uint64_t kernel);
void world_wait(uint64_t kernel);
/** When it was the first in line of its process, when the card came to it, and when it ended. Of
 * the newest 4096 of the process. */
void world_span(uint64_t kernel, uint64_t *ret_start, uint64_t *ret_on, uint64_t *ret_end);
/** Of [0, n). */
uint64_t world_random(uint64_t n);
uint32_t world_self(void);
