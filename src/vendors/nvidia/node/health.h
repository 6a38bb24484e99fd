#pragma once
/* How NVIDIA cards are: XID events and NVML's answers, for node/health.h.
 *
 * A session of NVML keeps the driver's modules loaded: whoever unloads the driver or resets a card
 * ends the programs that watch, too. Where it goes away all the same, it is asked for until it is
 * back. */

extern const struct gs_health_vendor gs_nvidia_health;
