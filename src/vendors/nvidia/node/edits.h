#pragma once
/* What a container gets for its part of NVIDIA cards: see node/kit.h.
 * Source  HAMi v2.10 device plugin (names, values and places of variables and mounts); NVIDIA
 *         container toolkit (NVIDIA_VISIBLE_DEVICES, /var/run/nvidia-container-devices). */

extern const struct gs_kit_vendor gs_nvidia_kit_vendor;
