#pragma once
/* The engine: finds the real driver, attaches the slice's ledger once, survives re-entry, fork and
 * exec.
 *
 * Knows no vendor: the library that links it defines `gs_hook_vendor`. Nothing happens in the
 * constructor; real work starts at the first driver call (gs_engine_enter). */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** One driver function with a wrapper. Rows are sorted by symbol (strcmp) within a library. */
struct gs_hook_row {
    const char *symbol;
    void *wrapper;
    void **real; /**< filled by the engine; left as it was where this driver lacks the function */
};

/** One driver library. */
struct gs_hook_lib {
    const char *soname; /**< "libcuda.so.1" */
    const char *prefix; /**< names the look-up interposer considers: "cu" */
    const struct gs_hook_row *rows;
    uint32_t n_rows;
};
#define GS_HOOK_LIBS_MAX 8u

/** A card as the driver names it. */
struct gs_hook_card {
    char uuid[96];
    uint64_t physical_bytes;
};

struct gs_hook_vendor {
    const char *name;
    const struct gs_hook_lib *libs;
    uint32_t n_libs;
    /** List the cards this container can see, in the order HAMi's `_<i>` variables count them.
     *  Called only where limits come from the environment. Returns the count; -EAGAIN the driver
     * cannot tell before the program has initialised it (the next call asks again); another
     * -errno: final. */
    int (*enumerate)(struct gs_hook_card *ret_cards, uint32_t max);
    /** Drop what the vendor remembers of this process's allocations: called where the engine resets
     * the object table (forked child, before anything else runs in it). May be NULL. */
    void (*forget)(void);
    /** Settle with the limiter what the card has finished by now: called by threads that wait in
     * the limiter, every quantum or more often, at the depth of the call that waits. Does not wait.
     * May be NULL. */
    void (*harvest)(void);
};
extern const struct gs_hook_vendor gs_hook_vendor;

#ifdef __aarch64__
#define GS_ENGINE_PAGE 65536 /* the largest page size of the architecture */
#else
#define GS_ENGINE_PAGE 4096
#endif

/** Has pages to itself, so that the kernel can wipe it in a forked child (MADV_WIPEONFORK): all
 * zero there, which is the state "nothing done yet". One load of `ready` is all a launch pays.
 *  Where the kernel cannot wipe (before 4.14) `ready` stays 0 and each call compares the pid. */
struct gs_engine_state {
    _Alignas(GS_ENGINE_PAGE) uint32_t ready; /**< 1: attached, nothing to do on the fast path */
    uint32_t launch_free;  /**< 1: ready, and no launch of this process is held: launch rows go
                              straight to the driver (gs_limiter_publish) */
    uint32_t copies_free;  /**< the same for copies and fills, which are held only where the slice
                              asks for it (GPUSLICE_LIMIT_COPIES) */
    uint32_t attached;     /**< engine.c: 1 attaching is over, with or without success */
    uint32_t told;         /**< engine.c: 1 the slice's owner knows of gs_engine_note_unheld */
    uint32_t once;         /**< engine.c: futex word of gs_engine_start */
    uint32_t resolving;    /**< engine.c: futex word of the resolver */
    uint32_t mark;         /**< engine.c: 0 in a child that has not started */
    uint64_t launch_epoch; /**< 0: threads may pay no launch by themselves. Else a number that never
                              comes again: what they have at hand was taken under it, or is void
                              (gs_limiter_recall) */
};
extern struct gs_engine_state gs_engine __attribute__((visibility("hidden")));
extern _Thread_local uint32_t gs_engine_depth
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
/** Where on the stack the outermost call of this thread began. */
extern _Thread_local uintptr_t gs_engine_frame
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/** Do what is still to be done: find the addresses of driver libraries that are loaded, attach the
 *  ledger, claim a slot. Idempotent; safe against re-entry from the loader or the driver; other
 * threads wait; keeps errno. Loads nothing. */
void gs_engine_start(void);
/** Only find the driver's addresses, in the libraries that are loaded by now. */
void gs_engine_resolve(void);

/** True: we are the outermost call and everything is set up; pair with gs_engine_leave().
 *  False: a nested call; go straight to the driver. A call no deeper on the stack than the one that
 * is under way cannot be nested: that one was left by a jump (`siglongjmp` out of a launch that
 * waits), and must not let the thread go unheld for ever. */
static inline bool gs_engine_enter(void)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

    if (GS_UNLIKELY(gs_engine_depth != 0) && frame < gs_engine_frame)
        return false;
    gs_engine_frame = frame;
    gs_engine_depth = 1;
    /* pairs with the release in gs_engine_start: who sees it sees ledger and slot */
    if (GS_UNLIKELY(__atomic_load_n(&gs_engine.ready, __ATOMIC_ACQUIRE) == 0))
        gs_engine_start();
    return true;
}

static inline void gs_engine_leave(void)
{
    gs_engine_depth = 0;
}

/** Wrapper for a driver's address, or the address itself where it has none. */
void *gs_engine_translate(void *real);

/** Does `addr` lie in a driver library that has been resolved? */
bool gs_engine_owns(uintptr_t addr);

/** Code is about to be loaded where the hook cannot follow: attach, and mark our slot, so that the
 *  slice's owner is told. @what is a static string for the log. */
void gs_engine_note_unheld(const char *what);

/** Ledger index for a UUID; -ENODEV when it is not in the grant, -ESHUTDOWN when there is no
 * ledger. */
int gs_engine_device(const char *uuid);

/** Address of the driver's own function, for rows that have no wrapper too. NULL when the library
 * is not loaded in this process or lacks it. Slow: callers keep the answer. */
void *gs_engine_symbol(uint32_t lib, const char *name);
/** Load vendor library number `lib` by its soname if the program has not, and find its addresses.
 * At any depth. Returns 0; -ENOENT this machine has none. */
GS_WUR int gs_engine_load(uint32_t lib);
