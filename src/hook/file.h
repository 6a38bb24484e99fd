#pragma once
/* The ledger's file: found, created or opened, checked and mapped. */

#include <stdbool.h>

#include "contract/quota.h"
#include "core/cleanup.h"

/** Open the ledger, create it for `quota`'s devices where there is none, map it and set
 * self->ledger, device, region, fd and what belongs to them. One made for other devices, or by an
 * older version, is made anew where no process lives in it: a new file renamed over it. After 0 the
 * file stays the one its path names until gs_file_joined(). self->owner_word is known before.
 * With quota NULL only an existing one is opened, so that the reason can be written to its ring.
 * Returns 0, or -ESHUTDOWN after gs_self_fail() noted the reason; one that is in use by others and
 * will not do is mapped even then. */
GS_WUR int gs_file_open(const struct gs_quota *quota);
/** A slot is claimed, or will not be: others may remake the file again. */
void gs_file_joined(void);
/** Unmap and close. */
void gs_file_close(void);
