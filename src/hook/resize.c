#include "hook/resize.h"

void gs_resize_poll(uint64_t now_ns)
{
    (void)now_ns;
}
