/* gpuslice doctor: who starts containers here, and who asks for it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "apps/gpuslice/doctor.h"
#include "base/aside.h"
#include "base/file.h"

#define ASK_MS     5000
#define ANSWER_MAX 262144

#define PLUGINS "/var/lib/kubelet/device-plugins"

/* --- sockets --- */

enum at { ABSENT, NO_SOCKET, DEAF, LISTENS };

/* Does somebody listen? A socket of somebody else may not be asked: then its being there counts. */
static enum at look(const struct gs_doctor *doctor, const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char full[GS_DOCTOR_PATH];
    struct stat st;
    GS_CLEANUP(gs_file_close) int fd = -1;

    if (stat(gs_doctor_path(doctor, path, full), &st) != 0)
        return ABSENT;
    if (!S_ISSOCK(st.st_mode))
        return NO_SOCKET;
    if (strlen(full) >= sizeof(to.sun_path))
        return LISTENS;
    memcpy(to.sun_path, full, strlen(full) + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0 &&
        errno == ECONNREFUSED)
        return DEAF;
    return LISTENS;
}

/* --- the container runtime --- */

struct question {
    const char *program, *word[2];
};

static void run_program(const void *arg, int out_fd)
{
    const struct question *q = arg;

    if (dup2(out_fd, STDOUT_FILENO) >= 0)
        (void)execlp(q->program, q->program, q->word[0], q->word[1], (char *)NULL);
}

/* What a program of the machine prints; false where there is none. */
static bool ask(const struct gs_doctor *doctor, const struct question *q, char *ret, size_t cap)
{
    int n = doctor->root[0] == '\0' ? gs_aside_ask(run_program, q, ASK_MS, ret, cap - 1, NULL) : -1;

    ret[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Value of `key = value` in TOML, up to the end of the line; false where no line has it. */
static bool find_setting(const char *toml, const char *key, char *ret, size_t n)
{
    size_t len = strlen(key);

    for (const char *at = strstr(toml, key); at != NULL; at = strstr(at + 1, key)) {
        const char *line = at, *value = at + len;

        while (line > toml && (line[-1] == ' ' || line[-1] == '\t'))
            line--;
        value += strspn(value, " \t");
        if ((line > toml && line[-1] != '\n') || *value != '=')
            continue;
        value++;
        value += strspn(value, " \t");
        (void)snprintf(ret, n, "%.*s", (int)strcspn(value, "\r\n#"), value);
        return true;
    }
    return false;
}

static void judge_cdi(struct gs_doctor *doctor, const char *toml, unsigned major, unsigned minor)
{
    char value[64], folders[200];
    bool is_said = find_setting(toml, "enable_cdi", value, sizeof(value));
    bool is_on = is_said ? strncmp(value, "true", 4) == 0 : major >= 2;

    if (!find_setting(toml, "cdi_spec_dirs", folders, sizeof(folders)))
        (void)snprintf(folders, sizeof(folders), "/etc/cdi and /var/run/cdi");
    if (is_on)
        gs_doctor_find(doctor, "runtime-cdi", GS_DOCTOR_FINE, "", "containerd does CDI, from %s",
                       folders);
    else if (major == 1 && minor < 7)
        gs_doctor_find(doctor, "runtime-cdi", GS_DOCTOR_WARNING,
                       "update containerd to 1.7 or later, or start the device plugin with "
                       "--identity allocate",
                       "containerd %u.%u has no CDI", major, minor);
    else
        gs_doctor_find(
            doctor, "runtime-cdi", GS_DOCTOR_WARNING,
            "set enable_cdi = true in the CRI section of /etc/containerd/config.toml and restart "
            "containerd",
            "containerd does no CDI%s", is_said ? ": enable_cdi is off" : " unless told to");
}

static void check_containerd(struct gs_doctor *doctor)
{
    static const struct question which = {"containerd", {"--version", NULL}};
    static const struct question settings = {"containerd", {"config", "dump"}};
    GS_CLEANUP(gs_buf_fini) struct gs_buf file = {0};
    char *answer = calloc(1, ANSWER_MAX);
    const char *version;
    unsigned major = 0, minor = 0;

    if (answer == NULL) {
        doctor->failed = true;
        return;
    }
    if (ask(doctor, &which, answer, 4096)) {
        version = strstr(answer, " v");
        if (version == NULL || sscanf(version, " v%u.%u", &major, &minor) != 2)
            /* Debian's says "containerd github.com/containerd/containerd 1.6.20~ds1 ..." */
            (void)sscanf(answer, "%*s %*s %u.%u", &major, &minor);
    }
    if (major == 0)
        gs_doctor_find(doctor, "runtime", GS_DOCTOR_NOTE,
                       "run this where containerd is on the PATH",
                       "containerd runs; its version cannot be asked here");
    else
        gs_doctor_find(doctor, "runtime", GS_DOCTOR_FINE, "", "containerd %u.%u", major, minor);
    if (ask(doctor, &settings, answer, ANSWER_MAX))
        judge_cdi(doctor, answer, major, minor);
    else if (gs_doctor_read(doctor, "/etc/containerd/config.toml", &file))
        judge_cdi(doctor, gs_buf_text(&file), major, minor);
    else
        judge_cdi(doctor, "", major, minor);
    free(answer);
}

static void check_runtime(struct gs_doctor *doctor)
{
    enum at containerd = look(doctor, "/run/containerd/containerd.sock");
    enum at crio = look(doctor, "/run/crio/crio.sock");

    if (containerd == DEAF || crio == DEAF)
        gs_doctor_find(doctor, "runtime", GS_DOCTOR_BROKEN,
                       "start it: systemctl restart containerd (or crio)",
                       "the container runtime's socket is there, but nobody listens");
    if (containerd == LISTENS)
        check_containerd(doctor);
    if (crio == LISTENS)
        gs_doctor_find(doctor, "runtime", GS_DOCTOR_FINE, "",
                       "CRI-O runs; it does CDI by itself from 1.23 on");
    if (containerd != LISTENS && containerd != DEAF && crio != LISTENS && crio != DEAF)
        gs_doctor_find(doctor, "runtime", GS_DOCTOR_NOTE, "",
                       "no container runtime of Kubernetes on this machine (containerd, CRI-O)");
}

/* --- CDI folders --- */

static void check_folder(struct gs_doctor *doctor, const char *path)
{
    char full[GS_DOCTOR_PATH];
    DIR *dir = opendir(gs_doctor_path(doctor, path, full));
    const struct dirent *entry;
    size_t n = 0;

    if (dir == NULL) {
        gs_doctor_find(doctor, "cdi-folders", errno == ENOENT ? GS_DOCTOR_NOTE : GS_DOCTOR_WARNING,
                       errno == ENOENT ? "" : "let the runtime and the device plugin read it",
                       errno == ENOENT ? "%s is not there; it is made when it is needed"
                                       : "%s cannot be read",
                       path);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');

        n += dot != NULL && (strcmp(dot, ".json") == 0 || strcmp(dot, ".yaml") == 0);
    }
    (void)closedir(dir);
    gs_doctor_find(doctor, "cdi-folders", GS_DOCTOR_FINE, "", "%s holds %zu specifications", path,
                   n);
}

/* --- the kubelet --- */

static void list_plugins(struct gs_doctor *doctor)
{
    char full[GS_DOCTOR_PATH], names[300] = "", path[GS_DOCTOR_PATH];
    DIR *dir = opendir(gs_doctor_path(doctor, PLUGINS, full));
    const struct dirent *entry;
    size_t n = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);
        int room;

        if (len < 5 || strcmp(entry->d_name + len - 5, ".sock") != 0 ||
            strcmp(entry->d_name, "kubelet.sock") == 0)
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", PLUGINS, entry->d_name);
        if (look(doctor, path) != LISTENS)
            continue;
        room = snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "", entry->d_name);
        n = room > 0 && n + (size_t)room < sizeof(names) ? n + (size_t)room : n;
    }
    if (dir != NULL)
        (void)closedir(dir);
    if (n > 0)
        gs_doctor_find(doctor, "kubelet", GS_DOCTOR_NOTE,
                       "see that no two of them offer the same resource",
                       "device plugins that run here: %s", names);
}

