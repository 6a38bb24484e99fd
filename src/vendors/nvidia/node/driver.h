#pragma once
/* The driver's own files, for containers to which no NVIDIA runtime brings them. */

struct gs_edits;
struct gs_kit_place;

/** Mount those libraries and programs of the driver that are found below place->driver_root_here,
 *  where programs of glibc images look for them. The simulated driver brings its cards' state, too.
 *  Source  libnvidia-container, src/nvc_info.c: which files a container needs. */
void gs_nvidia_driver_edit(const struct gs_kit_place *place, struct gs_edits *edits);
