#pragma once
/* Hashing for tables and keys inside one machine. Not cryptographic, not stable across versions. */

#include <stddef.h>
#include <stdint.h>

/** Spread the entropy of a word over all its bits; a bijection. */
uint64_t gs_hash_u64(uint64_t v);
/** Hash of n bytes; different seeds give independent functions. */
uint64_t gs_hash_bytes(const void *bytes, size_t n, uint64_t seed);
