#include "model/quantity.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "model/number.h"

__extension__ typedef unsigned __int128 u128;

#define INT_DIGITS_MAX  28 /* more before the point are beyond int64 whatever the suffix of use */
#define KEPT_DIGITS_MAX 20 /* digits behind the point are kept up to so many in all */

/* A number as written: mantissa * 10^exp10 * 2^exp2, mantissa without the point. */
struct parts {
    bool is_negative, is_binary;
    bool has_more; /* there are digits behind the kept ones that are not zero */
    u128 mantissa;
    size_t n_int, n_frac; /* digits before (without leading zeros) and behind the point */
    size_t n_kept;        /* digits of the mantissa */
    int64_t exp10;        /* of suffix and point together */
    unsigned exp2;
};

static bool read_digits(struct gs_str *s, struct parts *p, bool is_frac)
{
    bool any = false;

    for (; s->n > 0 && s->p[0] >= '0' && s->p[0] <= '9'; s->p++, s->n--) {
        unsigned digit = (unsigned)(s->p[0] - '0');

        any = true;
        if (is_frac)
            p->n_frac++;
        else if (p->n_int > 0 || digit > 0)
            p->n_int++;
        if (is_frac ? p->n_kept < KEPT_DIGITS_MAX : p->n_int <= INT_DIGITS_MAX) {
            p->mantissa = p->mantissa * 10 + digit;
            p->n_kept += p->mantissa > 0;
            p->exp10 -= is_frac;
        } else {
            p->has_more = p->has_more || digit > 0;
        }
    }
    return any;
}

/* Beyond this either way it makes no difference. */
#define EXPONENT_MAX 1000000

static bool read_exponent(struct gs_str s, int64_t *ret)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    int64_t v = 0;
    int rc = gs_number_read(s, &v);

    if (rc == -EINVAL)
        return false;
    if (rc == -ERANGE || v > EXPONENT_MAX || v < -EXPONENT_MAX)
        v = negative ? -EXPONENT_MAX : EXPONENT_MAX;
    *ret = v;
    return true;
}

static bool read_suffix(struct gs_str s, struct parts *p)
{
    static const struct {
        const char *text;
        int exp10;
        unsigned exp2;
    } suffix[] = {
        {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},
        {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
        {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
    };
    int64_t exponent;

    for (size_t i = 0; i < GS_ARRAY_LEN(suffix); i++)
        if (gs_str_eq_c(s, suffix[i].text)) {
            p->exp10 += suffix[i].exp10;
            p->exp2 = suffix[i].exp2;
            p->is_binary = suffix[i].exp2 > 0;
            return true;
        }
    if (s.n < 2 || (s.p[0] != 'e' && s.p[0] != 'E'))
        return false;
    if (!read_exponent((struct gs_str){s.p + 1, s.n - 1}, &exponent))
        return false;
    p->exp10 += exponent;
    return true;
}

static int read_parts(struct gs_str text, struct parts *ret)
{
    struct parts p = {0};
    bool any;

    p.is_negative = gs_str_skip(&text, GS_STR("-"));
    if (!p.is_negative)
        (void)gs_str_skip(&text, GS_STR("+")); /* as good as none */
    any = read_digits(&text, &p, false);
    if (gs_str_skip(&text, GS_STR(".")))
        any = read_digits(&text, &p, true) || any;
    if (!any || !read_suffix(text, &p))
        return -EINVAL;
    *ret = p;
    return 0;
}

/* |value| rounded up, or -ERANGE where it is beyond int64. */
static int whole(const struct parts *p, u128 *ret)
{
    const u128 limit = (u128)1 << 64; /* beyond int64 either way */
    u128 v = p->mantissa;
    bool rest = p->has_more;

    if (v == 0 && !rest) {
        *ret = 0;
        return 0;
    }
    if (p->n_int > INT_DIGITS_MAX)
        return -ERANGE;
    for (unsigned i = 0; i < p->exp2; i += 10) {
        if (v >= limit << 54) /* no room for a shift by ten */
            return -ERANGE;
        v <<= 10;
    }
    for (int64_t e = p->exp10; e > 0; e--) {
        if (v >= limit)
            return -ERANGE;
        v *= 10;
    }
    for (int64_t e = p->exp10; e < 0 && v > 0; e++) {
        rest = rest || v % 10 != 0;
        v /= 10;
    }
    v += rest;
    *ret = v;
    return v < limit ? 0 : -ERANGE;
}

static int with_sign(const struct parts *p, u128 v, int64_t *ret)
{
    if (v > (u128)INT64_MAX + p->is_negative)
        return -ERANGE;
    *ret = p->is_negative ? (int64_t)(0 - (uint64_t)v) : (int64_t)v;
    return 0;
}

int gs_quantity_ceil(struct gs_str text, int64_t *ret)
{
    struct parts p;
    u128 v = 0;
    int rc = read_parts(text, &p);

    if (rc == 0)
        rc = whole(&p, &v);
    return rc < 0 ? rc : with_sign(&p, v, ret);
}

/* Go keeps a quantity as a plain integer only where it is sure from the number of digits that
 * nothing is lost; AsInt64 says no to the others, whole or not: "1Pi", a 19-digit number. */
static bool is_plain(const struct parts *p)
{
    size_t digits = (p->n_int > 0 ? p->n_int : 1) + p->n_frac;

    if (p->exp10 < 0) /* "1.024k" is 1024 thousandths of a thousand: whole; "1.0" is ten tenths */
        return false;
    if (p->is_binary)
        return p->n_frac == 0 && digits + p->exp2 * 3 / 10 + 1 <= 15;
    return digits <= 18;
}

int gs_quantity_int(struct gs_str text, int64_t *ret)
{
    struct parts p;
    u128 v = 0;
    int64_t value = 0;
    int rc = read_parts(text, &p);

    if (rc == 0)
        rc = whole(&p, &v);
    if (rc == 0)
        rc = with_sign(&p, v, &value);
    if (rc < 0)
        return rc;
    if (!is_plain(&p))
        return -EDOM;
    *ret = value;
    return 0;
}
