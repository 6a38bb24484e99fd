#include "model/register.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "model/json.h"
#include "model/number.h"
#include "model/text.h"

#define FIELDS_OLD 7
#define FIELDS     9

/* A quoted piece of somebody's text for an error: short, on one line. */
static void quote(struct gs_str text, struct gs_str_out *out)
{
    gs_str_put_char(out, '"');
    for (size_t i = 0; i < text.n && i < 100; i++) {
        char c = text.p[i];

        if (c == '"' || c == '\\')
            gs_str_put_char(out, '\\');
        if (c >= ' ' && c <= '~') {
            gs_str_put_char(out, c);
        } else {
            gs_str_put_c(out, (unsigned char)c < 16 ? "\\x0" : "\\x");
            gs_str_put_hex(out, (unsigned char)c);
        }
    }
    gs_str_put_char(out, '"');
}

static int refuse(struct gs_err *err, const char *what, struct gs_str text)
{
    char quoted[512];
    struct gs_str_out out;

    gs_str_out_init(&out, quoted, sizeof(quoted));
    quote(text, &out);
    return gs_err_set(err, -EINVAL, "%s: %s", what, quoted);
}

/* Go's strconv.ParseBool. */
static bool read_bool(struct gs_str s, bool *ret)
{
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};

    *ret = gs_text_is_true(s);
    if (*ret)
        return true;
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        if (gs_str_eq_c(s, no[i]))
            return true;
    return false;
}

/* Cards of a kind follow each other: their type is kept once. */
static struct gs_str kept(struct gs_arena *arena, struct gs_str text, struct gs_str last)
{
    return text.n == 0             ? (struct gs_str){0}
           : gs_str_eq(text, last) ? last
                                   : gs_arena_str(arena, text);
}

static size_t count_fields(struct gs_str s)
{
    size_t n = 1;

    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == ',';
    return n;
}

/* Cut at ',', empty fields too. */
static void split(struct gs_str s, struct gs_str field[FIELDS], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!gs_str_cut(&s, ',', &field[i]))
            field[i] = (struct gs_str){s.p, 0};
}

static int read_index(struct gs_str text, struct gs_device *dev, struct gs_err *err)
{
    int32_t v;

    if (gs_number_read_i32(text, &v) < 0)
        return refuse(err, "invalid index field", text);
    if (v < 0)
        return gs_err_set(err, -EINVAL, "index field must not be negative: %d", v);
    dev->index = (uint32_t)v;
    return 0;
}

static int read_segment(struct gs_str segment, struct gs_arena *arena, const struct gs_device *last,
                        struct gs_device *ret, struct gs_err *err)
{
    struct gs_str field[FIELDS];
    size_t n = count_fields(segment);
    struct gs_device dev = {.mode = GS_STR("hami-core")};
    int rc;

    if (n == 1)
        return refuse(err, "malformed node annotation segment", segment);
    if (n != FIELDS_OLD && n != FIELDS)
        return gs_err_set(err, -EINVAL, "unexpected field count %zu in node annotation", n);
    split(segment, field, n);
    if (gs_number_read_i32(field[1], &dev.count) < 0)
        return refuse(err, "invalid count field", field[1]);
    if (gs_number_read_i32(field[2], &dev.mem_mib) < 0)
        return refuse(err, "invalid memory field", field[2]);
    if (gs_number_read_i32(field[3], &dev.cores) < 0)
        return refuse(err, "invalid core field", field[3]);
    if (!read_bool(field[6], &dev.is_healthy))
        return refuse(err, "invalid health field", field[6]);
    if (gs_number_read_i32(field[5], &dev.numa) < 0)
        return refuse(err, "invalid numa field", field[5]);
    if (n == FIELDS) {
        rc = read_index(field[7], &dev, err);
        if (rc < 0)
            return rc;
        dev.mode = kept(arena, field[8], last != NULL ? last->mode : (struct gs_str){0});
    }
    dev.id = gs_arena_str(arena, field[0]);
    dev.type = kept(arena, field[4], last != NULL ? last->type : (struct gs_str){0});
    *ret = dev;
    return 0;
}

static int read_text(struct gs_str text, struct gs_arena *arena, struct gs_device **ret,
                     size_t *ret_n, struct gs_err *err)
{
    struct gs_device *dev;
    struct gs_str segment;
    size_t cap = 1, n = 0, fields = count_fields(text);

    if (memchr(text.p, ':', text.n) == NULL && fields != FIELDS_OLD && fields != FIELDS)
        return gs_err_set(err, -EINVAL, "node annotation missing device separator");
    for (size_t i = 1; i < text.n; i++)
        cap += text.p[i] == ':' && text.p[i - 1] != ':';
    if (cap > GS_REGISTER_DEVICES_MAX + 1)
        return gs_err_set(err, -E2BIG, "node annotation of more than %d devices",
                          GS_REGISTER_DEVICES_MAX);
    dev = GS_ARENA_ARRAY(arena, cap, struct gs_device);
    if (dev == NULL)
        return gs_err_set(err, -ENOMEM, "no memory for devices");
    while (gs_str_cut(&text, ':', &segment)) {
        int rc;

        if (segment.n == 0)
            continue;
        rc = read_segment(segment, arena, n > 0 ? &dev[n - 1] : NULL, &dev[n], err);
        if (rc < 0)
            return gs_err_wrap(err, rc, "device %zu", n);
        n++;
    }
    *ret = dev;
    *ret_n = n;
    return 0;
}

