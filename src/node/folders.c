#include "node/folders.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "contract/env.h"
#include "contract/quota.h"

#define NAME_CAP 256u
/* Entries removed where a container is waited for; more are left and the folder is put aside. */
#define START_BUDGET 4096u
#define ASIDE        ".gone-"

enum half { LEDGERS, QUOTAS, HALVES };
static const char *const half_name[HALVES] = {"containers", "quota"};

struct gs_folders {
    char *root;
    int fd[HALVES];
    unsigned n_aside; /**< makes names of what is put aside */
};

/* ---- opening ---- */

/* A folder that is ours and in which nobody else may write. */
static int check_ours(int fd, const char *name, bool is_private, struct gs_err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return gs_err_set(err, -errno, "stat folder '%s': %s", name, strerror(errno));
    if (st.st_uid != geteuid())
        return gs_err_set(err, -EPERM, "folder '%s' belongs to user %u", name, st.st_uid);
    if (is_private && (st.st_mode & 077) != 0 && fchmod(fd, 0700) != 0)
        return gs_err_set(err, -errno, "close folder '%s' to others: %s", name, strerror(errno));
    if (!is_private && (st.st_mode & 022) != 0)
        return gs_err_set(err, -EPERM, "folder '%s' can be written by others; chmod go-w it", name);
    return 0;
}

static int open_folder(int dirfd, const char *name, bool is_private, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int fd = -1;
    int rc, keep;

    if (mkdirat(dirfd, name, is_private ? 0700 : 0755) != 0 && errno != EEXIST)
        return gs_err_set(err, -errno, "create folder '%s': %s", name, strerror(errno));
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return gs_err_set(err, -errno, "open folder '%s': %s", name, strerror(errno));
    rc = check_ours(fd, name, is_private, err);
    if (rc < 0)
        return rc;
    keep = fd;
    fd = -1;
    return keep;
}

int gs_folders_open(const char *root, struct gs_folders **ret, struct gs_err *err)
{
    struct gs_folders *slots = calloc(1, sizeof(*slots));
    GS_CLEANUP(gs_file_close) int fd = -1;
    int rc = 0;

    if (slots == NULL)
        return -ENOMEM;
    slots->fd[LEDGERS] = slots->fd[QUOTAS] = -1;
    slots->root = strdup(root);
    fd = slots->root != NULL ? open_folder(AT_FDCWD, root, false, err) : -ENOMEM;
    if (fd < 0)
        rc = fd;
    for (int h = 0; rc == 0 && h < HALVES; h++) {
        slots->fd[h] = open_folder(fd, half_name[h], true, err);
        if (slots->fd[h] < 0)
            rc = slots->fd[h];
    }
    if (rc < 0) {
        gs_folders_close(slots);
        return gs_err_wrap(err, rc, "%s", root);
    }
    *ret = slots;
    return 0;
}

struct gs_folders *gs_folders_close(struct gs_folders *slots)
{
    if (slots == NULL)
        return NULL;
    for (int h = 0; h < HALVES; h++)
        gs_file_close(&slots->fd[h]);
    free(slots->root);
    free(slots);
    return NULL;
}

/* ---- names ---- */

static bool is_part(struct gs_str s)
{
    if (s.n == 0 || s.p[0] == '.')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '_' || c == '.'))
            return false;
    }
    return true;
}

bool gs_folders_is_key(const struct gs_folder_key *key)
{
    return is_part(key->pod_uid) && is_part(key->container) &&
           key->pod_uid.n + 1 + key->container.n < NAME_CAP - 1;
}

static int make_name(const struct gs_folder_key *key, char name[NAME_CAP], struct gs_err *err)
{
    if (!gs_folders_is_key(key))
        return gs_err_set(err, -EINVAL, "pod and container have no names for a folder");
    (void)snprintf(name, NAME_CAP, "%.*s_%.*s", (int)key->pod_uid.n, key->pod_uid.p,
                   (int)key->container.n, key->container.p);
    return 0;
}

static void put_path(const struct gs_folders *slots, enum half half,
                     const struct gs_folder_key *key, struct gs_buf *buf)
{
    gs_buf_addf(buf, "%s/%s/%.*s_%.*s", slots->root, half_name[half], (int)key->pod_uid.n,
                key->pod_uid.p, (int)key->container.n, key->container.p);
}

