#include "hook/xlate.h"

#include <errno.h>
#include <stddef.h>

static struct {
    uintptr_t real;
    void *wrapper;
} table[GS_XLATE_SLOTS];
static uint32_t n_used;

static uint32_t slot_of(uintptr_t real)
{
    /* functions are 16-byte aligned; multiply by 2^64 / golden ratio and keep the high bits */
    return (uint32_t)(((uint64_t)(real >> 4) * 0x9e3779b97f4a7c15ull) >> 32) % GS_XLATE_SLOTS;
}

int gs_xlate_put(const void *real, void *wrapper)
{
    uintptr_t key = (uintptr_t)real;
    for (uint32_t i = slot_of(key);; i = (i + 1) % GS_XLATE_SLOTS) {
        if (table[i].real == key)
            return 0;
        if (table[i].real != 0)
            continue;
        if (n_used >= GS_XLATE_SLOTS / 2)
            return -ENOSPC;
        n_used++;
        __atomic_store_n(&table[i].wrapper, wrapper, __ATOMIC_RELAXED);
        /* pairs with the acquire in gs_xlate_get: who sees the key sees its wrapper */
        __atomic_store_n(&table[i].real, key, __ATOMIC_RELEASE);
        return 0;
    }
}

void *gs_xlate_get(const void *real)
{
    uintptr_t key = (uintptr_t)real;
    if (key == 0)
        return NULL;
    for (uint32_t i = slot_of(key);; i = (i + 1) % GS_XLATE_SLOTS) {
        uintptr_t found = __atomic_load_n(&table[i].real, __ATOMIC_ACQUIRE);
        if (found == key)
            return __atomic_load_n(&table[i].wrapper, __ATOMIC_RELAXED);
        if (found == 0)
            return NULL;
    }
}
