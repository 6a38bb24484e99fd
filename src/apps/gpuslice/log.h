#pragma once
/* The log of a slice as text. */

struct gs_buf;
struct gs_slice;

/** Keep the text of a slice that is about to be removed in `.ended/<name>.log` of its base folder,
 * where there is anything to keep; the oldest of more than 32 go. Best effort: a full disk must not
 * keep a dead slice alive. */
void gs_log_keep(const struct gs_slice *slice, int base_fd);