void gs_folders_ledger_path(const struct gs_folders *slots, const struct gs_folder_key *key,
                            struct gs_buf *buf)
{
    put_path(slots, LEDGERS, key, buf);
}

void gs_folders_quota_path(const struct gs_folders *slots, const struct gs_folder_key *key,
                           struct gs_buf *buf)
{
    put_path(slots, QUOTAS, key, buf);
}

/* ---- removing what a stranger made ---- */

static void close_dir(DIR **dir)
{
    if (*dir != NULL)
        (void)closedir(*dir); /* read only */
}

static DIR *open_dir(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (dir == NULL)
        gs_file_close(&fd);
    return dir;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Move what is in a folder up to where the folder is, so that depth is no concern. */
static void lift(struct gs_folders *slots, int top, const char *name, unsigned *budget)
{
    GS_CLEANUP(close_dir) DIR *dir = open_dir(top, name);
    struct dirent *entry;

    while (dir != NULL && *budget > 0 && (entry = readdir(dir)) != NULL) {
        char aside[NAME_CAP];

        if (is_dots(entry->d_name))
            continue;
        --*budget;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        (void)snprintf(aside, sizeof(aside), ASIDE "%u", slots->n_aside++);
        (void)renameat(dirfd(dir), entry->d_name, top, aside); /* seen at the next look */
    }
}

/* Empty a folder. True when nothing is left in it. */
static bool empty(struct gs_folders *slots, int top, unsigned *budget)
{
    bool is_empty = false;

    while (!is_empty && *budget > 0) {
        GS_CLEANUP(close_dir) DIR *dir = open_dir(top, ".");
        struct dirent *entry;

        if (dir == NULL)
            return false;
        is_empty = true;
        while (*budget > 0 && (entry = readdir(dir)) != NULL) {
            if (is_dots(entry->d_name))
                continue;
            --*budget;
            if (unlinkat(top, entry->d_name, 0) == 0 ||
                unlinkat(top, entry->d_name, AT_REMOVEDIR) == 0)
                continue;
            is_empty = false;
            lift(slots, top, entry->d_name, budget);
        }
        if (*budget == 0)
            return false;
    }
    return is_empty;
}

/* True when it is gone. */
static bool remove_folder(struct gs_folders *slots, int dirfd, const char *name, unsigned *budget)
{
    GS_CLEANUP(gs_file_close)
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return errno == ENOENT || unlinkat(dirfd, name, 0) == 0;
    return empty(slots, fd, budget) && unlinkat(dirfd, name, AT_REMOVEDIR) == 0;
}

/* ---- making ---- */

/* A new one in the place of whatever is there: what cannot be removed quickly is put aside under a
 * name that the next sweep finds. */
static int make_ledger(struct gs_folders *slots, const char *name, struct gs_err *err)
{
    unsigned budget = START_BUDGET;
    int dir = slots->fd[LEDGERS];

    if (!remove_folder(slots, dir, name, &budget)) {
        char aside[NAME_CAP];

        (void)snprintf(aside, sizeof(aside), ASIDE "%ld-%u", (long)getpid(), slots->n_aside++);
        if (renameat(dir, name, dir, aside) != 0)
            return gs_err_set(err, -errno, "put folder '%s' aside: %s", name, strerror(errno));
    }
    if (mkdirat(dir, name, 0700) != 0)
        return gs_err_set(err, -errno, "create folder '%s': %s", name, strerror(errno));
    if (fchmodat(dir, name, 0777, 0) != 0) /* whatever our umask is */
        return gs_err_set(err, -errno, "open folder '%s' to its container: %s", name,
                          strerror(errno));
    return 0;
}

/* The limits that stand there; false: none that can be read. */
static bool read_quota(int folder, struct gs_quota *ret)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    uint32_t line;

    return gs_file_read(folder, GS_QUOTA_FILE, GS_QUOTA_MAX_BYTES, &text) == 0 &&
           gs_quota_parse(gs_buf_str(&text), ret, &line) == 0;
}

