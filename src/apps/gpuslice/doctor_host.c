/* gpuslice doctor: what a program meets before it meets a card. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "apps/gpuslice/doctor.h"
#include "apps/gpuslice/hook_path.h"
#include "base/aside.h"
#include "base/file.h"
#include "vendors/registry_node.h"

#define LIBRARY_MAX (64u << 20)
#define LOAD_MS     5000

/* --- the hook library --- */

/* A part of the file, or NULL where it is not whole in it. */
static const void *part(const struct gs_buf *file, uint64_t at, uint64_t n)
{
    return at <= file->n && n <= file->n - at ? file->p + at : NULL;
}

static unsigned glibc_minor(const char *name)
{
    unsigned minor;

    return sscanf(name, "GLIBC_2.%u", &minor) == 1 ? minor : 0;
}

/* Newest version of glibc that a section of needed versions names. */
static unsigned newest_of(const struct gs_buf *file, const Elf64_Shdr *needs,
                          const Elf64_Shdr *names)
{
    unsigned newest = 0;
    uint64_t at = needs->sh_offset;

    for (uint32_t i = 0; i < needs->sh_info && i < 64; i++) {
        const Elf64_Verneed *need = part(file, at, sizeof(*need));
        uint64_t aux_at;

        if (need == NULL)
            break;
        aux_at = at + need->vn_aux;
        for (uint16_t k = 0; k < need->vn_cnt; k++) {
            const Elf64_Vernaux *aux = part(file, aux_at, sizeof(*aux));
            const char *name =
                aux != NULL ? part(file, names->sh_offset + aux->vna_name, 16) : NULL;
            unsigned minor = name != NULL ? glibc_minor(name) : 0;

            newest = minor > newest ? minor : newest;
            if (aux == NULL || aux->vna_next == 0)
                break;
            aux_at += aux->vna_next;
        }
        if (need->vn_next == 0)
            break;
        at += need->vn_next;
    }
    return newest;
}

/* Minor version of the glibc 2 a library wants; 0: it does not say. */
static unsigned wanted_glibc(const char *path)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf file = {0};
    const Elf64_Ehdr *head;
    unsigned newest = 0;

    if (gs_file_read(AT_FDCWD, path, LIBRARY_MAX, &file) != 0)
        return 0;
    head = part(&file, 0, sizeof(*head));
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    for (uint16_t i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *at =
            part(&file, head->e_shoff + (uint64_t)i * sizeof(Elf64_Shdr), sizeof(*at));
        const Elf64_Shdr *names;

        if (at == NULL || at->sh_type != SHT_GNU_verneed)
            continue;
        names =
            part(&file, head->e_shoff + (uint64_t)at->sh_link * sizeof(Elf64_Shdr), sizeof(*names));
        if (names != NULL)
            newest = newest_of(&file, at, names);
    }
    return newest;
}

/* In a child: the loader's own words where it will not load. */
static void try_load(const void *arg, int out_fd)
{
    const char *why = dlopen(arg, RTLD_NOW | RTLD_LOCAL) != NULL ? "" : dlerror();

    if (gs_file_write_all(out_fd, why, strlen(why) + 1) != 0)
        return; /* nobody reads any more */
}

static void check_hook(struct gs_doctor *doctor, const struct gs_probe_vendor *vendor)
{
    static const char reinstall[] = "install the package again, or set GPUSLICE_HOOK to its path";
    char path[PATH_MAX], why[300] = "";
    struct gs_err err = {0};
    unsigned wants;
    int n;

    if (gs_hook_find(vendor, path, &err) != 0) {
        gs_doctor_find(doctor, "hook", GS_DOCTOR_BROKEN, reinstall, "%s", err.text);
        return;
    }
    n = gs_aside_ask(try_load, path, LOAD_MS, why, sizeof(why) - 1, &err);
    if (n <= 0 || why[0] != '\0') {
        gs_doctor_find(doctor, "hook", GS_DOCTOR_BROKEN, reinstall, "%s cannot be loaded: %s", path,
                       n <= 0 ? "the loader ended" : why);
        return;
    }
    wants = wanted_glibc(path);
    gs_doctor_find(
        doctor, "hook", GS_DOCTOR_FINE, "",
        "%s loads; it wants glibc 2.%u or later of a container's image, this machine has %s", path,
        wants, gnu_get_libc_version());
}

/* --- what is preloaded for every program --- */

static void check_preloaded(struct gs_doctor *doctor, const char *name)
{
    char path[GS_DOCTOR_PATH];

    if (name[0] == '/' && access(gs_doctor_path(doctor, name, path), R_OK) != 0)
        gs_doctor_find(doctor, "preload", GS_DOCTOR_BROKEN,
                       "take the line out of /etc/ld.so.preload, or put the library back",
                       "/etc/ld.so.preload names %s, which is not there: every program complains",
                       name);
    for (size_t i = 0; i < gs_registry_node_n; i++) {
        const char *slash = strrchr(name, '/');

        if (strcmp(slash != NULL ? slash + 1 : name, gs_registry_node[i]->hook) != 0)
            continue;
        gs_doctor_find(
            doctor, "preload", GS_DOCTOR_WARNING,
            "take the line out of /etc/ld.so.preload of the machine; containers have their "
            "own",
            "/etc/ld.so.preload has %s loaded into every program of this machine", name);
    }
}

