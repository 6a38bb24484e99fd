#pragma once
/* Bytes in hexadecimal, as the vectors are written. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/str.h"

/** Freed by the caller. In memory of its own size, so that a step beyond is seen. */
static inline struct gs_str bytes_of(const char *hex)
{
    size_t n = strlen(hex) / 2;
    char *p = malloc(n ? n : 1);

    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        p[i] = (char)byte;
    }
    return (struct gs_str){p, n};
}

static inline void assert_bytes(const char *p, size_t n, const char *hex)
{
    struct gs_str want = bytes_of(hex);

    assert_int_equal(n, want.n);
    if (n > 0)
        assert_memory_equal(p, want.p, n);
    free((void *)(uintptr_t)want.p);
}
