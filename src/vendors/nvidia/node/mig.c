#include "vendors/nvidia/node/mig.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "node/inventory.h"
#include "vendors/nvidia/node/nvml.h"

/* Gigabytes in a profile's name: the part's share of the card, in eighths rounded up, of its whole
 * gigabytes. Source: NVIDIA go-nvlib, pkg/nvlib/device/mig_profile.go. */
static unsigned gigabytes(uint64_t part_bytes, uint64_t card_bytes)
{
    uint64_t whole = (card_bytes + (1u << 30) - 1) >> 30;
    uint64_t eighths = card_bytes != 0 ? (part_bytes * 8 + card_bytes - 1) / card_bytes : 0;

    return (unsigned)((eighths * whole + 4) / 8);
}

/* The driver puts the profile behind the card's name ("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), with all
 * that sets it apart; one that does not leaves its figures. */
static bool name_profile(const struct gs_nvml *nvml, nvmlDevice_t device, uint64_t card_bytes,
                         struct gs_part *part)
{
    nvmlDeviceAttributes_t figures = {0};
    char name[96] = "";
    const char *at;

    if (nvml->nvmlDeviceGetName(device, name, sizeof(name)) == NVML_SUCCESS) {
        name[sizeof(name) - 1] = '\0';
        at = strstr(name, " MIG ");
        if (at != NULL &&
            gs_str_to_field(gs_str_of(at + 5), part->profile, sizeof(part->profile)) == 0)
            return true;
    }
    if (nvml->nvmlDeviceGetAttributes_v2 == NULL ||
        nvml->nvmlDeviceGetAttributes_v2(device, &figures) != NVML_SUCCESS)
        return false;
    if (figures.computeInstanceSliceCount != figures.gpuInstanceSliceCount)
        (void)snprintf(part->profile, sizeof(part->profile), "%uc.%ug.%ugb",
                       figures.computeInstanceSliceCount, figures.gpuInstanceSliceCount,
                       gigabytes(figures.memorySizeMB << 20, card_bytes));
    else
        (void)snprintf(part->profile, sizeof(part->profile), "%ug.%ugb",
                       figures.gpuInstanceSliceCount,
                       gigabytes(figures.memorySizeMB << 20, card_bytes));
    return true;
}

static bool read_part(const struct gs_nvml *nvml, nvmlDevice_t device, uint64_t card_bytes,
                      struct gs_part *part)
{
    nvmlMemory_t memory;

    if (nvml->nvmlDeviceGetUUID(device, part->uuid, sizeof(part->uuid)) != NVML_SUCCESS ||
        !name_profile(nvml, device, card_bytes, part))
        return false;
    part->uuid[sizeof(part->uuid) - 1] = '\0';
    if (nvml->nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS)
        part->mem_bytes = memory.total;
    part->instance = part->compute = GS_INVENTORY_UNKNOWN;
    if (nvml->nvmlDeviceGetGpuInstanceId != NULL)
        (void)nvml->nvmlDeviceGetGpuInstanceId(device, &part->instance);
    if (nvml->nvmlDeviceGetComputeInstanceId != NULL)
        (void)nvml->nvmlDeviceGetComputeInstanceId(device, &part->compute);
    return true;
}

void gs_nvidia_mig_read(const struct gs_nvml *nvml, nvmlDevice_t device,
                        const struct gs_inventory_tell *tell, struct gs_inventory_card *card)
{
    unsigned int mode = 0, pending = 0, n = 0;

    if (nvml->nvmlDeviceGetMigMode == NULL || nvml->nvmlDeviceGetMaxMigDeviceCount == NULL ||
        nvml->nvmlDeviceGetMigDeviceHandleByIndex == NULL ||
        nvml->nvmlDeviceGetMigMode(device, &mode, &pending) != NVML_SUCCESS || mode != 1)
        return;
    card->is_split = true;
    if (nvml->nvmlDeviceGetMaxMigDeviceCount(device, &n) != NVML_SUCCESS)
        gs_inventory_say(tell, "card %u: NVML does not say how many MIG devices it can have",
                         card->index);
    for (unsigned int i = 0; i < n; i++) {
        struct gs_part part = {.index = i};
        nvmlDevice_t at;

        if (nvml->nvmlDeviceGetMigDeviceHandleByIndex(device, i, &at) != NVML_SUCCESS)
            continue; /* there is none of that number */
        if (!read_part(nvml, at, card->memory, &part))
            gs_inventory_say(tell, "card %u: NVML does not say what MIG device %u is: left out",
                             card->index, i);
        else if (card->n_parts == GS_INVENTORY_PARTS)
            gs_inventory_say(tell, "card %u: more than %d MIG devices: %s is left out", card->index,
                             GS_INVENTORY_PARTS, part.uuid);
        else
            card->part[card->n_parts++] = part;
    }
}
