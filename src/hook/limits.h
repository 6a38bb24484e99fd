#pragma once
/* Where the limits of this process come from: the quota file, else HAMi's environment variables. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/quota.h"
#include "core/cleanup.h"

/** Read them into *ret_quota. `from_env` tells the two sources apart.
 *  Returns 0, or -ESHUTDOWN after gs_self_fail() noted the reason. *ret_quota->fail is valid even
 *  then: closed, unless a readable file said otherwise before its first bad line. */
GS_WUR int gs_limits_read(struct gs_quota *ret_quota, bool *ret_from_env);

/** Is the quota file another one than was read last, or gone since? One system call; false where
 * limits do not come from a file. */
bool gs_limits_changed(void);
/** Read the same file again, after attaching; by one thread at a time.
 *  Returns  0; -EBADMSG it is not valid, at line *ret_line (*ret_quota is undefined then); -errno
 * it cannot be read. */
GS_WUR int gs_limits_reread(struct gs_quota *ret_quota, uint32_t *ret_line);
