#include "vendors/nvidia/sim/image_ptx.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A cursor over words: names, directives, numbers; other characters are words of one byte. */
struct words {
    const char *p;
    const char *end;
    const char *word;
    size_t n;
};

static int is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static void skip_blank(struct words *w)
{
    while (w->p < w->end) {
        if (isspace((unsigned char)*w->p)) {
            w->p++;
        } else if (w->end - w->p >= 2 && w->p[0] == '/' && w->p[1] == '/') {
            while (w->p < w->end && *w->p != '\n')
                w->p++;
        } else if (w->end - w->p >= 2 && w->p[0] == '/' && w->p[1] == '*') {
            w->p += 2;
            while (w->end - w->p >= 2 && !(w->p[0] == '*' && w->p[1] == '/'))
                w->p++;
            w->p = w->end - w->p >= 2 ? w->p + 2 : w->end;
        } else {
            return;
        }
    }
}

static int next_word(struct words *w)
{
    skip_blank(w);
    if (w->p >= w->end || !*w->p)
        return 0;
    w->word = w->p++;
    if (*w->word == '"') {
        while (w->p < w->end && *w->p != '"')
            w->p++;
        if (w->p < w->end)
            w->p++;
    } else if (is_name_char(*w->word)) {
        while (w->p < w->end && is_name_char(*w->p))
            w->p++;
    }
    w->n = (size_t)(w->p - w->word);
    return 1;
}

static int is(const struct words *w, const char *s)
{
    return strlen(s) == w->n && !memcmp(w->word, s, w->n);
}

static uint64_t number(const struct words *w)
{
    char buf[32] = {0};
    memcpy(buf, w->word, w->n < sizeof(buf) - 1 ? w->n : sizeof(buf) - 1);
    return strtoull(buf, NULL, 0);
}

/* Bytes of a fundamental type such as .u64; 0 if the word is none. */
static uint32_t type_bytes(const struct words *w)
{
    static const char *const opaque[] = {".texref", ".samplerref", ".surfref"};
    for (size_t i = 0; i < GS_ARRAY_LEN(opaque); i++)
        if (is(w, opaque[i]))
            return 8;
    if (w->n < 3 || w->word[0] != '.' || !strchr("bsuf", w->word[1]))
        return is(w, ".pred") ? 1 : 0;
    uint64_t bits = 0;
    for (size_t i = 2; i < w->n; i++) {
        if (!isdigit((unsigned char)w->word[i]))
            return 0;
        bits = bits * 10 + (uint64_t)(w->word[i] - '0');
    }
    return bits >= 8 && bits <= 128 ? (uint32_t)(bits / 8) : 0;
}

/* One declaration after .param, .global, .const or .shared up to its name and dimensions. */
struct declared {
    const char *name;
    size_t name_n;
    uint64_t bytes;
    uint64_t align;
};

static void read_dimensions(struct words *w, struct declared *d)
{
    for (;;) {
        skip_blank(w);
        if (w->p >= w->end || *w->p != '[')
            return;
        next_word(w);
        if (!next_word(w))
            return;
        if (is(w, "]")) {
            d->bytes = 0; /* extern x[] */
            continue;
        }
        uint64_t k = number(w), all;
        if (__builtin_mul_overflow(d->bytes, k, &all))
            all = UINT64_MAX;
        d->bytes = all;
        next_word(w);
    }
}

static int read_declared(struct words *w, struct declared *d)
{
    *d = (struct declared){.align = 1};
    while (next_word(w)) {
        uint32_t t = type_bytes(w);
        if (is(w, ".align")) {
            if (!next_word(w))
                return 0;
            d->align = number(w);
        } else if (is(w, ".v2") || is(w, ".v4")) {
            d->bytes = d->bytes ? d->bytes : (uint64_t)(w->word[2] - '0');
        } else if (t) {
            d->bytes = d->bytes ? d->bytes * t : t;
            if (d->align < t)
                d->align = t;
        } else if (w->word[0] == '.') {
            continue; /* .ptr .global and the like */
        } else if (isalpha((unsigned char)*w->word) || strchr("_$%", *w->word)) {
            d->name = w->word;
            d->name_n = w->n;
            read_dimensions(w, d);
            return 1;
        } else {
            return 0;
        }
    }
    return 0;
}

static void read_params(struct words *w, struct gs_image_func *f)
{
    uint64_t offset = 0;
    f->n_params = 0;
    while (next_word(w) && !is(w, ")")) {
        struct declared d;
        if (!is(w, ".param"))
            continue;
        if (!read_declared(w, &d))
            return;
        if (!d.align || d.align > 1024)
            d.align = 1;
        offset = (offset + d.align - 1) / d.align * d.align;
        if (f->n_params < GS_IMAGE_PARAMS_MAX && d.bytes <= 32768)
            f->param[f->n_params++] =
                (struct gs_image_param){.offset = (uint32_t)offset, .size = (uint32_t)d.bytes};
        offset += d.bytes;
    }
}

/* Body of a kernel: only the shared memory it declares matters. */
static void read_body(struct words *w, struct gs_image_func *f)
{
    int depth = 0;
    while (next_word(w)) {
        struct declared d;
        if (is(w, "{"))
            depth++;
        else if (is(w, "}") && --depth <= 0)
            return;
        else if (is(w, ".shared") && read_declared(w, &d) && d.bytes < (1u << 20))
            f->shared_bytes += (int32_t)d.bytes;
    }
}

static int read_entry(struct words *w, struct gs_image *img)
{
    if (!next_word(w))
        return 0;
    struct gs_image_func *f = gs_image_ptx_func(img, w->word, w->n);
    if (!f)
        return -ENOMEM;
    while (w->p < w->end) {
        skip_blank(w);
        if (w->p >= w->end)
            break;
        if (*w->p == '{') {
            f->shared_bytes = 0;
            read_body(w, f);
            break;
        }
        if (!next_word(w) || is(w, ";"))
            break;
        if (is(w, "("))
            read_params(w, f);
        if (is(w, ".maxntid") || is(w, ".reqntid")) {
            uint64_t t = 1;
            do {
                if (!next_word(w))
                    return 0;
                t *= number(w);
                skip_blank(w);
            } while (w->p < w->end && *w->p == ',' && next_word(w));
            if (t && t <= 1024)
                f->max_threads = (int32_t)t;
        }
    }
    return 0;
}

static int read_variable(struct words *w, struct gs_image *img, int is_extern)
{
    struct declared d;
    if (!read_declared(w, &d) || !d.bytes || is_extern)
        return 0;
    struct gs_image_var v = {.name = (char *)(uintptr_t)d.name, .bytes = d.bytes, .align = d.align};
    return gs_image_ptx_var(img, &v, d.name_n);
}

int gs_image_ptx_read(const char *text, size_t n, struct gs_image *img)
{
    struct words w = {.p = text, .end = text + n};
    int is_extern = 0, depth = 0, rc = 0;
    if (!next_word(&w) || !is(&w, ".version"))
        return -ENOEXEC;
    while (!rc && next_word(&w)) {
        if (is(&w, "{"))
            depth++;
        else if (is(&w, "}"))
            depth--;
        else if (is(&w, ".extern"))
            is_extern = 1;
        else if (is(&w, ";"))
            is_extern = 0;
        else if (depth == 0 && is(&w, ".entry"))
            rc = read_entry(&w, img);
        else if (depth == 0 && (is(&w, ".global") || is(&w, ".const")))
            rc = read_variable(&w, img, is_extern);
    }
    return rc;
}