static int write_quota(int folder, const struct gs_quota *quota, struct gs_err *err)
{
    char text[GS_QUOTA_MAX_BYTES];
    int n = gs_quota_format(quota, text, sizeof(text));

    if (n < 0)
        return gs_err_set(err, n, "the limits make no valid quota file: %s", strerror(-n));
    return gs_file_publish(folder, GS_QUOTA_FILE, 0644, (struct gs_str){text, (size_t)n}, err);
}

static int limit(struct gs_folders *slots, const char *name, const struct gs_quota *quota,
                 struct gs_err *err)
{
    struct gs_quota *pair = calloc(2, sizeof(*pair)); /* 7 KiB each */
    GS_CLEANUP(gs_file_close) int fd = -1;
    int rc = 0;

    if (pair == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    pair[0] = *quota;
    pair[0].generation = 1;
    if (mkdirat(slots->fd[QUOTAS], name, 0755) != 0 && errno != EEXIST)
        rc = -errno;
    if (rc == 0) {
        fd = openat(slots->fd[QUOTAS], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        rc = fd < 0 || fchmod(fd, 0755) != 0 ? -errno : 0;
    }
    if (rc < 0) {
        free(pair);
        return gs_err_set(err, rc, "folder '%s' of limits: %s", name, strerror(-rc));
    }
    if (read_quota(fd, &pair[1])) {
        pair[0].generation = pair[1].generation;
        if (memcmp(&pair[0], &pair[1], sizeof(pair[0])) == 0) {
            free(pair);
            return 0;
        }
        pair[0].generation++;
    }
    rc = write_quota(fd, &pair[0], err);
    free(pair);
    return rc;
}

int gs_folders_make(struct gs_folders *slots, const struct gs_folder_key *key,
                    const struct gs_quota *quota, struct gs_err *err)
{
    char name[NAME_CAP];
    int rc = make_name(key, name, err);

    if (rc == 0)
        rc = limit(slots, name, quota, err);
    if (rc == 0)
        rc = make_ledger(slots, name, err);
    return rc;
}

int gs_folders_limit(struct gs_folders *slots, const struct gs_folder_key *key,
                     const struct gs_quota *quota, struct gs_err *err)
{
    char name[NAME_CAP];
    int rc = make_name(key, name, err);

    return rc == 0 ? limit(slots, name, quota, err) : rc;
}

int gs_folders_again(struct gs_folders *slots, const struct gs_folder_key *key, struct gs_err *err)
{
    char name[NAME_CAP], path[NAME_CAP + sizeof(GS_QUOTA_FILE) + 1];
    struct stat st;
    int rc = make_name(key, name, err);

    if (rc < 0)
        return rc;
    (void)snprintf(path, sizeof(path), "%s/" GS_QUOTA_FILE, name);
    if (fstatat(slots->fd[QUOTAS], path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return gs_err_set(err, -errno, "limits of '%s': %s", name, strerror(errno));
    return make_ledger(slots, name, err);
}

/* ---- collecting ---- */

static int sweep_half(struct gs_folders *slots, enum half half,
                      bool (*keeps)(void *arg, struct gs_str name), void *arg, unsigned *budget)
{
    GS_CLEANUP(close_dir) DIR *dir = open_dir(slots->fd[half], ".");
    struct dirent *entry;
    int n = 0;

    if (dir == NULL)
        return -errno;
    while (*budget > 0 && (entry = readdir(dir)) != NULL) {
        if (is_dots(entry->d_name) || (strncmp(entry->d_name, ASIDE, sizeof(ASIDE) - 1) != 0 &&
                                       keeps(arg, gs_str_of(entry->d_name))))
            continue;
        --*budget;
        n += remove_folder(slots, slots->fd[half], entry->d_name, budget);
    }
    return n;
}

int gs_folders_sweep(struct gs_folders *slots, bool (*keeps)(void *arg, struct gs_str name),
                     void *arg, unsigned budget)
{
    int ledgers = sweep_half(slots, LEDGERS, keeps, arg, &budget);
    int quotas = sweep_half(slots, QUOTAS, keeps, arg, &budget);

    return ledgers < 0 ? ledgers : quotas < 0 ? quotas : ledgers + quotas;
}
