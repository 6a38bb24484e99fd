#include "vendors/nvidia/node/nodes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "node/inventory.h"

#define MINOR_WORD "DeviceFileMinor:"

/* Number of the capability that a file of /proc names, or -1. */
static long read_capability(const char *path)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    const char *at;
    char *end;
    long minor;

    if (gs_file_read(AT_FDCWD, path, 4096, &text) != 0)
        return -1;
    at = strstr(gs_buf_text(&text), MINOR_WORD);
    if (at == NULL)
        return -1;
    at += sizeof(MINOR_WORD) - 1;
    minor = strtol(at, &end, 10);
    return end != at && minor >= 0 && minor < INT_MAX ? minor : -1;
}

/* The capability by which one MIG device, or its compute instance, may be used. */
static void look_capability(const struct gs_devnode_roots *roots, uint32_t minor, const char *what,
                            struct gs_devnode *ret, size_t *n)
{
    char path[PATH_MAX], node[GS_DEVNODE_PATH];
    long number;
    int len = snprintf(path, sizeof(path), "%s/proc/driver/nvidia/capabilities/gpu%u/mig/%s/access",
                       roots->proc, minor, what);

    number = len > 0 && (size_t)len < sizeof(path) ? read_capability(path) : -1;
    if (number < 0)
        return;
    (void)snprintf(node, sizeof(node), "/dev/nvidia-caps/nvidia-cap%ld", number);
    gs_devnode_look(roots, node, true, &ret[(*n)++]);
}

size_t gs_nvidia_nodes(const struct gs_devnode_roots *roots, const struct gs_inventory_card *card,
                       int part, struct gs_devnode ret[GS_DEVNODES])
{
    char text[GS_DEVNODE_PATH];
    size_t n = 0;

    if (card->minor != GS_INVENTORY_UNKNOWN) {
        (void)snprintf(text, sizeof(text), "/dev/nvidia%u", card->minor);
        gs_devnode_look(roots, text, true, &ret[n++]);
    }
    gs_devnode_look(roots, "/dev/nvidiactl", true, &ret[n++]);
    gs_devnode_look(roots, "/dev/nvidia-uvm", true, &ret[n++]);
    gs_devnode_look(roots, "/dev/nvidia-uvm-tools", false, &ret[n++]);
    gs_devnode_look(roots, "/dev/nvidia-modeset", false, &ret[n++]);
    if (part >= 0 && (size_t)part < card->n_parts && card->minor != GS_INVENTORY_UNKNOWN) {
        const struct gs_part *at = &card->part[part];

        (void)snprintf(text, sizeof(text), "gi%u", at->instance);
        look_capability(roots, card->minor, text, ret, &n);
        (void)snprintf(text, sizeof(text), "gi%u/ci%u", at->instance, at->compute);
        look_capability(roots, card->minor, text, ret, &n);
    }
    return n;
}
