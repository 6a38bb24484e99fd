#pragma once
/* yyjson on an arena: documents that a pure room builds go with the arena. */

#include <yyjson.h>

#include "base/arena.h"
#include "core/str.h"

/** Allocator for yyjson_mut_doc_new() and its like. Nothing is given back before the arena is;
 *  growing text moves, so use it for small documents. */
yyjson_alc gs_json_out_alc(struct gs_arena *arena);
/** The document as compact text in the arena; an empty view when out of memory. */
struct gs_str gs_json_out_text(const yyjson_mut_doc *doc, struct gs_arena *arena);
