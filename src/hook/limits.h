#pragma once
/* Where the limits of this process come from: the quota file, else HAMi's environment variables. */

#include "contract/quota.h"
#include "core/cleanup.h"

/** Read them into *ret_quota. `from_env` tells the two sources apart.
 *  Returns 0, or -ESHUTDOWN after gs_self_fail() noted the reason. *ret_quota->fail is valid even
 *  then: closed, unless a readable file said otherwise before its first bad line. */
GS_WUR int gs_limits_read(struct gs_quota *ret_quota, bool *ret_from_env);
