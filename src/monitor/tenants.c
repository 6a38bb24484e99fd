#include "monitor/tenants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "monitor/cgroup.h"
#include "monitor/tenants_internal.h"

#define ENTRIES_MAX 8192 /* of the folder of folders */
#define SETTLED_S   2

int gs_tenants_new(const struct gs_tenants_opt *opt, struct gs_tenants **ret)
{
    struct gs_tenants *t = calloc(1, sizeof(*t));
    int rc = t != NULL ? 0 : -ENOMEM;

    if (rc == 0)
        rc = gs_reader_new(&t->reader);
    if (rc < 0) {
        free(t);
        return rc;
    }
    t->opt = *opt;
    t->folder_fd = -1;
    *ret = t;
    return 0;
}

static void free_tenant(struct gs_tenant *tenant)
{
    if (tenant == NULL)
        return;
    gs_reading_fini(&tenant->reading);
    free(tenant->device);
    free(tenant->name);
    free(tenant);
}

struct gs_tenants *gs_tenants_free(struct gs_tenants *t)
{
    if (t == NULL)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        free_tenant(t->at[i]);
    gs_file_close(&t->folder_fd);
    gs_reader_free(t->reader);
    free(t->at);
    free(t);
    return NULL;
}

size_t gs_tenants_count(const struct gs_tenants *tenants)
{
    return tenants->n;
}

const struct gs_tenant *gs_tenants_at(const struct gs_tenants *tenants, size_t i)
{
    return tenants->at[i];
}

int gs_tenants_folder(const struct gs_tenants *tenants)
{
    return tenants->folder_fd;
}

/* ---- the set, sorted by "<uid>_<container>" ---- */

