#include "model/reason.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"

static const char *const word[GS_REASON_COUNT] = {
#define X(name, text) [GS_REASON_##name] = text,
#include "model/reason.def"
#undef X
};

const char *gs_reason_word(enum gs_reason reason)
{
    return reason < GS_REASON_COUNT ? word[reason] : "";
}

void gs_reasons_reset(struct gs_reasons *r, uint32_t of)
{
    *r = (struct gs_reasons){.of = of};
}

struct entry {
    enum gs_reason reason;
    uint32_t count;
};

/* HAMi sorts whole entries as text: the count comes first, digit by digit. */
static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    char tx[64], ty[64];
    struct gs_str_out ox, oy;

    gs_str_out_init(&ox, tx, sizeof(tx));
    gs_str_out_init(&oy, ty, sizeof(ty));
    gs_str_put_u64(&ox, x->count);
    gs_str_put_u64(&oy, y->count);
    gs_str_put_c(&ox, "/");
    gs_str_put_c(&oy, "/");
    gs_str_put_c(&ox, word[x->reason]);
    gs_str_put_c(&oy, word[y->reason]);
    return strcmp(tx, ty);
}

/* Reasons of the node, not of cards: HAMi writes them bare. */
static bool is_of_node(enum gs_reason reason)
{
    return reason == GS_REASON_NODE_INSUFFICIENT_DEVICE || reason == GS_REASON_NODE_UNFIT_POD;
}

void gs_reasons_write(const struct gs_reasons *r, struct gs_buf *buf)
{
    struct entry entry[GS_REASON_COUNT];
    size_t n = 0;

    for (enum gs_reason i = 0; i < GS_REASON_COUNT; i++)
        if (r->count[i] > 0)
            entry[n++] = (struct entry){i, r->count[i]};
    qsort(entry, n, sizeof(entry[0]), by_text);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            gs_buf_adds(buf, ", ");
        if (!is_of_node(entry[i].reason))
            gs_buf_addf(buf, "%u/%u ", entry[i].count, r->of);
        gs_buf_adds(buf, word[entry[i].reason]);
    }
}
