#include "apps/scheduler/flags.h"

#include <stddef.h>

#include "base/flag.h"

static const struct gs_flag flag[] = {
#define X(name, kind, field, preset, arg, help)                                                    \
    {name, GS_FLAG_##kind, offsetof(struct gs_flags, field), preset, arg, help},
#include "apps/scheduler/flags.def"
#undef X
};

/* HAMi takes these and then reads its file instead: here they mean nothing. */
static const char *const ignored[] = {
    "cambricon-mlu-name",
    "cambricon-mlu-memory",
    "cambricon-mlu-cores",
    "dcu-name",
    "dcu-memory",
    "dcu-cores",
    "mthreads-name",
    "mthreads-memory",
    "mthreads-cores",
    "metax-name",
    "metax-vcount",
    "metax-vcore",
    "metax-vmemory",
    "sgpu-topology-aware",
    "kunlun-name",
    "kunlun-vcount",
    "kunlun-vmemory",
    "enflame-gcu-resource-name",
    "enflame-drs-gcu-resource-name",
    "enflame-gcu-memory-resource-name",
    "enflame-gcu-core-resource-name",
    "enflame-vgcu-resource-name",
    "enflame-vgcu-legacy-resource-name",
    "enflame-vgcu-percentage-resource-name",
    "resource-name",
    "resource-mem",
    "resource-mem-percentage",
    "resource-cores",
    "resource-priority",
    "overwrite-env",
    "default-gpu",
    "default-mem",
    "default-cores",
};

static const struct gs_flag_set set = {flag, GS_ARRAY_LEN(flag), ignored, GS_ARRAY_LEN(ignored)};

int gs_flags_parse(int argc, char **argv, struct gs_flags *ret, struct gs_err *err)
{
    struct gs_flags flags = {0};
    struct gs_flag_wants wants;
    int rc = gs_flag_parse(&set, argc, argv, &flags, &wants, err);

    if (rc < 0)
        return rc;
    flags.wants_help = wants.help;
    flags.wants_version = wants.version;
    *ret = flags;
    return 0;
}

void gs_flags_help(struct gs_buf *buf)
{
    gs_buf_adds(buf, "usage: gpuslice-scheduler [FLAG]... | --version | --help\n\n"
                     "Webhook and scheduler extender for slices of accelerators.\n\n");
    gs_flag_help(&set, buf);
    gs_buf_adds(buf, "\nHAMi's other flags are accepted; what they would set comes from the device"
                     " configuration.\n");
}
