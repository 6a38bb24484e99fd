#pragma once
/* NVIDIA cards as NVML tells them, for node/inventory.h. */

extern const struct gs_inventory_vendor gs_nvidia_inventory;