static void check_kubelet(struct gs_doctor *doctor)
{
    char full[GS_DOCTOR_PATH];
    enum at plugins = look(doctor, PLUGINS "/kubelet.sock");
    enum at resources = look(doctor, "/var/lib/kubelet/pod-resources/kubelet.sock");

    if (access(gs_doctor_path(doctor, "/var/lib/kubelet", full), F_OK) != 0) {
        gs_doctor_find(doctor, "kubelet", GS_DOCTOR_NOTE, "", "no kubelet on this machine");
        return;
    }
    if (plugins == LISTENS)
        gs_doctor_find(doctor, "kubelet", GS_DOCTOR_FINE, "", "it takes device plugins");
    else
        gs_doctor_find(doctor, "kubelet", GS_DOCTOR_BROKEN,
                       "start the kubelet: systemctl restart kubelet; see its log",
                       PLUGINS "/kubelet.sock %s: no device plugin can register",
                       plugins == ABSENT ? "is not there" : "has nobody who listens");
    if (resources == LISTENS)
        gs_doctor_find(doctor, "kubelet", GS_DOCTOR_FINE, "", "it tells what pods were given");
    else
        gs_doctor_find(
            doctor, "kubelet", GS_DOCTOR_WARNING,
            "start the kubelet; its feature KubeletPodResources has to be on",
            "/var/lib/kubelet/pod-resources/kubelet.sock %s: exporters cannot tell whose "
            "a card is",
            resources == ABSENT ? "is not there" : "has nobody who listens");
    list_plugins(doctor);
}

void gs_doctor_runtime(struct gs_doctor *doctor)
{
    check_runtime(doctor);
    check_folder(doctor, "/etc/cdi");
    check_folder(doctor, "/var/run/cdi");
    check_kubelet(doctor);
}
