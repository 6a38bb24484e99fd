#pragma once
/* Where slices are: the folders of this user and of others. Between slice.c, home.c
 * and board.c only. */

#include "apps/gpuslice/slice.h"

/** Fill a slice whose name, base and uid are set from its folder; the lock decides its state.
 *  Returns  0 (a slice that cannot be read is GS_SLICE_DAMAGED or _DEAD); negative errno: not a
 * private folder of that user. */
GS_WUR int gs_slice_load(struct gs_slice *slice, int base_fd, const struct gs_proc_table *procs);

/** This user's folders; a user who logs in with and without XDG_RUNTIME_DIR has two. */
struct gs_home_bases {
    char path[3][PATH_MAX];
    size_t n;
};
/** The first is where new slices go; not all need exist. Reads the environment. */
void gs_home_own_bases(struct gs_home_bases *ret);
