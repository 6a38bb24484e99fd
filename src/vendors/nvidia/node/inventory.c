#include "vendors/nvidia/node/inventory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "node/inventory.h"
#include "vendors/nvidia/node/mig.h"
#include "vendors/nvidia/node/nvml.h"

/** NVML_NVLINK_MAX_LINKS (nvml.h). */
#define LANES 18

struct reading {
    struct gs_nvml nvml;
    const char *sysfs;
    const struct gs_inventory_tell *tell;
    nvmlDevice_t device[GS_INVENTORY_CARDS]; /* parallel to the inventory's cards */
    uint8_t lanes[GS_INVENTORY_CARDS][GS_INVENTORY_CARDS];
    uint8_t switch_lanes[GS_INVENTORY_CARDS];
};

static void name_pci(const nvmlPciInfo_t *pci, char *ret, size_t n)
{
    (void)snprintf(ret, n, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
}

static void read_place(const struct reading *r, nvmlDevice_t device, struct gs_inventory_card *card)
{
    nvmlPciInfo_t pci = {0};

    if (r->nvml.nvmlDeviceGetPciInfo_v3 != NULL &&
        r->nvml.nvmlDeviceGetPciInfo_v3(device, &pci) == NVML_SUCCESS)
        name_pci(&pci, card->pci, sizeof(card->pci));
    else
        gs_inventory_say(r->tell,
                         "card %u: NVML does not say where on the bus it is: "
                         "its NUMA node counts as 0",
                         card->index);
    card->numa = gs_inventory_numa(r->sysfs, card->pci);
    if (r->nvml.nvmlDeviceGetMinorNumber == NULL ||
        r->nvml.nvmlDeviceGetMinorNumber(device, &card->minor) != NVML_SUCCESS)
        card->minor = GS_INVENTORY_UNKNOWN;
}

/* A card without a UUID can be given to nobody; all else it can do without. */
static void read_card(struct reading *r, uint32_t index, struct gs_inventory *inv)
{
    const struct gs_nvml *nvml = &r->nvml;
    struct gs_inventory_card *card;
    nvmlDevice_t device = NULL;
    nvmlMemory_t memory = {0};
    char uuid[GS_INVENTORY_UUID] = "";
    nvmlReturn_t got = nvml->nvmlDeviceGetHandleByIndex_v2(index, &device);

    if (got == NVML_SUCCESS)
        got = nvml->nvmlDeviceGetUUID(device, uuid, sizeof(uuid));
    if (got != NVML_SUCCESS) {
        gs_inventory_say(r->tell, "card %u cannot be asked (%s): left out", index,
                         gs_nvml_text(nvml, got));
        return;
    }
    card = gs_inventory_add(inv);
    if (card == NULL) {
        gs_inventory_say(r->tell, "more than %d cards: %s is left out", GS_INVENTORY_CARDS, uuid);
        return;
    }
    r->device[inv->n - 1] = device;
    card->index = index;
    memcpy(card->uuid, uuid, sizeof(uuid));
    card->uuid[sizeof(card->uuid) - 1] = '\0';
    got = nvml->nvmlDeviceGetName(device, card->name, sizeof(card->name));
    if (got != NVML_SUCCESS)
        gs_inventory_say(r->tell, "card %u does not say its name (%s)", index,
                         gs_nvml_text(nvml, got));
    if (got != NVML_SUCCESS)
        (void)snprintf(card->name, sizeof(card->name), "unknown");
    card->name[sizeof(card->name) - 1] = '\0';
    got = nvml->nvmlDeviceGetMemoryInfo(device, &memory);
    if (got == NVML_SUCCESS)
        card->memory = memory.total;
    else
        gs_inventory_say(r->tell, "card %u does not say how much memory it has (%s)", index,
                         gs_nvml_text(nvml, got));
    read_place(r, device, card);
    gs_nvidia_mig_read(nvml, device, r->tell, card);
}

static enum gs_near near_of(const struct gs_nvml *nvml, nvmlDevice_t a, nvmlDevice_t b)
{
    nvmlGpuTopologyLevel_t level;
    int is_one_board = 0;

    if (nvml->nvmlDeviceOnSameBoard != NULL &&
        nvml->nvmlDeviceOnSameBoard(a, b, &is_one_board) == NVML_SUCCESS && is_one_board)
        return GS_NEAR_SAME_BOARD;
    if (nvml->nvmlDeviceGetTopologyCommonAncestor == NULL ||
        nvml->nvmlDeviceGetTopologyCommonAncestor(a, b, &level) != NVML_SUCCESS)
        return GS_NEAR_UNKNOWN;
    switch (level) {
    case NVML_TOPOLOGY_INTERNAL:
        return GS_NEAR_SAME_BOARD;
    case NVML_TOPOLOGY_SINGLE:
        return GS_NEAR_SINGLE_SWITCH;
    case NVML_TOPOLOGY_MULTIPLE:
        return GS_NEAR_MULTI_SWITCH;
    case NVML_TOPOLOGY_HOSTBRIDGE:
        return GS_NEAR_HOST_BRIDGE;
    case NVML_TOPOLOGY_NODE:
        return GS_NEAR_SAME_CPU;
    case NVML_TOPOLOGY_SYSTEM:
        return GS_NEAR_CROSS_CPU;
    }
    return GS_NEAR_UNKNOWN;
}

static bool is_to_switch(const struct gs_nvml *nvml, nvmlDevice_t device, unsigned int lane)
{
    nvmlIntNvLinkDeviceType_t type;

    return nvml->nvmlDeviceGetNvLinkRemoteDeviceType != NULL &&
           nvml->nvmlDeviceGetNvLinkRemoteDeviceType(device, lane, &type) == NVML_SUCCESS &&
           type == NVML_NVLINK_DEVICE_TYPE_SWITCH;
}

/* Whom each NVLink of a card leads to, by the other's place on the bus. */
static void read_lanes(struct reading *r, const struct gs_inventory *inv, size_t at)
{
    const struct gs_nvml *nvml = &r->nvml;

    if (nvml->nvmlDeviceGetNvLinkState == NULL || nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2 == NULL)
        return;
    for (unsigned int lane = 0; lane < LANES; lane++) {
        nvmlEnableState_t state;
        nvmlPciInfo_t pci = {0};
        char place[32];

        if (nvml->nvmlDeviceGetNvLinkState(r->device[at], lane, &state) != NVML_SUCCESS ||
            state != NVML_FEATURE_ENABLED)
            continue;
        if (is_to_switch(nvml, r->device[at], lane)) {
            r->switch_lanes[at]++;
            continue;
        }
        if (nvml->nvmlDeviceGetNvLinkRemotePciInfo_v2(r->device[at], lane, &pci) != NVML_SUCCESS)
            continue;
        name_pci(&pci, place, sizeof(place));
        for (size_t i = 0; i < inv->n; i++)
            if (i != at && strcmp(inv->card[i].pci, place) == 0)
                r->lanes[at][i]++;
    }
}

/* Through a switch two cards have as many links as the one with fewer has to it. */
static int read_links(struct reading *r, struct gs_inventory *inv)
{
    for (size_t i = 0; i < inv->n; i++)
        read_lanes(r, inv, i);
    for (size_t i = 0; i < inv->n; i++)
        for (size_t k = 0; k < inv->n; k++) {
            struct gs_link *link = gs_inventory_link(inv, i, k);
            uint8_t a = r->switch_lanes[i], b = r->switch_lanes[k];

            if (link == NULL)
                return -ENOMEM;
            if (i != k)
                *link = (struct gs_link){near_of(&r->nvml, r->device[i], r->device[k]),
                                         (uint32_t)r->lanes[i][k] + (a < b ? a : b)};
        }
    return 0;
}

static void read_versions(const struct gs_nvml *nvml, struct gs_inventory *inv)
{
    int version = 0;

    if (nvml->nvmlSystemGetDriverVersion == NULL ||
        nvml->nvmlSystemGetDriverVersion(inv->driver, sizeof(inv->driver)) != NVML_SUCCESS)
        inv->driver[0] = '\0';
    inv->driver[sizeof(inv->driver) - 1] = '\0';
    if (nvml->nvmlSystemGetCudaDriverVersion_v2 != NULL &&
        nvml->nvmlSystemGetCudaDriverVersion_v2(&version) == NVML_SUCCESS && version > 0)
        (void)snprintf(inv->runtime, sizeof(inv->runtime), "%d.%d", version / 1000,
                       version % 1000 / 10);
}

static void close_reading(struct reading *r)
{
    gs_nvml_close(&r->nvml);
}

static int read_cards(const char *sysfs, const struct gs_inventory_tell *tell,
                      struct gs_inventory *inv, struct gs_err *err)
{
    GS_CLEANUP(close_reading) struct reading r = {.sysfs = sysfs, .tell = tell};
    unsigned int n = 0;
    nvmlReturn_t got;
    int rc = gs_nvml_open(&r.nvml, err);

    if (rc != 0)
        return rc;
    got = r.nvml.nvmlDeviceGetCount_v2(&n);
    if (got != NVML_SUCCESS)
        return gs_err_set(err, -EIO, "NVML cannot count the cards: %s", gs_nvml_text(&r.nvml, got));
    if (gs_inventory_reserve(inv) != 0)
        return gs_err_set(err, -ENOMEM, "out of memory");
    read_versions(&r.nvml, inv);
    for (unsigned int i = 0; i < n; i++)
        read_card(&r, i, inv);
    rc = inv->n > 0 ? read_links(&r, inv) : 0;
    return rc == 0 ? 0 : gs_err_set(err, rc, "out of memory");
}

const struct gs_inventory_vendor gs_nvidia_inventory = {.name = "NVIDIA", .read = read_cards};
