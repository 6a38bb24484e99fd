#include "apps/device-plugin/flags.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/flag.h"
#include "core/str.h"
#include "node/kit.h"

static const struct gs_flag preset[] = {
#define X(name, kind, field, preset, env, arg, help)                                               \
    {name, GS_FLAG_##kind, offsetof(struct gs_plugin_flags, field), preset, arg, help},
#include "apps/device-plugin/flags.def"
#undef X
};
static const char *const variable[] = {
#define X(name, kind, field, preset, env, arg, help) env,
#include "apps/device-plugin/flags.def"
#undef X
};

/* HAMi takes these and goes by its files instead, or they are of no use here. */
static const char *const ignored[] = {
    "device-split-count",        "device-memory-scaling", "device-cores-scaling",
    "disable-core-limit",        "resource-name",         "nvidia-cdi-hook-path",
    "device-discovery-strategy", "imex-required",
};

static const struct {
    const char *word;
    enum gs_kit_list list;
} strategy[] = {
    {"envvar", GS_KIT_LIST_ENV},
    {"volume-mounts", GS_KIT_LIST_MOUNTS},
    {"cdi-annotations", GS_KIT_LIST_CDI_ANNOTATIONS},
    {"cdi-cri", GS_KIT_LIST_CDI_CRI},
};

static int parse_list(const char *text, unsigned *ret, struct gs_err *err)
{
    struct gs_str rest = gs_str_of(text), word;

    *ret = 0;
    while (gs_str_cut(&rest, ',', &word)) {
        size_t i = 0;

        while (i < GS_ARRAY_LEN(strategy) && !gs_str_eq_c(word, strategy[i].word))
            i++;
        if (i == GS_ARRAY_LEN(strategy))
            return gs_err_set(err, -EINVAL,
                              "--device-list-strategy: '%.*s' is none of envvar, volume-mounts, "
                              "cdi-annotations, cdi-cri",
                              (int)word.n, word.p);
        *ret |= strategy[i].list;
    }
    return 0;
}

static int check(struct gs_plugin_flags *f, struct gs_err *err)
{
    int rc = parse_list(f->list_strategy, &f->list, err);

    if (rc < 0)
        return rc;
    if (!gs_str_is_word(gs_str_of(f->node_name)))
        return gs_err_set(err, -EINVAL,
                          "NODE_NAME is not set: set it, or --node-name, to the name of this node");
    if (f->hook_path[0] != '/' || f->kubelet_socket[0] != '/' || f->cdi_dir[0] != '/')
        return gs_err_set(err, -EINVAL,
                          "--hook-path, --kubelet-socket and --cdi-dir are absolute paths");
    return 0;
}

int gs_plugin_flags_parse(int argc, char **argv, struct gs_plugin_flags *ret, struct gs_err *err)
{
    struct gs_flag flag[GS_ARRAY_LEN(preset)];
    const struct gs_flag_set set = {flag, GS_ARRAY_LEN(flag), ignored, GS_ARRAY_LEN(ignored)};
    struct gs_plugin_flags flags = {0};
    struct gs_flag_wants wants = {0};
    int rc;

    memcpy(flag, preset, sizeof(flag));
    for (size_t i = 0; i < GS_ARRAY_LEN(flag); i++) {
        const char *value = getenv(variable[i]);

        if (value != NULL && value[0] != '\0')
            flag[i].preset = value;
    }
    rc = gs_flag_parse(&set, argc, argv, &flags, &wants, err);
    flags.wants_help = rc == 0 && wants.help;
    flags.wants_version = rc == 0 && wants.version;
    if (rc == 0 && !flags.wants_help && !flags.wants_version)
        rc = check(&flags, err);
    if (rc == 0)
        *ret = flags;
    return rc;
}

void gs_plugin_flags_help(struct gs_buf *buf)
{
    const struct gs_flag_set set = {preset, GS_ARRAY_LEN(preset), NULL, 0};

    gs_buf_adds(buf, "usage: gpuslice-device-plugin [FLAG]... | --version | --help\n\n"
                     "Hands out slices of this node's cards to containers, for the kubelet.\n\n");
    gs_flag_help(&set, buf);
    gs_buf_adds(
        buf, "\nHAMi's other flags are accepted; what they would set comes from the configuration\n"
             "files. Variables in place of flags:\n");
    for (size_t i = 0; i < GS_ARRAY_LEN(variable); i++)
        gs_buf_addf(buf, "  %s: --%s\n", variable[i], preset[i].name);
    gs_buf_adds(buf,
                "And by themselves:\n"
                "ENABLE_TOPOLOGY_SCORE=true: the links between cards are told to schedulers.\n"
                "DP_DISABLE_HEALTHCHECKS, DP_ENABLE_HEALTHCHECKS: which errors of cards count.\n");
}
