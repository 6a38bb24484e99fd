#pragma once
/* The folders of containers on a node:
 *
 *     <root>/containers/<podUID>_<container>/   its ledger; the container writes it
 *     <root>/quota/<podUID>_<container>/quota   its limits; the container sees the folder read-only
 *
 * HAMi's places (<HOOK_PATH>/vgpu), so that its monitor finds them. `containers` and `quota` are
 * closed to all but us: nobody on the node gets in from outside. A container's user is not known
 * here and may be any, so its own folder is open to all who get there, and that is the container
 * alone, by its mount. What is in it is a stranger's: nothing is followed, nothing is waited for,
 * and however it is nested it is removed in bounded steps.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_err;
struct gs_quota;
struct gs_folders;

/** A container of a pod. */
struct gs_folder_key {
    struct gs_str pod_uid, container;
};

/** @root  "<HOOK_PATH>/vgpu", the same path on the host; it and what is in it are made.
 *  Returns  0; -EPERM, -ELOOP what is there already is not ours alone; else of mkdir and open. */
GS_WUR int gs_folders_open(const char *root, struct gs_folders **ret, struct gs_err *err);
struct gs_folders *gs_folders_close(struct gs_folders *slots);

/** Can both be parts of a file's name? Letters, digits, '-', '_' and '.', no dot in front. */
bool gs_folders_is_key(const struct gs_folder_key *key);

/** A container is about to start: its limits are written, in a new generation where they are others
 *  than before, and its ledger's folder is there and empty: whoever was in it is gone.
 *  Returns  0; -EINVAL not a key, or limits that make no quota file; -ENOSPC, -EROFS, ... */
GS_WUR int gs_folders_make(struct gs_folders *slots, const struct gs_folder_key *key,
                           const struct gs_quota *quota, struct gs_err *err);
/** The limits alone, for one that may be running. */
GS_WUR int gs_folders_limit(struct gs_folders *slots, const struct gs_folder_key *key,
                            const struct gs_quota *quota, struct gs_err *err);
/** For one that was made before, whose limits nobody can tell just now: the ledger's folder anew.
 *  -ENOENT: it has no limits. */
GS_WUR int gs_folders_again(struct gs_folders *slots, const struct gs_folder_key *key,
                            struct gs_err *err);

/** Paths of the two folders, for mounts. */
void gs_folders_ledger_path(const struct gs_folders *slots, const struct gs_folder_key *key,
                            struct gs_buf *buf);
void gs_folders_quota_path(const struct gs_folders *slots, const struct gs_folder_key *key,
                           struct gs_buf *buf);

/** Remove the folders that nobody keeps. The name is "<podUID>_<container>": neither part holds a
 *  '_' that Kubernetes would give, but names are compared whole.
 *  @budget  entries of strangers' folders that may be removed; what is left is for the next time.
 *  Returns  folders that went; negative errno where a folder cannot be read. */
int gs_folders_sweep(struct gs_folders *slots, bool (*keeps)(void *arg, struct gs_str name),
                     void *arg, unsigned budget);
