#pragma once
/* The ledger's file: found, created or opened, checked and mapped. */

#include <stdbool.h>

#include "contract/quota.h"
#include "core/cleanup.h"

/** Open the ledger, create it for `quota`'s devices where there is none, map it and set
 * self->ledger, device, region, fd and what belongs to them. With quota NULL only an existing one
 * is opened, so that the reason can be written to its ring. Returns 0, or -ESHUTDOWN after
 * gs_self_fail() noted the reason. */
GS_WUR int gs_file_open(const struct gs_quota *quota);
/** Unmap and close. */
void gs_file_close(void);
