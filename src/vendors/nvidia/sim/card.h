#pragma once
/* Physical memory of a card. Everything here works on shared objects; what a process calls an
 * allocation is in memory.h. Takes the lock of all processes itself unless a comment says "held".
 */

#include <stdint.h>

#include "vendors/nvidia/sim/sim.h"
#include "vendors/nvidia/sim/state.h"

/** Identity of an object that may travel between processes. */
struct gs_sim_id {
    uint32_t index;
    uint32_t generation;
};

/** What to take. */
struct gs_sim_take {
    uint32_t card;
    uint32_t kind;    /* enum gs_sim_kind */
    uint32_t context; /* id of the context it belongs to */
    uint32_t placed;  /* 0: charge `bytes` as they are, without a place */
    uint64_t bytes;   /* placed: rounded up to the card's granularity */
    uint64_t size;    /* as asked for */
};

/** Charge this process for memory of a card and give it a place.
 *  Dead processes are freed before the answer is no and before a group's peak is raised.
 *  Returns CUDA_SUCCESS; CUDA_ERROR_OUT_OF_MEMORY the card (or a table) is full. */
CUresult gs_card_take(const struct gs_sim_take *take, struct gs_sim_id *ret_id);

/** This process is done with an object it owns or holds; the last holder frees it. */
void gs_card_drop(struct gs_sim_id id);

/** Keep an object of another process alive. Counted per process; each needs a gs_card_drop().
 *  Returns CUDA_ERROR_INVALID_VALUE if it is gone, CUDA_ERROR_OUT_OF_MEMORY if the table is full.
 */
CUresult gs_card_hold(struct gs_sim_id id);

/** The descriptor's identity file was made: it counts as a holder while a copy of the descriptor
 *  is open anywhere. Returns the descriptor (close-on-exec) or a negative errno.
 *  `payload` is what gs_card_import_fd() of another process gets back. */
GS_WUR int gs_card_export_fd(struct gs_sim_id id, const void *payload, size_t n);
GS_WUR int gs_card_import_fd(int fd, void *ret_payload, size_t n);

/** Free all objects that this process owns or holds for one context. */
void gs_card_drop_context(uint32_t context);

/** Free one process' share of everything. Lock held. Used by the reaper. */
void gs_card_forget_process(uint32_t slot);

/** Drop objects whose exported descriptors were all closed. Lock held. */
void gs_card_sweep_exports(void);

/** Address of granule 0 of a card in this process (mapped at first use), or NULL. */
char *gs_card_base(uint32_t card);
/** Descriptor of the card's file for further mappings, or a negative errno. */
int gs_card_fd(uint32_t card);

static inline uint64_t gs_card_granularity(uint32_t card)
{
    return gs_sim_state->card[card].granularity;
}

/** Free and total bytes of a card. In normal mode dead processes are freed first. */
void gs_card_info(uint32_t card, uint64_t *ret_free, uint64_t *ret_total);
