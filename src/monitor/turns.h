#pragma once
/* Turns in a card's memory. Slices that oversubscribe keep part of their memory in managed ranges,
 * which the driver moves to the card when a kernel touches them. Two of them that do not fit side
 * by side throw each other's pages out at every launch; given long turns, each moves its pages once
 * (docs/oversubscription.md).
 *
 * While what the card cannot give up and the managed bytes of the active slices together exceed the
 * card, one slice with managed memory has the turn and all others with managed memory are parked. A
 * turn lasts TURN_FACTOR times what moving the holder's managed bytes takes, within limits, and
 * ends early when the holder asks for nothing; the next is who has asked longest, by our own clock.
 * A slice of high priority comes before the others and cuts their turns to a tenth; after its own
 * turn the queue goes on as it stands, so that they are not shut out.
 *
 * Waiting is bounded: with n slices taking turns each gets one within (n - 1) x GS_TURNS_MAX_NS
 * and two steps for each of them; twice that where priorities differ. A slice without managed
 * memory is never parked.
 *
 * Pure: no clock, no system call, no allocation. One gs_turns per card, all zero at first; whoever
 * takes over the writing starts with a zeroed one. */

#include <stdint.h>

/** More slices on one card than a board has room for are not looked at. */
#define GS_TURNS_SLICES 256u
/** Bytes a card takes in from the host, per second: page migration over PCIe 4.0 x16. */
#define GS_TURNS_BYTES_PER_S 12000000000ull
/** A turn lasts this many times the move of the holder's managed bytes. */
#define GS_TURNS_FACTOR 20u
#define GS_TURNS_MIN_NS 200000000ull
#define GS_TURNS_MAX_NS 30000000000ull
/** What a slice of low priority has of its turn when one of high priority asks: one in so many. */
#define GS_TURNS_CUT 10u
/** A holder who has asked for nothing for so long gives the turn up, if another asks. */
#define GS_TURNS_IDLE_NS 100000000ull
/** A slice that asked within so long counts with its managed bytes. */
#define GS_TURNS_ACTIVE_NS 1000000000ull

/** One slice on the card. Values from its ledger: any number is taken. */
struct gs_turns_slice {
    uint64_t key[2];        /**< identity, as the board has it; unique among the slices */
    uint64_t fixed_bytes;   /**< charged to it without the managed ones: the card cannot give them
                               up */
    uint64_t managed_bytes; /**< 0: it takes no part */
    uint64_t demand_ns;  /**< newest known demand on the card, CLOCK_MONOTONIC; in the future: its
                            queue lasts until then; 0 never */
    uint32_t is_high;    /**< it goes first (contract/quota.h) */
    uint32_t is_waiting; /**< a launch of it waits now, for whatever reason */
    uint32_t is_parked;  /**< out: 1 it must not launch (GS_BOARD_PARK) */
};

/** Who has the turn, and who has asked, first come first. */
struct gs_turns {
    uint64_t holder[2]; /**< valid where has_holder */
    uint64_t until_ns;
    uint64_t cut_ns; /**< when a slice of high priority may take it over */
    uint32_t has_holder;
    uint32_t n_asking;
    uint64_t asking[GS_TURNS_SLICES][2];
};

/** One step: about every GS_BOARD_TICK_NS. Sets is_parked of every slice. */
void gs_turns_step(struct gs_turns *turns, struct gs_turns_slice *slices, uint32_t n_slices,
                   uint64_t card_bytes, uint64_t now_ns);

/** How long a turn of a slice with so many managed bytes lasts. */
uint64_t gs_turns_length_ns(uint64_t managed_bytes);
