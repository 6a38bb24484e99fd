#include "monitor/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"

#define LOOK_MAX   64  /* entries of one folder that are looked at */
#define REMOVE_MAX 512 /* entries removed, or moved up, in one call */
#define PART_MAX   253 /* of a DNS name */
/* What was moved up is called so: no program's file is meant to be. */
#define MOVED ".gpuslice-removed."

static bool is_name(struct gs_str s)
{
    if (s.n == 0 || s.n > PART_MAX || s.p[0] == '.')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              c == '-' || c == '.'))
            return false;
    }
    return true;
}

int gs_folder_parse(struct gs_str name, struct gs_str *ret_uid, struct gs_str *ret_container)
{
    struct gs_str rest = name, uid = {0};

    if (!gs_str_cut(&rest, '_', &uid) || !is_name(uid) || !is_name(rest))
        return -EINVAL;
    *ret_uid = uid;
    *ret_container = rest;
    return 0;
}

int gs_folder_open(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 ? fd : -errno;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

/** A stream of its own: the caller's descriptor keeps its place. */
static int read_dir(int dir_fd, DIR **ret)
{
    int fd = gs_folder_open(dir_fd, ".");

    if (fd < 0)
        return fd;
    *ret = fdopendir(fd);
    if (*ret != NULL)
        return 0;
    (void)close(fd); /* fdopendir did not take it */
    return -ENOMEM;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int gs_folder_find(int dir_fd, char ret_name[GS_FOLDER_NAME])
{
    static const char tail[] = ".cache";
    GS_CLEANUP(close_dir) DIR *dir = NULL;
    char found[GS_FOLDER_NAME] = "";
    struct dirent *entry;
    int rc = read_dir(dir_fd, &dir), left = LOOK_MAX;

    while (rc == 0 && (entry = readdir(dir)) != NULL) {
        size_t n = strlen(entry->d_name);

        if (is_dots(entry->d_name))
            continue;
        if (left-- == 0)
            return -E2BIG;
        if (n < sizeof(tail) || n >= GS_FOLDER_NAME ||
            strcmp(entry->d_name + n - (sizeof(tail) - 1), tail) != 0)
            continue;
        if (found[0] != '\0')
            return -EEXIST;
        memcpy(found, entry->d_name, n + 1);
    }
    if (rc == 0 && found[0] == '\0')
        rc = -ENOENT;
    if (rc == 0)
        memcpy(ret_name, found, sizeof(found));
    return rc;
}

/** A folder's own folders, moved up beside it: it is empty then, and a chain of any length gets
 * shorter with each call. */
static int move_up(int top_fd, const char *name, unsigned *left)
{
    GS_CLEANUP(gs_file_close) int fd = gs_folder_open(top_fd, name);
    GS_CLEANUP(close_dir) DIR *dir = NULL;
    struct dirent *entry;
    int rc = fd < 0 ? fd : read_dir(fd, &dir);

    while (rc == 0 && *left > 0 && (entry = readdir(dir)) != NULL) {
        char moved[64];

        if (is_dots(entry->d_name))
            continue;
        (*left)--;
        if (unlinkat(fd, entry->d_name, 0) == 0 || unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0)
            continue;
        (void)snprintf(moved, sizeof(moved), MOVED "%llu", (unsigned long long)entry->d_ino);
        /* where something has that name, it goes first and this one later */
        if (renameat(fd, entry->d_name, top_fd, moved) != 0 && errno != ENOTEMPTY &&
            errno != EEXIST && errno != ENOTDIR)
            rc = -errno;
    }
    return rc;
}

static int remove_entry(int top_fd, const char *name, unsigned *left)
{
    int rc;

    (*left)--;
    if (unlinkat(top_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (unlinkat(top_fd, name, AT_REMOVEDIR) == 0)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    rc = move_up(top_fd, name, left);
    if (rc == 0 && unlinkat(top_fd, name, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY)
        rc = -errno;
    return rc;
}

int gs_folder_remove(int parent_fd, const char *name, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int fd = gs_folder_open(parent_fd, name);
    GS_CLEANUP(close_dir) DIR *dir = NULL;
    unsigned left = REMOVE_MAX;
    struct dirent *entry;
    int rc = fd < 0 ? fd : read_dir(fd, &dir);

    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return gs_err_set(err, rc, "open folder '%s': %s", name, strerror(-rc));
    while (left > 0 && (entry = readdir(dir)) != NULL) {
        if (is_dots(entry->d_name))
            continue;
        rc = remove_entry(fd, entry->d_name, &left);
        if (rc < 0)
            return gs_err_set(err, rc, "remove '%.64s/%.64s': %s", name, entry->d_name,
                              strerror(-rc));
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return -EAGAIN;
    return gs_err_set(err, -errno, "remove folder '%s': %s", name, strerror(errno));
}
