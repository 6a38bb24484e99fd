#include "hook/learn.h"

#include <errno.h>

#include "contract/owner.h"
#include "core/atomics.h"
#include "hook/gate.h"
#include "hook/self.h"
#include "hook/step.h"
#include "hook/sys.h"

/* Drivers make a first context in well under a second; a stuck one must not hold up the slice for
 * good. */
#define TURN_WAIT_US 5000000u

/** Take the turn if it is free or its owner is dead. 1 ours, 0 not. */
static int take_turn(const struct gs_self_state *self, uint64_t *turn)
{
    uint64_t owner = gs_atomic_load(turn, __ATOMIC_ACQUIRE);

    if (owner != 0 && owner != self->owner_word && !gs_owner_has_ended(owner, 0))
        return 0;
    return gs_atomic_cas(turn, &owner, self->owner_word, __ATOMIC_SEQ_CST) ? 1 : 0;
}

int gs_learn_begin(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;
    struct gs_sys_wait wait = {0, 0};
    uint64_t *turn;

    if (dev >= self->n_devices)
        return 0;
    turn = &self->device[dev].context_turn;
    do {
        if (gs_gate_context_bytes(dev) != 0)
            return 0;
        if (take_turn(self, turn)) {
            /* whoever had it before may have stored the answer just before it ended its turn */
            if (gs_gate_context_bytes(dev) != 0) {
                gs_learn_end(dev);
                return 0;
            }
            GS_STEP("learn.turn");
            return 1;
        }
    } while (gs_sys_wait(&wait, TURN_WAIT_US));
    return -ETIMEDOUT;
}

void gs_learn_end(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;
    uint64_t owner = self->owner_word;

    if (dev < self->n_devices)
        (void)gs_atomic_cas(&self->device[dev].context_turn, &owner, 0, __ATOMIC_SEQ_CST);
}
