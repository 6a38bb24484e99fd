#include "hook/engine.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "hook/attach.h"
#include "hook/board.h"
#include "hook/elf.h"
#include "hook/futex.h"
#include "hook/limiter.h"
#include "hook/lookup.h"
#include "hook/ring.h"
#include "hook/slot.h"
#include "hook/track.h"
#include "hook/xlate.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Lock order: gs_engine.once, then gs_engine.resolving. The driver and the loader's load lock may
 * be taken under `once` (attaching may have to ask the driver for its cards), never under
 * `resolving`: look-ups take that one from inside constructors, where the loader's lock is held. */

/* This thread runs gs_engine_start: what it calls comes back here and must not wait for itself. */
static _Thread_local uint32_t starting __attribute__((tls_model("initial-exec")));

/* Outside the wiped page: a forked child keeps what is as true there as in its parent. */
static struct {
    uint32_t resolved; /* 1: the rest is final */
    uintptr_t lo, hi;  /* the driver's segments */
    struct gs_elf obj;
} libs[GS_HOOK_LIBS_MAX];
static uint32_t started;     /* 1: some process on the way to this one attached */
static const char *unheld;   /* what was done that the hook cannot hold; NULL nothing */
static uint32_t started_pid; /* that process; read only where the page cannot be wiped */

static bool is_resolved(uint32_t lib)
{
    /* pairs with the release in resolve_lib */
    return __atomic_load_n(&libs[lib].resolved, __ATOMIC_ACQUIRE) != 0;
}

/** Read the addresses of a driver library that is loaded, and keep it loaded. */
static bool resolve_lib(uint32_t lib)
{
    const struct gs_hook_lib *def = &gs_hook_vendor.libs[lib];
    struct gs_elf obj;
    if (is_resolved(lib))
        return true;
    if (!gs_elf_find(def->soname, &obj))
        return false;
    /* we are going to keep addresses of it, so it may not go when the program closes it */
    (void)gs_lookup_open(obj.path, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);

    gs_futex_lock(&gs_engine.resolving);
    if (!is_resolved(lib)) {
        for (uint32_t i = 0; i < def->n_rows; i++) {
            void *real = gs_elf_symbol(&obj, def->rows[i].symbol, NULL);
            if (real == NULL || gs_xlate_put(real, def->rows[i].wrapper) < 0)
                continue; /* this driver lacks it; room there is, the vendor asserts that */
            __atomic_store_n(def->rows[i].real, real, __ATOMIC_RELAXED);
        }
        libs[lib].obj = obj;
        libs[lib].lo = obj.lo;
        libs[lib].hi = obj.hi;
        /* pairs with the acquire in is_resolved */
        __atomic_store_n(&libs[lib].resolved, 1, __ATOMIC_RELEASE);
    }
    gs_futex_unlock(&gs_engine.resolving);
    return true;
}

void gs_engine_resolve(void)
{
    for (uint32_t i = 0; i < gs_hook_vendor.n_libs; i++)
        (void)resolve_lib(i); /* not loaded yet: a later call finds it */
}

int gs_engine_load(uint32_t lib)
{
    int saved = errno;
    if (lib >= gs_hook_vendor.n_libs)
        return -ENOENT;
    if (!resolve_lib(lib))
        (void)gs_lookup_open(gs_hook_vendor.libs[lib].soname, RTLD_NOW); /* the next line tells */
    bool found = resolve_lib(lib);
    errno = saved;
    return found ? 0 : -ENOENT;
}

void *gs_engine_symbol(uint32_t lib, const char *name)
{
    if (lib >= gs_hook_vendor.n_libs || !resolve_lib(lib))
        return NULL;
    return gs_elf_symbol(&libs[lib].obj, name, NULL);
}

bool gs_engine_owns(uintptr_t addr)
{
    for (uint32_t i = 0; i < gs_hook_vendor.n_libs; i++)
        if (is_resolved(i) && addr >= libs[i].lo && addr < libs[i].hi)
            return true;
    return false;
}

