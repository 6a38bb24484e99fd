#pragma once
/* The files below /dev by which programs reach a card. */

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"

struct gs_inventory_card;

#define GS_DEVNODE_PATH 64
#define GS_DEVNODES     16

struct gs_devnode {
    char path[GS_DEVNODE_PATH]; /**< "/dev/nvidia0", as programs know it */
    bool is_needed;             /**< no program works without it */
    bool is_there;              /**< below the root: a character device, or a file in a tree that
                                     stands for /dev */
};

/** Where a vendor looks. "" for the machine's own. */
struct gs_devnode_roots {
    const char *dev;  /**< put before "/dev" */
    const char *proc; /**< put before "/proc" */
};

/** What a vendor contributes: nodes of one card, or of one part of it (-1: the card), those that
 *  all cards share among them. Returns how many, at most GS_DEVNODES. */
typedef size_t (*gs_devnode_list)(const struct gs_devnode_roots *roots,
                                  const struct gs_inventory_card *card, int part,
                                  struct gs_devnode ret[GS_DEVNODES]);

/** For vendors: fill one in and look whether it is there. */
void gs_devnode_look(const struct gs_devnode_roots *roots, const char *path, bool is_needed,
                     struct gs_devnode *ret);
