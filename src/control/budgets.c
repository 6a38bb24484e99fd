#include "control/budgets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "kube/view.h"
#include "kube/watch.h"

struct budget {
    struct gs_str key; /* "namespace/name" */
    struct gs_arena arena;
    struct gs_kube_pdb pdb; /* text and arrays in the arena */
};

struct gs_budgets {
    struct gs_kube_watch *watch;
    struct gs_map by_key;
    bool is_synced;
};

static void free_budget(struct budget *b)
{
    if (b == NULL)
        return;
    gs_arena_fini(&b->arena);
    free(b);
}

static struct gs_str key_of(const struct gs_kube_key *key, struct gs_arena *arena)
{
    return gs_arena_printf(arena, "%.*s/%.*s", (int)key->ns.n, key->ns.p, (int)key->name.n,
                           key->name.p);
}

/* Everything that the view borrows from the document. */
static int own(struct budget *b)
{
    struct gs_kube_selector *selector = &b->pdb.selector;

    b->pdb.meta = (struct gs_kube_meta){.ns = gs_arena_str(&b->arena, b->pdb.meta.ns)};
    for (size_t i = 0; i < b->pdb.n_disrupted; i++)
        b->pdb.disrupted[i] = gs_arena_str(&b->arena, b->pdb.disrupted[i]);
    for (size_t i = 0; i < selector->n; i++) {
        struct gs_kube_selector_term *term = &selector->term[i];

        term->key = gs_arena_str(&b->arena, term->key);
        for (size_t v = 0; v < term->n_values; v++)
            term->value[v] = gs_arena_str(&b->arena, term->value[v]);
    }
    return gs_arena_check(&b->arena);
}

static int keep(struct gs_budgets *budgets, struct budget *b)
{
    struct budget *old = gs_map_find(&budgets->by_key, b->key);
    int rc = gs_map_set(&budgets->by_key, b->key, b);

    if (rc == 0)
        free_budget(old);
    return rc;
}

static void on_budget(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_budgets *budgets = arg;
    struct budget *b = calloc(1, sizeof(*b));
    struct gs_err err = {0};
    int rc = b == NULL ? -ENOMEM : gs_kube_view_pdb(object, &b->arena, &b->pdb, &err);

    if (rc == 0) {
        b->key = key_of(key, &b->arena);
        rc = own(b);
    }
    if (rc == 0)
        rc = keep(budgets, b);
    if (rc == 0)
        return;
    free_budget(b);
    GS_LOG_WARN("object not understood", GS_LOG_CSTR("kind", "PodDisruptionBudget"),
                GS_LOG_STR("ns", key->ns), GS_LOG_STR("name", key->name), GS_LOG_ERR(&err));
}

static void on_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_budgets *budgets = arg;
    struct gs_arena arena = {0};

    (void)last;
    free_budget(gs_map_remove(&budgets->by_key, key_of(key, &arena)));
    gs_arena_fini(&arena);
}

static void on_synced(void *arg)
{
    ((struct gs_budgets *)arg)->is_synced = true;
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    (void)arg;
    GS_LOG_WARN("watch interrupted, trying again", GS_LOG_ERR(why),
                GS_LOG_UINT("wait_ms", wait_ms));
}

int gs_budgets_new(struct gs_kube_client *client, struct gs_budgets **ret, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns = {on_budget, on_budget, on_gone,
                                                 on_synced, NULL,      on_trouble};
    struct gs_budgets *budgets = calloc(1, sizeof(*budgets));
    int rc = budgets == NULL
                 ? -ENOMEM
                 : gs_kube_watch_new(client, &(struct gs_kube_watch_opt){.resource = &gs_kube_pdbs},
                                     &fns, budgets, &budgets->watch, err);

    if (rc < 0) {
        free(budgets);
        return rc;
    }
    *ret = budgets;
    return 0;
}

struct gs_budgets *gs_budgets_free(struct gs_budgets *budgets)
{
    size_t pos = 0;
    struct budget *b;

