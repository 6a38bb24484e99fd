#include "model/policy.h"

#include <errno.h>
#include <string.h>

#include "model/quantity.h"
#include "model/register.h"
#include "model/select.h"

#define CORDON_KEY GS_STR("hami.io/device-cordon")

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

static int cordon(const struct gs_node_view *node, struct gs_arena *arena, struct gs_device *dev,
                  size_t n, struct gs_err *err)
{
    const struct gs_str *text = gs_pairs_find(node->annotations, CORDON_KEY);
    struct gs_list list;
    int rc;

    if (text == NULL || n == 0)
        return 0;
    if (text->n > GS_REGISTER_BYTES_MAX)
        return gs_err_set(err, -E2BIG, "cordon of %zu bytes", text->n);
    rc = gs_select_list(*text, arena, &list);
    if (rc < 0)
        return gs_err_set(err, rc, "no memory for a cordon");
    for (size_t i = 0; i < n; i++)
        dev[i].is_cordoned = gs_select_has(&list, dev[i].id);
    return 0;
}

int gs_policy_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                        struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                        struct gs_err *err)
{
    struct gs_group group = *ret;
    struct gs_device *dev = NULL;
    int rc = policy->ops->read_node(policy, node, arena, &dev, &group, err);

    if (rc == 0)
        rc = cordon(node, arena, dev, group.n, err);
    if (rc < 0)
        return rc;
    *ret_dev = dev;
    *ret = group;
    return 0;
}

int gs_policy_capacity(const struct gs_node_view *node, struct gs_str name, int64_t *ret)
{
    const struct gs_str *text;
    int64_t value;

    if (name.n == 0 || node->capacity == NULL)
        return 0;
    text = gs_pairs_find(node->capacity, name);
    if (text == NULL)
        return 0;
    if (gs_quantity_int(*text, &value) != 0 || value < 0)
        return -EINVAL;
    if (value == 0)
        return 0;
    *ret = value;
    return 1;
}