static bool any_resolved(void)
{
    for (uint32_t i = 0; i < gs_hook_vendor.n_libs; i++)
        if (is_resolved(i))
            return true;
    return false;
}

void *gs_engine_translate(void *real)
{
    void *wrapper = gs_xlate_get(real);
    if (wrapper != NULL || real == NULL)
        return wrapper != NULL ? wrapper : real;
    if (gs_engine_owns((uintptr_t)real))
        return real; /* the driver's, and not one of our rows */
    for (uint32_t i = 0; i < gs_hook_vendor.n_libs; i++)
        if (!is_resolved(i) && resolve_lib(i) && (wrapper = gs_xlate_get(real)) != NULL)
            return wrapper;
    return real;
}

int gs_engine_device(const char *uuid)
{
    return gs_attach_device(uuid);
}

/** Tell the slice's owner, once in a process. */
static void tell_unheld(const char *what)
{
    if (__atomic_exchange_n(&gs_engine.told, 1, __ATOMIC_RELAXED) != 0)
        return;
    gs_slot_flag(GS_SLOT_UNHELD);
    gs_ring_log(GS_REASON_UNHELD, GS_RING_NO_DEVICE, what, NULL);
}

void gs_engine_note_unheld(const char *what)
{
    const int saved = errno;
    __atomic_store_n(&unheld, what, __ATOMIC_RELEASE);
    gs_engine_start();
    if (__atomic_load_n(&gs_engine.attached, __ATOMIC_ACQUIRE) != 0)
        tell_unheld(what); /* else whoever attaches does */
    errno = saved;
}

/** Drop what belongs to the process we were forked from. */
static void forget_parent(void)
{
    gs_track_reset();
    if (gs_hook_vendor.forget != NULL)
        gs_hook_vendor.forget();
    gs_limiter_forget();
    gs_hook_board_forget();
    gs_attach_forget();
    memset(&gs_engine, 0, offsetof(struct gs_engine_state, once));
}

/** Attach; not finally where the limits need a list of cards and no driver is loaded, or ready, to
 * make it. */
static bool attach(void)
{
    const char *what = __atomic_load_n(&unheld, __ATOMIC_ACQUIRE);
    int rc;
    gs_engine_resolve();
    rc = gs_attach();
    if (rc == -EAGAIN || (rc < 0 && gs_attach_reason() == GS_REASON_NO_CARDS && !any_resolved())) {
        gs_attach_forget();
        return false;
    }
    if (what != NULL)
        tell_unheld(what);
    gs_limiter_configure();
    return true;
}

static void start_locked(void)
{
    const uint32_t pid = (uint32_t)syscall(SYS_getpid);
    const bool wiped = madvise(&gs_engine, sizeof gs_engine, MADV_WIPEONFORK) == 0;
    if (started != 0 && (wiped ? gs_engine.mark == 0 : started_pid != pid))
        forget_parent();
    else if (gs_engine.attached != 0)
        return;
    started = 1;
    started_pid = pid;
    gs_engine.mark = 1;
    if (!attach())
        return;
    __atomic_store_n(&gs_engine.attached, 1, __ATOMIC_RELEASE);
    if (wiped)
        /* pairs with the acquire in gs_engine_enter */
        __atomic_store_n(&gs_engine.ready, 1, __ATOMIC_RELEASE);
    gs_limiter_publish();
}

void gs_engine_start(void)
{
    const int saved = errno;
    const uint32_t depth = gs_engine_depth;
    const uintptr_t frame = gs_engine_frame;
    if (starting != 0)
        return;
    starting = 1;
    gs_engine_depth = 1;
    gs_engine_frame = (uintptr_t)__builtin_frame_address(0);
    gs_futex_lock(&gs_engine.once);
    if (__atomic_load_n(&gs_engine.ready, __ATOMIC_ACQUIRE) == 0)
        start_locked();
    gs_futex_unlock(&gs_engine.once);
    gs_engine_depth = depth;
    gs_engine_frame = frame;
    starting = 0;
    errno = saved;
}
