/* Weak stand-ins for modules that are still being written, so that the library links and loads. */
#include <errno.h>

#include "hook/engine.h"
#include "hook/gate.h"
#include "hook/share.h"

#define WEAK __attribute__((weak))

int gs_attach(void);
void gs_attach_forget(void);
int gs_attach_device(const char *uuid);

void gs_slot_flag(uint32_t flags);
void gs_ring_log(int reason, uint32_t dev, const char *what, const uint64_t arg[4]);

WEAK void gs_slot_flag(uint32_t flags)
{
    (void)flags;
}
WEAK void gs_ring_log(int reason, uint32_t dev, const char *what, const uint64_t arg[4])
{
    (void)reason, (void)dev, (void)what, (void)arg;
}
WEAK int gs_attach(void)
{
    return 0;
}
WEAK void gs_attach_forget(void)
{
}
WEAK int gs_attach_device(const char *uuid)
{
    (void)uuid;
    return -ESHUTDOWN;
}
WEAK int gs_gate_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    (void)dev, (void)bytes, (void)charge, (void)what;
    return 0;
}
WEAK void gs_gate_release(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    (void)dev, (void)bytes, (void)charge;
}
WEAK void gs_gate_force(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    (void)dev, (void)bytes, (void)charge;
}
WEAK uint64_t gs_gate_used(uint32_t dev)
{
    (void)dev;
    return 0;
}
WEAK uint64_t gs_gate_own(uint32_t dev, enum gs_charge charge)
{
    (void)dev, (void)charge;
    return 0;
}
WEAK uint64_t gs_gate_limit(uint32_t dev)
{
    (void)dev;
    return UINT64_MAX;
}
WEAK void gs_gate_set_context_bytes(uint32_t dev, uint64_t bytes)
{
    (void)dev, (void)bytes;
}
WEAK uint64_t gs_gate_context_bytes(uint32_t dev)
{
    (void)dev;
    return 0;
}
WEAK struct gs_share_key gs_share_key_of(const void *bytes, uint32_t n)
{
    (void)bytes, (void)n;
    return (struct gs_share_key){{0, 0}};
}
WEAK int gs_share_publish(uint32_t dev, uint64_t bytes, struct gs_share_key key)
{
    (void)dev, (void)bytes, (void)key;
    return -ENOSPC;
}
WEAK int gs_share_join(struct gs_share_key key)
{
    (void)key;
    return -ENOENT;
}
WEAK void gs_share_leave(int id)
{
    (void)id;
}
