#pragma once
/* Suspended by HAMi's signals or status field: launches and device allocations wait. */

#include <stdbool.h>

/** Is this process suspended now? No system call. Threads: any. */
bool gs_suspend_is_on(void);
