/* Where cards sit, what links them, and their MIG devices: layout.h as NVML tells it. */
#include <stdio.h>
#include <string.h>

#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/nvml.h"

#define SWITCH_BUS 0xf0

uint32_t gs_nvml_instance(uint32_t part)
{
    return part + 1;
}

void gs_nvml_uuid(uint32_t card, uint32_t part, char *ret_text, size_t n)
{
    char uuid[16], text[48];
    memcpy(uuid, gs_sim_state->card[card].uuid, sizeof(uuid));
    if (part == GS_NVML_WHOLE) {
        gs_device_uuid_text(uuid, ret_text, n);
        return;
    }
    uuid[15] = (char)((unsigned char)uuid[15] ^ (part + 1));
    gs_device_uuid_text(uuid, text, sizeof(text));
    (void)snprintf(ret_text, n, "MIG-%s", text + 4);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    GS_NVML_ENTER_PART(card, part, device);
    char text[48];
    gs_nvml_uuid(card, part, text, sizeof(text));
    return gs_nvml_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    GS_NVML_ENTER_PART(card, part, device);
    char text[128];
    const struct gs_layout_part *p = gs_sim_state->seat[card].part;
    if (part == GS_NVML_WHOLE)
        return gs_nvml_text(name, length, gs_sim_state->card[card].name);
    (void)snprintf(text, sizeof(text), "%s MIG %s", gs_sim_state->card[card].name, p[part].profile);
    return gs_nvml_text(name, length, text);
}

/* ---- MIG ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
                                  unsigned int *pendingMode)
{
    GS_NVML_ENTER_CARD(card, device);
    uint32_t mig = gs_sim_state->seat[card].mig;
    if (mig == GS_LAYOUT_MIG_UNKNOWN)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!currentMode || !pendingMode)
        return NVML_ERROR_INVALID_ARGUMENT;
    *currentMode = *pendingMode = mig == GS_LAYOUT_MIG_ON;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = gs_sim_state->seat[card].mig == GS_LAYOUT_MIG_UNKNOWN ? 0 : GS_LAYOUT_PARTS;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *migDevice)
{
    GS_NVML_ENTER_CARD(card, device);
    const struct gs_layout_card *layout = &gs_sim_state->seat[card];
    if (layout->mig == GS_LAYOUT_MIG_UNKNOWN)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!migDevice || index >= GS_LAYOUT_PARTS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (layout->mig != GS_LAYOUT_MIG_ON || index >= layout->n_parts)
        return NVML_ERROR_NOT_FOUND;
    *migDevice = gs_nvml_part_handle(card, index);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
    GS_NVML_ENTER_PART(card, part, device);
    (void)card;
    if (!isMigDevice)
        return NVML_ERROR_INVALID_ARGUMENT;
    *isMigDevice = part != GS_NVML_WHOLE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
                                                          nvmlDevice_t *device)
{
    GS_NVML_ENTER_PART(card, part, migDevice);
    if (!device || part == GS_NVML_WHOLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = gs_nvml_handle(card);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    GS_NVML_ENTER_PART(card, part, device);
    (void)card;
    if (!id || part == GS_NVML_WHOLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = gs_nvml_instance(part);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    GS_NVML_ENTER_PART(card, part, device);
    (void)card;
    if (!id || part == GS_NVML_WHOLE)
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    GS_NVML_ENTER_PART(card, part, device);
    if (part == GS_NVML_WHOLE)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!attributes)
        return NVML_ERROR_INVALID_ARGUMENT;
    const struct gs_layout_part *p = &gs_sim_state->seat[card].part[part];
    *attributes = (nvmlDeviceAttributes_t){.multiprocessorCount = 14 * p->slices,
                                           .sharedCopyEngineCount = p->slices,
                                           .gpuInstanceSliceCount = p->slices,
                                           .computeInstanceSliceCount = p->slices,
                                           .memorySizeMB = p->memory_mb};
    return NVML_SUCCESS;
}

/* ---- links ---- */

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t *isActive)
{
    GS_NVML_ENTER_CARD(card, device);
    uint32_t n = gs_layout_lanes(&gs_sim_state->seat[card]);
    if (!n)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!isActive || link >= GS_LAYOUT_LANES)
        return NVML_ERROR_INVALID_ARGUMENT;
    *isActive = link < n ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    return NVML_SUCCESS;
}

/* Who is at the other end; a link that is down leads nowhere. */
static nvmlReturn_t remote(uint32_t card, unsigned int link, int *ret)
{
    const struct gs_layout_card *layout = &gs_sim_state->seat[card];
    if (!gs_layout_lanes(layout))
        return NVML_ERROR_NOT_SUPPORTED;
    if (link >= GS_LAYOUT_LANES)
        return NVML_ERROR_INVALID_ARGUMENT;
    *ret = gs_layout_remote(layout, link);
    return *ret < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
    GS_NVML_ENTER_CARD(card, device);
    int at = 0;
    nvmlReturn_t r = pci ? remote(card, link, &at) : NVML_ERROR_INVALID_ARGUMENT;
    if (r)
        return r;
    *pci = (nvmlPciInfo_t){.bus = at == GS_LAYOUT_CARDS ? SWITCH_BUS : gs_device_bus((uint32_t)at)};
    (void)snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus & 0xff);
    (void)snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus & 0xff);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t *pNvLinkDeviceType)
{
    GS_NVML_ENTER_CARD(card, device);
    int at = 0;
    nvmlReturn_t r = pNvLinkDeviceType ? remote(card, link, &at) : NVML_ERROR_INVALID_ARGUMENT;
    if (r)
        return r;
    *pNvLinkDeviceType =
        at == GS_LAYOUT_CARDS ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
                                                 nvmlGpuTopologyLevel_t *pathInfo)
{
    GS_NVML_ENTER_CARD(a, device1);
    uint32_t b;
    nvmlReturn_t r = gs_nvml_card(device2, &b);
    if (r)
        return r;
    if (!pathInfo)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint8_t level = gs_sim_state->seat[a].near[b];
    *pathInfo = a == b   ? NVML_TOPOLOGY_INTERNAL
                : !level ? NVML_TOPOLOGY_NODE
                         : (nvmlGpuTopologyLevel_t)level;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
                                    nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)
{
    GS_NVML_ENTER_CARD(a, device1);
    uint32_t b;
    nvmlReturn_t r = gs_nvml_card(device2, &b);
    if (r)
        return r;
    if (!p2pStatus)
        return NVML_ERROR_INVALID_ARGUMENT;
    *p2pStatus = p2pIndex == NVML_P2P_CAPS_INDEX_NVLINK && !gs_sim_state->seat[a].lanes[b]
                     ? NVML_P2P_STATUS_NOT_SUPPORTED
                     : NVML_P2P_STATUS_OK;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int *onSameBoard)
{
    GS_NVML_ENTER_CARD(a, device1);
    uint32_t b;
    nvmlReturn_t r = gs_nvml_card(device2, &b);
    if (r)
        return r;
    if (!onSameBoard)
        return NVML_ERROR_INVALID_ARGUMENT;
    *onSameBoard = a == b || gs_sim_state->seat[a].board[b];
    return NVML_SUCCESS;
}
