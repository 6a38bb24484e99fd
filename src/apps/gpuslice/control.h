#pragma once
/* Telling the processes of a live slice something: words in its ledger, and signals to those who
 * listen. The ledger is written by pwrite, after it has been checked to be one, and never mapped.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_err;
struct gs_quota;

/** Whom it reached. */
struct gs_control_reach {
    uint32_t processes; /**< live ones that use a card */
    uint32_t signalled;
    bool is_new;   /**< of suspending and resuming: something was not so before */
    uint32_t deaf; /**< whose launches go straight to the driver and who take no signal of ours:
                      they notice at their next allocation */
};

/** A new quota file of this generation is in place.
 *  @was_straight  launches were not held by the quota in force so far, and they are by the new one:
 * the processes have to be woken to it by a signal.
 *  Returns  0, also without a ledger (who makes one looks at the file afterwards); negative errno.
 */
GS_WUR int gs_control_announce(int dir_fd, uint64_t generation, bool was_straight,
                               struct gs_control_reach *ret_reach, struct gs_err *err);

/** Suspend or resume all processes, and those that will start.
 *  @is_straight  launches are not held by the slice's quota.
 *  Returns  0; -ENOENT no process has used a card yet; other negative errno. */
GS_WUR int gs_control_suspend(int dir_fd, bool suspend, bool is_straight,
                              struct gs_control_reach *ret_reach, struct gs_err *err);

/** True where launches under this quota go straight to the driver: no share, no priority, no
 * oversubscription. */
bool gs_control_is_straight(const struct gs_quota *quota);
