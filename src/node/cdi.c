#include "node/cdi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "node/edits.h"

#define VERSION     "0.5.0" /* the first whose device nodes have a hostPath */
#define FILE_PREFIX "gpuslice.io-slot_"
#define FILE_SUFFIX ".json"
#define NAME_PREFIX "slot-"
#define ID_MOST     96
#define FILE_NAME   (GS_CDI_NAME + sizeof(FILE_PREFIX) + sizeof(FILE_SUFFIX))

/* ---- names ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_in_name(char c)
{
    return is_letter(c) || c == '-' || c == '_' || c == '.' || c == ':';
}

void gs_cdi_make_name(struct gs_str id, uint64_t nonce, char ret[GS_CDI_NAME])
{
    struct gs_str_out out;

    gs_str_out_init(&out, ret, GS_CDI_NAME);
    gs_str_put_c(&out, NAME_PREFIX);
    for (size_t i = 0; i < id.n && i < ID_MOST; i++)
        gs_str_put_char(&out, is_in_name(id.p[i]) ? id.p[i] : '-');
    gs_str_put_char(&out, '-');
    gs_str_put_hex(&out, nonce);
}

static bool is_name(struct gs_str name)
{
    struct gs_str rest = name;

    if (name.n >= GS_CDI_NAME || !gs_str_skip(&rest, GS_STR(NAME_PREFIX)) || rest.n == 0 ||
        !is_letter(rest.p[rest.n - 1]))
        return false;
    for (size_t i = 0; i < rest.n; i++)
        if (!is_in_name(rest.p[i]))
            return false;
    return true;
}

struct gs_str gs_cdi_name_of(struct gs_str qualified)
{
    if (!gs_str_skip(&qualified, GS_STR(GS_CDI_KIND "=")) || !is_name(qualified))
        return (struct gs_str){0};
    return qualified;
}

static void file_name(const char *name, char ret[FILE_NAME])
{
    (void)snprintf(ret, FILE_NAME, FILE_PREFIX "%s" FILE_SUFFIX, name); /* fits: is_name() */
}

/* ---- the text ---- */

static void put_env(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct gs_edits *edits,
                    struct gs_buf *line)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "env");

    for (size_t i = 0; i < edits->n_env; i++) {
        gs_buf_clear(line);
        gs_buf_addf(line, "%s=%s", edits->env[i].key, edits->env[i].value);
        (void)yyjson_mut_arr_add_strncpy(doc, list, gs_buf_text(line), line->n);
    }
}

static void put_nodes(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct gs_edits *edits)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "deviceNodes");

    for (size_t i = 0; i < edits->n_node; i++) {
        yyjson_mut_val *node = yyjson_mut_arr_add_obj(doc, list);

        (void)yyjson_mut_obj_add_str(doc, node, "path", edits->node[i].container_path);
        (void)yyjson_mut_obj_add_str(doc, node, "hostPath", edits->node[i].host_path);
        (void)yyjson_mut_obj_add_str(doc, node, "permissions", edits->node[i].permissions);
    }
}

static void put_mounts(yyjson_mut_doc *doc, yyjson_mut_val *obj, const struct gs_edits *edits)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, obj, "mounts");

    for (size_t i = 0; i < edits->n_mount; i++) {
        yyjson_mut_val *mount = yyjson_mut_arr_add_obj(doc, list);
        yyjson_mut_val *options;

        (void)yyjson_mut_obj_add_str(doc, mount, "hostPath", edits->mount[i].host_path);
        (void)yyjson_mut_obj_add_str(doc, mount, "containerPath", edits->mount[i].container_path);
        options = yyjson_mut_obj_add_arr(doc, mount, "options");
        (void)yyjson_mut_arr_add_str(doc, options, edits->mount[i].read_only ? "ro" : "rw");
        (void)yyjson_mut_arr_add_str(doc, options, "nosuid");
        (void)yyjson_mut_arr_add_str(doc, options, "nodev");
        (void)yyjson_mut_arr_add_str(doc, options, "bind");
    }
}

