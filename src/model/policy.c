#include "model/policy.h"

#include <errno.h>

int gs_policies_add(struct gs_policies *all, struct gs_arena *arena, const struct gs_policy *policy)
{
    if (all->n >= all->cap) {
        size_t cap = all->cap < 8 ? 16 : all->cap * 2;
        const struct gs_policy **at = GS_ARENA_ARRAY(arena, cap, const struct gs_policy *);

        if (at == NULL)
            return -ENOMEM;
        for (size_t i = 0; i < all->n; i++)
            at[i] = all->at[i];
        all->at = at;
        all->cap = cap;
    }
    all->at[all->n++] = policy;
    return 0;
}

const struct gs_policy *gs_policies_find(const struct gs_policies *all, struct gs_str word)
{
    for (size_t i = 0; i < all->n; i++)
        if (gs_str_eq_c(word, all->at[i]->word))
            return all->at[i];
    return NULL;
}
