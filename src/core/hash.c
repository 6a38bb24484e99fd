#include "core/hash.h"

#include <string.h>

/* Multiply and xor-shift rounds; the odd constants are the golden ratio and the silver ratio in 64
 * bits. */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
#define SILVER UINT64_C(0x6a09e667f3bcc909)

uint64_t gs_hash_u64(uint64_t v)
{
    v ^= v >> 32;
    v *= GOLDEN;
    v ^= v >> 29;
    v *= SILVER;
    return v ^ v >> 32;
}

uint64_t gs_hash_bytes(const void *bytes, size_t n, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = gs_hash_u64(seed ^ n * GOLDEN);

    while (n > 0) {
        uint64_t word = 0;
        size_t part = n < sizeof(word) ? n : sizeof(word);

        memcpy(&word, p, part);
        h = gs_hash_u64((h ^ word) + GOLDEN);
        p += part;
        n -= part;
    }
    return h;
}
