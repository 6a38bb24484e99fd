#include "core/size.h"

#include <errno.h>

int gs_size_parse_u64(struct gs_str s, uint64_t *ret)
{
    uint64_t v = 0;

    if (s.n == 0 || (s.n > 1 && s.p[0] == '0'))
        return -EINVAL;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -EINVAL;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
            return -ERANGE;
    }
    *ret = v;
    return 0;
}

/** Exponent of 1000 or 1024 for a unit letter, 0 for none of them. */
static unsigned unit_power(char c)
{
    static const char letters[] = "KMGTP";

    for (unsigned i = 0; letters[i] != '\0'; i++) {
        if (letters[i] == c)
            return i + 1;
    }
    return 0;
}

/** Cut a unit off the end of `*s`; 1 where there is none. */
static uint64_t cut_unit(struct gs_str *s)
{
    uint64_t base = 1000, unit = 1;
    size_t n = s->n;
    unsigned power;

    if (n > 0 && s->p[n - 1] == 'i') {
        base = 1024;
        n--;
    }
    power = n > 0 ? unit_power(s->p[n - 1]) : 0;
    if (power == 0)
        return 1;
    s->n = n - 1;
    for (; power > 0; power--)
        unit *= base;
    return unit;
}

/** Digits, optionally a point and up to nine more, as an integer in units of 10^-9. */
static int parse_nano(struct gs_str s, uint64_t *ret_whole, uint64_t *ret_nano)
{
    struct gs_str whole;
    uint64_t w, nano = 0;
    int rc;

    if (!gs_str_cut(&s, '.', &whole))
        return -EINVAL;
    rc = gs_size_parse_u64(whole, &w);
    if (rc < 0)
        return rc;
    if (s.p != whole.p + whole.n && (s.n == 0 || s.n > 9))
        return -EINVAL;
    for (size_t i = 0, scale = 100000000; i < s.n; i++, scale /= 10) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -EINVAL;
        nano += (uint64_t)(s.p[i] - '0') * scale;
    }
    *ret_whole = w;
    *ret_nano = nano;
    return 0;
}

/** (whole + nano / 10^9) * unit / divisor, cut. */
static int scale(uint64_t whole, uint64_t nano, uint64_t unit, uint64_t divisor, uint64_t *ret)
{
    __extension__ typedef unsigned __int128 u128;
    u128 v = ((u128)whole * unit + (u128)nano * unit / 1000000000u) / divisor;

    if (v > UINT64_MAX)
        return -ERANGE;
    *ret = (uint64_t)v;
    return 0;
}

int gs_size_parse(struct gs_str s, uint64_t *ret_bytes)
{
    uint64_t whole, nano, unit = cut_unit(&s);
    int rc;

    if (unit == 1)
        return gs_size_parse_u64(s, ret_bytes);
    rc = parse_nano(s, &whole, &nano);
    return rc < 0 ? rc : scale(whole, nano, unit, 1, ret_bytes);
}

int gs_size_parse_share(struct gs_str s, uint64_t whole_bytes, uint64_t *ret_bytes)
{
    uint64_t whole, nano;
    int rc;

    if (s.n == 0 || s.p[s.n - 1] != '%')
        return gs_size_parse(s, ret_bytes);
    s.n--;
    rc = parse_nano(s, &whole, &nano);
    if (rc < 0)
        return rc;
    if (whole > 100 || (whole == 100 && nano > 0))
        return -ERANGE;
    return scale(whole, nano, whole_bytes, 100, ret_bytes);
}

int gs_size_parse_hami(struct gs_str s, uint64_t *ret_bytes)
{
    uint64_t v, unit = 1;
    size_t n = s.n;
    int rc;

    if (n > 1 && s.p[n - 1] == 'i')
        n--;
    if (n > 1) {
        char c = s.p[n - 1];
        unsigned power = unit_power(c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c);

        if (power > 4 || (power == 0 && n < s.n))
            return -EINVAL;
        if (power > 0)
            s.n = n - 1;
        for (; power > 0; power--)
            unit *= 1024;
    }
    rc = gs_size_parse_u64(s, &v);
    if (rc < 0)
        return rc;
    return __builtin_mul_overflow(v, unit, ret_bytes) ? -ERANGE : 0;
}

void gs_size_put(struct gs_str_out *out, uint64_t bytes)
{
    static const char *const names[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    uint64_t whole = bytes, tenth = 0;
    unsigned power = 0;

    while (power < 6 && bytes >> (10 * (power + 1)) != 0)
        power++;
    if (power > 0) {
        uint64_t rest = bytes & ((UINT64_C(1) << (10 * power)) - 1);

        whole = bytes >> (10 * power);
        tenth = (rest * 10 + (UINT64_C(1) << (10 * power - 1))) >> (10 * power); /* below 2^64 */
        whole += tenth / 10;
        tenth %= 10;
    }
    if (whole == 1024 && power < 6 && power > 0) {
        whole = 1;
        power++;
    }
    gs_str_put_u64(out, whole);
    if (tenth > 0) {
        gs_str_put_char(out, '.');
        gs_str_put_u64(out, tenth);
    }
    gs_str_put_c(out, names[power]);
}
