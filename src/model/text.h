#pragma once
/* Words of users as Go and HAMi compare them: blanks at the ends do not count, nor does case. */

#include <stdbool.h>

#include "core/str.h"

/** Go's strconv.ParseBool says true: 1 t T TRUE true True. */
bool gs_text_is_true(struct gs_str text);
/** Case-insensitive search (ASCII). The empty part is everywhere. */
bool gs_text_contains(struct gs_str text, struct gs_str part);
/** Case-insensitive equality (ASCII). */
bool gs_text_eq_fold(struct gs_str a, struct gs_str b);
/** Without blanks at both ends. */
struct gs_str gs_text_trim(struct gs_str text);
