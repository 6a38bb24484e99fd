#pragma once
/* yyjson on an arena: what a pure room parses or builds goes with the arena. */

#include <yyjson.h>

#include "base/arena.h"
#include "core/str.h"

/** Allocator for yyjson_read_opts(), yyjson_mut_doc_new(), yyjson_mut_write_opts(). Nothing is
 * given back before the arena is; growing text moves, so use it for small documents. */
yyjson_alc gs_json_alc(struct gs_arena *arena);
/** The document as compact text in the arena; an empty view when out of memory. */
struct gs_str gs_json_write(const yyjson_mut_doc *doc, struct gs_arena *arena);
/** Member of an object by a key in any case (ASCII), the last of several: as Go finds the members
 * of a struct. NULL: none, or no object. */
yyjson_val *gs_json_get(yyjson_val *object, const char *key);
