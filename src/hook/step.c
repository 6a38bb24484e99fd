#include "hook/step.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/size.h"
#include "core/str.h"

/* $GPUSLICE_STEP_YIELD: now and then let others run while we stand at a step. */
static void yield_at_times(void)
{
    static _Atomic uint64_t passed;

    if (atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed) % 16 == 7 &&
        getenv("GPUSLICE_STEP_YIELD") != NULL)
        (void)sched_yield();
}

static void kill_at_label(const char *label)
{
    static _Atomic uint64_t passed;
    struct gs_str spec = gs_str_of(getenv("GPUSLICE_KILL_AT"));
    struct gs_str name;
    uint64_t n = 1;

    yield_at_times();
    if (!gs_str_cut(&spec, ':', &name) || !gs_str_eq_c(name, label))
        return;
    if (spec.n > 0 && gs_size_parse_u64(spec, &n) < 0)
        return;
    if (atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed) + 1 == n)
        (void)syscall(SYS_kill, getpid(), SIGKILL);
}

void (*gs_step_hook)(const char *label) = kill_at_label;
