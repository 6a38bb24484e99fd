#pragma once
/* A small cluster in the books, for targets of the control plane: every vendor's policy, and three
 * nodes with two cards of each vendor that registers its cards. */

#include <stdlib.h>

#include "base/arena.h"
#include "control/books.h"
#include "core/str.h"
#include "model/node.h"
#include "model/policy.h"
#include "vendors/registry_policy.h"

static struct gs_arena fuzz_config;
static struct gs_policies fuzz_policies;

static void fuzz_need(int rc)
{
    if (rc != 0)
        abort();
}

static void fuzz_make_policies(void)
{
    for (size_t i = 0; i < gs_registry_policy_n; i++)
        fuzz_need(gs_registry_policy[i]->make(NULL, false, &fuzz_config, &fuzz_policies, NULL));
}

static struct gs_str fuzz_register_text(struct gs_arena *arena, const char *node, const char *word)
{
    return gs_arena_printf(arena,
                           "[{\"id\":\"%s-%s-0\",\"count\":10,\"devmem\":8192,\"devcore\":100,"
                           "\"type\":\"%s\",\"health\":true,\"mode\":\"hami-core\"},"
                           "{\"id\":\"%s-%s-1\",\"index\":1,\"count\":4,\"devmem\":40960,"
                           "\"devcore\":100,\"type\":\"%s-2\",\"numa\":1,\"health\":true}]",
                           node, word, word, node, word, word);
}

static void fuzz_add_node(struct gs_books *books, const char *name)
{
    struct gs_arena arena = {0};
    struct gs_pairs annotations = {0}, none = {0}, capacity = {0};
    const struct gs_node_view view = {gs_str_of(name), &annotations, &none, &capacity, &capacity};

    for (size_t i = 0; i < fuzz_policies.n; i++) {
        const struct gs_policy *p = fuzz_policies.at[i];

        if (p->keys.node_register.n > 0)
            fuzz_need(gs_pairs_set(&annotations, &arena, p->keys.node_register,
                                   fuzz_register_text(&arena, name, p->word)));
        else if (p->names.count.n > 0)
            fuzz_need(gs_pairs_set(&capacity, &arena, p->names.count, GS_STR("2")));
    }
    (void)gs_books_node_set(books, &view, NULL); /* some vendors' texts are of another form */
    gs_arena_fini(&arena);
}

/** The cluster; made once. */
static struct gs_books *fuzz_books(void)
{
    static struct gs_books *books;

    if (books != NULL)
        return books;
    fuzz_make_policies();
    fuzz_need(gs_books_new(&fuzz_policies, &books));
    fuzz_add_node(books, "n1");
    fuzz_add_node(books, "n2");
    fuzz_add_node(books, "n3");
    return books;
}