static int read_member(yyjson_val *v, const char *name, int32_t *ret, struct gs_err *err)
{
    if (gs_json_int32(gs_json_get(v, name), ret) == 0)
        return 0;
    return gs_err_set(err, -EINVAL, "%s is not a number of 32 bits", name);
}

static int read_word(yyjson_val *v, const char *name, struct gs_str last, struct gs_arena *arena,
                     struct gs_str *ret, struct gs_err *err)
{
    yyjson_val *word = gs_json_get(v, name);

    if (word != NULL && !yyjson_is_str(word))
        return gs_err_set(err, -EINVAL, "%s is not text", name);
    *ret = kept(arena, gs_json_text(word), last);
    return 0;
}

static int read_element(yyjson_val *v, struct gs_arena *arena, const struct gs_device *last,
                        struct gs_device *ret, struct gs_err *err)
{
    struct gs_device dev = {0};
    struct gs_str none = {0};
    int32_t index = 0;
    int rc;

    if (yyjson_is_null(v)) { /* Go leaves the element at its zero value */
        *ret = dev;
        return 0;
    }
    if (!yyjson_is_obj(v))
        return gs_err_set(err, -EINVAL, "not an object");
    if ((rc = read_word(v, "id", none, arena, &dev.id, err)) < 0 ||
        (rc = read_member(v, "index", &index, err)) < 0 ||
        (rc = read_member(v, "count", &dev.count, err)) < 0 ||
        (rc = read_member(v, "devmem", &dev.mem_mib, err)) < 0 ||
        (rc = read_member(v, "devcore", &dev.cores, err)) < 0 ||
        (rc = read_word(v, "type", last != NULL ? last->type : none, arena, &dev.type, err)) < 0 ||
        (rc = read_member(v, "numa", &dev.numa, err)) < 0 ||
        (rc = read_word(v, "mode", last != NULL ? last->mode : none, arena, &dev.mode, err)) < 0)
        return rc;
    if (gs_json_bool(gs_json_get(v, "health"), &dev.is_healthy) < 0)
        return gs_err_set(err, -EINVAL, "health is neither true nor false");
    if (index < 0)
        return gs_err_set(err, -EINVAL, "index %d is negative", index);
    dev.index = (uint32_t)index;
    *ret = dev;
    return 0;
}

struct reading {
    const struct gs_register_own *own; /* NULL: none */
    struct gs_arena *arena;
    struct gs_err *err;
};

static int read_elements(const struct reading *r, yyjson_val *root, struct gs_device **ret,
                         size_t *ret_n)
{
    struct gs_device *dev;
    size_t n = yyjson_arr_size(root), i, max;
    yyjson_val *v;

    if (!yyjson_is_arr(root) && !yyjson_is_null(root))
        return gs_err_set(r->err, -EINVAL, "node annotation is not an array");
    if (n > GS_REGISTER_DEVICES_MAX)
        return gs_err_set(r->err, -E2BIG, "node annotation of %zu devices", n);
    dev = GS_ARENA_ARRAY(r->arena, n, struct gs_device);
    if (dev == NULL)
        return gs_err_set(r->err, -ENOMEM, "no memory for devices");
    yyjson_arr_foreach(root, i, max, v)
    {
        int rc = read_element(v, r->arena, i > 0 ? &dev[i - 1] : NULL, &dev[i], r->err);

        if (rc == 0 && r->own != NULL && r->own->more != NULL && yyjson_is_obj(v))
            rc = r->own->more(r->own->user, v, r->arena, &dev[i], r->err);
        if (rc < 0)
            return gs_err_wrap(r->err, rc, "device %zu", i);
    }
    *ret = dev;
    *ret_n = n;
    return 0;
}

static int read_json(const struct reading *r, struct gs_str text, struct gs_device **ret,
                     size_t *ret_n)
{
    yyjson_doc *doc = NULL;
    int rc = gs_json_parse(text, GS_REGISTER_BYTES_MAX, &doc, r->err);

    if (rc < 0)
        return rc;
    rc = read_elements(r, yyjson_doc_get_root(doc), ret, ret_n);
    yyjson_doc_free(doc);
    return rc;
}

