#include "hook/self.h"

#include <errno.h>

#include "core/str.h"

struct gs_self_state gs_self;

int gs_self_fail(enum gs_reason reason, const char *what, uint64_t arg0, uint64_t arg1)
{
    struct gs_self_state *self = &gs_self;
    struct gs_str name = gs_str_of(what);

    if (self->reason != GS_REASON_NONE)
        return -ESHUTDOWN; /* the first cause is the one to tell */
    self->reason = (uint32_t)reason;
    self->reason_arg[0] = arg0;
    self->reason_arg[1] = arg1;
    /* of a long path the end says more */
    if (name.n >= sizeof(self->reason_what)) {
        name.p += name.n - (sizeof(self->reason_what) - 1);
        name.n = sizeof(self->reason_what) - 1;
    }
    (void)gs_str_to_field(name, self->reason_what, sizeof(self->reason_what)); /* it fits */
    return -ESHUTDOWN;
}
