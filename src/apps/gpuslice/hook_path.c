#include "apps/gpuslice/hook_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "node/probe.h"

/* Where the build or the installation put it, relative to this program. */
int gs_hook_find(const struct gs_probe_vendor *vendor, char ret_path[PATH_MAX], struct gs_err *err)
{
    const char *given = getenv(GS_HOOK_ENV);
    char dir[PATH_MAX], path[2 * PATH_MAX];
    ssize_t n;

    if (given && *given) {
        if (!realpath(given, ret_path))
            return gs_err_set(err, -errno, GS_HOOK_ENV "='%s': %s", given, strerror(errno));
        return 0;
    }
    n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    if (n <= 0)
        return gs_err_set(
            err, -ENOENT,
            "cannot tell where gpuslice is installed (is /proc mounted?); set " GS_HOOK_ENV
            " to the path of %s",
            vendor->hook);
    dir[n] = '\0';
    *strrchr(dir, '/') = '\0'; /* an absolute path */
    (void)snprintf(path, sizeof(path), "%s/../lib/gpuslice/%s", dir, vendor->hook);
    if (realpath(path, ret_path))
        return 0;
    (void)snprintf(path, sizeof(path), "%s/../../vendors/%s/hook/%s", dir, vendor->room,
                   vendor->hook);
    if (realpath(path, ret_path))
        return 0;
    return gs_err_set(err, -ENOENT,
                      "the hook library is not at %s/../lib/gpuslice/%s; set " GS_HOOK_ENV
                      " to its path",
                      dir, vendor->hook);
}
