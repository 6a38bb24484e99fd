#include "core/str.h"

#include <errno.h>
#include <string.h>

struct gs_str gs_str_of(const char *s)
{
    return (struct gs_str){s, s != NULL ? strlen(s) : 0};
}

struct gs_str gs_str_of_field(const char *field, size_t cap)
{
    size_t n = 0;

    while (n < cap && field[n] != '\0')
        n++;
    return (struct gs_str){field, n};
}

bool gs_str_eq(struct gs_str a, struct gs_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool gs_str_eq_c(struct gs_str a, const char *b)
{
    return gs_str_eq(a, gs_str_of(b));
}

int gs_str_cmp(struct gs_str a, struct gs_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int way = n > 0 ? memcmp(a.p, b.p, n) : 0;

    return way != 0 ? way : (a.n > b.n) - (a.n < b.n);
}

int gs_str_order(const void *a, const void *b)
{
    const struct gs_str *x = a, *y = b;

    return gs_str_cmp(*x, *y);
}

bool gs_str_skip(struct gs_str *s, struct gs_str prefix)
{
    if (s->n < prefix.n || (prefix.n > 0 && memcmp(s->p, prefix.p, prefix.n) != 0))
        return false;
    s->p += prefix.n;
    s->n -= prefix.n;
    return true;
}

bool gs_str_cut(struct gs_str *s, char sep, struct gs_str *ret_part)
{
    const char *end;
    size_t n;

    if (s->n == 0)
        return false;
    end = memchr(s->p, sep, s->n);
    n = end != NULL ? (size_t)(end - s->p) : s->n;
    *ret_part = (struct gs_str){s->p, n};
    if (end != NULL)
        n++;
    s->p += n;
    s->n -= n;
    return true;
}

bool gs_str_is_word(struct gs_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] <= ' ' || s.p[i] > '~')
            return false;
    }
    return s.n > 0;
}

int gs_str_to_field(struct gs_str s, char *field, size_t cap)
{
    if (s.n >= cap)
        return -ENAMETOOLONG;
    memset(field, 0, cap);
    if (s.n > 0)
        memcpy(field, s.p, s.n);
    return 0;
}

struct gs_str gs_str_keep(struct gs_str s, char **at)
{
    struct gs_str copy = {*at, s.n};

    if (s.n > 0)
        memcpy(*at, s.p, s.n);
    (*at)[s.n] = '\0';
    *at += s.n + 1;
    return copy;
}

void gs_str_out_init(struct gs_str_out *out, char *buf, size_t cap)
{
    *out = (struct gs_str_out){.p = buf, .cap = cap};
    if (cap > 0)
        buf[0] = '\0';
}

void gs_str_put(struct gs_str_out *out, struct gs_str s)
{
    size_t room = out->cap > out->n ? out->cap - out->n - 1 : 0;
    size_t n = s.n < room ? s.n : room;

    if (n < s.n)
        out->cut = true;
    if (n == 0)
        return;
    memcpy(out->p + out->n, s.p, n);
    out->n += n;
    out->p[out->n] = '\0';
}

void gs_str_put_c(struct gs_str_out *out, const char *s)
{
    gs_str_put(out, gs_str_of(s));
}

void gs_str_put_char(struct gs_str_out *out, char c)
{
    gs_str_put(out, (struct gs_str){&c, 1});
}

static void put_base(struct gs_str_out *out, uint64_t v, unsigned base)
{
    char digits[24];
    size_t n = sizeof(digits);

    do {
        digits[--n] = "0123456789abcdef"[v % base];
        v /= base;
    } while (v != 0);
    gs_str_put(out, (struct gs_str){digits + n, sizeof(digits) - n});
}

void gs_str_put_u64(struct gs_str_out *out, uint64_t v)
{
    put_base(out, v, 10);
}

void gs_str_put_hex(struct gs_str_out *out, uint64_t v)
{
    put_base(out, v, 16);
}
