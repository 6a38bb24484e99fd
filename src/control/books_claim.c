/* Which nodes say that they have a device. An id that is the hardware's own stands for one device:
 * where two entries claim it, of two nodes or of two vendors on one, nobody knows which of them has
 * it, and what is given on one would not be seen on the other. So neither takes anybody new until
 * one of them stops. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/books_internal.h"

/** One for each device of the cluster, by id. */
struct gs_books_claim {
    struct gs_str id;
    struct gs_books_node_entry **by; /**< a node for each entry of it */
    size_t n, cap;
    struct gs_books_node_entry *first; /**< where `by` points while one is enough */
};

static bool is_looked_at(const struct gs_books *books, const struct gs_books_part *part)
{
    return !books->ignores_claims && books->policies->at[part->policy]->has_global_ids;
}

static const struct gs_books_claim *claim_on(const struct gs_books *books,
                                             const struct gs_books_part *part, uint32_t i)
{
    return is_looked_at(books, part) ? gs_map_find(&books->claims, part->dev[i].id) : NULL;
}

bool gs_books_see_claims(struct gs_books *books, struct gs_books_node_entry *node)
{
    struct gs_device *dev = node->view_block; /* the view's devices, which are ours to write */
    bool has_changed = false;
    size_t n = 0;

    for (const struct gs_books_part *p = node->part; p != NULL; p = p->next)
        for (uint32_t i = 0; i < p->group.n; i++) {
            const struct gs_books_claim *claim = claim_on(books, p, i);
            bool is_twice = p->dev[i].is_claimed_twice || (claim != NULL && claim->n > 1);

            has_changed |= dev[p->group.first + i].is_claimed_twice != is_twice;
            dev[p->group.first + i].is_claimed_twice = is_twice;
            n += is_twice;
        }
    books->n_claimed_twice += n - node->n_claimed_twice;
    node->n_claimed_twice = n;
    return has_changed;
}

/* The claim has become a doubtful one, or certain again. `but` is being read and looks itself. */
static void tell_others(struct gs_books *books, const struct gs_books_claim *claim,
                        const struct gs_books_node_entry *but)
{
    for (size_t i = 0; i < claim->n; i++)
        if (claim->by[i] != but && gs_books_see_claims(books, claim->by[i]))
            gs_books_mark(books, claim->by[i]);
}

static struct gs_books_claim *claim_of(struct gs_books *books, struct gs_str id)
{
    struct gs_books_claim *claim = gs_map_find(&books->claims, id);

    if (claim != NULL)
        return claim;
    claim = gs_map_make(&books->claims, id, sizeof(*claim), &id);
    if (claim == NULL)
        return NULL;
    claim->id = id;
    claim->by = &claim->first;
    claim->cap = 1;
    return claim;
}

static int grow(struct gs_books_claim *claim)
{
    size_t cap = claim->cap * 4;
    struct gs_books_node_entry **by = calloc(cap, sizeof(struct gs_books_node_entry *));

    if (by == NULL)
        return -ENOMEM;
    memcpy(by, claim->by, claim->n * sizeof(struct gs_books_node_entry *));
    if (claim->by != &claim->first)
        free(claim->by);
    claim->by = by;
    claim->cap = cap;
    return 0;
}

static void free_claim(struct gs_books_claim *claim)
{
    if (claim->by != &claim->first)
        free(claim->by);
    free(claim);
}

static void drop_if_unused(struct gs_books *books, struct gs_books_claim *claim)
{
    if (claim->n > 0)
        return;
    (void)gs_map_remove(&books->claims, claim->id);
    free_claim(claim);
}

static int add(struct gs_books *books, struct gs_books_node_entry *node, struct gs_str id)
{
    struct gs_books_claim *claim;

    if (id.n == 0) /* it is no device that anybody could be given */
        return 0;
    claim = claim_of(books, id);
    if (claim == NULL)
        return -ENOMEM;
    if (claim->n == claim->cap && grow(claim) < 0) {
        drop_if_unused(books, claim);
        return -ENOMEM;
    }
    claim->by[claim->n++] = node;
    if (claim->n == 2)
        tell_others(books, claim, node);
    return 0;
}

static void take_back(struct gs_books *books, struct gs_books_node_entry *node, struct gs_str id)
{
    struct gs_books_claim *claim = gs_map_find(&books->claims, id);
    size_t i = 0;

    if (claim == NULL)
        return;
    while (claim->by[i] != node)
        i++;
    claim->by[i] = claim->by[--claim->n];
    if (claim->n == 1)
        tell_others(books, claim, node);
    drop_if_unused(books, claim);
}

int gs_books_claim(struct gs_books *books, struct gs_books_node_entry *node,
                   const struct gs_books_part *part)
{
    if (!is_looked_at(books, part))
        return 0;
    for (uint32_t i = 0; i < part->group.n; i++)
        if (add(books, node, part->dev[i].id) < 0) {
            while (i > 0)
                take_back(books, node, part->dev[--i].id);
            return -ENOMEM;
        }
    return 0;
}

void gs_books_unclaim(struct gs_books *books, struct gs_books_node_entry *node,
                      const struct gs_books_part *part)
{
    for (uint32_t i = 0; is_looked_at(books, part) && i < part->group.n; i++)
        take_back(books, node, part->dev[i].id);
}

void gs_books_free_claims(struct gs_books *books)
{
    struct gs_books_claim *claim;
    size_t pos = 0;

    while ((claim = gs_map_next(&books->claims, &pos)) != NULL)
        free_claim(claim);
    gs_map_fini(&books->claims);
}

void gs_books_ignore_claims(struct gs_books *books)
{
    books->ignores_claims = true;
}

size_t gs_books_claimed_twice(const struct gs_books *books)
{
    return books->n_claimed_twice;
}

bool gs_books_rival(const struct gs_books *books, struct gs_str name, struct gs_str *ret_id,
                    struct gs_str *ret_rival)
{
    const struct gs_books_node_entry *node = gs_map_find(&books->nodes, name);

    for (const struct gs_books_part *p = node != NULL ? node->part : NULL; p != NULL; p = p->next)
        for (uint32_t i = 0; i < p->group.n; i++) {
            const struct gs_books_claim *claim = claim_on(books, p, i);

            if (!node->node.dev[p->group.first + i].is_claimed_twice)
                continue;
            *ret_id = p->dev[i].id;
            *ret_rival = name;
            for (size_t k = 0; claim != NULL && k < claim->n; k++)
                if (claim->by[k] != node)
                    *ret_rival = claim->by[k]->node.name;
            return true;
        }
    return false;
}
