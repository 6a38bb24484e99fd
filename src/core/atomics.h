#pragma once
/* Atomic words in memory that other processes may write.
 *
 * Every access the ledger makes goes through these five, so that the model checker
 * (tests/model) can compile the shipped code with GS_ATOMICS_SHIM and explore its interleavings:
 * there each call is a scheduling point. Orders are those of C17, passed on unchanged. */

#include <stdint.h>

#ifdef GS_ATOMICS_SHIM
uint64_t gs_shim_load(const uint64_t *p, int order);
void gs_shim_store(uint64_t *p, uint64_t v, int order);
uint64_t gs_shim_add(uint64_t *p, uint64_t v, int order);
uint64_t gs_shim_and(uint64_t *p, uint64_t v, int order);
uint64_t gs_shim_or(uint64_t *p, uint64_t v, int order);
int gs_shim_cas(uint64_t *p, uint64_t *expected, uint64_t desired, int order);
#define gs_atomic_load(p, order)               gs_shim_load(p, order)
#define gs_atomic_store(p, v, order)           gs_shim_store(p, v, order)
#define gs_atomic_add(p, v, order)             gs_shim_add(p, v, order)
#define gs_atomic_and(p, v, order)             gs_shim_and(p, v, order)
#define gs_atomic_or(p, v, order)              gs_shim_or(p, v, order)
#define gs_atomic_cas(p, expected, des, order) gs_shim_cas(p, expected, des, order)
#else
/** Each returns the value before the operation (load: the value). `order` is a memory order as
 *  __ATOMIC_RELAXED, __ATOMIC_ACQUIRE, __ATOMIC_RELEASE, __ATOMIC_ACQ_REL or __ATOMIC_SEQ_CST. */
#define gs_atomic_load(p, order)     __atomic_load_n(p, order)
#define gs_atomic_store(p, v, order) __atomic_store_n(p, v, order)
#define gs_atomic_add(p, v, order)   __atomic_fetch_add(p, v, order)
#define gs_atomic_and(p, v, order)   __atomic_fetch_and(p, v, order)
#define gs_atomic_or(p, v, order)    __atomic_fetch_or(p, v, order)
/** Non-zero on success; on failure `*expected` holds what was found. */
#define gs_atomic_cas(p, expected, desired, order)                                                 \
    __atomic_compare_exchange_n(p, expected, desired, 0, order, __ATOMIC_ACQUIRE)
#endif
