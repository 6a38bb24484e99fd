#include "vendors/nvidia/node/driver.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "node/edits.h"
#include "node/kit.h"

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#else
#define TRIPLET "aarch64-linux-gnu"
#endif

/* Where distributions put them; the last is a folder of libraries alone. */
static const char *const lib_folder[] = {
    "/usr/lib/" TRIPLET, "/usr/lib64", "/lib/" TRIPLET, "/lib64", "/usr/lib", "",
};
static const char *const library[] = {
    "libcuda.so.1",          "libnvidia-ml.so.1",          "libnvidia-ptxjitcompiler.so.1",
    "libnvidia-nvvm.so.4",   "libcudadebugger.so.1",       "libnvcuvid.so.1",
    "libnvidia-encode.so.1", "libnvidia-opticalflow.so.1",
};
static const char *const program[] = {"nvidia-smi", "nvidia-debugdump"};
/* Variables of the simulator, and the one that names the folder of its cards. */
#define SIM_DIR "GPUSLICE_SIM_DIR"
static const char *const sim_env[] = {"GPUSLICE_SIM_CARDS", "GPUSLICE_SIM_MEMORY",
                                      "GPUSLICE_SIM_MODEL", "GPUSLICE_SIM_OVERHEAD"};

/* Debian's and Red Hat's linkers look in one of the two without a cache of names. */
static void mount_library(struct gs_edits *edits, const char *host, const char *name)
{
    static const char *const target[] = {"/usr/lib/" TRIPLET, "/usr/lib64"};
    char path[PATH_MAX];

    for (size_t i = 0; i < GS_ARRAY_LEN(target); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", target[i], name);
        gs_edits_mount(edits, host, path, true);
    }
}

static void find_library(const struct gs_kit_place *place, const char *name, struct gs_edits *edits)
{
    char here[PATH_MAX], host[PATH_MAX];

    for (size_t i = 0; i < GS_ARRAY_LEN(lib_folder); i++) {
        (void)snprintf(here, sizeof(here), "%s%s/%s", place->driver_root_here, lib_folder[i], name);
        if (access(here, R_OK) != 0)
            continue;
        (void)snprintf(host, sizeof(host), "%s%s/%s", place->driver_root, lib_folder[i], name);
        mount_library(edits, host, name);
        return;
    }
}

static void find_program(const struct gs_kit_place *place, const char *name, struct gs_edits *edits)
{
    char here[PATH_MAX], host[PATH_MAX], inside[PATH_MAX];

    (void)snprintf(here, sizeof(here), "%s/usr/bin/%s", place->driver_root_here, name);
    if (access(here, X_OK) != 0)
        return;
    (void)snprintf(host, sizeof(host), "%s/usr/bin/%s", place->driver_root, name);
    (void)snprintf(inside, sizeof(inside), "/usr/bin/%s", name);
    gs_edits_mount(edits, host, inside, true);
}

static void bring_simulator(struct gs_edits *edits)
{
    const char *dir = getenv(SIM_DIR);

    if (dir == NULL || dir[0] != '/')
        return;
    gs_edits_env(edits, SIM_DIR, "%s", dir);
    gs_edits_mount(edits, dir, dir, false);
    for (size_t i = 0; i < GS_ARRAY_LEN(sim_env); i++)
        if (getenv(sim_env[i]) != NULL)
            gs_edits_env(edits, sim_env[i], "%s", getenv(sim_env[i]));
}

void gs_nvidia_driver_edit(const struct gs_kit_place *place, struct gs_edits *edits)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(library); i++)
        find_library(place, library[i], edits);
    for (size_t i = 0; i < GS_ARRAY_LEN(program); i++)
        find_program(place, program[i], edits);
    bring_simulator(edits);
}
