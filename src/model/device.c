#include "model/device.h"

enum gs_reason gs_device_ask_open(const struct gs_device *dev, const struct gs_use *use)
{
    if (!dev->is_healthy || use->is_closed)
        return GS_REASON_CARD_NOT_HEALTH;
    return dev->is_cordoned ? GS_REASON_CARD_CORDONED : GS_REASON_COUNT;
}