    if (budgets == NULL)
        return NULL;
    gs_kube_watch_free(budgets->watch);
    while ((b = gs_map_next(&budgets->by_key, &pos)) != NULL)
        free_budget(b);
    gs_map_fini(&budgets->by_key);
    free(budgets);
    return NULL;
}

bool gs_budgets_are_synced(const struct gs_budgets *budgets)
{
    return budgets->is_synced;
}

/* ---- guests ---- */

/* Already counted by the server: its eviction costs nothing more. */
static bool is_disrupted(const struct gs_kube_pdb *pdb, struct gs_str name)
{
    for (size_t i = 0; i < pdb->n_disrupted; i++)
        if (gs_str_eq(pdb->disrupted[i], name))
            return true;
    return false;
}

static int labels_of(const struct gs_books_guest *guest, struct gs_arena *arena,
                     struct gs_kube_pairs *ret)
{
    size_t n = guest->labels != NULL ? guest->labels->n : 0;
    struct gs_kube_pair *at = GS_ARENA_ARRAY(arena, n, struct gs_kube_pair);

    if (at == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        at[i] = (struct gs_kube_pair){guest->labels->at[i].key, guest->labels->at[i].value};
    *ret = (struct gs_kube_pairs){at, n};
    return 0;
}

/* All budgets in a fixed order; the one behind the last allows nothing. */
static int list_all(const struct gs_budgets *budgets, struct gs_arena *arena,
                    const struct budget ***ret, int32_t **ret_allowed)
{
    const struct budget **all = GS_ARENA_ARRAY(arena, budgets->by_key.n, const struct budget *);
    int32_t *allowed = GS_ARENA_ARRAY(arena, budgets->by_key.n + 1, int32_t);
    size_t pos = 0;

    if (all == NULL || allowed == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < budgets->by_key.n; i++) {
        all[i] = gs_map_next(&budgets->by_key, &pos);
        allowed[i] = all[i]->pdb.disruptions_allowed;
    }
    *ret = all;
    *ret_allowed = allowed;
    return 0;
}

static int match(const struct budget *const *all, size_t n, const struct gs_books_guest *guest,
                 struct gs_arena *arena, const uint32_t **ret, size_t *ret_n)
{
    struct gs_kube_pairs labels;
    uint32_t *of = NULL;
    size_t found = 0, matched = 0;

    if (labels_of(guest, arena, &labels) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const struct gs_kube_pdb *pdb = &all[i]->pdb;

        if (!gs_str_eq(pdb->meta.ns, guest->ns) ||
            !gs_kube_selector_matches(&pdb->selector, &labels))
            continue;
        if (of == NULL && (of = GS_ARENA_ARRAY(arena, n + 1, uint32_t)) == NULL)
            return -ENOMEM;
        matched++;
        if (!is_disrupted(pdb, guest->name))
            of[found++] = i;
    }
    if (matched > 1)
        of[found++] = (uint32_t)n;
    *ret = of;
    *ret_n = found;
    return 0;
}

int gs_budgets_of(const struct gs_budgets *budgets, const struct gs_books_guests *guests,
                  struct gs_arena *arena, struct gs_preempt_budgets *ret)
{
    size_t n = budgets->by_key.n;
    const uint32_t **of = GS_ARENA_ARRAY(arena, guests->n, const uint32_t *);
    size_t *n_of = GS_ARENA_ARRAY(arena, guests->n, size_t);
    const struct budget **all;
    int32_t *allowed;

    if (of == NULL || n_of == NULL || list_all(budgets, arena, &all, &allowed) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < guests->n && n > 0; i++)
        if (guests->guest[i].kind == GS_BOOKS_GUEST_POD &&
            match(all, n, &guests->guest[i], arena, &of[i], &n_of[i]) < 0)
            return -ENOMEM;
    *ret = (struct gs_preempt_budgets){
        .allowed = allowed, .n = n > 0 ? n + 1 : 0, .of = of, .n_of = n_of};
    return 0;
}