/** Place of the name; of the one it would go before where it is not there. */
static size_t place_of(const struct gs_tenants *t, struct gs_str name, bool *ret_is_there)
{
    size_t low = 0, high = t->n;

    *ret_is_there = false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = gs_str_cmp(gs_str_of(t->at[mid]->name), name);

        if (order == 0) {
            *ret_is_there = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int make_room(struct gs_tenants *t)
{
    size_t cap = t->cap > 0 ? t->cap * 2 : 16;
    struct gs_tenant **at;

    if (t->n < t->cap)
        return 0;
    at = realloc(t->at, cap * sizeof(struct gs_tenant *));
    if (at == NULL)
        return -ENOMEM;
    t->at = at;
    t->cap = cap;
    return 0;
}

/** It is there; NULL: no memory, or too many. */
static struct gs_tenant *see(struct gs_tenants *t, struct gs_str name)
{
    struct gs_tenant *tenant;
    bool is_there;
    size_t place = place_of(t, name, &is_there);

    if (is_there) {
        t->at[place]->is_seen = true;
        return t->at[place];
    }
    if (t->n >= GS_TENANTS_MAX) {
        if (!t->is_crowded)
            GS_LOG_WARN("more containers than are looked at", GS_LOG_UINT("most", GS_TENANTS_MAX));
        t->is_crowded = true;
        return NULL;
    }
    tenant = calloc(1, sizeof(*tenant));
    if (tenant != NULL)
        tenant->name = strndup(name.p, name.n);
    if (tenant == NULL || tenant->name == NULL || make_room(t) < 0 ||
        gs_folder_parse(gs_str_of(tenant->name), &tenant->uid, &tenant->container) < 0) {
        free_tenant(tenant);
        return NULL;
    }
    memmove(&t->at[place + 1], &t->at[place], (t->n - place) * sizeof(struct gs_tenant *));
    t->at[place] = tenant;
    t->n++;
    tenant->is_seen = true;
    return tenant;
}

struct gs_tenant *gs_tenants_find(const struct gs_tenants *tenants, struct gs_str uid,
                                  struct gs_str container)
{
    char name[GS_FOLDER_NAME * 2];
    bool is_there;
    size_t place;
    int n =
        snprintf(name, sizeof(name), "%.*s_%.*s", (int)uid.n, uid.p, (int)container.n, container.p);

    if (n < 0 || (size_t)n >= sizeof(name))
        return NULL;
    place = place_of(tenants, (struct gs_str){name, (size_t)n}, &is_there);
    return is_there ? tenants->at[place] : NULL;
}

/* ---- which there are ---- */

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

static int open_folder(struct gs_tenants *t, DIR **ret_dir, struct gs_err *err)
{
    int fd;

    gs_file_close(&t->folder_fd);
    /* through links: an administrator's own, and a host path may be one */
    t->folder_fd = open(t->opt.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->folder_fd < 0 && errno == ENOENT)
        return 0;
    fd = t->folder_fd < 0 ? -errno : gs_folder_open(t->folder_fd, ".");
    if (fd < 0)
        return gs_err_set(err, fd, "open folder '%s': %s", t->opt.folder, strerror(-fd));
    *ret_dir = fdopendir(fd);
    if (*ret_dir != NULL)
        return 0;
    (void)close(fd); /* fdopendir did not take it */
    return gs_err_set(err, -ENOMEM, "out of memory");
}

static void see_folders(struct gs_tenants *t, DIR *dir)
{
    struct dirent *entry;
    int left = ENTRIES_MAX;

    while (left-- > 0 && (entry = readdir(dir)) != NULL) {
        struct gs_str uid, container;
        struct gs_tenant *tenant = NULL;

        if ((entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN) &&
            gs_folder_parse(gs_str_of(entry->d_name), &uid, &container) == 0)
            tenant = see(t, gs_str_of(entry->d_name));
        if (tenant != NULL)
            tenant->has_folder = true;
    }
}

/* Containers with a card and without a folder: whole cards, partitions. */
static void see_grants(struct gs_tenants *t)
{
    const struct gs_pods_pod *pod;
    size_t at = 0;

    while (t->opt.pods != NULL && (pod = gs_map_next(&t->opt.pods->map, &at)) != NULL) {
        for (size_t i = 0; !pod->is_over && i < pod->n_containers; i++) {
            const struct gs_pods_container *c = &pod->container[i];
            char name[GS_FOLDER_NAME * 2];
            int n;

            if (c->n_devices == 0 || c->state != GS_PODS_RUNNING)
                continue;
            n = snprintf(name, sizeof(name), "%.*s_%.*s", (int)pod->uid.n, pod->uid.p,
                         (int)c->name.n, c->name.p);
            if (n > 0 && (size_t)n < sizeof(name))
                (void)see(t, (struct gs_str){name, (size_t)n}); /* or it is not looked at */
        }
    }
}

static void drop_unseen(struct gs_tenants *t)
{
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (t->at[i]->is_seen)
            t->at[kept++] = t->at[i];
        else
            free_tenant(t->at[i]);
    }
    t->n = kept;
}

int gs_tenants_begin(struct gs_tenants *t, struct gs_err *err)
{
    GS_CLEANUP(close_dir) DIR *dir = NULL;
    int rc;

    t->next = 0;
    for (size_t i = 0; i < t->n; i++)
        t->at[i]->is_seen = t->at[i]->has_folder = false;
    rc = open_folder(t, &dir, err);
    if (dir != NULL)
        see_folders(t, dir);
    see_grants(t);
    if (rc == 0)
        drop_unseen(t);
    return rc;
}

/* ---- one of them ---- */

static bool is_known(const struct gs_tenants *t, const struct gs_tenant *tenant)
{
    return t->opt.pods == NULL || gs_pods_find(t->opt.pods, tenant->uid) != NULL;
}

/** Its pod is gone for so long that nobody comes back for it. */
static bool is_due(const struct gs_tenants *t, const struct gs_tenant *tenant, int dir_fd,
                   const struct gs_tenants_now *now)
{
    struct stat st;

    if (!now->may_remove || is_known(t, tenant) || now->ms < tenant->keep_ms)
        return false;
    return tenant->is_going || (fstat(dir_fd, &st) == 0 &&
                                now->unix_s - (int64_t)st.st_mtime > t->opt.resync_ms / 1000);
}

/** Does a process of it live, by its file or by the kernel's word? */
static bool is_alive(const struct gs_tenants *t, const struct gs_tenant *tenant)
{
    int proc = open(t->opt.proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int found = proc < 0 ? -errno : gs_cgroup_has_pod(proc, tenant->uid);

    gs_file_close(&proc);
    return found != 0 || gs_reading_is_live(&tenant->reading);
}

static void remove_folder(struct gs_tenants *t, struct gs_tenant *tenant,
                          const struct gs_tenants_now *now)
{
    struct gs_err err = {0};
    int rc;

    if (!tenant->is_going && is_alive(t, tenant)) {
        tenant->keep_ms = now->ms + t->opt.resync_ms;
        return;
    }
    tenant->is_going = true;
    rc = gs_folder_remove(t->folder_fd, tenant->name, &err);
    if (rc == 0) {
        GS_LOG_INFO("folder of a pod that is gone removed", GS_LOG_CSTR("folder", tenant->name));
        tenant->has_folder = false;
    } else if (rc != -EAGAIN) {
        GS_LOG_WARN("folder of a pod that is gone stays", GS_LOG_ERR(&err));
        tenant->keep_ms = now->ms + t->opt.resync_ms;
    }
}

static void spoil(struct gs_tenant *tenant, const char *why)
{
    tenant->reading.kind = GS_READING_DAMAGED;
    tenant->reading.n_devices = tenant->reading.n_pids = 0;
    (void)snprintf(tenant->reading.why, sizeof(tenant->reading.why), "%s", why);
}

/** As gs_folder_find(), but a folder that has stood as it is for a while is not listed again: by
 * the time that nobody can set. */
static int find_file(struct gs_tenant *tenant, int dir_fd, int64_t unix_s)
{
    struct stat st;
    bool is_known = dir_fd >= 0 && fstat(dir_fd, &st) == 0;

    if (is_known && tenant->is_listed && st.st_ctim.tv_sec == tenant->listed.tv_sec &&
        st.st_ctim.tv_nsec == tenant->listed.tv_nsec)
        return tenant->found;
    tenant->found = dir_fd < 0 ? -ENOENT : gs_folder_find(dir_fd, tenant->file);
    if (tenant->found != 0)
        tenant->file[0] = '\0';
    /* what is put in within the same tick of the file system's clock would not show */
    tenant->is_listed = is_known && unix_s - (int64_t)st.st_ctim.tv_sec > SETTLED_S;
    if (is_known)
        tenant->listed = st.st_ctim;
    return tenant->found;
}

static void read_tenant(struct gs_tenants *t, struct gs_tenant *tenant, int dir_fd,
                        const struct gs_tenants_now *now)
{
    int found = find_file(tenant, dir_fd, now->unix_s);
    struct gs_reading reading;

    if (gs_reader_read(t->reader, dir_fd, found == 0 ? tenant->file : NULL, now->mono_ns,
                       &tenant->log, &reading) < 0)
        return; /* what was known stays */
    for (size_t i = 0; i < tenant->n_devices; i++)
        tenant->device[i].read = NULL;
    gs_reading_fini(&tenant->reading);
    tenant->reading = reading;
    if (found == -EEXIST || found == -E2BIG)
        spoil(tenant, found == -EEXIST ? "several *.cache files" : "too many files in the folder");
    else if (tenant->was_ledger && reading.kind == GS_READING_REGION)
        spoil(tenant, "it was a ledger, and is none");
    tenant->was_ledger |= reading.kind == GS_READING_LEDGER;
}

bool gs_tenants_step(struct gs_tenants *t, const struct gs_tenants_now *now)
{
    GS_CLEANUP(gs_file_close) int fd = -1;
    struct gs_tenant *tenant;
    enum gs_reading_kind before;

    if (t->next >= t->n)
        return false;
    tenant = t->at[t->next++];
    before = tenant->is_read ? tenant->reading.kind : GS_READING_NONE;
    if (tenant->has_folder && t->folder_fd >= 0)
        fd = gs_folder_open(t->folder_fd, tenant->name);
    read_tenant(t, tenant, fd, now);
    tenant->is_read = true;
    if (tenant->reading.kind == GS_READING_DAMAGED && before != GS_READING_DAMAGED)
        GS_LOG_WARN("the file of a container counts for nothing",
                    GS_LOG_CSTR("folder", tenant->name), GS_LOG_CSTR("why", tenant->reading.why));
    if (fd >= 0 && is_due(t, tenant, fd, now))
        remove_folder(t, tenant, now);
    return t->next < t->n;
}

/* ---- who it is ---- */

bool gs_tenants_who(const struct gs_tenants *t, const struct gs_tenant *tenant,
                    struct gs_tenants_who *ret)
{
    struct gs_tenants_who who = {
        .pod = tenant->uid, .container = tenant->container, .ns = GS_STR("")};

    if (!tenant->is_read)
        return false;
    if (t->opt.pods == NULL) {
        *ret = who;
        return tenant->has_folder;
    }
    who.of = gs_pods_find(t->opt.pods, tenant->uid);
    if (who.of == NULL || who.of->is_over)
        return false;
    who.granted = gs_pods_find_container(who.of, tenant->container);
    if (who.granted == NULL || who.granted->state == GS_PODS_ENDED ||
        (!tenant->has_folder && who.granted->state != GS_PODS_RUNNING))
        return false;
    who.ns = who.of->ns;
    who.pod = who.of->name;
    *ret = who;
    return true;
}
