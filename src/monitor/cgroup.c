#include "monitor/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "core/size.h"

#define HEX      "0123456789abcdef"
#define ID_LEAST 12u
#define TEXT_MAX 65536u /* of a file of /proc: paths that somebody nested deep */

/** What is behind the last `word` in s; an empty view where it is not there. */
static struct gs_str behind_last(struct gs_str s, struct gs_str word)
{
    for (size_t at = s.n; at-- > 0;)
        if (s.n - at >= word.n && memcmp(s.p + at, word.p, word.n) == 0)
            return (struct gs_str){s.p + at + word.n, s.n - at - word.n};
    return (struct gs_str){0};
}

static struct gs_str without_tail(struct gs_str s, struct gs_str tail)
{
    if (s.n >= tail.n && memcmp(s.p + s.n - tail.n, tail.p, tail.n) == 0)
        s.n -= tail.n;
    return s;
}

/* "pod<uid>", "kubepods-burstable-pod<uid with _ for ->.slice" */
static bool take_pod(struct gs_str part, struct gs_cgroup *ret)
{
    struct gs_str uid = without_tail(part, GS_STR(".slice"));

    if (!gs_str_skip(&uid, GS_STR("pod")))
        uid = behind_last(uid, GS_STR("-pod"));
    if (uid.n == 0 || uid.n >= sizeof(ret->pod_uid))
        return false;
    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < uid.n; i++) {
        char c = uid.p[i] == '_' ? '-' : uid.p[i];

        if (c == '\0' || strchr(HEX "-", c) == NULL)
            return false;
        ret->pod_uid[i] = c;
    }
    return true;
}

/* "<id>", "cri-containerd-<id>.scope", "crio-<id>.scope", "docker-<id>.scope" */
static bool take_container(struct gs_str part, struct gs_cgroup *ret)
{
    struct gs_str id = without_tail(part, GS_STR(".scope")), end = behind_last(id, GS_STR("-"));

    if (end.n > 0)
        id = end;
    if (id.n < ID_LEAST || id.n >= sizeof(ret->container_id))
        return false;
    for (size_t i = 0; i < id.n; i++)
        if (id.p[i] == '\0' || strchr(HEX, id.p[i]) == NULL)
            return false;
    return gs_str_to_field(id, ret->container_id, sizeof(ret->container_id)) == 0;
}

/* The next step down; some runtimes part the last ones by ':'. */
static bool next_part(struct gs_str *path, struct gs_str *ret)
{
    size_t n = 0;

    while (n < path->n && path->p[n] != '/' && path->p[n] != ':')
        n++;
    if (path->n == 0)
        return false;
    *ret = (struct gs_str){path->p, n};
    n += n < path->n;
    *path = (struct gs_str){path->p + n, path->n - n};
    return true;
}

/* From the root down: what a container makes below its own group comes later. */
static bool take_path(struct gs_str path, struct gs_cgroup *ret)
{
    bool is_below = false, has_pod = false;
    struct gs_str part;

    while (next_part(&path, &part)) {
        if (has_pod && (take_container(part, ret) || !gs_str_eq_c(part, "cri-containerd")))
            return true;
        is_below |= behind_last(part, GS_STR("kubepods")).p != NULL;
        has_pod |= is_below && take_pod(part, ret);
    }
    return has_pod;
}

int gs_cgroup_parse(struct gs_str text, struct gs_cgroup *ret)
{
    struct gs_str line;

    while (gs_str_cut(&text, '\n', &line)) {
        struct gs_str number, kinds;
        struct gs_cgroup found = {0};

        if (!gs_str_cut(&line, ':', &number) || !gs_str_cut(&line, ':', &kinds))
            continue;
        if (take_path(line, &found)) {
            *ret = found;
            return 0;
        }
    }
    return -ENOENT;
}

int gs_cgroup_read(int proc_fd, uint32_t pid, struct gs_cgroup *ret)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char path[32];
    int rc;

    (void)snprintf(path, sizeof(path), "%" PRIu32 "/cgroup", pid);
    rc = gs_file_read(proc_fd, path, TEXT_MAX, &text);
    if (rc == -ESRCH)
        rc = -ENOENT; /* it ended meanwhile */
    return rc < 0 ? rc : gs_cgroup_parse(gs_buf_str(&text), ret);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

int gs_cgroup_has_pod(int proc_fd, struct gs_str pod_uid)
{
    int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    GS_CLEANUP(close_dir) DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (dir == NULL) {
        int rc = errno != 0 ? -errno : -EIO;

        gs_file_close(&fd);
        return rc;
    }
    while ((entry = readdir(dir)) != NULL) {
        struct gs_cgroup found;
        uint64_t pid;

        if (gs_size_parse_u64(gs_str_of(entry->d_name), &pid) == 0 && pid <= UINT32_MAX &&
            gs_cgroup_read(proc_fd, (uint32_t)pid, &found) == 0 &&
            gs_str_eq_c(pod_uid, found.pod_uid))
            return 1;
    }
    return 0;
}
