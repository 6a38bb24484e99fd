#include "model/node.h"

#include <errno.h>
#include <stdlib.h>

#include "model/policy.h"
#include "model/quantity.h"
#include "model/select.h"

#define CORDON_KEY GS_STR("hami.io/device-cordon")

const struct gs_group *gs_node_group(const struct gs_node *node, const struct gs_policy *policy)
{
    for (size_t i = 0; i < node->n_groups; i++)
        if (node->group[i].policy == policy)
            return &node->group[i];
    return NULL;
}

static int cordon(const struct gs_node_view *view, struct gs_arena *arena, struct gs_device *dev,
                  size_t n, struct gs_err *err)
{
    const struct gs_str *text = gs_pairs_find(view->annotations, CORDON_KEY);
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

static int by_id(const void *a, const void *b)
{
    const struct gs_device *const *x = a, *const *y = b;

    return gs_str_cmp((*x)->id, (*y)->id);
}

/* An id stands for one device: which of two it is nobody knows. */
static int mark_twins(struct gs_device *dev, size_t n, struct gs_arena *arena, struct gs_err *err)
{
    struct gs_device **at = GS_ARENA_ARRAY(arena, n, struct gs_device *);

    if (at == NULL)
        return gs_err_set(err, -ENOMEM, "no memory for devices");
    for (size_t i = 0; i < n; i++)
        at[i] = &dev[i];
    if (n > 1)
        qsort(at, n, sizeof(*at), by_id);
    for (size_t i = 1; i < n; i++)
        if (at[i]->id.n > 0 && gs_str_eq(at[i - 1]->id, at[i]->id))
            at[i - 1]->is_claimed_twice = at[i]->is_claimed_twice = true;
    return 0;
}

int gs_node_read(const struct gs_policy *policy, const struct gs_node_view *view,
                 struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                 struct gs_err *err)
{
    struct gs_group group = *ret;
    struct gs_device *dev = NULL;
    int rc = policy->ops->read_node(policy, view, arena, &dev, &group, err);

    if (rc == 0)
        rc = cordon(view, arena, dev, group.n, err);
    if (rc == 0)
        rc = mark_twins(dev, group.n, arena, err);
    if (rc < 0)
        return rc;
    *ret_dev = dev;
    *ret = group;
    return 0;
}

int gs_node_amount(const struct gs_pairs *amounts, struct gs_str name, int64_t *ret)
{
    const struct gs_str *text;
    int64_t value;

    if (name.n == 0 || amounts == NULL)
        return 0;
    text = gs_pairs_find(amounts, name);
    if (text == NULL)
        return 0;
    if (gs_quantity_int(*text, &value) != 0 || value < 0)
        return -EINVAL;
    if (value == 0)
        return 0;
    *ret = value;
    return 1;
}

double gs_node_score(const struct gs_node *node)
{
    int64_t slots = 0, count = 0, used_cores = 0, cores = 0, used_mem = 0, mem = 0;

    for (size_t i = 0; i < node->n_dev; i++) {
        slots += node->use[i].slots;
        count += node->dev[i].count;
        used_cores += node->use[i].cores;
        cores += node->dev[i].cores;
        used_mem += node->use[i].mem_mib;
        mem += node->dev[i].mem_mib;
    }
    if (count == 0 || cores == 0 || mem == 0)
        return 0;
    return 10.0 * ((double)slots / (double)count + (double)used_cores / (double)cores +
                   (double)used_mem / (double)mem);
}
