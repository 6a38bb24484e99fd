#include "base/flag.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "core/str.h"

/* Every Go daemon takes these; ours log as they do. */
static const char *const klog[] = {
    "v",       "vmodule",  "logtostderr",    "alsologtostderr", "stderrthreshold",
    "log_dir", "log_file", "add_dir_header", "skip_headers",    "one_output",
};

int gs_flag_parse_ms(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *unit;
        double ms;
    } unit[] = {{"ms", 1},   {"us", 0.001}, {"ns", 0.000001},
                {"s", 1000}, {"m", 60000},  {"h", 3600000}};
    double sum = 0;

    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
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
    *ret_ms = (int64_t)sum;
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

static int set_flag(const struct gs_flag *f, const char *text, void *ret, struct gs_err *err)
{
    void *at = (char *)ret + f->at;
    int rc = 0;

    switch (f->kind) {
    case GS_FLAG_STR:
    case GS_FLAG_ONE:
        if (f->kind == GS_FLAG_ONE && !is_one_of(text, f->arg))
            return gs_err_set(err, -EINVAL, "--%s: '%s' is none of %s", f->name, text, f->arg);
        *(const char **)at = text;
        break;
    case GS_FLAG_BOOL:
        rc = parse_bool(text, at);
        break;
    case GS_FLAG_MS:
        rc = gs_flag_parse_ms(text, at);
        break;
    }
    return rc < 0 ? gs_err_set(err, -EINVAL, "--%s: '%s' is not a %s", f->name, text,
                               f->kind == GS_FLAG_BOOL ? "truth value" : "duration")
                  : 0;
}

static const struct gs_flag *find(const struct gs_flag_set *set, struct gs_str name)
{
    for (size_t i = 0; i < set->n; i++)
        if (gs_str_eq_c(name, set->flag[i].name))
            return &set->flag[i];
    return NULL;
}

static bool is_in(struct gs_str name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (gs_str_eq_c(name, list[i]))
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
static const char *nearest(const struct gs_flag_set *set, struct gs_str name)
{
    size_t least = name.n / 3 + 1;
    const char *found = NULL;

    for (size_t i = 0; name.n <= NAME_MOST && i < set->n; i++) {
        struct gs_str known = gs_str_of(set->flag[i].name);
        size_t d = known.n <= NAME_MOST ? distance(name, known) : least;

        if (d < least) {
            least = d;
            found = set->flag[i].name;
        }
    }
    return found;
}

static int refuse_unknown(const struct gs_flag_set *set, const char *arg, struct gs_str name,
                          struct gs_err *err)
{
    const char *meant = nearest(set, name);

    if (meant != NULL)
        return gs_err_set(err, -EINVAL, "unknown flag '%s'; is it --%s? See --help", arg, meant);
    return gs_err_set(err, -EINVAL, "unknown flag '%s'; see --help", arg);
}

/** A command line that is being read. */
struct reading {
    const struct gs_flag_set *set;
    int argc;
    char **argv;
    void *ret;
    struct gs_flag_wants wants;
};

/* One argument; *i moves on where the value is the next one. */
static int take(struct reading *r, int *i, struct gs_err *err)
{
    const char *arg = r->argv[*i];
    struct gs_str rest = gs_str_of(arg + (arg[1] == '-' ? 2 : 1)), name = {0};
    const struct gs_flag *f;
    const char *value;

    (void)gs_str_cut(&rest, '=', &name);
    value = strchr(arg, '=');
    value = value != NULL ? value + 1 : NULL;
    if (gs_str_eq_c(name, "help") || gs_str_eq_c(name, "h")) {
        r->wants.help = true;
        return 0;
    }
    if (gs_str_eq_c(name, "version")) {
        r->wants.version = true;
        return 0;
    }
    f = find(r->set, name);
    if (f != NULL && f->kind == GS_FLAG_BOOL)
        return set_flag(f, value != NULL ? value : "true", r->ret, err);
    if (f == NULL && !is_in(name, klog, GS_ARRAY_LEN(klog)) &&
        !is_in(name, r->set->ignored, r->set->n_ignored))
        return refuse_unknown(r->set, arg, name, err);
    if (value == NULL && (f != NULL || (*i + 1 < r->argc && r->argv[*i + 1][0] != '-'))) {
        if (*i + 1 >= r->argc)
            return gs_err_set(err, -EINVAL, "--%s wants a value", f->name);
        value = r->argv[++*i];
    }
    return f != NULL ? set_flag(f, value, r->ret, err) : 0;
}

int gs_flag_parse(const struct gs_flag_set *set, int argc, char **argv, void *ret,
                  struct gs_flag_wants *ret_wants, struct gs_err *err)
{
    struct reading r = {.set = set, .argc = argc, .argv = argv, .ret = ret};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < set->n; i++)
        rc = set_flag(&set->flag[i], set->flag[i].preset, ret, err);
    for (int i = 1; rc == 0 && i < argc; i++) {
        if (argv[i][0] == '-')
            rc = take(&r, &i, err);
        else if (strcmp(argv[i], "version") == 0)
            r.wants.version = true;
        else
            rc = gs_err_set(err, -EINVAL, "unknown argument '%s'; see --help", argv[i]);
    }
    if (rc == 0)
        *ret_wants = r.wants;
    return rc;
}

void gs_flag_help(const struct gs_flag_set *set, struct gs_buf *buf)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct gs_flag *f = &set->flag[i];

        gs_buf_addf(buf, "  --%s%s%s\n        %s", f->name, f->arg != NULL ? " " : "",
                    f->arg != NULL ? f->arg : "", f->help);
        if (f->preset[0] != '\0')
            gs_buf_addf(buf, " (%s)", f->preset);
        gs_buf_adds(buf, "\n");
    }
}

int gs_flag_answer(bool wants_help, void (*help)(struct gs_buf *buf), const char *version)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};

    if (wants_help)
        help(&text);
    else
        gs_buf_addf(&text, "%s\n", version);
    if (gs_buf_check(&text) < 0)
        return EXIT_FAILURE;
    return fwrite(text.p, 1, text.n, stdout) == text.n && fflush(stdout) == 0 ? EXIT_SUCCESS
                                                                              : EXIT_FAILURE;
}
