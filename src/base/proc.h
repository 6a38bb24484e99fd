#pragma once
/* What /proc says about processes. A process is (pid, start time): pids return, pairs do not. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/cleanup.h"

struct gs_buf;

struct gs_proc {
    pid_t pid;
    pid_t ppid;
    pid_t pgrp;
    char state;           /**< 'R', 'S', 'Z' (exited, not yet waited for), ... */
    uint64_t start_ticks; /**< clock ticks since boot */
    char comm[16];
};

/** Every process that /proc shows at one moment, sorted by pid. */
struct gs_proc_table {
    struct gs_proc *p;
    size_t n;
};

/** Read one process. Returns 0; -ESRCH there is none; -ENOENT /proc is not mounted; -EBADMSG not
 *  understood. Source: proc(5), /proc/pid/stat. */
GS_WUR int gs_proc_read(pid_t pid, struct gs_proc *ret_proc);

/** True while the very process (not a later one of that pid) runs; a zombie does not.
 *  Without /proc the start time cannot be compared and the pid alone decides. */
bool gs_proc_is_alive(pid_t pid, uint64_t start_ticks);

/** Value of a variable in the environment the process was started with, appended to `buf`.
 *  Returns  0; -ENOENT not set, or no such process; -EACCES another user's process; -EFBIG. */
GS_WUR int gs_proc_env(pid_t pid, const char *name, struct gs_buf *buf);

/** Owner (effective user id) of the process. Returns 0 or negative errno. */
GS_WUR int gs_proc_uid(pid_t pid, uid_t *ret_uid);

/** What this process takes. */
struct gs_proc_use {
    uint64_t resident_bytes; /**< by the kernel's count of pages; 0: it does not say */
    double cpu_s;            /**< user and system time so far */
};
void gs_proc_self_use(struct gs_proc_use *ret_use);

GS_WUR int gs_proc_list(struct gs_proc_table *ret_table);
void gs_proc_fini(struct gs_proc_table *table);
/** NULL when the table has no such pid. */
const struct gs_proc *gs_proc_find(const struct gs_proc_table *table, pid_t pid);
/** True where `ancestor` is a parent, grandparent, ... of `pid`. Bounded by the table's size. */
bool gs_proc_descends(const struct gs_proc_table *table, pid_t pid, pid_t ancestor);
