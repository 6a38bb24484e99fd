/* Any bytes as a kubeconfig. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kube/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *no_env(const char *name)
{
    (void)name;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_kube_config config = {0};
    struct gs_kube_config_opt opt = {.env = no_env, .context = size % 2 ? "x" : NULL};
    struct gs_err err = {0};
    char path[64];
    int fd = memfd_create("config", MFD_CLOEXEC);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    opt.path = path;
    if (gs_kube_config_load(&opt, &config, &err) == 0 && !config.server)
        abort();
    gs_kube_config_fini(&config);
    (void)close(fd);
    return 0;
}