/* A UUID goes into grants, between separators. A device without one can be given to nobody, nor can
 * one with less than nothing: a share of its memory would free memory. */
static int check_device(struct gs_device *dev, struct gs_err *err)
{
    dev->is_healthy =
        dev->is_healthy && dev->id.n > 0 && dev->count >= 0 && dev->mem_mib >= 0 && dev->cores >= 0;
    if (dev->id.n > GS_REGISTER_ID_MAX)
        return gs_err_set(err, -EINVAL, "device id of %zu bytes, more than %d", dev->id.n,
                          GS_REGISTER_ID_MAX);
    if (dev->type.n > GS_REGISTER_WORD_MAX || dev->mode.n > GS_REGISTER_WORD_MAX)
        return gs_err_set(err, -EINVAL, "device type or mode of more than %d bytes",
                          GS_REGISTER_WORD_MAX);
    for (size_t i = 0; i < dev->id.n; i++)
        if (strchr(",:;", dev->id.p[i]) != NULL) /* NUL is found too: it ends a text for others */
            return refuse(err, "device id with a separator", dev->id);
    return 0;
}

int gs_register_check(struct gs_device *dev, size_t n, struct gs_err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        rc = check_device(&dev[i], err);
        if (rc < 0)
            rc = gs_err_wrap(err, rc, "device %zu", i);
    }
    return rc;
}

int gs_register_read(struct gs_str text, const struct gs_register_own *own, struct gs_arena *arena,
                     struct gs_device **ret_dev, size_t *ret_n, struct gs_err *err)
{
    const struct reading r = {own, arena, err};
    struct gs_device *dev = NULL;
    size_t n = 0;
    int rc;

    if (text.n > GS_REGISTER_BYTES_MAX)
        return gs_err_set(err, -E2BIG, "node annotation of %zu bytes", text.n);
    text = gs_text_trim(text);
    if (text.n == 0)
        return gs_err_set(err, -EINVAL, "node annotation missing device separator");
    if (text.p[0] == '[' || text.p[0] == '{' || gs_str_eq_c(text, "null"))
        rc = read_json(&r, text, &dev, &n);
    else
        rc = read_text(text, arena, &dev, &n, err);
    if (rc == 0)
        rc = gs_register_check(dev, n, err);
    if (rc < 0)
        return rc;
    *ret_dev = dev;
    *ret_n = n;
    return 0;
}

/* "name":value members that are left out while zero, with the comma before all but the first. */
static void put_key(struct gs_buf *buf, bool *any, const char *name)
{
    gs_buf_addf(buf, "%s\"%s\":", *any ? "," : "", name);
    *any = true;
}

static void put_number(struct gs_buf *buf, bool *any, const char *name, int64_t value)
{
    if (value == 0)
        return;
    put_key(buf, any, name);
    gs_buf_addf(buf, "%lld", (long long)value);
}

static void put_word(struct gs_buf *buf, bool *any, const char *name, struct gs_str value)
{
    if (value.n == 0)
        return;
    put_key(buf, any, name);
    gs_json_put_str(buf, value);
}

void gs_register_write_json(const struct gs_device *dev, size_t n,
                            void (*more)(const struct gs_device *dev, struct gs_buf *buf),
                            struct gs_buf *buf)
{
    gs_buf_adds(buf, "[");
    for (size_t i = 0; i < n; i++, dev++) {
        bool any = false;

        gs_buf_adds(buf, i > 0 ? ",{" : "{");
        put_word(buf, &any, "id", dev->id);
        put_number(buf, &any, "index", dev->index);
        put_number(buf, &any, "count", dev->count);
        put_number(buf, &any, "devmem", dev->mem_mib);
        put_number(buf, &any, "devcore", dev->cores);
        put_word(buf, &any, "type", dev->type);
        put_number(buf, &any, "numa", dev->numa);
        put_word(buf, &any, "mode", dev->mode);
        if (more != NULL)
            more(dev, buf);
        if (dev->is_healthy) {
            put_key(buf, &any, "health");
            gs_buf_adds(buf, "true");
        }
        gs_buf_adds(buf, "}");
    }
    gs_buf_adds(buf, "]");
}

void gs_register_write_text(const struct gs_device *dev, size_t n, struct gs_buf *buf)
{
    for (size_t i = 0; i < n; i++, dev++) {
        gs_buf_put(buf, dev->id);
        gs_buf_addf(buf, ",%d,%d,%d,", dev->count, dev->mem_mib, dev->cores);
        gs_buf_put(buf, dev->type);
        gs_buf_addf(buf, ",%d,%s,%u,", dev->numa, dev->is_healthy ? "true" : "false", dev->index);
        gs_buf_put(buf, dev->mode);
        gs_buf_adds(buf, ":");
    }
}
