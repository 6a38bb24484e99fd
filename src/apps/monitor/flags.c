#include "apps/monitor/flags.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/flag.h"
#include "core/str.h"

#define RESYNC "5m" /* HAMi's */

static const struct gs_flag flag[] = {
#define X(name, kind, field, preset, arg, help)                                                    \
    {name, GS_FLAG_##kind, offsetof(struct gs_monitor_flags, field), preset, arg, help},
#include "apps/monitor/flags.def"
#undef X
};

static const struct gs_flag_set set = {flag, GS_ARRAY_LEN(flag), NULL, 0};

static int take_env(struct gs_monitor_flags *f, struct gs_err *err)
{
    const char *resync = getenv("HAMI_RESYNC_INTERVAL"), *path = getenv("HOOK_PATH");
    const char *node = getenv("NODE_NAME");

    if (f->hook_path[0] == '\0' && path != NULL)
        f->hook_path = path;
    if (f->node_name[0] == '\0' && node != NULL)
        f->node_name = node;
    if (f->hook_path[0] == '\0')
        return gs_err_set(
            err, -EINVAL,
            "HOOK_PATH is not set: set it, or --hook-path, to the folder that has the "
            "folder 'containers' (/usr/local/vgpu)");
    if (f->node_name[0] == '\0' && !f->no_cluster)
        return gs_err_set(err, -EINVAL,
                          "NODE_NAME is not set: set it, or --node-name, to the name of this node; "
                          "on a machine without Kubernetes say --no-cluster");
    if (f->node_name[0] != '\0' && !gs_str_is_word(gs_str_of(f->node_name)))
        return gs_err_set(err, -EINVAL, "'%s' is no name of a node", f->node_name);
    if (gs_flag_parse_ms(resync != NULL && resync[0] != '\0' ? resync : RESYNC, &f->resync_ms) < 0)
        return gs_err_set(err, -EINVAL, "HAMI_RESYNC_INTERVAL: '%s' is not a duration", resync);
    return 0;
}

int gs_monitor_flags_parse(int argc, char **argv, struct gs_monitor_flags *ret, struct gs_err *err)
{
    struct gs_monitor_flags flags = {0};
    struct gs_flag_wants wants;
    int rc = gs_flag_parse(&set, argc, argv, &flags, &wants, err);

    flags.wants_help = rc == 0 && wants.help;
    flags.wants_version = rc == 0 && wants.version;
    if (rc == 0 && !flags.wants_help && !flags.wants_version)
        rc = take_env(&flags, err);
    if (rc == 0)
        *ret = flags;
    return rc;
}

void gs_monitor_flags_help(struct gs_buf *buf)
{
    gs_buf_adds(buf,
                "usage: gpuslice-monitor [FLAG]... | --version | --help\n\n"
                "Metrics of a node's cards and of the containers that share them; feedback for\n"
                "priorities; finds who uses more than its slice.\n\n");
    gs_flag_help(&set, buf);
    gs_buf_adds(buf,
                "\nHAMI_RESYNC_INTERVAL (" RESYNC "): folders of pods that are gone are removed "
                "when they are older.\n");
}
