#include "base/yaml.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
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
        if (rc == -ENOKEY)
            unknown->tell(unknown->user, slip.text);
    }
    return load(text, schema, false, ret, ret_n, err);
}

void gs_yaml_free(const struct cyaml_schema_value *schema, void *data, unsigned n)
{
    struct report report = {0};
    cyaml_config_t config = config_of(&report, false);

    (void)cyaml_free(&config, schema, data, n); /* fails on bad arguments only */
}
