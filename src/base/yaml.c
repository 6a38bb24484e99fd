#include "base/yaml.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library tells the cause first, then a backtrace whose first line is the innermost. */
struct report {
    char cause[160], place[164];
    int lines;
};

GS_PRINTF(3, 0)
static void take_log(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    struct report *report = ctx;
    char line[160];
    char *text = line, *end;

    if (level < CYAML_LOG_ERROR)
        return;
    (void)vsnprintf(line, sizeof(line), fmt, args); /* a cut reason is still a reason */
    end = strchr(text, '\n');
    if (end != NULL)
        *end = '\0';
    if (strncmp(text, "Load: ", 6) == 0)
        text += 6;
    while (*text == ' ')
        text++;
    if (report->lines == 0)
        (void)snprintf(report->cause, sizeof(report->cause), "%s", text);
    else if (report->lines == 2) /* line 1 says "Backtrace:" */
        (void)snprintf(report->place, sizeof(report->place), " %s", text);
    report->lines++;
}

static cyaml_config_t config_of(struct report *report, bool is_strict)
{
    return (cyaml_config_t){
        .log_fn = take_log,
        .log_ctx = report,
        .mem_fn = cyaml_mem,
        .log_level = CYAML_LOG_ERROR,
        .flags = is_strict ? CYAML_CFG_DEFAULT : CYAML_CFG_IGNORE_UNKNOWN_KEYS,
    };
}

static int load(struct gs_str text, const struct cyaml_schema_value *schema, bool is_strict,
                void **ret, unsigned *ret_n, struct gs_err *err)
{
    struct report report = {0};
    cyaml_config_t config = config_of(&report, is_strict);
    cyaml_data_t *data = NULL;
    cyaml_err_t got =
        cyaml_load_data((const uint8_t *)text.p, text.n, &config, schema, &data, ret_n);

    if (got == CYAML_ERR_OOM)
        return gs_err_set(err, -ENOMEM, "no memory");
    if (got != CYAML_OK)
        return gs_err_set(err, got == CYAML_ERR_INVALID_KEY ? -ENOKEY : -EINVAL, "%s%s",
                          report.cause[0] != '\0' ? report.cause : cyaml_strerror(got),
                          report.place);
    *ret = data;
    return 0;
}

/* The library's place of an unknown key is one before it: look for the key from there on. */
static void tell_place(struct gs_str text, struct gs_err *slip)
{
    static const char said[] = "Unexpected key: ";
    char key[100], *at = strstr(slip->text, "(line: ");
    size_t line = 1, from = at != NULL ? strtoul(at + 7, NULL, 10) : 1;

    if (strncmp(slip->text, said, sizeof(said) - 1) != 0 ||
        sscanf(slip->text + sizeof(said) - 1, "%99s", key) != 1)
        return;
    for (struct gs_str part; gs_str_cut(&text, '\n', &part); line++) {
        while (part.n > 0 && strchr(" -{\"'", part.p[0]) != NULL)
            part = (struct gs_str){part.p + 1, part.n - 1};
        if (line >= from && part.n > strlen(key) && memcmp(part.p, key, strlen(key)) == 0 &&
            strchr(":\"' ", part.p[strlen(key)]) != NULL) {
            (void)gs_err_set(slip, -ENOKEY, "%s (line: %zu)", key, line);
            return;
        }
        if (text.n == 0)
            return;
    }
}

int gs_yaml_load(struct gs_str text, const struct cyaml_schema_value *schema,
                 const struct gs_yaml_unknown *unknown, void **ret, unsigned *ret_n,
                 struct gs_err *err)
{
    struct gs_err slip = {0};

    /* The library tells of an unknown key only where it refuses it: the first of them, then. */
    if (unknown != NULL) {
        int rc = load(text, schema, true, ret, ret_n, &slip);

        if (rc == 0)
            return 0;
        if (rc == -ENOKEY) {
            tell_place(text, &slip);
            unknown->tell(unknown->user, slip.text);
        }
    }
    return load(text, schema, false, ret, ret_n, err);
}

void gs_yaml_free(const struct cyaml_schema_value *schema, void *data, unsigned n)
{
    struct report report = {0};
    cyaml_config_t config = config_of(&report, false);

    (void)cyaml_free(&config, schema, data, n); /* fails on bad arguments only */
}
