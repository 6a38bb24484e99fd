/* A kubelet's checkpoint of any content: read, its ids are in order, and each entry holds its own.
 */

#include <stdint.h>
#include <stdlib.h>

#include "node/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {0};
    struct gs_checkpoint c = {0};

    if (gs_checkpoint_read((struct gs_str){(const char *)data, size}, GS_STR("nvidia.com/gpu"),
                           &arena, &c, NULL) == 0)
        for (size_t i = 0; i < c.n; i++) {
            const struct gs_checkpoint_entry *e = &c.entry[i];

            for (size_t k = 1; k < e->n_ids; k++)
                if (gs_str_cmp(e->id[k - 1], e->id[k]) > 0)
                    abort();
            if (e->pod_uid.n == 0 || e->container.n == 0 ||
                !gs_checkpoint_holds(e, e->id, e->n_ids))
                abort();
        }
    gs_arena_fini(&arena);
    return 0;
}
