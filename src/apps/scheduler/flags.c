#include "apps/scheduler/flags.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"

enum kind { STR, ONE, BOOL, INT, MS };

static const struct flag {
    const char *name;
    enum kind kind;
    size_t at;
    const char *preset, *arg, *help;
} flag[] = {
#define X(name, kind, field, preset, arg, help)                                                    \
    {name, kind, offsetof(struct gs_flags, field), preset, arg, help},
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
    /* klog's */
    "v",
    "vmodule",
    "logtostderr",
    "alsologtostderr",
    "stderrthreshold",
    "log_dir",
    "log_file",
    "add_dir_header",
    "skip_headers",
    "one_output",
};

/* A Go duration, "1m30s", "500ms", "0", in milliseconds. */
static int parse_ms(const char *text, int64_t *ret)
{
    static const struct {
        const char *unit;
        double ms;
    } unit[] = {{"ms", 1},   {"us", 0.001}, {"ns", 0.000001},
                {"s", 1000}, {"m", 60000},  {"h", 3600000}};
    double sum = 0;

    if (strcmp(text, "0") == 0) {
        *ret = 0;
        return 0;
    }
    while (*text != '\0') {
        size_t digits = strspn(text, "0123456789."), u = 0;
        char number[24];

        if (digits == 0 || digits >= sizeof(number))
            return -EINVAL;
        memcpy(number, text, digits);
        number[digits] = '\0';
        text += digits;
        while (u < GS_ARRAY_LEN(unit) && strncmp(text, unit[u].unit, strlen(unit[u].unit)) != 0)
            u++;
        if (u == GS_ARRAY_LEN(unit))
            return -EINVAL;
        sum += strtod(number, NULL) * unit[u].ms;
        text += strlen(unit[u].unit);
    }
    if (sum > 1e12)
        return -ERANGE;
    *ret = (int64_t)sum;
    return 0;
}

static int parse_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"true", "1", "t", "T", "TRUE", "True"};
    static const char *const no[] = {"false", "0", "f", "F", "FALSE", "False"};

    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret = strcmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return -EINVAL;
}

/* Is the text one of the words of "a|b"? */
static bool is_one_of(const char *text, const char *words)
{
    struct gs_str rest = gs_str_of(words), word;

    while (gs_str_cut(&rest, '|', &word))
        if (gs_str_eq_c(word, text))
            return true;
    return false;
}

static int set(const struct flag *f, const char *text, struct gs_flags *ret, struct gs_err *err)
{
    void *at = (char *)ret + f->at;
    int rc = 0;

    switch (f->kind) {
    case STR:
    case ONE:
        if (f->kind == ONE && !is_one_of(text, f->arg))
            return gs_err_set(err, -EINVAL, "--%s: '%s' is none of %s", f->name, text, f->arg);
        *(const char **)at = text;
        break;
    case BOOL:
        rc = parse_bool(text, at);
        break;
    case INT:
    case MS:
        rc = parse_ms(text, at);
        break;
    }
    return rc < 0 ? gs_err_set(err, -EINVAL, "--%s: '%s' is not a %s", f->name, text,
                               f->kind == BOOL ? "truth value" : "duration")
                  : 0;
}

static const struct flag *find(struct gs_str name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(flag); i++)
        if (gs_str_eq_c(name, flag[i].name))
            return &flag[i];
    return NULL;
}

static bool is_ignored(struct gs_str name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(ignored); i++)
        if (gs_str_eq_c(name, ignored[i]))
            return true;
    return false;
}

#define NAME_MOST 48u /* names that are longer are near to none */

/* Letters to put in, take out or change that make one name of the other. */
static size_t distance(struct gs_str a, struct gs_str b)
{
    size_t row[NAME_MOST + 1];

    for (size_t k = 0; k <= b.n; k++)
        row[k] = k;
    for (size_t i = 1; i <= a.n; i++) {
        size_t corner = row[0];

        row[0] = i;
        for (size_t k = 1; k <= b.n; k++) {
            size_t change = corner + (size_t)(a.p[i - 1] != b.p[k - 1]);
            size_t other = (row[k] < row[k - 1] ? row[k] : row[k - 1]) + 1;

            corner = row[k];
            row[k] = change < other ? change : other;
        }
    }
    return row[b.n];
}

