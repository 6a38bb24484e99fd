#pragma once
/* A promise that a card cannot keep at this moment is made all the same, and told: the driver will
 * refuse what the limit allows until others have gone. */

#include <stddef.h>
#include <stdint.h>

struct gs_probe;
struct gs_slice;
struct gs_slices;

/** Say so on standard error, in one line with how much there is and who holds the rest, where the
 * card lacks room for `bytes` (UINT64_MAX: no limit, nothing is said).
 *  @card    position in the probe.
 *  @slices  all there were before `slice` was made, or with it.
 *  @slice   whose promise it is; what it has already is its own. */
void gs_room_tell(const struct gs_probe *probe, size_t card, const struct gs_slices *slices,
                  const struct gs_slice *slice, uint64_t bytes);
