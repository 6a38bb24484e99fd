#include "kube/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"

/* A small document may be all punctuation. */
#define TREE_FLOOR ((size_t)256 << 10)

struct cap {
    size_t limit;
    bool refused;
};

static void *cap_malloc(void *ctx, size_t size)
{
    struct cap *cap = ctx;

    if (size > cap->limit) {
        cap->refused = true;
        return NULL;
    }
    return malloc(size);
}

static void *cap_realloc(void *ctx, void *ptr, size_t old_size, size_t size)
{
    struct cap *cap = ctx;

    (void)old_size; /* the C library knows it */
    if (size > cap->limit) {
        cap->refused = true;
        return NULL;
    }
    return realloc(ptr, size);
}

/* Called after the reader's context is gone: must not look at it. */
static void cap_free(void *ctx, void *ptr)
{
    (void)ctx;
    free(ptr);
}

int gs_kube_json_read(struct gs_str text, size_t max, yyjson_doc **ret_doc, struct gs_err *err)
{
    const size_t n = text.n;
    char *bytes = NULL;
    struct cap cap = {0};
    yyjson_alc alc = {cap_malloc, cap_realloc, cap_free, &cap};
    yyjson_read_err why = {0};
    yyjson_doc *doc;

    if (n > max)
        return gs_err_set(err, -EFBIG, "JSON of %zu bytes, %zu allowed", n, max);
    if (n == 0)
        return gs_err_set(err, -EINVAL, "JSON is empty");
    cap.limit = n > SIZE_MAX / GS_KUBE_JSON_GROWTH ? SIZE_MAX : n * GS_KUBE_JSON_GROWTH;
    if (cap.limit < TREE_FLOOR)
        cap.limit = TREE_FLOOR;
    /* without the in-place flag the reader does not write to it */
    memcpy(&bytes, &text.p, sizeof(bytes));
    doc = yyjson_read_opts(bytes, n, YYJSON_READ_NOFLAG, &alc, &why);
    if (!doc) {
        if (cap.refused)
            return gs_err_set(err, -E2BIG, "JSON of %zu bytes has too many values", n);
        if (why.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
            return gs_err_set(err, -ENOMEM, "no memory for JSON of %zu bytes", n);
        return gs_err_set(err, -EINVAL, "not JSON at byte %zu: %s", why.pos,
                          why.msg ? why.msg : "?");
    }
    *ret_doc = doc;
    return 0;
}

yyjson_doc *gs_kube_json_free(yyjson_doc *doc)
{
    yyjson_doc_free(doc);
    return NULL;
}

void gs_kube_json_free_p(yyjson_doc **doc)
{
    *doc = gs_kube_json_free(*doc);
}

struct gs_str gs_kube_json_text(yyjson_val *val)
{
    if (!yyjson_is_str(val))
        return (struct gs_str){"", 0};
    return (struct gs_str){yyjson_get_str(val), yyjson_get_len(val)};
}

static enum gs_kube_got any(yyjson_val *obj, const char *key, yyjson_val **ret)
{
    yyjson_val *val = yyjson_obj_get(obj, key);

    if (!val)
        return GS_KUBE_MISSING;
    if (yyjson_is_null(val))
        return GS_KUBE_NULL;
    *ret = val;
    return GS_KUBE_GOT;
}

enum gs_kube_got gs_kube_json_str(yyjson_val *obj, const char *key, struct gs_str *ret)
{
    yyjson_val *val = NULL;
    enum gs_kube_got got = any(obj, key, &val);

    if (got != GS_KUBE_GOT)
        return got;
    if (!yyjson_is_str(val))
        return GS_KUBE_WRONG;
    *ret = gs_kube_json_text(val);
    return GS_KUBE_GOT;
}

enum gs_kube_got gs_kube_json_bool(yyjson_val *obj, const char *key, bool *ret)
{
    yyjson_val *val = NULL;
    enum gs_kube_got got = any(obj, key, &val);

    if (got != GS_KUBE_GOT)
        return got;
    if (!yyjson_is_bool(val))
        return GS_KUBE_WRONG;
    *ret = yyjson_get_bool(val);
    return GS_KUBE_GOT;
}

enum gs_kube_got gs_kube_json_i64(yyjson_val *obj, const char *key, int64_t *ret)
{
    yyjson_val *val = NULL;
    enum gs_kube_got got = any(obj, key, &val);

    if (got != GS_KUBE_GOT)
        return got;
    if (yyjson_is_uint(val) && yyjson_get_uint(val) <= INT64_MAX)
        *ret = (int64_t)yyjson_get_uint(val);
    else if (yyjson_is_sint(val))
        *ret = yyjson_get_sint(val);
    else
        return GS_KUBE_WRONG;
    return GS_KUBE_GOT;
}

enum gs_kube_got gs_kube_json_i32(yyjson_val *obj, const char *key, int32_t *ret)
{
    int64_t wide = 0;
    enum gs_kube_got got = gs_kube_json_i64(obj, key, &wide);

    if (got != GS_KUBE_GOT)
        return got;
    if (wide < INT32_MIN || wide > INT32_MAX)
        return GS_KUBE_WRONG;
    *ret = (int32_t)wide;
    return GS_KUBE_GOT;
}

enum gs_kube_got gs_kube_json_obj(yyjson_val *obj, const char *key, yyjson_val **ret)
{
    yyjson_val *val = NULL;
    enum gs_kube_got got = any(obj, key, &val);

    if (got != GS_KUBE_GOT)
        return got;
    if (!yyjson_is_obj(val))
        return GS_KUBE_WRONG;
    *ret = val;
    return GS_KUBE_GOT;
}

enum gs_kube_got gs_kube_json_arr(yyjson_val *obj, const char *key, yyjson_val **ret)
{
    yyjson_val *val = NULL;
    enum gs_kube_got got = any(obj, key, &val);

    if (got != GS_KUBE_GOT)
        return got;
    if (!yyjson_is_arr(val))
        return GS_KUBE_WRONG;
    *ret = val;
    return GS_KUBE_GOT;
}

/* Below this a double of no fraction is that whole number. */
#define WHOLE_MAX 9007199254740992.0

/* A number as JSON writes it, but 1e3 as the whole number that it is, not as 1000.0. From
 * malloc(). */
static char *number_text(yyjson_val *val, size_t *ret_n)
{
    double real = yyjson_get_real(val);
    char text[24];
    int n;

    if (!yyjson_is_real(val) || !(real >= -WHOLE_MAX && real <= WHOLE_MAX) ||
        real != (double)(int64_t)real)
        return yyjson_val_write(val, YYJSON_WRITE_NOFLAG, ret_n);
    n = snprintf(text, sizeof(text), "%lld", (long long)real);
    *ret_n = (size_t)n;
    return strndup(text, (size_t)n);
}

enum gs_kube_got gs_kube_json_quantity(yyjson_val *val, struct gs_arena *arena, struct gs_str *ret)
{
    struct gs_str text;
    size_t n = 0;
    char *made;

    if (!val)
        return GS_KUBE_MISSING;
    if (yyjson_is_null(val))
        return GS_KUBE_NULL;
    if (yyjson_is_str(val)) {
        *ret = gs_kube_json_text(val);
        return GS_KUBE_GOT;
    }
    if (!yyjson_is_num(val))
        return GS_KUBE_WRONG;
    made = number_text(val, &n);
    if (!made)
        return GS_KUBE_WRONG; /* no memory, or no number JSON can write */
    text = gs_arena_str(arena, (struct gs_str){made, n});
    free(made);
    if (!text.p)
        return GS_KUBE_WRONG;
    *ret = text;
    return GS_KUBE_GOT;
}
