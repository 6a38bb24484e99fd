#include "hook/suspend.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "contract/env.h"
#include "core/str.h"
#include "hook/engine.h"
#include "hook/limiter.h"
#include "hook/resize.h"
#include "hook/ring.h"
#include "hook/slot.h"
#include "hook/sys.h"
#include "hook/trace.h"

/** A status written by somebody who cannot wake us is seen after so long. */
#define LOOK_NS 50000000

/* For the handler. In a forked child both are its parent's until it attaches: a signal that comes
 * before must not reach the parent's slot. */
static uint32_t attached_pid; /**< whose slot gs_self.mirror is; 0 nobody's */
static uint64_t asked;        /**< pid << 32 | status that a signal asked for too early */

static uint32_t own_pid(void)
{
    return (uint32_t)GS_SYS(SYS_getpid);
}

static void wake(void)
{
    (void)GS_SYS(SYS_futex, &gs_self.mirror->status, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The status, or what is wanted of the process, may have changed: launches have to come past the
 * limiter again, which looks. Safe in a signal handler. */
static void look_again(void)
{
    gs_limiter_recall();
    gs_limiter_publish();
    /* `gpuslice resize` sends SIGUSR1 too: a launch has to come by and take over the new limits */
    if (gs_resize_is_due(&gs_self)) {
        __atomic_store_n(&gs_engine.launch_free, 0, __ATOMIC_RELAXED);
        if (gs_self.limit_copies != 0)
            __atomic_store_n(&gs_engine.copies_free, 0, __ATOMIC_RELAXED);
    }
}

static void on_signal(int signo)
{
    const int saved_errno = errno;
    const int32_t status = signo == SIGUSR2 ? GS_HAMI_SUSPENDED : GS_HAMI_RUNNING;
    const uint32_t pid = own_pid();

    /* acquire: pairs with the release in gs_suspend_attached, which has the mirror before it */
    if (__atomic_load_n(&attached_pid, __ATOMIC_ACQUIRE) != pid) {
        __atomic_store_n(&asked, (uint64_t)pid << 32 | (uint32_t)status, __ATOMIC_RELAXED);
    } else {
        __atomic_store_n(&gs_self.mirror->status, status, __ATOMIC_SEQ_CST);
        wake();
        look_again();
    }
    errno = saved_errno;
}

static bool is_allowed(void)
{
    struct gs_str value = gs_str_of(getenv(GS_ENV_SIGNALS));

    return !gs_str_eq_c(value, "off");
}

/** A signal that is blocked is waited for elsewhere (sigwait, signalfd), whatever its action. */
static bool is_blocked(void)
{
    const uint64_t ours = UINT64_C(1) << (SIGUSR1 - 1) | UINT64_C(1) << (SIGUSR2 - 1);
    uint64_t mask = 0;

    return GS_SYS(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof(mask)) < 0 ||
           (mask & ours) != 0;
}

/** 1 ours already; 0 free to take; -EBUSY the program's. */
static int look(int signo)
{
    struct sigaction now;

    if (sigaction(signo, NULL, &now) != 0)
        return -EBUSY;
    if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == on_signal)
        return 1; /* inherited by a forked child */
    return (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL ? 0 : -EBUSY;
}

/** Both or none: a program that could be suspended and not resumed would be worse off. */
static void take_signals(void)
{
    struct sigaction action;
    int suspend, resume;

    if (!is_allowed())
        return;
    suspend = look(SIGUSR2);
    resume = look(SIGUSR1);
    if (suspend < 0 || resume < 0 || ((suspend == 0 || resume == 0) && is_blocked()))
        return;
    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    if ((resume == 0 && sigaction(SIGUSR1, &action, NULL) != 0) ||
        (suspend == 0 && sigaction(SIGUSR2, &action, NULL) != 0))
        return;
    gs_slot_flag(GS_SLOT_SIGNALS);
}

/** Who resumes the slice clears its word first and our status then: of the two, one sees the other.
 */
static void begin(void)
{
    uint64_t *slice = &gs_self.ledger->head.suspended;
    int32_t status = GS_HAMI_SUSPENDED;

    if (__atomic_load_n(slice, __ATOMIC_SEQ_CST) == 0)
        return;
    __atomic_store_n(&gs_self.mirror->status, status, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(slice, __ATOMIC_SEQ_CST) == 0)
        (void)__atomic_compare_exchange_n(&gs_self.mirror->status, &status, GS_HAMI_RUNNING, 0,
                                          __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED); /* resumed meanwhile */
}

void gs_suspend_attached(void)
{
    const int saved_errno = errno;
    const uint32_t pid = own_pid();
    uint64_t early;

    begin();
    __atomic_store_n(&attached_pid, pid, __ATOMIC_RELEASE);
    early = __atomic_exchange_n(&asked, 0, __ATOMIC_ACQ_REL);
    if (early >> 32 == pid)
        __atomic_store_n(&gs_self.mirror->status, (int32_t)(uint32_t)early, __ATOMIC_SEQ_CST);
    take_signals();
    errno = saved_errno;
}

void gs_suspend_forget(void)
{
    __atomic_store_n(&attached_pid, 0, __ATOMIC_RELEASE);
}

void gs_suspend_wait(uint32_t dev, const char *what, void (*tick)(uint32_t dev, uint64_t ns))
{
    const struct timespec look = {0, LOOK_NS};
    uint64_t start = gs_sys_clock_ns(CLOCK_MONOTONIC), told = start, now = start;

    if (!gs_suspend_is_on())
        return;
    gs_ring_log(GS_REASON_SUSPENDED, dev, what, NULL);
    while (gs_suspend_is_on()) {
        (void)GS_SYS(SYS_futex, &gs_self.mirror->status, FUTEX_WAIT, GS_HAMI_SUSPENDED, &look, NULL,
                     0); /* woken, changed, interrupted or late: look again */
        now = gs_sys_clock_ns(CLOCK_MONOTONIC);
        if (tick != NULL && now > told) {
            tick(dev, now - told);
            told = now;
        }
    }
    gs_trace_wait(dev, GS_WAIT_SUSPEND, what, start, now);
}
