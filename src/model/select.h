#pragma once
/* Selection by the user's lists: use/nouse UUIDs (exact, trimmed) and types (case-insensitive part
 * of the device's type). Blank text: no constraint. A use-list of types of nothing but commas
 * matches no card; a nouse-list of that kind forbids none. */

#include <stdbool.h>

#include "core/str.h"
#include "model/pod.h"

bool gs_select_uuid(struct gs_str use, struct gs_str nouse, struct gs_str uuid);
bool gs_select_type(struct gs_str use, struct gs_str nouse, struct gs_str type);
/** The same by the pod's annotations; an empty key: no such list. */
bool gs_select_pod_uuid(const struct gs_pod *pod, struct gs_str use_key, struct gs_str nouse_key,
                        struct gs_str uuid);
bool gs_select_pod_type(const struct gs_pod *pod, struct gs_str use_key, struct gs_str nouse_key,
                        struct gs_str type);
/** Go's strconv.ParseBool says true: 1 t T TRUE true True. */
bool gs_select_is_true(struct gs_str text);
/** Case-insensitive search (ASCII). */
bool gs_select_contains(struct gs_str text, struct gs_str part);
