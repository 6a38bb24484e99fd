/* A node configuration of any content, and what is made of it for two cards: every figure stays in
 * its bounds, and what is registered can be read back. The first byte says whether as text. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "model/register.h"
#include "vendors/nvidia/node/publish.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct gs_publish_from *from, const struct gs_nvidia_settings *set,
                  struct gs_arena *arena)
{
    static struct gs_offer offer[GS_OFFERS];
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_device *dev;
    size_t n_back;
    int n = gs_nvidia_register(from, set, &text);

    if (n < 0 || set->split_count < 1 || !(set->mem_scaling > 0) || !(set->core_scaling > 0) ||
        set->preset_mem_mib < 0)
        abort();
    if (gs_register_read(gs_buf_str(&text), NULL, arena, &dev, &n_back, NULL) == 0
            ? n_back != (size_t)n
            : n > 0)
        abort();
    gs_nvidia_scores(from, set, &text);
    if (gs_nvidia_offers(from, set, offer, NULL) > 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_inventory_card card[2] = {
        {.uuid = "GPU-0", .name = "Tesla T4", .memory = UINT64_C(16) << 30},
        {.uuid = "GPU-1",
         .name = "NVIDIA A100",
         .index = 1,
         .is_split = true,
         .n_parts = 1,
         .part = {{.uuid = "MIG-0", .profile = "1g.5gb+me"}}},
    };
    const struct gs_inventory inv = {.card = card, .n = 2};
    const struct gs_publish_from from = {.inv = &inv, .as_text = size > 0 && data[0] % 2 == 1};
    struct gs_nvidia_settings_from files = {.node = GS_STR("n")};
    struct gs_arena arena = {0};
    struct gs_nvidia_settings set;

    if (size > 0)
        files.node_config = (struct gs_str){(const char *)data + 1, size - 1};
    if (gs_nvidia_settings_read(&files, &arena, &set, NULL) != 0)
        abort(); /* without a device configuration nothing can be wrong */
    check(&from, &set, &arena);
    gs_arena_fini(&arena);
    return 0;
}
