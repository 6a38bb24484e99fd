#pragma once
/* What several vendors' policies do alike: rows of their tables, and parts for their own functions.
 */

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/amount.h"
#include "model/policy.h"

/** The node lock of HAMi's protocol (gs_keys.lock). */
#define GS_KEY_NODE_LOCK "hami.io/mutex.lock"

/** A resource name of the configuration, copied: NULL (not given) means the chart's, "" switches
 *  the resource off. */
struct gs_str gs_usual_name(struct gs_arena *arena, const char *given, const char *chart);

/** A word of the configuration that names of resources and keys are made of: letters, digits and
 *  "-_.", at most 40, for "hami.io/no-use-<word>-uuid" may have 63 behind the slash. */
bool gs_usual_is_word(const char *word);
/** Such a name. */
struct gs_str gs_usual_made(struct gs_arena *arena, const char *before, const char *word,
                            const char *behind);

/** Keys that HAMi makes of a vendor's word: to_allocate, allocated, node_register, handshake, UUIDs
 *  and the lock. */
struct gs_keys gs_usual_keys(struct gs_arena *arena, const char *word);
/** The end of gs_policy_section.make: copies of n policies, whose parts are in the arena already.
 *  0; -ENOMEM, also where one of those parts was refused. */
GS_WUR int gs_usual_add(struct gs_policies *out, struct gs_arena *arena,
                        const struct gs_policy *policy, size_t n);

/** gs_policy_ops.admit: asks for the vendor when the count stands in the limits; changes nothing.
 */
int gs_usual_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                   struct gs_err *err);
/** Refuse an amount: "invalid <name> value <value> in container <container>: <rule>".
 *  Returns  -EINVAL. */
int gs_usual_refuse(const struct gs_container *c, struct gs_str name, const char *rule,
                    struct gs_err *err);
/** Are count, memory and cores, where they stand, such as gs_usual_request() can read? What it
 *  drops silently is better refused at admission. 0, or -EINVAL with a text for the user. */
GS_WUR int gs_usual_check_amounts(const struct gs_policy *policy, const struct gs_container *c,
                                  enum gs_amount_from from, struct gs_err *err);
/** Set a limit, and the request of that name too where one is there: the API server wants them
 *  equal for such resources. 0 or -ENOMEM. */
GS_WUR int gs_usual_set_limit(struct gs_pod *pod, size_t container, struct gs_str name,
                              int64_t value);

/** Tell the container its priority (the limit names.priority) by a variable; none: nothing.
 *  0, -ENOMEM, or -EINVAL with a text for the user. */
GS_WUR int gs_usual_pass_priority(const struct gs_policy *policy, struct gs_pod *pod,
                                  size_t container, const char *variable, struct gs_err *err);

/** gs_policy_ops.request: limits, else requests; count 1..2^31-1; memory in units of mem_factor,
 *  absent or 0: 100 percent of a card (else mem_pct = 0, as HAMi has it); cores, absent:
 *  default_cores. Anything negative, fractional or beyond int32: nums = 0. */
void gs_usual_request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                      struct gs_request *ret);

/** gs_fit_rules.amounts of vendors that share a card by count alone: nothing of its memory or its
 *  cores is promised to anybody. */
enum gs_reason gs_usual_count_alone(const struct gs_policy *p, const struct gs_fit *fit,
                                    const struct gs_device *dev, struct gs_pick *pick);

/** gs_policy_ops.read_node for vendors whose plugin writes keys.node_register; asks
 *  ops->read_device about each element. A list without any is a plugin's word that it offers none
 *  now (HAMi: "no device found on node", and keeps the cards it knew).
 *  Returns  0 (n may be 0); -ENOENT no such annotation; -EINVAL unreadable; -E2BIG; -ENOMEM. */
GS_WUR int gs_usual_read_register(const struct gs_policy *policy, const struct gs_node_view *node,
                                  struct gs_arena *arena, struct gs_device **ret_dev,
                                  struct gs_group *ret, struct gs_err *err);

/** Indexes of the cards ("0,3") of the last container that has any, for keys with room for one list
 *  a pod; empty: none has, or out of memory (gs_arena_check() says so). */
struct gs_str gs_usual_last_indexes(const struct gs_assignment *a, struct gs_arena *arena);

/** Devices of a vendor that registers nothing: one for each whole one of the node's capacity of
 *  names.count.
 *  @like    what they have in common; its id is the middle of theirs: "<node>-<id>-<index>".
 *  Returns  their number; -ENOENT none; -EINVAL no possible number of devices; -ENOMEM. */
GS_WUR int gs_usual_read_capacity(const struct gs_policy *policy, const struct gs_node_view *node,
                                  const struct gs_device *like, struct gs_arena *arena,
                                  struct gs_device **ret_dev, struct gs_err *err);
