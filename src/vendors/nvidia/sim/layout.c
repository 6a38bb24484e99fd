#include "vendors/nvidia/sim/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint32_t gs_layout_lanes(const struct gs_layout_card *card)
{
    uint32_t n = card->switch_lanes;
    for (int i = 0; i < GS_LAYOUT_CARDS; i++)
        n += card->lanes[i];
    return n;
}

int gs_layout_remote(const struct gs_layout_card *card, uint32_t lane)
{
    for (int i = 0; i < GS_LAYOUT_CARDS; i++) {
        if (lane < card->lanes[i])
            return i;
        lane -= card->lanes[i];
    }
    return lane < card->switch_lanes ? GS_LAYOUT_CARDS : -ENOENT;
}

/* Digits at *at, then `word`; *at goes behind it. 0: they are not there. */
static unsigned long number(const char **at, const char *word)
{
    char *end;
    unsigned long n = **at >= '0' && **at <= '9' ? strtoul(*at, &end, 10) : 0;
    if (!n || n > 1000 || strncmp(end, word, strlen(word)) != 0)
        return 0;
    *at = end + strlen(word);
    return n;
}

int gs_layout_read_part(const char *profile, struct gs_layout_part *ret)
{
    const char *at = profile;
    unsigned long slices = number(&at, "g."), gigabytes = slices ? number(&at, "gb") : 0;
    if (!gigabytes || slices > GS_LAYOUT_PARTS || (*at && *at != '+') ||
        strlen(profile) >= sizeof(ret->profile))
        return -EINVAL;
    *ret = (struct gs_layout_part){.slices = (uint32_t)slices,
                                   .memory_mb = (uint32_t)gigabytes * 1024 - 256};
    memcpy(ret->profile, profile, strlen(profile) + 1);
    return 0;
}
