#include "model/json.h"

#include <errno.h>

#include "model/text.h"

int gs_json_parse(struct gs_str text, size_t max_bytes, yyjson_doc **ret, struct gs_err *err)
{
    yyjson_read_err why;
    yyjson_doc *doc;

    if (text.n > max_bytes)
        return gs_err_set(err, -E2BIG, "%zu bytes of JSON, more than %zu", text.n, max_bytes);
    if (text.n == 0)
        return gs_err_set(err, -EINVAL, "no JSON");
    /* Without the in-place flag the text is only read: the interface lacks a const. */
    doc = yyjson_read_opts((char *)(uintptr_t)text.p, text.n, YYJSON_READ_NOFLAG, NULL, &why);
    if (doc == NULL && why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return gs_err_set(err, -ENOMEM, "no memory for JSON");
    if (doc == NULL)
        return gs_err_set(err, -EINVAL, "JSON at byte %zu: %s", why.pos, why.msg);
    *ret = doc;
    return 0;
}

struct gs_str gs_json_text(yyjson_val *v)
{
    if (!yyjson_is_str(v))
        return (struct gs_str){"", 0};
    return (struct gs_str){yyjson_get_str(v), yyjson_get_len(v)};
}

yyjson_val *gs_json_get(yyjson_val *object, const char *name)
{
    struct gs_str want = gs_str_of(name);
    yyjson_val *key, *value, *found = NULL;
    size_t i, max;

    if (!yyjson_is_obj(object))
        return NULL;
    yyjson_obj_foreach(object, i, max, key, value)
    {
        struct gs_str k = gs_json_text(key);

        if (!yyjson_is_null(value) && gs_text_eq_fold(k, want))
            found = value;
    }
    return found;
}

int gs_json_only(yyjson_val *object, const char *name, yyjson_val **ret, struct gs_err *err)
{
    struct gs_str want = gs_str_of(name);
    yyjson_val *key, *value, *found = NULL;
    size_t i, max;

    if (!yyjson_is_obj(object))
        return gs_err_set(err, -EINVAL, "not an object");
    yyjson_obj_foreach(object, i, max, key, value)
    {
        if (!gs_text_eq_fold(gs_json_text(key), want))
            continue;
        if (found != NULL)
            return gs_err_set(err, -EINVAL, "%s is there twice", name);
        found = value;
    }
    *ret = yyjson_is_null(found) ? NULL : found;
    return 0;
}

int gs_json_int32(yyjson_val *v, int32_t *ret)
{
    if (v == NULL || yyjson_is_null(v))
        return 0;
    if (yyjson_is_uint(v) && yyjson_get_uint(v) <= INT32_MAX) {
        *ret = (int32_t)yyjson_get_uint(v);
        return 0;
    }
    if (yyjson_is_sint(v) && yyjson_get_sint(v) >= INT32_MIN && yyjson_get_sint(v) <= INT32_MAX) {
        *ret = (int32_t)yyjson_get_sint(v);
        return 0;
    }
    return -EINVAL;
}

int gs_json_bool(yyjson_val *v, bool *ret)
{
    if (v == NULL || yyjson_is_null(v))
        return 0;
    if (!yyjson_is_bool(v))
        return -EINVAL;
    *ret = yyjson_get_bool(v);
    return 0;
}

int gs_json_str(yyjson_val *v, struct gs_arena *arena, struct gs_str *ret)
{
    struct gs_str copy;

    if (v == NULL || yyjson_is_null(v))
        return 0;
    if (!yyjson_is_str(v))
        return -EINVAL;
    copy = gs_arena_str(arena, gs_json_text(v));
    if (copy.p == NULL)
        return -ENOMEM;
    *ret = copy;
    return 0;
}

/* Length of the UTF-8 sequence at s; 0: there is none. */
static size_t utf8_len(struct gs_str s)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = (unsigned char)s.p[0];
    size_t n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    uint32_t point = n == 1 ? c : c & (0xffu >> (n + 1));

    if (n == 1)
        return 1;
    if (c < 0xc2 || c > 0xf4 || n > s.n)
        return 0;
    for (size_t i = 1; i < n; i++) {
        unsigned char next = (unsigned char)s.p[i];

        if ((next & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (next & 0x3fu);
    }
    if (point < least[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
        return 0;
    return n;
}

static void put_byte(struct gs_buf *buf, char c)
{
    switch (c) {
    case '"':
        gs_buf_adds(buf, "\\\"");
        break;
    case '\\':
        gs_buf_adds(buf, "\\\\");
        break;
    case '\n':
        gs_buf_adds(buf, "\\n");
        break;
    case '\r':
        gs_buf_adds(buf, "\\r");
        break;
    case '\t':
        gs_buf_adds(buf, "\\t");
        break;
    default:
        gs_buf_addf(buf, "\\u%04x", (unsigned char)c);
    }
}

void gs_json_put_str(struct gs_buf *buf, struct gs_str text)
{
    gs_buf_adds(buf, "\"");
    while (text.n > 0) {
        char c = text.p[0];
        size_t n = utf8_len(text);

        if (n == 0) {
            gs_buf_adds(buf, "\\ufffd");
            n = 1;
        } else if (n == 1 && ((unsigned char)c < 0x20 || c == '"' || c == '\\' || c == '<' ||
                              c == '>' || c == '&')) {
            put_byte(buf, c);
        } else {
            gs_buf_add(buf, text.p, n);
        }
        text.p += n;
        text.n -= n;
    }
    gs_buf_adds(buf, "\"");
}
