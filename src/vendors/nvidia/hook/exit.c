#include "vendors/nvidia/hook/exit.h"

#include <stddef.h>

#include "core/cleanup.h"

/* What atexit() calls. That wants a word from the compiler's start files, and the hook, which is
 * never unloaded, is linked without those. (C++ ABI, 3.3.6.3) */
int __cxa_atexit(void (*fn)(void *arg), void *arg, void *dso);

static void (*awaiting)(void);

static void end(void *arg)
{
    (void)arg;
    __atomic_load_n(&awaiting, __ATOMIC_RELAXED)();
}

void gs_exit_await(void (*fn)(void))
{
    if (GS_LIKELY(__atomic_load_n(&awaiting, __ATOMIC_RELAXED) != NULL) ||
        __atomic_exchange_n(&awaiting, fn, __ATOMIC_RELAXED) != NULL)
        return;
    (void)__cxa_atexit(end, NULL, NULL); /* else nobody is called: as at _exit() */
}
