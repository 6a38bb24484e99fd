#include "cluster/pairs.h"

#include <errno.h>

int gs_pairs_convert(const struct gs_kube_pairs *pairs, struct gs_arena *arena,
                     struct gs_pairs *ret)
{
    ret->at = GS_ARENA_ARRAY(arena, pairs->n, struct gs_pair);
    if (ret->at == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pairs->n; i++)
        ret->at[i] = (struct gs_pair){pairs->at[i].key, pairs->at[i].value};
    ret->n = ret->cap = pairs->n;
    return 0;
}
