#pragma once
/* The hook, put where containers get it from: <hook path>/vgpu/libvgpu.so and ld.so.preload. */

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"

struct gs_kit_place;
struct gs_plugin_flags;

/** Copy the library where it differs (running containers keep the file that they have) and write
 *  the file for /etc/ld.so.preload. place->library and ->preload are set, in the arena.
 *  0; negative errno with err. */
GS_WUR int gs_install_hook(const struct gs_plugin_flags *flags, const char *name,
                           struct gs_arena *arena, struct gs_kit_place *place, struct gs_err *err);
