#include "hook/trace.h"

void gs_trace_wait(uint32_t dev, enum gs_wait_reason reason, const char *what, uint64_t start_ns,
                   uint64_t end_ns)
{
    (void)dev;
    (void)reason;
    (void)what;
    (void)start_ns;
    (void)end_ns;
}
