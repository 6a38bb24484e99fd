#pragma once
/* The terms of a slice as words of the command line: sizes, shares, policy, priority. For `run`,
 * which makes them, and `resize`, which changes them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_card;
struct gs_err;
struct gs_quota;
struct gs_quota_device;

/** Words in a list like "1Gi,2Gi"; 1 for NULL and for a single word. */
size_t gs_terms_count(const char *list);
/** The i-th word, or the only one; `fallback` where there is no list. Empty beyond its end. */
struct gs_str gs_terms_word(const char *list, size_t i, const char *fallback);
/** Does a list like "30,none" name a share of any card? False for NULL. */
bool gs_terms_have_share(const char *cores);
/** One word for all cards, or one for each.
 *  @option  "memory" or "cores", @things  what its words are called, for the message.
 *  Returns  0 or -EINVAL. */
GS_WUR int gs_terms_check_count(const char *option, const char *things, const char *list,
                                size_t n_cards, struct gs_err *err);

/** Bytes for one card: "2Gi", "25%" of it, "none" is UINT64_MAX. Returns 0 or -EINVAL. */
GS_WUR int gs_terms_memory(struct gs_str word, const struct gs_card *card, uint64_t *ret_bytes,
                           struct gs_err *err);
/** Percent of a card: 1 to 100, "none" is 100. Returns 0 or -EINVAL. */
GS_WUR int gs_terms_cores(struct gs_str word, uint32_t *ret_pct, struct gs_err *err);
/** enum gs_policy by name. Returns 0 or -EINVAL. */
GS_WUR int gs_terms_policy(const char *word, uint32_t *ret_policy, struct gs_err *err);
/** enum gs_priority of "high" or "low". Returns 0 or -EINVAL. */
GS_WUR int gs_terms_priority(const char *word, uint32_t *ret_priority, struct gs_err *err);
/** Is each of these what some card could have? NULL where absent; without a look at cards, so that
 * a word that is wrong anywhere is told where there are none. Returns 0 or -EINVAL. */
GS_WUR int gs_terms_check(const char *memory, const char *cores, const char *policy,
                          const char *priority, struct gs_err *err);
/** Does the quota hold the device's launches, or give them a place in a queue? */
bool gs_terms_is_held(const struct gs_quota *quota, const struct gs_quota_device *device);
/** The priority that counts there (enum gs_priority): what is held and was given none is low. */
uint32_t gs_terms_priority_of(const struct gs_quota *quota, const struct gs_quota_device *device);
