#pragma once
/* Slices on disk: one private folder per slice, owned by a user, held by the `gpuslice run`
 * processes in it.
 *
 *   <base>/<name>/quota        the limits (contract/quota.h)
 *                 slice.cache  the ledger; created by the first process that uses a card
 *                 owner        who started it
 *                 cards        the index of each card of the quota, for people
 *                 member-<pid> a `gpuslice run --join` in front of one of its programs
 *                 lock         each live `gpuslice run` of the slice holds a shared lock on it
 *   <base>/.board/<uuid>        what a card's slices must know of each other (contract/board.h)
 *   <base>/.debt               card time that slices owed when they ended (debt.h)
 *   <base>/.lock               held while promises are added up and a slice is created
 *   <base>/.ended/<name>.log   what is left of a slice that ended
 *
 * A lock goes when its holder dies in any way; that is how the slices of dead parents are found.
 * Locks are open-file-description locks: the folder may be scanned by the very process that holds
 * one. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "contract/quota.h"
#include "core/cleanup.h"

struct gs_err;
struct gs_proc_table;

#define GS_SLICE_NAME    64 /**< with the NUL */
#define GS_SLICE_COMMAND 160
#define GS_SLICE_LEDGER  "slice.cache"
#define GS_SLICE_ENDED   ".ended"
#define GS_SLICE_BOARD   ".board"
#define GS_SLICE_CARDS   "cards"
/** `gpuslice run --join` processes that are remembered; more hold the slice as well. */
#define GS_SLICE_MEMBERS 64
/** Other users that are counted as not to be seen. */
#define GS_SLICE_HIDDEN 256

enum gs_slice_state {
    GS_SLICE_RUNNING, /**< a `gpuslice run` holds it */
    GS_SLICE_ORPHAN,  /**< only processes that outlived it do */
    GS_SLICE_DEAD,    /**< nobody does: to be removed */
    GS_SLICE_DAMAGED, /**< its files cannot be read as a slice's */
    GS_SLICE_STATE_COUNT,
};

/** A `gpuslice run` whose descendants belong to the slice. */
struct gs_slice_member {
    pid_t pid;
    uint64_t start_ticks;
};

struct gs_slice {
    char name[GS_SLICE_NAME];
    char base[PATH_MAX]; /**< folder that holds it */
    uid_t uid;
    enum gs_slice_state state;
    pid_t owner_pid; /**< the `gpuslice run` that created it */
    uint64_t owner_start_ticks;
    uint64_t created_ns; /**< CLOCK_REALTIME */
    char command[GS_SLICE_COMMAND];
    struct gs_slice_member member[GS_SLICE_MEMBERS]; /**< the owner and who joined, dead or alive */
    size_t n_members;
    struct gs_quota quota;
    uint64_t used_bytes[GS_LEDGER_DEVICES]; /**< in its books, by place in the quota */
    int dir_fd;                             /**< the slice's folder, -1 none */
    int lock_fd;                            /**< held lock, -1 none */
};

struct gs_slices {
    struct gs_slice **p;
    size_t n;
    uid_t hidden[GS_SLICE_HIDDEN]; /**< other users whose slices, if any, cannot be read */
    size_t n_hidden;
};

/** "running", "orphaned", "dead", "damaged". */
const char *gs_slice_state_text(enum gs_slice_state state);
/** A name may become a file name and a word in a shell. */
bool gs_slice_is_name(const char *name);

/** Folder for new slices of this user, created if need be: $XDG_RUNTIME_DIR/gpuslice where that is
 * usable, else /tmp/gpuslice-<uid>. Returns a descriptor or negative errno. */
GS_WUR int gs_slice_home(char ret_path[PATH_MAX], struct gs_err *err);

/** Take, and wait for, the lock under which promises are added up (all of this user's folders).
 * Returns 0; release with gs_slice_unlock_home(). */
struct gs_slice_home_lock {
    int fd[4];
    size_t n;
};
GS_WUR int gs_slice_lock_home(struct gs_slice_home_lock *ret_lock, struct gs_err *err);
void gs_slice_unlock_home(struct gs_slice_home_lock *lock);

/** Every slice of this user and, with @others, of the users whose folders we may read; sorted by
 * name. Promises are added up from gs_loose_list(), which has more.
 *  @procs   one look at /proc for all; NULL where there is none.
 *  Owner    caller; gs_slices_fini(). */
GS_WUR int gs_slices_list(const struct gs_proc_table *procs, bool others,
                          struct gs_slices *ret_slices, struct gs_err *err);
void gs_slices_fini(struct gs_slices *slices);
/** This user's slice of that name, or NULL. */
struct gs_slice *gs_slices_find(const struct gs_slices *slices, const char *name);
/** The same, for a command that changes it. Returns 0; -ENOENT no live one; -EBADMSG damaged. */
GS_WUR int gs_slices_find_sound(const struct gs_slices *slices, const char *name,
                                struct gs_slice **ret, struct gs_err *err);
/** Is there such a one now? Returns as gs_slices_find_sound(), or why nobody can tell. */
GS_WUR int gs_slices_check(const char *name, struct gs_err *err);

/** Remove this user's dead slices from the list and from disk, and rests of creations that were
 * killed; keeps their logs. Failure to remove one leaves it in the list. Hold the home lock. */
void gs_slices_collect(struct gs_slices *slices);

/** Create the folder with quota and owner and hold it; hold the home lock.
 *  @slice   name, command and quota are set by the caller; the rest is filled here.
 *  Returns  0; -EEXIST the name is taken. */
GS_WUR int gs_slice_create(struct gs_slice *slice, struct gs_err *err);
/** Put a new quota file into the slice's folder, so that a reader sees the old one or the new one;
 * hold the home lock. */
GS_WUR int gs_slice_write_quota(const struct gs_slice *slice, const struct gs_quota *quota,
                                struct gs_err *err);
/** Hold a live slice of this user too and become its member. Returns 0; -ENOENT it ended meanwhile.
 */
GS_WUR int gs_slice_hold(struct gs_slice *slice, struct gs_err *err);

/** Remove the folder where nobody else holds it and no process of it lives; keeps its log. Deeper
 *  folders in it that are not empty are kept as <base>/.rest-<name>.<when it began>.
 *  Returns  0 removed; -EBUSY still in use. Our own hold is given up either way. */
GS_WUR int gs_slice_remove(struct gs_slice *slice, struct gs_err *err);

/** True where the environment of the process names this slice; false also where it cannot be read.
 */
bool gs_slice_is_named_by(const struct gs_slice *slice, pid_t pid);

/** Does a `gpuslice run` hold the slice with this folder? Locks nothing. */
bool gs_slice_is_held(int dir_fd);

/** Zeroed, no descriptors. */
void gs_slice_init(struct gs_slice *slice);
void gs_slice_fini(struct gs_slice *slice);
