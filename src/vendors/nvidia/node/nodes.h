#pragma once
/* /dev/nvidia*: see gs_devnode_list.
 * Source   NVIDIA Linux driver README (nvidia-modprobe: /dev/nvidia<minor>, nvidiactl, nvidia-uvm,
 *          nvidia-uvm-tools, nvidia-modeset); NVIDIA MIG user guide, Device Nodes and Capabilities
 *          (/proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<n>/access names the minor number of
 *          /dev/nvidia-caps/nvidia-cap<n>, DeviceFileMinor). */

#include "node/devnode.h"

size_t gs_nvidia_nodes(const struct gs_devnode_roots *roots, const struct gs_inventory_card *card,
                       int part, struct gs_devnode ret[GS_DEVNODES]);