static void check_preload(struct gs_doctor *doctor)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    size_t before = doctor->n_findings, n = 0;
    char *rest, *name;

    if (gs_doctor_read(doctor, "/etc/ld.so.preload", &text) && text.n > 0) {
        rest = text.p;
        while ((name = strsep(&rest, " \t\n:")) != NULL) {
            if (name[0] == '\0')
                continue;
            n++;
            check_preloaded(doctor, name);
        }
    }
    if (doctor->n_findings == before)
        gs_doctor_find(doctor, "preload", GS_DOCTOR_FINE, "",
                       n == 0 ? "nothing is preloaded for every program"
                              : "what /etc/ld.so.preload names is there");
}

/* --- cgroups --- */

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if ((at == text || at[-1] == ' ' || at[-1] == '\n') &&
            (at[n] == '\0' || at[n] == ' ' || at[n] == '\n'))
            return true;
    return false;
}

static void check_cgroup(struct gs_doctor *doctor)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf controllers = {0};
    char path[GS_DOCTOR_PATH];

    if (!gs_doctor_read(doctor, "/sys/fs/cgroup/cgroup.controllers", &controllers)) {
        if (access(gs_doctor_path(doctor, "/sys/fs/cgroup", path), F_OK) != 0)
            gs_doctor_find(doctor, "cgroup", GS_DOCTOR_WARNING, "mount /sys/fs/cgroup",
                           "no cgroups are mounted");
        else
            gs_doctor_find(
                doctor, "cgroup", GS_DOCTOR_NOTE, "",
                "cgroup version 1: slices are held by the hook; version 2 is what the kernel's "
                "own limits of device memory need");
        return;
    }
    gs_doctor_find(doctor, "cgroup", GS_DOCTOR_FINE, "", "cgroup version 2");
    if (has_word(gs_buf_text(&controllers), "dmem"))
        gs_doctor_find(doctor, "dmem", GS_DOCTOR_FINE, "",
                       "the kernel has the dmem controller, for drivers that use it");
    else
        gs_doctor_find(
            doctor, "dmem", GS_DOCTOR_NOTE, "",
            "no dmem controller (Linux 6.14 and later have it): slices are held by the hook");
}

/* --- security modules --- */

static void check_selinux(struct gs_doctor *doctor)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf enforce = {0};
    char path[GS_DOCTOR_PATH], label[256] = "";
    ssize_t n;

    if (!gs_doctor_read(doctor, "/sys/fs/selinux/enforce", &enforce) || enforce.n == 0 ||
        enforce.p[0] != '1') {
        gs_doctor_find(doctor, "selinux", GS_DOCTOR_FINE, "", "SELinux does not enforce anything");
        return;
    }
    n = getxattr(gs_doctor_path(doctor, "/usr/local/vgpu", path), "security.selinux", label,
                 sizeof(label) - 1);
    label[n > 0 ? n : 0] = '\0';
    if (n > 0 && (strstr(label, "container_file_t") || strstr(label, "container_ro_file_t")))
        gs_doctor_find(doctor, "selinux", GS_DOCTOR_FINE, "",
                       "SELinux enforces, and containers may read /usr/local/vgpu");
    else
        gs_doctor_find(
            doctor, "selinux", GS_DOCTOR_WARNING,
            "chcon -Rt container_file_t /usr/local/vgpu (once it is there), or HOOK_PATH's vgpu",
            "SELinux enforces: containers may not read what is mounted from "
            "/usr/local/vgpu (%s)",
            n > 0 ? label : "no label");
}

static void check_apparmor(struct gs_doctor *doctor)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf enabled = {0};

    if (gs_doctor_read(doctor, "/sys/module/apparmor/parameters/enabled", &enabled) &&
        enabled.n > 0 && enabled.p[0] == 'Y')
        gs_doctor_find(
            doctor, "apparmor", GS_DOCTOR_NOTE, "",
            "AppArmor is on: the runtime's default profile lets the hook work; one of your own has "
            "to let programs map its library and ledger");
    else
        gs_doctor_find(doctor, "apparmor", GS_DOCTOR_FINE, "", "AppArmor is off");
}

void gs_doctor_host(struct gs_doctor *doctor)
{
    check_hook(doctor, doctor->vendor != NULL ? doctor->vendor : gs_registry_node[0]);
    check_preload(doctor);
    check_cgroup(doctor);
    check_selinux(doctor);
    check_apparmor(doctor);
}
