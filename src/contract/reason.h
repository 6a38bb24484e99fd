#pragma once
/* Reasons in the ledger's log ring, and their text. Two processes agree on the numbers. */

#include <stdint.h>

#include "contract/ledger.h"
#include "core/str.h"

enum gs_reason {
#define X(name, text) GS_REASON_##name,
#include "contract/reason.def"
#undef X
    GS_REASON_COUNT
};

/** "OVER_LIMIT"; "UNKNOWN" for a number outside the table. */
const char *gs_reason_name(uint32_t reason);
/** Append the event's sentence; every field of the event may be hostile. */
void gs_reason_put(struct gs_str_out *out, const struct gs_ledger_event *event);