/* The flag that may have been meant; NULL: none is near. */
static const char *nearest(struct gs_str name)
{
    size_t least = name.n / 3 + 1;
    const char *found = NULL;

    for (size_t i = 0; name.n <= NAME_MOST && i < GS_ARRAY_LEN(flag); i++) {
        struct gs_str known = gs_str_of(flag[i].name);
        size_t d = known.n <= NAME_MOST ? distance(name, known) : least;

        if (d < least) {
            least = d;
            found = flag[i].name;
        }
    }
    return found;
}

static int refuse_unknown(const char *arg, struct gs_str name, struct gs_err *err)
{
    const char *meant = nearest(name);

    if (meant != NULL)
        return gs_err_set(err, -EINVAL, "unknown flag '%s'; is it --%s? See --help", arg, meant);
    return gs_err_set(err, -EINVAL, "unknown flag '%s'; see --help", arg);
}

/* One argument; *i moves on where the value is the next one. */
static int take(int argc, char **argv, int *i, struct gs_flags *ret, struct gs_err *err)
{
    const char *arg = argv[*i];
    struct gs_str rest = gs_str_of(arg + (arg[1] == '-' ? 2 : 1)), name = {0};
    const struct flag *f;
    const char *value;

    (void)gs_str_cut(&rest, '=', &name);
    value = strchr(arg, '=');
    value = value != NULL ? value + 1 : NULL;
    if (gs_str_eq_c(name, "help") || gs_str_eq_c(name, "h")) {
        ret->wants_help = true;
        return 0;
    }
    if (gs_str_eq_c(name, "version")) {
        ret->wants_version = true;
        return 0;
    }
    f = find(name);
    if (f != NULL && f->kind == BOOL)
        return set(f, value != NULL ? value : "true", ret, err);
    if (f == NULL && !is_ignored(name))
        return refuse_unknown(arg, name, err);
    if (value == NULL && (f != NULL || (*i + 1 < argc && argv[*i + 1][0] != '-'))) {
        if (*i + 1 >= argc)
            return gs_err_set(err, -EINVAL, "--%s wants a value", f->name);
        value = argv[++*i];
    }
    return f != NULL ? set(f, value, ret, err) : 0;
}

int gs_flags_parse(int argc, char **argv, struct gs_flags *ret, struct gs_err *err)
{
    struct gs_flags flags = {0};

    for (size_t i = 0; i < GS_ARRAY_LEN(flag); i++) {
        int rc = set(&flag[i], flag[i].preset, &flags, err);

        if (rc < 0)
            return rc;
    }
    for (int i = 1; i < argc; i++) {
        int rc;

        if (argv[i][0] != '-') {
            if (strcmp(argv[i], "version") == 0) {
                flags.wants_version = true;
                continue;
            }
            return gs_err_set(err, -EINVAL, "unknown argument '%s'; see --help", argv[i]);
        }
        rc = take(argc, argv, &i, &flags, err);
        if (rc < 0)
            return rc;
    }
    *ret = flags;
    return 0;
}

void gs_flags_help(struct gs_buf *buf)
{
    gs_buf_adds(buf, "usage: gpuslice-scheduler [FLAG]... | --version | --help\n\n"
                     "Webhook and scheduler extender for slices of accelerators.\n\n");
    for (size_t i = 0; i < GS_ARRAY_LEN(flag); i++) {
        gs_buf_addf(buf, "  --%s%s%s\n        %s", flag[i].name, flag[i].arg != NULL ? " " : "",
                    flag[i].arg != NULL ? flag[i].arg : "", flag[i].help);
        if (flag[i].preset[0] != '\0')
            gs_buf_addf(buf, " (%s)", flag[i].preset);
        gs_buf_adds(buf, "\n");
    }
    gs_buf_adds(buf, "\nHAMi's other flags are accepted; what they would set comes from the device"
                     " configuration.\n");
}
