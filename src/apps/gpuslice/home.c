/* The folders that hold slices: finding, locking, listing, collecting. */
#include "apps/gpuslice/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"

/** More folders than this in one base are not slices of ours. */
#define SLICES_MAX 4096

/* `prefix` + `suffix` or, without a suffix, + this user's number. */
static void add_base(struct gs_home_bases *b, const char *prefix, const char *suffix)
{
    char *path = b->path[b->n];
    int n = suffix ? snprintf(path, PATH_MAX, "%s%s", prefix, suffix)
                   : snprintf(path, PATH_MAX, "%s%u", prefix, geteuid());

    /* room for the longest name and file below it */
    if (n <= 0 || n >= PATH_MAX - GS_SLICE_NAME - 32)
        return;
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->path[i], path) == 0)
            return;
    b->n++;
}

/* Somebody else's run-time folder (su keeps the variable) is not for us. */
static const char *runtime_dir(void)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");
    struct stat st;

    if (!dir || dir[0] != '/' || stat(dir, &st) != 0 || !S_ISDIR(st.st_mode) ||
        st.st_uid != geteuid() || access(dir, W_OK | X_OK) != 0)
        return NULL;
    return dir;
}

void gs_home_own_bases(struct gs_home_bases *ret)
{
    const char *dir = runtime_dir();
    char login[64];

    (void)snprintf(login, sizeof(login), "/run/user/%u", geteuid());
    ret->n = 0;
    if (dir)
        add_base(ret, dir, "/gpuslice");
    add_base(ret, "/tmp/gpuslice-", NULL);
    add_base(ret, login, "/gpuslice");
}

int gs_slice_home(char ret_path[PATH_MAX], struct gs_err *err)
{
    struct gs_home_bases b;
    int fd;

    gs_home_own_bases(&b);
    fd = gs_file_make_private(AT_FDCWD, b.path[0], err);
    if (fd < 0)
        return gs_err_wrap(err, fd, "no folder for slices (set XDG_RUNTIME_DIR to a private one)");
    (void)memcpy(ret_path, b.path[0], PATH_MAX);
    return fd;
}

static int compare_path(const void *a, const void *b)
{
    const char *x = a, *y = b;

    return strcmp(x, y);
}

int gs_slice_lock_home(struct gs_slice_home_lock *ret_lock, struct gs_err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char home[PATH_MAX];
    struct gs_home_bases b;
    int rc = gs_slice_home(home, err);

    ret_lock->n = 0;
    if (rc < 0)
        return rc;
    gs_file_close(&rc);
    gs_home_own_bases(&b);
    /* one order for all sessions of the user, whatever their variables: no two wait for each other
     */
    qsort(b.path, b.n, sizeof(b.path[0]), compare_path);
    for (size_t i = 0; i < b.n; i++) {
        GS_CLEANUP(gs_file_close)
        int dir = gs_file_open_private(AT_FDCWD, b.path[i], geteuid(), NULL);
        int fd;

        if (dir < 0)
            continue;
        fd = openat(dir, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0) {
            rc = -errno;
            gs_slice_unlock_home(ret_lock);
            return gs_err_set(err, rc, "create '%s/.lock': %s", b.path[i], strerror(-rc));
        }
        ret_lock->fd[ret_lock->n++] = fd;
        while (fcntl(fd, F_OFD_SETLKW, &lock) != 0) {
            if (errno == EINTR)
                continue;
            rc = -errno;
            gs_slice_unlock_home(ret_lock);
            return gs_err_set(err, rc, "lock '%s/.lock': %s", b.path[i], strerror(-rc));
        }
    }
    return 0;
}

void gs_slice_unlock_home(struct gs_slice_home_lock *lock)
{
    while (lock->n > 0)
        gs_file_close(&lock->fd[--lock->n]);
}

