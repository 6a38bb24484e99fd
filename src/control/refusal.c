#include "control/refusal.h"

#include <errno.h>
#include <string.h>

#include "core/hash.h"

static uint64_t hash_text(uint64_t hash, struct gs_str s)
{
    hash = gs_hash_u64(hash ^ s.n);
    return s.n > 0 ? gs_hash_bytes(s.p, s.n, hash) : hash;
}

static uint64_t hash_pairs(uint64_t hash, const struct gs_pairs *pairs)
{
    hash = gs_hash_u64(hash ^ pairs->n);
    for (size_t i = 0; i < pairs->n; i++)
        hash = hash_text(hash_text(hash, pairs->at[i].key), pairs->at[i].value);
    return hash;
}

/* Everything of the pod that a policy may look at but its names, and what is left of the quota. */
static uint64_t hash_ask(const struct gs_ask *ask)
{
    const struct gs_pod *pod = ask->pod;
    uint64_t hash = gs_hash_u64(pod->n_containers ^ (pod->n_init << 32));

    hash = hash_pairs(hash, &pod->annotations);
    hash = hash_pairs(hash, &pod->labels);
    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct gs_container *c = &pod->container[i];

        hash = hash_pairs(hash, &c->limits);
        hash = hash_pairs(hash, &c->requests);
        hash = hash_pairs(hash, &c->env);
        hash = gs_hash_u64(hash ^ (uint64_t)(c->is_init | c->is_sidecar << 1));
    }
    hash = gs_hash_bytes(&ask->device_policy.chain, sizeof(ask->device_policy.chain), hash);
    for (size_t i = 0; ask->quota != NULL && i < ask->quota->n; i++) {
        const struct gs_ns_quota_line *l = &ask->quota->line[i];
        const int64_t number[] = {l->mem_limit, l->core_limit, l->mem_used, l->core_used};

        hash = gs_hash_bytes(number, sizeof(number), hash);
    }
    return hash != 0 ? hash : 1;
}

void gs_refusals_init(struct gs_refusals *r, struct gs_books *books, const struct gs_ask *ask,
                      struct gs_extender_reply *reply, struct gs_shortage *shortage)
{
    *r = (struct gs_refusals){
        .books = books, .ask = ask, .reply = reply, .shortage = shortage, .hash = hash_ask(ask)};
}

void gs_refusals_fini(struct gs_refusals *r)
{
    gs_arena_fini(&r->scratch);
}

/* What the node lacks: remembered, or found by trying. */
static int find(struct gs_refusals *r, const struct gs_node *node,
                const struct gs_books_refusal **ret)
{
    struct gs_placement placement;
    struct gs_reasons reasons;
    int rc;

    *ret = gs_books_refusal(node, r->hash);
    if (*ret != NULL)
        return 0;
    gs_arena_reset(&r->scratch);
    memset(&reasons, 0, sizeof(reasons));
    rc = gs_place(r->ask, node, &r->scratch, &placement, &reasons);
    if (rc == 0)
        return -EAGAIN; /* cannot be: it was refused a moment ago */
    if (rc != -ENOSPC)
        return rc;
    *ret = gs_books_note_refusal(node, r->hash, &reasons);
    return 0;
}

static int text_of(struct gs_refusals *r, const struct gs_books_refusal *refusal,
                   struct gs_str *ret)
{
    size_t at = refusal->hash & (GS_REFUSAL_TEXTS - 1);
    struct gs_buf text = {0};
    int rc;

    if (r->known[at].text.n > 0 && r->known[at].hash == refusal->hash) {
        *ret = r->known[at].text;
        return 0;
    }
    gs_shortage_write_node(&refusal->reasons, &text);
    rc = gs_buf_check(&text);
    if (rc == 0)
        *ret = gs_extender_reply_keep(r->reply, gs_buf_str(&text));
    gs_buf_fini(&text);
    if (rc < 0 || ret->p == NULL)
        return -ENOMEM;
    r->known[at].hash = refusal->hash;
    r->known[at].text = *ret;
    return 0;
}

static int lacks(struct gs_refusals *r, const struct gs_node *node, struct gs_str *ret_text)
{
    const struct gs_books_refusal *refusal;
    struct gs_str card, rival;
    int rc = find(r, node, &refusal);

    if (rc == 0)
        rc = text_of(r, refusal, ret_text);
    if (rc < 0)
        return rc;
    gs_shortage_add(r->shortage, node, &refusal->lack);
    if (refusal->lack.reason == GS_REASON_CARD_CLAIMED_TWICE &&
        r->shortage->of[GS_REASON_CARD_CLAIMED_TWICE].nodes == 1 &&
        gs_books_rival(r->books, node->name, &card, &rival))
        gs_shortage_claim(r->shortage, node->name, card, rival);
    return 0;
}

/* HAMi's words first. */
static int tell_unreadable(struct gs_refusals *r, const char *why, struct gs_str *ret)
{
    struct gs_buf text = {0};
    int rc;

    gs_buf_addf(&text, "node unregistered (%s)", why);
    rc = gs_buf_check(&text);
    if (rc == 0)
        *ret = gs_extender_reply_keep(r->reply, gs_buf_str(&text));
    gs_buf_fini(&text);
    return rc == 0 && ret->p == NULL ? -ENOMEM : rc;
}

int gs_refusals_add(struct gs_refusals *r, const struct gs_node *node, struct gs_str name)
{
    const char *unreadable = gs_books_unreadable(r->books, name);
    struct gs_str text = GS_STR("node unregistered");
    int rc = node != NULL ? lacks(r, node, &text) : 0;

    if (rc < 0)
        return rc;
    r->shortage->unregistered += node == NULL;
    if (unreadable != NULL)
        gs_shortage_unreadable(r->shortage, name, unreadable);
    if (unreadable != NULL && node == NULL) {
        rc = tell_unreadable(r, unreadable, &text);
        if (rc < 0)
            return rc;
    }
    gs_extender_reply_failed(r->reply, name, text);
    return 0;
}
