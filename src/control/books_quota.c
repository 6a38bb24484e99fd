/* Namespaces in the books: what ResourceQuotas allow of slices, and what is used of it. */

#include <errno.h>
#include <stdlib.h>

#include "control/books_internal.h"
#include "model/ask.h"
#include "model/ns_quota.h"

static struct gs_books_quota_entry **find(struct gs_books_ns_entry *ns, struct gs_str name)
{
    struct gs_books_quota_entry **at = &ns->quota;

    while (*at != NULL && !gs_str_eq(name, (*at)->name))
        at = &(*at)->next;
    return at;
}

static void remove_quota(struct gs_books_quota_entry **at)
{
    struct gs_books_quota_entry *q = *at;

    *at = q->next;
    free(q);
}

static struct gs_books_quota_entry *new_quota(struct gs_str name, const int64_t *mem_limit,
                                              const int64_t *core_limit, size_t n)
{
    struct gs_books_quota_entry *q =
        calloc(1, sizeof(*q) + 2 * n * sizeof(*q->limits) + name.n + 1);
    char *text;

    if (q == NULL)
        return NULL;
    q->mem_limit = q->limits;
    q->core_limit = q->limits + n;
    for (size_t i = 0; i < n; i++) {
        q->mem_limit[i] = mem_limit[i];
        q->core_limit[i] = core_limit[i];
    }
    text = (char *)(q->limits + 2 * n);
    q->name = gs_str_keep(name, &text);
    return q;
}

int gs_books_quota_set(struct gs_books *books, struct gs_str ns_name, struct gs_str name,
                       const int64_t *mem_limit, const int64_t *core_limit)
{
    struct gs_books_ns_entry *ns = gs_books_ns_entry(books, ns_name);
    struct gs_books_quota_entry *q =
        ns != NULL ? new_quota(name, mem_limit, core_limit, books->policies->n) : NULL;
    struct gs_books_quota_entry **at;

    if (q == NULL) {
        gs_books_drop_ns_if_unused(books, ns);
        return -ENOMEM;
    }
    at = find(ns, name);
    if (*at != NULL)
        remove_quota(at);
    q->next = *at;
    *at = q;
    ns->changed = ++books->change;
    return 0;
}

void gs_books_quota_gone(struct gs_books *books, struct gs_str ns_name, struct gs_str name)
{
    struct gs_books_ns_entry *ns = gs_map_find(&books->namespaces, ns_name);
    struct gs_books_quota_entry **at;

    if (ns == NULL)
        return;
    at = find(ns, name);
    if (*at != NULL) {
        remove_quota(at);
        ns->changed = ++books->change;
    }
    gs_books_drop_ns_if_unused(books, ns);
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

int gs_books_quota(struct gs_books *books, struct gs_str ns_name, struct gs_str but,
                   struct gs_arena *arena, const struct gs_ns_quota **ret)
{
    const struct gs_books_ns_entry *ns = gs_map_find(&books->namespaces, ns_name);
    size_t n = books->policies->n;
    struct gs_ns_quota_line *line;
    const struct gs_books_pod_entry *pod;
    struct gs_ns_quota *quota;

    *ret = NULL;
    if (ns == NULL || ns->quota == NULL)
        return 0;
    line = GS_ARENA_ARRAY(arena, n, struct gs_ns_quota_line);
    quota = GS_ARENA_NEW(arena, struct gs_ns_quota);
    if (line == NULL || quota == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        line[i] = (struct gs_ns_quota_line){books->policies->at[i], -1, -1, 0, 0};
    for (const struct gs_books_quota_entry *q = ns->quota; q != NULL; q = q->next)
        for (size_t i = 0; i < n; i++) {
            line[i].mem_limit = lower(line[i].mem_limit, q->mem_limit[i]);
            line[i].core_limit = lower(line[i].core_limit, q->core_limit[i]);
        }
    for (size_t i = 0; i < n; i++) {
        line[i].mem_used = ns->mem_used[i];
        line[i].core_used = ns->core_used[i];
    }
    pod = gs_map_find(&books->pods, but);
    for (uint32_t i = 0; pod != NULL && pod->in_ns == ns && i < pod->n_shares; i++) {
        line[pod->share[i].policy].mem_used -= pod->share[i].mem_mib;
        line[pod->share[i].policy].core_used -= pod->share[i].cores;
    }
    *quota = (struct gs_ns_quota){line, n};
    *ret = quota;
    return 0;
}

int gs_books_ask(struct gs_books *books, const struct gs_pod *pod, const struct gs_ask_flags *flags,
                 struct gs_arena *arena, struct gs_ask *ret, struct gs_err *err)
{
    struct gs_ask_flags with_quota = *flags;
    int rc = gs_books_quota(books, pod->ns, pod->uid, arena, &with_quota.quota);

    return rc < 0 ? rc : gs_ask_read(pod, books->policies, &with_quota, arena, ret, err);
}

bool gs_books_next_quota(const struct gs_books *books, size_t *pos, struct gs_str *ret_ns)
{
    const struct gs_books_ns_entry *ns;

    while ((ns = gs_map_next(&books->namespaces, pos)) != NULL)
        if (ns->quota != NULL) {
            *ret_ns = ns->name;
            return true;
        }
    return false;
}
