#include "node/pb_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/err.h"

/* Wire types; protobuf's encoding guide. Groups (3, 4) are gone from proto3. */
enum wire {
    WIRE_VARINT = 0,
    WIRE_64 = 1,
    WIRE_LENGTH = 2,
    WIRE_32 = 5,
};

struct level {
    const ProtobufCMessageDescriptor *descriptor;
    struct gs_str left;
};

struct walk {
    struct level level[GS_PB_DEPTH];
    size_t depth; /**< levels in use */
    size_t elements;
    const struct gs_pb_limits *limits;
    struct gs_err *err;
};

static bool take_varint(struct gs_str *s, uint64_t *ret)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (s->n == 0)
            return false;
        uint8_t byte = (uint8_t)*s->p;
        s->p++;
        s->n--;
        if (shift == 63 && byte > 1)
            return false;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct gs_str *s, uint64_t n, struct gs_str *ret)
{
    if (n > s->n)
        return false;
    *ret = (struct gs_str){s->p, (size_t)n};
    s->p += n;
    s->n -= (size_t)n;
    return true;
}

/** Bytes of the sequence that begins here; 0: none does (RFC 3629, without NUL). */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    unsigned char a = p[0], low = 0x80, high = 0xbf;
    size_t more = a >= 0xf0 ? 3 : a >= 0xe0 ? 2 : 1;

    if (a < 0x80)
        return a != 0;
    if (a < 0xc2 || a > 0xf4 || n <= more)
        return 0;
    if (a == 0xe0)
        low = 0xa0;
    else if (a == 0xed)
        high = 0x9f;
    else if (a == 0xf0)
        low = 0x90;
    else if (a == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i <= more; i++) {
        if (p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return more + 1;
}

static bool is_text(struct gs_str s)
{
    for (size_t at = 0; at < s.n;) {
        size_t n = utf8_length((const unsigned char *)s.p + at, s.n - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

static int broken(const struct walk *w, const char *what)
{
    return gs_err_set(w->err, -EBADMSG, "%s: %s", w->level[w->depth - 1].descriptor->name, what);
}

static int refuse(const struct walk *w, const ProtobufCFieldDescriptor *field, int rc,
                  const char *what)
{
    return gs_err_set(w->err, rc, "%s.%s: %s", w->level[w->depth - 1].descriptor->name, field->name,
                      what);
}

static int count(struct walk *w, const ProtobufCFieldDescriptor *field, size_t n)
{
    if (n > w->limits->elements - w->elements)
        return refuse(w, field, -EMSGSIZE, "too many elements");
    w->elements += n;
    return 0;
}

static int enter(struct walk *w, const ProtobufCFieldDescriptor *field, struct gs_str value)
{
    if (w->depth == GS_PB_DEPTH)
        return refuse(w, field, -EMSGSIZE, "too deep");
    w->level[w->depth++] = (struct level){field->descriptor, value};
    return 0;
}

/** Varints one behind the other, as repeated numbers are written; no other packed kind is used by
 *  the kubelet. */
static int check_packed(struct walk *w, const ProtobufCFieldDescriptor *field, struct gs_str value)
{
    uint64_t number;
    size_t n = 0;

    while (value.n > 0) {
        if (!take_varint(&value, &number))
            return refuse(w, field, -EBADMSG, "broken number");
        n++;
    }
    return count(w, field, n);
}

static int check_text(struct walk *w, const ProtobufCFieldDescriptor *field, struct gs_str value)
{
    if (value.n > w->limits->text)
        return refuse(w, field, -EMSGSIZE, "too long");
    if (!is_text(value))
        return refuse(w, field, -EBADMSG, "no text");
    return 0;
}

static bool is_varint(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        return true;
    default:
        return false;
    }
}

static int check_field(struct walk *w, const ProtobufCFieldDescriptor *field, enum wire wire,
                       struct gs_str value)
{
    int rc = count(w, field, 1);

    if (rc < 0)
        return rc;
    if (wire == WIRE_VARINT && is_varint(field->type))
        return 0;
    if (wire == WIRE_LENGTH) {
        if (field->type == PROTOBUF_C_TYPE_MESSAGE)
            return enter(w, field, value);
        if (field->type == PROTOBUF_C_TYPE_STRING)
            return check_text(w, field, value);
        if (field->label == PROTOBUF_C_LABEL_REPEATED && is_varint(field->type))
            return check_packed(w, field, value);
    }
    return refuse(w, field, -EBADMSG, "of another type");
}

static bool take_value(struct gs_str *s, enum wire wire, struct gs_str *ret)
{
    uint64_t n;

    switch (wire) {
    case WIRE_VARINT:
        *ret = (struct gs_str){0};
        return take_varint(s, &n);
    case WIRE_64:
        return take_bytes(s, 8, ret);
    case WIRE_32:
        return take_bytes(s, 4, ret);
    case WIRE_LENGTH:
        return take_varint(s, &n) && take_bytes(s, n, ret);
    default:
        return false;
    }
}

static int step(struct walk *w)
{
    struct level *level = &w->level[w->depth - 1];
    struct gs_str value = {0};
    uint64_t tag;

    if (!take_varint(&level->left, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
        return broken(w, "broken tag");
    if (!take_value(&level->left, (enum wire)(tag & 7), &value))
        return broken(w, "broken value");
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(level->descriptor, (unsigned)(tag >> 3));
    if (field)
        return check_field(w, field, (enum wire)(tag & 7), value);
    /* protobuf-c keeps what it does not know, too. */
    if (w->elements == w->limits->elements)
        return gs_err_set(w->err, -EMSGSIZE, "%s: too many elements", level->descriptor->name);
    w->elements++;
    return 0;
}

int gs_pb_check(const struct ProtobufCMessageDescriptor *descriptor, struct gs_str bytes,
                const struct gs_pb_limits *limits, struct gs_err *err)
{
    struct walk w = {.level = {{descriptor, bytes}}, .depth = 1, .limits = limits, .err = err};

    if (bytes.n > limits->bytes)
        return gs_err_set(err, -EMSGSIZE, "%s: %zu bytes", descriptor->name, bytes.n);
    while (w.depth > 0) {
        if (w.level[w.depth - 1].left.n == 0) {
            w.depth--;
            continue;
        }
        int rc = step(&w);
        if (rc < 0)
            return rc;
    }
    return 0;
}
