#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

/** An environment longer than this is not read (the kernel's own limit is about a quarter of the
 * stack limit, 2 MiB by default). */
#define ENVIRON_MAX ((size_t)8 << 20)

/* The line is `pid (comm) state ppid pgrp ...`; comm may hold spaces and brackets, so cut at the
 * last bracket. Field 22 is the start time. */
static int parse_stat(const char *line, struct gs_proc *ret)
{
    const char *open = strchr(line, '('), *close = strrchr(line, ')');
    struct gs_proc p = {0};
    size_t n;

    if (!open || !close || close < open)
        return -EBADMSG;
    n = (size_t)(close - open - 1);
    if (n >= sizeof(p.comm))
        n = sizeof(p.comm) - 1;
    memcpy(p.comm, open + 1, n);
    if (sscanf(line, "%d", &p.pid) != 1)
        return -EBADMSG;
    if (sscanf(close + 1,
               " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
               &p.state, &p.ppid, &p.pgrp, &p.start_ticks) != 4)
        return -EBADMSG;
    *ret = p;
    return 0;
}

int gs_proc_read(pid_t pid, struct gs_proc *ret_proc)
{
    char path[64], line[1024];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT)
            return access("/proc/self/stat", F_OK) == 0 ? -ESRCH : -ENOENT;
        return -errno;
    }
    n = read(fd, line, sizeof(line) - 1);
    if (n <= 0) {
        int rc = n < 0 ? -errno : -ESRCH;

        gs_file_close(&fd);
        return rc;
    }
    gs_file_close(&fd);
    line[n] = '\0';
    return parse_stat(line, ret_proc);
}

bool gs_proc_is_alive(pid_t pid, uint64_t start_ticks)
{
    struct gs_proc p;
    int rc;

    if (pid <= 0)
        return false;
    rc = gs_proc_read(pid, &p);
    if (rc == -ENOENT) /* no /proc */
        return kill(pid, 0) == 0 || errno == EPERM;
    return rc == 0 && p.start_ticks == start_ticks && p.state != 'Z' && p.state != 'X';
}

int gs_proc_env(pid_t pid, const char *name, struct gs_buf *buf)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf all = {0};
    size_t len = strlen(name);
    char path[64];
    int rc;

    (void)snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    rc = gs_file_read(AT_FDCWD, path, ENVIRON_MAX, &all);
    if (rc != 0)
        return rc == -ESRCH ? -ENOENT : rc;
    for (size_t at = 0; at < all.n;) {
        const char *entry = all.p + at;
        size_t n = strnlen(entry, all.n - at);

        if (n > len && entry[len] == '=' && memcmp(entry, name, len) == 0) {
            gs_buf_add(buf, entry + len + 1, n - len - 1);
            return gs_buf_check(buf);
        }
        at += n + 1;
    }
    return -ENOENT;
}

int gs_proc_uid(pid_t pid, uid_t *ret_uid)
{
    char path[64];
    struct stat st;

    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    if (stat(path, &st) != 0)
        return -errno;
    *ret_uid = st.st_uid;
    return 0;
}

static int compare_pid(const void *a, const void *b)
{
    const struct gs_proc *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

static int grow(struct gs_proc_table *t, size_t *cap)
{
    struct gs_proc *p;

    if (t->n < *cap)
        return 0;
    *cap = *cap ? *cap * 2 : 256;
    p = realloc(t->p, *cap * sizeof(*p));
    if (!p)
        return -ENOMEM;
    t->p = p;
    return 0;
}

int gs_proc_list(struct gs_proc_table *ret_table)
{
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table t = {0};
    struct dirent *entry;
    size_t cap = 0;
    DIR *dir = opendir("/proc");
    int rc = 0;

    if (!dir)
        return -errno;
    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);

        if (*end || pid <= 0 || end == entry->d_name)
            continue;
        rc = grow(&t, &cap);
        if (rc == 0 && gs_proc_read((pid_t)pid, &t.p[t.n]) == 0)
            t.n++;
    }
    (void)closedir(dir); /* read only */
    if (rc != 0)
        return rc;
    if (t.n > 0)
        qsort(t.p, t.n, sizeof(*t.p), compare_pid);
    *ret_table = t;
    t = (struct gs_proc_table){0};
    return 0;
}

void gs_proc_fini(struct gs_proc_table *table)
{
    if (!table)
        return;
    free(table->p);
    *table = (struct gs_proc_table){0};
}

const struct gs_proc *gs_proc_find(const struct gs_proc_table *table, pid_t pid)
{
    struct gs_proc key = {.pid = pid};

    if (table->n == 0)
        return NULL;
    return bsearch(&key, table->p, table->n, sizeof(*table->p), compare_pid);
}

bool gs_proc_descends(const struct gs_proc_table *table, pid_t pid, pid_t ancestor)
{
    for (size_t step = 0; step < table->n; step++) {
        const struct gs_proc *p = gs_proc_find(table, pid);

        if (!p || p->ppid <= 0)
            return false;
        if (p->ppid == ancestor)
            return true;
        pid = p->ppid;
    }
    return false;
}

void gs_proc_self_use(struct gs_proc_use *ret_use)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    unsigned long long total, resident;
    struct rusage usage;

    memset(&usage, 0, sizeof(usage));
    (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail on its own process */
    *ret_use = (struct gs_proc_use){
        .cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6};
    if (gs_file_read(AT_FDCWD, "/proc/self/statm", 4096, &text) == 0 &&
        sscanf(gs_buf_text(&text), "%llu %llu", &total, &resident) == 2)
        ret_use->resident_bytes = resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
