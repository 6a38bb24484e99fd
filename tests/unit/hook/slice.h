#pragma once
/* A slice for a unit test: folder, quota file, environment; and a vendor without a driver. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "contract/quota.h"
#include "hook/engine.h"

#define SLICE_LIMIT 1000u /* of GPU-0 and GPU-2; GPU-1 has none */

/** What the vendor's enumerate() answers; negative: its error. */
extern int slice_cards;

/** Make a folder with a quota for GPU-0..2 and point the environment at it. Nothing is attached. */
void slice_setup(void);
/** Replace the quota file's text. */
void slice_write_quota(const char *text);
/** Take the quota away: limits come from variables then. */
void slice_use_env(void);
const char *slice_folder(void);
const char *slice_ledger(void);
/** Detach and remove everything. */
void slice_teardown(void);
/** Attach; fails the test where that does not succeed. */
void slice_attach(void);
/** Run `fn` in a forked process of the same slice, attached anew, and wait for it. Returns its
 * answer (0..100); the process dies without cleaning up. */
int slice_in_other(int (*fn)(void *arg), void *arg);
/** As above but it stays alive; slice_end() kills it. */
int slice_start_other(int (*fn)(void *arg), void *arg);
void slice_end(int pid);
