#include "apps/device-plugin/install.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/device-plugin/flags.h"
#include "base/buf.h"
#include "base/file.h"
#include "node/kit.h"

#define LIBRARY_MOST ((size_t)256 << 20)
#define PRELOAD      "ld.so.preload"

/* The one installed with this program: ../lib/gpuslice beside its folder. */
static int find_installed(const char *name, char path[PATH_MAX], struct gs_err *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (n < 0)
        return gs_err_set(err, -errno, "find this program: %s", strerror(errno));
    self[n] = '\0';
    for (int up = 0; up < 2; up++) {
        slash = strrchr(self, '/');
        if (slash == NULL)
            return gs_err_set(err, -ENOENT, "find this program");
        *slash = '\0';
    }
    if (snprintf(path, PATH_MAX, "%s/lib/gpuslice/%s", self, name) >= PATH_MAX)
        return gs_err_set(err, -ENAMETOOLONG, "path of the hook library");
    return 0;
}

/* A file of that content, made only where it is another: its readers keep what they have open. */
static int put_file(int dir, const char *name, struct gs_str content, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf old = {0};

    if (gs_file_read(dir, name, LIBRARY_MOST, &old) == 0 && gs_str_eq(gs_buf_str(&old), content))
        return 0;
    return gs_file_publish(dir, name, 0644, content, err);
}

static int put_both(const struct gs_plugin_flags *flags, const char *name, int dir,
                    struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf library = {0}, line = {0};
    char path[PATH_MAX] = "";
    int rc = 0;

    if (flags->hook_library[0] == '\0')
        rc = find_installed(name, path, err);
    else if (snprintf(path, sizeof(path), "%s", flags->hook_library) >= (int)sizeof(path))
        rc = gs_err_set(err, -ENAMETOOLONG, "--hook-library");
    if (rc < 0)
        return rc;
    rc = gs_file_read(AT_FDCWD, path, LIBRARY_MOST, &library);
    if (rc < 0)
        return gs_err_set(err, rc, "hook library '%s': %s", path, strerror(-rc));
    gs_buf_addf(&line, "%s/vgpu/%s\n", flags->hook_path, name);
    rc = gs_buf_check(&line);
    if (rc == 0)
        rc = put_file(dir, name, gs_buf_str(&library), err);
    if (rc == 0)
        rc = put_file(dir, PRELOAD, gs_buf_str(&line), err);
    return rc;
}

int gs_install_hook(const struct gs_plugin_flags *flags, const char *name, struct gs_arena *arena,
                    struct gs_kit_place *place, struct gs_err *err)
{
    struct gs_str folder = gs_arena_printf(arena, "%s/vgpu", flags->hook_path);
    GS_CLEANUP(gs_file_close) int dir = -1;
    int rc = gs_arena_check(arena);

    if (rc < 0)
        return rc;
    dir = open(folder.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return gs_err_set(err, -errno, "open folder '%s': %s", folder.p, strerror(errno));
    if (mkdirat(dir, "board", 0755) != 0 && errno != EEXIST) /* the monitor's, for containers */
        return gs_err_set(err, -errno, "create folder '%s/board': %s", folder.p, strerror(errno));
    rc = put_both(flags, name, dir, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "%s", folder.p);
    place->library = gs_arena_printf(arena, "%s/%s", folder.p, name).p;
    place->preload = gs_arena_printf(arena, "%s/" PRELOAD, folder.p).p;
    return gs_arena_check(arena);
}
