#pragma once
/* Why a pod found no room, over all nodes, in one sentence for people: which card comes closest and
 * what it lacks. */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/device.h"
#include "model/reason.h"

/** Nodes that gave one reason first. */
struct gs_shortage_line {
    size_t nodes;
    struct gs_str node, card; /**< the one that comes closest; borrowed */
    int32_t need, free;       /**< MiB, cores or cards, where the reason has amounts; else 0 */
    struct gs_str rival;      /**< of a card that is claimed twice: who claims it beside `node` */
};

struct gs_shortage {
    struct gs_shortage_line of[GS_REASON_COUNT];
    size_t unregistered;  /**< nodes without devices of ours */
    size_t unreadable;    /**< nodes of which something cannot be read, */
    struct gs_str bad;    /**< one of them, */
    const char *bad_text; /**< and what is wrong there: gs_books_unreadable() */
    size_t nodes;
};

/** What a node lacks above all. */
struct gs_shortage_lack {
    enum gs_reason reason; /**< the one that most cards gave, the earlier of the table where several
                              did */
    int32_t need, free;    /**< MiB, cores or cards; need 0: the reason has no amounts */
    uint32_t best_device;  /**< with amounts of one card: the card's index */
};
struct gs_shortage_lack gs_shortage_lack(const struct gs_reasons *reasons);

void gs_shortage_add(struct gs_shortage *s, const struct gs_node *node,
                     const struct gs_shortage_lack *lack);
/** A card of this node is claimed by another entry, too, of this `rival`. The first one is told. */
void gs_shortage_claim(struct gs_shortage *s, struct gs_str node, struct gs_str card,
                       struct gs_str rival);
/** In words: "card GPU-a is registered by n1 and by n2". */
void gs_shortage_write_claim(struct gs_str node, struct gs_str card, struct gs_str rival,
                             struct gs_buf *buf);
/** Something of what this node says cannot be read. The first one is told. */
void gs_shortage_unreadable(struct gs_shortage *s, struct gs_str node, const char *text);
/** "3 nodes: needs 8192 MiB, card GPU-a on n1 has 6144 free; 2 nodes: card type not asked for". */
void gs_shortage_write(const struct gs_shortage *s, struct gs_buf *buf);
/** The same of one node, for the answer of a filter: HAMi's words first. */
void gs_shortage_write_node(const struct gs_reasons *reasons, struct gs_buf *buf);
/** One node in words alone: "needs 8192 MiB, best card GPU-a has 6144 free". */
void gs_shortage_write_words(const struct gs_node *node, const struct gs_reasons *reasons,
                             struct gs_buf *buf);
