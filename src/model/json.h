#pragma once
/* What codecs of annotations share: JSON as Go's decoder takes it. Keys match in any case and the
 * last one counts; null is as good as absent; a number with a point or an exponent is no integer.
 */

#include <stdint.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

/** Parse at most `max_bytes`. Returns 0 and a document to yyjson_doc_free(); -EINVAL (err says
 *  where); -E2BIG; -ENOMEM. */
GS_WUR int gs_json_parse(struct gs_str text, size_t max_bytes, yyjson_doc **ret,
                         struct gs_err *err);
/** Member of an object by its name in any case, the last one of that name; NULL: none, or null. */
yyjson_val *gs_json_get(yyjson_val *object, const char *name);
/** The same where a name may be there once at most, in whatever case and whatever it is: two
 * members of a name mean one thing to one reader and another to the next. *ret NULL: absent or
 * null.
 *  Returns  0; -EINVAL it is there twice (err names it), or this is no object. */
GS_WUR int gs_json_only(struct yyjson_val *object, const char *name, struct yyjson_val **ret,
                        struct gs_err *err);
/** A text as a view; of anything else, and of NULL, an empty one. yyjson_get_len() by itself says
 * of a list how many entries it has. */
struct gs_str gs_json_text(yyjson_val *v);
/** The three below: NULL or null leaves *ret as it is. -EINVAL: of another type or out of range. */
GS_WUR int gs_json_int32(yyjson_val *v, int32_t *ret);
GS_WUR int gs_json_bool(yyjson_val *v, bool *ret);
/** Copied into the arena. -ENOMEM too. */
GS_WUR int gs_json_str(yyjson_val *v, struct gs_arena *arena, struct gs_str *ret);
/** A quoted string, escaped as Go's encoder has it (also <, > and &). What is not UTF-8 becomes
 *  U+FFFD. */
void gs_json_put_str(struct gs_buf *buf, struct gs_str text);
