#include "vendors/nvidia/sim/device.h"

#include <stdio.h>
#include <string.h>

#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/sim/state.h"

/* The generation a card's name stands for: Hopper, else Ampere. */
static int is_hopper(uint32_t card)
{
    const char *name = gs_sim_state ? gs_sim_state->card[card].name : "";
    return strstr(name, "H100") || strstr(name, "H200") || strstr(name, "H800") ||
           strstr(name, "GH200");
}

int gs_device_attribute(uint32_t card, int attrib)
{
    switch (attrib) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return (int)gs_device_bus(card);
#define GS_SIM_ATTRIBUTE(name, ampere, hopper)                                                     \
    case name:                                                                                     \
        return is_hopper(card) ? (hopper) : (ampere);
#include "vendors/nvidia/sim/attributes.def"
#undef GS_SIM_ATTRIBUTE
    default:
        return 0;
    }
}

void gs_device_uuid_text(const char uuid[16], char *buf, size_t n)
{
    unsigned char u[16];
    memcpy(u, uuid, sizeof(u));
    snprintf(buf, n, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
             u[14], u[15]);
}
