#pragma once
/* A look at protobuf bytes from a stranger before anything is allocated for them.
 *
 * protobuf-c takes what it is given: two bytes may cost a hundred, and a text ends at its first
 * NUL, whatever follows. Here a message is walked by its own description; what passes may be
 * unpacked, takes no more memory than the limits say, and its texts are whole.
 * Unknown fields are skipped, as proto3 wants it.
 * Threads  pure; any thread. */

#include <stddef.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_err;
struct ProtobufCMessageDescriptor;

struct gs_pb_limits {
    size_t bytes;    /**< of the whole message */
    size_t text;     /**< bytes of one text */
    size_t elements; /**< fields, repeated ones each time, in all messages together */
};

/** Messages that lie in each other deeper than this are refused. */
#define GS_PB_DEPTH 8

/** Returns  0; -EMSGSIZE beyond a limit (err names the field); -EBADMSG no protobuf, a known field
 *           of another wire type, a text with NUL or that is no UTF-8. */
GS_WUR int gs_pb_check(const struct ProtobufCMessageDescriptor *descriptor, struct gs_str bytes,
                       const struct gs_pb_limits *limits, struct gs_err *err);
