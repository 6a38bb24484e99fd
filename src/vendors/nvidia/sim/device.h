#pragma once
/* A simulated card as both libraries describe it. */

#include <stddef.h>
#include <stdint.h>

/** cuDriverGetVersion's answer; look-ups are served up to GS_DEVICE_LOOKUP_VERSION. */
#define GS_DEVICE_DRIVER_VERSION 13000
#define GS_DEVICE_LOOKUP_VERSION 13050

/** Where card `card` sits: one bus per card, PCI domain 0. */
static inline uint32_t gs_device_bus(uint32_t card)
{
    return card + 1;
}

/** Attribute `attrib` of card `card`; 0 for numbers without a value. */
int gs_device_attribute(uint32_t card, int attrib);

/** "GPU-xxxxxxxx-xxxx-..." of 16 UUID bytes; `buf` holds 41 bytes or more. */
void gs_device_uuid_text(const char uuid[16], char *buf, size_t n);
