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
    char text[80]; /* two numbers of at most ten digits and a word */
};

/* HAMi sorts whole entries as text: the count comes first, digit by digit. */
static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    return strcmp(x->text, y->text);
}

/* Reasons of the node, not of cards: HAMi writes them bare. */
static bool is_of_node(enum gs_reason reason)
{
    return reason == GS_REASON_NODE_INSUFFICIENT_DEVICE || reason == GS_REASON_NODE_UNFIT_POD;
}

static void put_entry(const struct gs_reasons *r, enum gs_reason reason, struct entry *ret)
{
    bool has_own = reason == GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST && r->few_of > 0;
    struct gs_str_out out;

    gs_str_out_init(&out, ret->text, sizeof(ret->text));
    if (!is_of_node(reason)) {
        gs_str_put_u64(&out, r->count[reason]);
        gs_str_put_char(&out, '/');
        gs_str_put_u64(&out, has_own ? r->few_of : r->of);
        gs_str_put_char(&out, ' ');
    }
    gs_str_put_c(&out, word[reason]);
}

void gs_reasons_write(const struct gs_reasons *r, struct gs_buf *buf)
{
    struct entry entry[GS_REASON_COUNT];
    size_t n = 0;

    for (enum gs_reason i = 0; i < GS_REASON_COUNT; i++)
        if (r->count[i] > 0)
            put_entry(r, i, &entry[n++]);
    qsort(entry, n, sizeof(entry[0]), by_text);
    for (size_t i = 0; i < n; i++) {
        gs_buf_adds(buf, i > 0 ? ", " : "");
        gs_buf_adds(buf, entry[i].text);
    }
}
