#include "control/shortage.h"

/* What each reason means to somebody who waits for a card. */
static const char *const meaning[GS_REASON_COUNT] = {
    [GS_REASON_CARD_TYPE_MISMATCH] =
        "no card of a type that the pod takes (use-gputype, nouse-gputype)",
    [GS_REASON_CARD_UUID_MISMATCH] =
        "cards excluded by the pod's lists of UUIDs (use-gpuuuid, nouse-gpuuuid)",
    [GS_REASON_CARD_TIME_SLICING_EXHAUSTED] = "all shares of the cards are taken",
    [GS_REASON_CARD_COMPUTE_UNITS_EXHAUSTED] = "all compute of the cards is promised",
    [GS_REASON_CARD_INSUFFICIENT_MEMORY] = "not enough memory free on a card",
    [GS_REASON_CARD_INSUFFICIENT_CORE] = "not enough compute free on a card",
    [GS_REASON_CARD_NOT_HEALTH] = "cards unhealthy, or their plugin silent",
    [GS_REASON_CARD_UNHEALTHY] = "cards unhealthy, or their plugin silent",
    [GS_REASON_CARD_CORDONED] = "cards cordoned",
    [GS_REASON_CARD_CLAIMED_TWICE] = "two entries, of one node or of two, claim to be the card",
    [GS_REASON_CARD_QOS_POLICY_MISMATCH] = "cards held by pods of another QoS policy",
    [GS_REASON_CARD_APP_CLASS_MISMATCH] = "cards held by pods of another class",
    [GS_REASON_CARD_NOT_FOUND_CUSTOM_FILTER_RULE] = "cards excluded by a rule of the vendor",
    [GS_REASON_CARD_MIG_TOPOLOGY_INFEASIBLE] = "no place for a MIG instance of that size",
    [GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT] = "a whole card is wanted and none is unused",
    [GS_REASON_NUMA_NOT_FIT] = "not enough fitting cards on one NUMA node",
    [GS_REASON_LINK_NOT_FIT] = "not enough fitting cards that are linked",
    [GS_REASON_RESOURCE_QUOTA_NOT_FIT] = "the namespace's quota is used up",
    [GS_REASON_MODE_NOT_FIT] = "node is not in the mode asked for",
    [GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = "fewer cards fit than are asked for",
    [GS_REASON_NODE_INSUFFICIENT_DEVICE] = "fewer cards than are asked for",
    [GS_REASON_NODE_UNFIT_POD] = "does not fit",
};

static enum gs_reason chief_of(const struct gs_reasons *r)
{
    enum gs_reason best = GS_REASON_NODE_UNFIT_POD;
    uint32_t most = 0;

    for (enum gs_reason i = 0; i < GS_REASON_COUNT; i++)
        if (r->count[i] > most && i != GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST) {
            best = i;
            most = r->count[i];
        }
    if (most == 0 && r->count[GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST] > 0)
        best = GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST;
    return best;
}

struct gs_shortage_lack gs_shortage_lack(const struct gs_reasons *r)
{
    struct gs_shortage_lack lack = {.reason = chief_of(r), .best_device = r->best_device};

    switch (lack.reason) {
    case GS_REASON_CARD_INSUFFICIENT_MEMORY:
        lack.need = r->need_mib;
        lack.free =
            r->best_free_mib > 0 ? r->best_free_mib : 0; /* more may be promised than is there */
        break;
    case GS_REASON_CARD_INSUFFICIENT_CORE:
        lack.need = r->need_cores;
        lack.free = r->best_free_cores > 0 ? r->best_free_cores : 0;
        break;
    case GS_REASON_NODE_INSUFFICIENT_DEVICE:
        lack.need = (int32_t)r->asked;
        lack.free = (int32_t)r->of;
        break;
    case GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST:
        lack.need = (int32_t)r->asked;
        lack.free = (int32_t)r->collected;
        break;
    default:
        break;
    }
    if (lack.need <= 0)
        lack.need = lack.free = 0;
    return lack;
}

static struct gs_str card_of(const struct gs_node *node, const struct gs_shortage_lack *lack)
{
    return lack->best_device < node->n_dev ? node->dev[lack->best_device].id : (struct gs_str){0};
}

void gs_shortage_add(struct gs_shortage *s, const struct gs_node *node,
                     const struct gs_shortage_lack *lack)
{
    struct gs_shortage_line *line = &s->of[lack->reason];

    s->nodes++;
    line->nodes++;
    if (lack->need == 0 || (line->nodes > 1 && lack->free <= line->free))
        return;
    line->need = lack->need;
    line->free = lack->free;
    line->node = node->name;
    line->card = card_of(node, lack);
}

void gs_shortage_claim(struct gs_shortage *s, struct gs_str node, struct gs_str card,
                       struct gs_str rival)
{
    struct gs_shortage_line *line = &s->of[GS_REASON_CARD_CLAIMED_TWICE];

    if (line->card.n > 0)
        return;
    line->node = node;
    line->card = card;
    line->rival = rival;
}

void gs_shortage_write_claim(struct gs_str node, struct gs_str card, struct gs_str rival,
                             struct gs_buf *buf)
{
    gs_buf_addf(buf, "card %.*s is registered ", (int)card.n, card.p);
    if (gs_str_eq(node, rival))
        gs_buf_addf(buf, "twice by %.*s", (int)node.n, node.p);
    else
        gs_buf_addf(buf, "by %.*s and by %.*s", (int)node.n, node.p, (int)rival.n, rival.p);
}

void gs_shortage_unreadable(struct gs_shortage *s, struct gs_str node, const char *text)
{
    if (s->unreadable++ > 0)
        return;
    s->bad = node;
    s->bad_text = text;
}

static void write_amounts(const struct gs_shortage_line *line, enum gs_reason reason,
                          struct gs_buf *buf)
{
    const char *unit = reason == GS_REASON_CARD_INSUFFICIENT_MEMORY ? "MiB" : "cores";
    bool is_of_card =
        reason == GS_REASON_CARD_INSUFFICIENT_MEMORY || reason == GS_REASON_CARD_INSUFFICIENT_CORE;

    if (is_of_card)
        gs_buf_addf(buf, "needs %d %s, best card %.*s", line->need, unit, (int)line->card.n,
                    line->card.p);
    else
        gs_buf_addf(buf, "needs %d cards%s", line->need, line->node.n > 0 ? ", best node" : "");
    if (line->node.n > 0)
        gs_buf_addf(buf, "%s %.*s", is_of_card ? " on" : "", (int)line->node.n, line->node.p);
    gs_buf_addf(buf,
                is_of_card         ? " has %d free"
                : line->node.n > 0 ? " has %d that fit"
                                   : ", %d fit",
                line->free);
}

void gs_shortage_write(const struct gs_shortage *s, struct gs_buf *buf)
{
    const char *before = "";

    for (enum gs_reason i = 0; i < GS_REASON_COUNT; i++) {
        if (s->of[i].nodes == 0)
            continue;
        gs_buf_addf(buf, "%s%zu node%s: ", before, s->of[i].nodes, s->of[i].nodes == 1 ? "" : "s");
        if (s->of[i].need > 0)
            write_amounts(&s->of[i], i, buf);
        else if (s->of[i].rival.n > 0)
            gs_shortage_write_claim(s->of[i].node, s->of[i].card, s->of[i].rival, buf);
        else
            gs_buf_adds(buf, meaning[i]);
        before = "; ";
    }
    if (s->unregistered > 0) {
        gs_buf_addf(buf, "%s%zu node%s: no devices registered", before, s->unregistered,
                    s->unregistered == 1 ? "" : "s");
        before = "; ";
    }
    if (s->unreadable > 0)
        gs_buf_addf(buf, "%sof %zu node%s something cannot be read: %.*s: %s", before,
                    s->unreadable, s->unreadable == 1 ? "" : "s", (int)s->bad.n, s->bad.p,
                    s->bad_text);
}

void gs_shortage_write_node(const struct gs_reasons *reasons, struct gs_buf *buf)
{
    const struct gs_shortage_lack lack = gs_shortage_lack(reasons);

    gs_reasons_write(reasons, buf);
    if (lack.need == 0)
        return;
    if (lack.reason == GS_REASON_CARD_INSUFFICIENT_MEMORY)
        gs_buf_addf(buf, " (needs %d MiB, at most %d free on a card)", lack.need, lack.free);
    else if (lack.reason == GS_REASON_CARD_INSUFFICIENT_CORE)
        gs_buf_addf(buf, " (needs %d cores, at most %d free on a card)", lack.need, lack.free);
    else
        gs_buf_addf(buf, " (needs %d cards, %d fit)", lack.need, lack.free);
}

void gs_shortage_write_words(const struct gs_node *node, const struct gs_reasons *reasons,
                             struct gs_buf *buf)
{
    const struct gs_shortage_lack lack = gs_shortage_lack(reasons);

    if (lack.need == 0)
        gs_buf_adds(buf, meaning[lack.reason]);
    else
        write_amounts(
            &(struct gs_shortage_line){
                .nodes = 1, .card = card_of(node, &lack), .need = lack.need, .free = lack.free},
            lack.reason, buf);
}
