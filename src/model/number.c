#include "model/number.h"

#include <errno.h>
#include <stdbool.h>

int gs_number_read(struct gs_str text, int64_t *ret)
{
    bool negative = gs_str_skip(&text, GS_STR("-")), is_beyond = false;
    int64_t v = 0;

    if (!negative)
        (void)gs_str_skip(&text, GS_STR("+")); /* as good as none */
    if (text.n == 0)
        return -EINVAL;
    for (size_t i = 0; i < text.n; i++) {
        int digit = text.p[i] - '0';

        if (digit < 0 || digit > 9)
            return -EINVAL;
        /* by its sign from the start: there is one more below zero */
        is_beyond = is_beyond || __builtin_mul_overflow(v, 10, &v) ||
                    __builtin_add_overflow(v, negative ? -digit : digit, &v);
    }
    if (is_beyond)
        return -ERANGE;
    *ret = v;
    return 0;
}

int gs_number_read_i32(struct gs_str text, int32_t *ret)
{
    int64_t v;
    int rc = gs_number_read(text, &v);

    if (rc < 0)
        return rc;
    if (v < INT32_MIN || v > INT32_MAX)
        return -ERANGE;
    *ret = (int32_t)v;
    return 0;
}
