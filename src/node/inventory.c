#include "node/inventory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/file.h"

int gs_inventory_read(const struct gs_inventory_vendor *vendor, const char *sysfs,
                      const struct gs_inventory_tell *tell, struct gs_inventory *ret,
                      struct gs_err *err)
{
    *ret = (struct gs_inventory){0};
    return vendor->read(sysfs, tell, ret, err);
}

void gs_inventory_fini(struct gs_inventory *inv)
{
    if (inv == NULL)
        return;
    free(inv->card);
    free(inv->link);
    *inv = (struct gs_inventory){0};
}

int gs_inventory_reserve(struct gs_inventory *inv)
{
    inv->card = calloc(GS_INVENTORY_CARDS, sizeof(inv->card[0]));
    return inv->card != NULL ? 0 : -ENOMEM;
}

struct gs_inventory_card *gs_inventory_add(struct gs_inventory *inv)
{
    struct gs_inventory_card *card;

    if (inv->n == GS_INVENTORY_CARDS)
        return NULL;
    card = &inv->card[inv->n++];
    *card = (struct gs_inventory_card){.minor = GS_INVENTORY_UNKNOWN};
    return card;
}

struct gs_link *gs_inventory_link(struct gs_inventory *inv, size_t from, size_t to)
{
    if (from >= inv->n || to >= inv->n)
        return NULL;
    if (inv->link == NULL)
        inv->link = calloc(inv->n * inv->n, sizeof(inv->link[0]));
    return inv->link != NULL ? &inv->link[from * inv->n + to] : NULL;
}

void gs_inventory_say(const struct gs_inventory_tell *tell, const char *fmt, ...)
{
    char text[GS_ERR_TEXT];
    va_list ap;

    if (tell == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* what does not fit is cut */
    va_end(ap);
    tell->tell(tell->user, text);
}

bool gs_inventory_is_dropped(const struct gs_inventory_card *card,
                             const struct gs_inventory_filter *filter)
{
    for (size_t i = 0; i < filter->n_uuids; i++)
        if (strcasecmp(filter->uuid[i], card->uuid) == 0)
            return true;
    for (size_t i = 0; i < filter->n_indexes; i++)
        if (filter->index[i] == card->index)
            return true;
    return false;
}

int32_t gs_inventory_numa(const char *sysfs, const char *pci)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char path[PATH_MAX], *end;
    long node;

    if (pci[0] == '\0' || strchr(pci, '/') != NULL ||
        snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", sysfs, pci) >=
            (int)sizeof(path) ||
        gs_file_read(AT_FDCWD, path, 64, &text) != 0)
        return 0;
    node = strtol(gs_buf_text(&text), &end, 10);
    return end != gs_buf_text(&text) && (*end == '\n' || *end == '\0') && node > 0 &&
                   node <= INT32_MAX
               ? (int32_t)node
               : 0;
}

int32_t gs_inventory_score(struct gs_link from, struct gs_link back, bool *ret_is_odd)
{
    bool is_odd = from.near != back.near || from.n_lanes != back.n_lanes;

    if (ret_is_odd != NULL)
        *ret_is_odd = is_odd;
    if (is_odd)
        return 0;
    return 10 * (int32_t)from.near + 100 * (int32_t)from.n_lanes;
}

int gs_inventory_find(const struct gs_inventory *inv, const char *uuid, int *ret_part)
{
    for (size_t i = 0; i < inv->n; i++) {
        const struct gs_inventory_card *card = &inv->card[i];

        *ret_part = -1;
        if (strcmp(card->uuid, uuid) == 0)
            return (int)i;
        for (size_t p = 0; p < card->n_parts; p++) {
            if (strcmp(card->part[p].uuid, uuid) == 0) {
                *ret_part = (int)p;
                return (int)i;
            }
        }
    }
    return -ENODEV;
}
