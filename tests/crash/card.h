#pragma once
/* A card of the crash matrix's own: the independent witness. It knows nothing of the ledger.
 * Allocations live while one holder lives; a killed worker's are freed by the kernel's word that it
 * is dead (robust mutex), which comes before its file locks go, as with a real driver. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CARD_WORKERS 128u
#define CARD_OBJECTS 2048u
#define CARD_DEVICES 2u

struct card_object {
    uint64_t bytes;
    uint64_t serial; /**< unique; 0 unused */
    uint32_t dev;
    bool published;
    uint64_t holders[CARD_WORKERS / 64];
};

struct card {
    pthread_mutex_t lock;
    pthread_mutex_t life[CARD_WORKERS]; /**< held by worker w as long as it lives */
    uint64_t limit[CARD_DEVICES];       /**< what the witness checks against */
    uint64_t used[CARD_DEVICES];
    uint64_t peak[CARD_DEVICES];
    uint64_t over;   /**< allocations that went over the limit: must stay 0 */
    uint64_t serial; /**< last one given */
    struct card_object object[CARD_OBJECTS];
};

struct card *card_new(uint64_t limit_bytes);
/** Worker w begins to live. */
void card_live(struct card *card, uint32_t w);
/** Returns the object's index, -1 when the table is full. */
int card_alloc(struct card *card, uint32_t w, uint32_t dev, uint64_t bytes, uint64_t *ret_serial);
/** Stop holding. */
void card_free(struct card *card, uint32_t w, int object);
void card_publish(struct card *card, int object);
/** A published object that w does not hold, or -1. */
int card_find(struct card *card, uint32_t w, uint64_t from, uint64_t *ret_serial);
/** Hold an object that still lives under this serial. */
bool card_open(struct card *card, uint32_t w, int object, uint64_t serial);
/** Free what the dead held. */
void card_sweep(struct card *card);
