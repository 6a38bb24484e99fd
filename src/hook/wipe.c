#include "hook/slot.h"

#include "core/atomics.h"
#include "hook/bucket.h"
#include "hook/self.h"
#include "hook/step.h"

/* Apart from slot.c so that the explorer can run it without files and locks. */

void gs_slot_wipe(uint32_t slot)
{
    struct gs_self_state *self = &gs_self;
    struct gs_ledger_slot *s = &self->ledger->slot[slot];

    for (uint32_t dev = 0; dev < self->n_mapped; dev++) {
        struct gs_ledger_device *d = &self->device[dev];

        gs_atomic_store(&d->pending[slot], 0, __ATOMIC_SEQ_CST);
        GS_STEP("wipe.pending");
        gs_atomic_store(&d->held[slot], 0, __ATOMIC_SEQ_CST);
        GS_STEP("wipe.held");
        gs_atomic_store(&d->extra[slot], 0, __ATOMIC_SEQ_CST);
        gs_atomic_store(&d->use[slot].managed_bytes, 0, __ATOMIC_RELAXED);
    }
    gs_bucket_bury(slot);
    gs_atomic_store(&s->image, 0, __ATOMIC_RELAXED);
    gs_atomic_store(&s->once, 0, __ATOMIC_RELAXED);
    GS_STEP("wipe.before_owner");
    /* release: the zeros before, for whoever claims the slot by a compare-and-swap on this word */
    gs_atomic_store(&s->owner, 0, __ATOMIC_RELEASE);
}