static void put_spec(yyjson_mut_doc *doc, const char *name, const struct gs_edits *edits,
                     struct gs_buf *line)
{
    yyjson_mut_val *root = yyjson_mut_obj(doc), *devices, *device, *what;

    yyjson_mut_doc_set_root(doc, root);
    (void)yyjson_mut_obj_add_str(doc, root, "cdiVersion", VERSION);
    (void)yyjson_mut_obj_add_str(doc, root, "kind", GS_CDI_KIND);
    devices = yyjson_mut_obj_add_arr(doc, root, "devices");
    device = yyjson_mut_arr_add_obj(doc, devices);
    (void)yyjson_mut_obj_add_str(doc, device, "name", name);
    what = yyjson_mut_obj_add_obj(doc, device, "containerEdits");
    if (edits->n_env > 0)
        put_env(doc, what, edits, line);
    if (edits->n_node > 0)
        put_nodes(doc, what, edits);
    if (edits->n_mount > 0)
        put_mounts(doc, what, edits);
}

int gs_cdi_text(const char *name, const struct gs_edits *edits, struct gs_buf *buf)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf line = {0};
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_write_err why = {0};
    char *text = NULL;
    size_t n = 0;
    int rc = 0;

    if (doc == NULL || gs_arena_check(edits->arena) < 0) {
        yyjson_mut_doc_free(doc);
        return -ENOMEM;
    }
    put_spec(doc, name, edits, &line);
    text = yyjson_mut_write_opts(doc, 0, NULL, &n, &why);
    if (text == NULL)
        rc = why.code == YYJSON_WRITE_ERROR_INVALID_STRING ? -EILSEQ : -ENOMEM;
    if (rc == 0)
        rc = gs_buf_check(&line);
    if (rc == 0)
        gs_buf_add(buf, text, n);
    free(text);
    yyjson_mut_doc_free(doc);
    return rc < 0 ? rc : gs_buf_check(buf);
}

/* ---- files ---- */

int gs_cdi_open(const char *path, struct gs_err *err)
{
    int fd;

    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return gs_err_set(err, -errno, "create folder '%s': %s", path, strerror(errno));
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gs_err_set(err, -errno, "open folder '%s': %s", path, strerror(errno));
    return fd;
}

int gs_cdi_write(int dirfd, const char *name, const struct gs_edits *edits, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char file[FILE_NAME];
    int rc = gs_cdi_text(name, edits, &text);

    if (rc < 0)
        return gs_err_set(err, rc, "CDI spec of %s: %s", name, strerror(-rc));
    file_name(name, file);
    return gs_file_publish(dirfd, file, 0644, gs_buf_str(&text), err);
}

bool gs_cdi_is_there(int dirfd, const char *name)
{
    char file[FILE_NAME];
    struct stat st;

    file_name(name, file);
    return fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

int gs_cdi_remove(int dirfd, const char *name)
{
    char file[FILE_NAME];

    file_name(name, file);
    return unlinkat(dirfd, file, 0) != 0 && errno != ENOENT ? -errno : 0;
}

/* The name in a file's; empty: not one of ours. What a dead process left half-written begins with
 * a dot and is nobody's. */
static struct gs_str name_in(const char *file)
{
    struct gs_str name = gs_str_of(file);
    size_t suffix = sizeof(FILE_SUFFIX) - 1;

    if (!gs_str_skip(&name, GS_STR(FILE_PREFIX)) || name.n <= suffix ||
        memcmp(name.p + name.n - suffix, FILE_SUFFIX, suffix) != 0)
        return (struct gs_str){0};
    name.n -= suffix;
    return is_name(name) ? name : (struct gs_str){0};
}

int gs_cdi_sweep(int dirfd, bool (*keeps)(void *arg, struct gs_str name), void *arg)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    int n = 0;

    if (dir == NULL) {
        int rc = -errno;

        gs_file_close(&fd);
        return rc;
    }
    while ((entry = readdir(dir)) != NULL) {
        struct gs_str name = name_in(entry->d_name);

        if (name.n > 0 && !keeps(arg, name) && unlinkat(dirfd, entry->d_name, 0) == 0)
            n++;
    }
    (void)closedir(dir); /* read only */
    return n;
}
