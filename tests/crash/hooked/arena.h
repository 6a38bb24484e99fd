#pragma once
/* What the driver of the hooked crash matrix and its workers share: a mapped file. */

#include <pthread.h>
#include <stdint.h>

#define ARENA_WORKERS 64u
#define ARENA_CARDS   2u
#define ARENA_LIMIT   (UINT64_C(1) << 30) /* of the slice on each card; hami_reader.py knows it */
#define ARENA_GROUP   "crash"

enum arena_phase {
    ARENA_RUN,
    ARENA_REST,  /* finish the operation and stand still */
    ARENA_EMPTY, /* give everything back and stand still */
    ARENA_LEAVE,
};

/** What one worker offers to the others. Under its lock. */
struct arena_offer {
    /** Held by who opens the descriptor, and by the driver when it kills the worker: memory whose
     *  exporter is dead and whose descriptor is on the way is on nobody's books. */
    pthread_mutex_t lock;
    uint32_t has_handle;
    unsigned char handle[64]; /* CUipcMemHandle */
    int32_t fd;               /* in that worker's table; -1 none */
    int32_t pid;
};

/** The longest driver call so far. */
struct arena_worst {
    uint64_t ns;
    char call[48];
};

struct arena {
    uint32_t phase;  /* enum arena_phase */
    uint32_t parked; /* workers that stand still */
    uint64_t granted, refused, opened, imported, came_late, contexts;
    uint64_t no_import; /* the kernel does not let us take descriptors */
    uint64_t calls;
    /* delay: ready to run without a processor; waited: wall less that */
    struct arena_worst cpu, wall, waited, delay;
    uint64_t errors;
    char first_error[200];
    struct arena_offer offer[ARENA_WORKERS];
};

/** Count an error; the first one's text is kept. */
void arena_fail(struct arena *arena, const char *what, int64_t a, int64_t b);
void arena_lock(struct arena_offer *offer);
void arena_unlock(struct arena_offer *offer);
