#pragma once
/* What the kubelet counts: a card as so many shares, each a device id "<UUID>-<i>". Which ids name
 * which card, and which ids a container had best be given. Pure.
 *
 * Source  HAMi v2.10 device plugin: ids, and what they name. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "node/kubelet_pb.h"

#define GS_SHARES_CARDS 512 /* cards, or parts of cards that are given out whole */
#define GS_SHARES_UUID  96

/** A card, as far as the kubelet hears of it. */
struct gs_shares_card {
    char uuid[GS_SHARES_UUID];
    uint32_t count; /**< shares; 0: given out whole, under its UUID as it is */
    int32_t numa;   /**< -1: not told */
    bool is_healthy;
};

/** The UUID in an id: the text before "::", or, of an id of six dashes and more that ends with a
 *  number, the text before that number's dash. A20.1. */
struct gs_str gs_shares_uuid(struct gs_str id);

/** The list for ListAndWatch, cards in the order given: one entry a share. In the arena, texts and
 *  all. @ret_n entries. 0; -E2BIG more than the kubelet takes in one message; -ENOMEM. */
GS_WUR int gs_shares_list(const struct gs_shares_card *card, size_t n, struct gs_arena *arena,
                          struct gs_kubelet_device **ret, size_t *ret_n);

/** Ids for a container whose cards are known: for each UUID one available share of that card, those
 *  that must be included first; they stand for a UUID of the same card. A20.7.
 *  @uuid     of the grant, one for each id wanted; a card may come more than once.
 *  Returns   0 and want->size ids in the arena; -ENODATA there is no such choice; -ENOMEM. */
GS_WUR int gs_shares_prefer(const struct gs_kubelet_prefer *want, const struct gs_str *uuid,
                            size_t n, struct gs_arena *arena, struct gs_kubelet_texts *ret);
