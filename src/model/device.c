#include "model/device.h"

enum gs_reason gs_device_ask_open(const struct gs_device *dev, const struct gs_use *use)
{
    if (!dev->is_healthy || use->is_closed)
        return GS_REASON_CARD_NOT_HEALTH;
    if (dev->is_cordoned)
        return GS_REASON_CARD_CORDONED;
    return dev->is_claimed_twice ? GS_REASON_CARD_CLAIMED_TWICE : GS_REASON_COUNT;
}