static int append(struct gs_slices *s, struct gs_slice *slice)
{
    struct gs_slice **p = realloc(s->p, (s->n + 1) * sizeof(struct gs_slice *));

    if (!p)
        return -ENOMEM;
    s->p = p;
    s->p[s->n++] = slice;
    return 0;
}

static void free_slice(struct gs_slice **slice)
{
    gs_slice_fini(*slice);
    free(*slice);
    *slice = NULL;
}

static int add_slice(struct gs_slices *s, const char *base, int base_fd, uid_t uid,
                     const char *name, const struct gs_proc_table *procs)
{
    GS_CLEANUP(free_slice) struct gs_slice *slice = malloc(sizeof(*slice));
    int rc;

    if (!slice)
        return -ENOMEM;
    gs_slice_init(slice);
    (void)snprintf(slice->base, sizeof(slice->base), "%s", base);
    memcpy(slice->name, name, strnlen(name, sizeof(slice->name) - 1)); /* the rest is zero */
    slice->uid = uid;
    if (gs_slice_load(slice, base_fd, procs) != 0)
        return 0; /* gone meanwhile, or not a slice */
    rc = append(s, slice);
    if (rc == 0)
        slice = NULL;
    return rc;
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

/* Returns 0, also for a base that is not there; -EACCES when it is closed to us; -ENOMEM. */
static int list_base(struct gs_slices *s, const char *base, uid_t uid,
                     const struct gs_proc_table *procs)
{
    int fd = gs_file_open_private(AT_FDCWD, base, uid, NULL), rc = 0;
    GS_CLEANUP(close_dir) DIR *dir = NULL;
    struct dirent *entry;

    if (fd < 0)
        return fd == -EACCES ? fd : 0;
    dir = fdopendir(fd);
    if (!dir) {
        gs_file_close(&fd);
        return -ENOMEM;
    }
    while (rc == 0 && s->n < SLICES_MAX && (entry = readdir(dir)) != NULL)
        if (entry->d_type != DT_REG && gs_slice_is_name(entry->d_name))
            rc = add_slice(s, base, fd, uid, entry->d_name, procs);
    return rc;
}

/* A user may have two closed folders and is still one. */
static void add_hidden(struct gs_slices *s, uid_t uid)
{
    for (size_t i = 0; i < s->n_hidden; i++)
        if (s->hidden[i] == uid)
            return;
    if (s->n_hidden < GS_SLICE_HIDDEN)
        s->hidden[s->n_hidden++] = uid;
}

/* Folders `<dir>/<prefix><uid><suffix>` of users other than us. */
static int list_others(struct gs_slices *s, const char *dir_path, const char *prefix,
                       const char *suffix, const struct gs_proc_table *procs)
{
    GS_CLEANUP(close_dir) DIR *dir = opendir(dir_path);
    struct dirent *entry;
    int rc = 0;

    while (dir && rc == 0 && (entry = readdir(dir)) != NULL) {
        size_t n = strlen(prefix);
        char base[PATH_MAX], *end;
        unsigned long uid;

        if (strncmp(entry->d_name, prefix, n) != 0 || entry->d_name[n] < '0' ||
            entry->d_name[n] > '9')
            continue;
        uid = strtoul(entry->d_name + n, &end, 10);
        if (*end || uid >= (uid_t)-1 || uid == geteuid())
            continue;
        (void)snprintf(base, sizeof(base), "%s/%s%s", dir_path, entry->d_name, suffix);
        rc = list_base(s, base, (uid_t)uid, procs);
        if (rc == -EACCES) {
            add_hidden(s, (uid_t)uid);
            rc = 0;
        }
    }
    return rc;
}

static int compare(const void *a, const void *b)
{
    const struct gs_slice *const *x = a, *const *y = b;
    int by_name = strcmp((*x)->name, (*y)->name);

    return by_name ? by_name : ((*x)->uid > (*y)->uid) - ((*x)->uid < (*y)->uid);
}

int gs_slices_list(const struct gs_proc_table *procs, bool others, struct gs_slices *ret_slices,
                   struct gs_err *err)
{
    GS_CLEANUP(gs_slices_fini) struct gs_slices s = {0};
    struct gs_home_bases b;
    int rc = 0;

    gs_home_own_bases(&b);
    for (size_t i = 0; i < b.n && rc == 0; i++)
        rc = list_base(&s, b.path[i], geteuid(), procs);
    if (rc == 0 && others)
        rc = list_others(&s, "/tmp", "gpuslice-", "", procs);
    if (rc == 0 && others)
        rc = list_others(&s, "/run/user", "", "/gpuslice", procs);
    if (rc != 0)
        return gs_err_set(err, rc, "list slices: %s", strerror(-rc));
    if (s.n > 0)
        qsort(s.p, s.n, sizeof(struct gs_slice *), compare);
    *ret_slices = s;
    s = (struct gs_slices){0};
    return 0;
}

void gs_slices_fini(struct gs_slices *slices)
{
    if (!slices)
        return;
    for (size_t i = 0; i < slices->n; i++)
        free_slice(&slices->p[i]);
    free(slices->p);
    *slices = (struct gs_slices){0};
}

struct gs_slice *gs_slices_find(const struct gs_slices *slices, const char *name)
{
    if (!gs_slice_is_name(name)) /* what is listed and is no slice is called otherwise */
        return NULL;
    for (size_t i = 0; i < slices->n; i++)
        if (slices->p[i]->uid == geteuid() && strcmp(slices->p[i]->name, name) == 0)
            return slices->p[i];
    return NULL;
}

int gs_slices_find_sound(const struct gs_slices *slices, const char *name, struct gs_slice **ret,
                         struct gs_err *err)
{
    struct gs_slice *found = gs_slices_find(slices, name);

    if (!found || found->state == GS_SLICE_DEAD)
        return gs_err_set(err, -ENOENT, "no live slice '%s'; 'gpuslice ls' lists them", name);
    if (found->state == GS_SLICE_DAMAGED)
        return gs_err_set(
            err, -EBADMSG,
            "the files of slice '%s' are damaged; 'gpuslice rm --force %s' removes it", name, name);
    *ret = found;
    return 0;
}

int gs_slices_check(const char *name, struct gs_err *err)
{
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table procs = {0};
    GS_CLEANUP(gs_slices_fini) struct gs_slices slices = {0};
    struct gs_slice *found;
    int rc;

    (void)!gs_proc_list(&procs); /* without /proc the locks decide who lives */
    rc = gs_slices_list(&procs, false, &slices, err);
    return rc != 0 ? rc : gs_slices_find_sound(&slices, name, &found, err);
}

/* Only a creator makes hidden folders, and it holds the home lock while it does: what we see is a
 * rest. */
static void collect_rests(void)
{
    struct gs_home_bases b;

    gs_home_own_bases(&b);
    for (size_t i = 0; i < b.n; i++) {
        int fd = gs_file_open_private(AT_FDCWD, b.path[i], geteuid(), NULL);
        GS_CLEANUP(close_dir) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *entry;

        if (fd >= 0 && !dir)
            gs_file_close(&fd);
        while (dir && (entry = readdir(dir)) != NULL)
            if (strncmp(entry->d_name, ".new-", 5) == 0)
                (void)!gs_file_remove_dir(fd, entry->d_name,
                                          NULL); /* the next collector tries again */
    }
}

void gs_slices_collect(struct gs_slices *slices)
{
    size_t kept = 0;

    collect_rests();
    for (size_t i = 0; i < slices->n; i++) {
        struct gs_slice *slice = slices->p[i];

        if (slice->uid == geteuid() && slice->state == GS_SLICE_DEAD &&
            gs_slice_remove(slice, NULL) == 0)
            free_slice(&slice);
        else
            slices->p[kept++] = slice;
    }
    slices->n = kept;
}
