#pragma once
/* The file of `gpuslice run --trace`. */

#include <limits.h>

#include "core/cleanup.h"

struct gs_err;

/** Can it be made, or emptied, as far as can be told without doing so? Returns 0; negative errno.
 */
GS_WUR int gs_trace_check(const char *name, struct gs_err *err);

/** Make the file, or empty it, and write its beginning.
 *  @ret_path  its absolute path, for the processes of the slice.
 *  Returns    0; negative errno with the reason. */
GS_WUR int gs_trace_create(const char *name, char ret_path[PATH_MAX], struct gs_err *err);

/** Nobody writes to it any more: end the array, so that what reads JSON reads it. A file that is
 * gone, or is something else meanwhile, is left alone. */
void gs_trace_close(const char *path);
