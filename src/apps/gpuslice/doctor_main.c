/* gpuslice-doctor: what `gpuslice doctor` starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/doctor.h"
#include "apps/gpuslice/options.h"
#include "base/err.h"
#include "base/file.h"

#define WATCH_MAX_S 86400
#define CONFIG_MAX  (1u << 20)

/** Exit statuses beside GS_EXIT_USAGE; in the manual. */
#define EXIT_WARNINGS 1
#define EXIT_BROKEN   3

static void print_change(const struct gs_doctor_change *change)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf line = {0};

    gs_buf_addf(&line, "%7.1f s  %s\n", change->after_s, change->text);
    (void)gs_app_finish(&line); /* it said so; the report tells it once more */
}

static int read_seconds(const char *text, double *ret, struct gs_err *err)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end != '\0' || !(v >= 0 && v <= WATCH_MAX_S))
        return gs_err_set(err, -EINVAL, "--watch '%s' is no number of seconds from 0 to %d", text,
                          WATCH_MAX_S);
    *ret = v;
    return 0;
}

/* What the command line's values point to. */
struct given {
    struct gs_buf device_config, node_config;
    char host[256];
};

static int read_config(const char *const *value, int option, struct gs_buf *buf, struct gs_str *ret,
                       struct gs_err *err)
{
    const char *path = value[option];
    int rc = path != NULL ? gs_file_read(AT_FDCWD, path, CONFIG_MAX, buf) : 0;

    if (rc != 0)
        return gs_err_set(err, -EINVAL, "--%s '%s' cannot be read: %s",
                          gs_options_spec.options[option].name, path, strerror(-rc));
    if (path != NULL)
        *ret = (struct gs_str){gs_buf_text(buf), buf->n};
    return 0;
}

static const char *node_name(const char *given, char host[256])
{
    if (given == NULL || *given == '\0')
        given = getenv("NODE_NAME");
    if ((given == NULL || *given == '\0') && gethostname(host, 255) == 0)
        given = host;
    return given != NULL ? given : "";
}

static int read_options(const char *const *value, struct given *given, struct gs_doctor *doctor,
                        struct gs_err *err)
{
    int rc = 0;

    if (value[GS_OPTION_WATCH] != NULL)
        rc = read_seconds(value[GS_OPTION_WATCH], &doctor->watch_s, err);
    if (rc == 0)
        rc = read_config(value, GS_OPTION_PLUGIN_CONFIG, &given->device_config,
                         &doctor->device_config, err);
    if (rc == 0)
        rc = read_config(value, GS_OPTION_NODE_CONFIG, &given->node_config, &doctor->node_config,
                         err);
    doctor->root = value[GS_OPTION_ROOT] != NULL ? value[GS_OPTION_ROOT] : "";
    if (rc == 0 && value[GS_OPTION_ROOT] != NULL && access(doctor->root, X_OK) != 0)
        rc = gs_err_set(err, -EINVAL, "--root '%s': %s", doctor->root, strerror(errno));
    if (strcmp(doctor->root, "/") == 0)
        doctor->root = "";
    doctor->node = node_name(value[GS_OPTION_NODE_NAME], given->host);
    if (value[GS_OPTION_DOCTOR_JSON] == NULL)
        doctor->on_change = print_change;
    return rc;
}

static int report(const struct gs_doctor *doctor, bool as_json)
{
    static const int status[GS_DOCTOR_STATES] = {
        [GS_DOCTOR_WARNING] = EXIT_WARNINGS,
        [GS_DOCTOR_BROKEN] = EXIT_BROKEN,
    };
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    int rc = 0;

    if (as_json)
        rc = gs_doctor_json(doctor, &buf);
    else
        gs_doctor_text(doctor, &buf);
    if (rc < 0 || doctor->failed) {
        gs_app_say("out of memory");
        return EXIT_BROKEN;
    }
    return gs_app_finish(&buf) == 0 ? status[gs_doctor_worst(doctor)] : EXIT_BROKEN;
}

static int print_help(void)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};

    gs_opt_help(&gs_options_spec, GS_COMMAND_DOCTOR, &buf);
    return gs_app_finish(&buf);
}

int main(int argc, char **argv)
{
    const char *value[GS_OPTION_COUNT];
    struct gs_opt_args args = {.value = value};
    struct gs_doctor *doctor = calloc(1, sizeof(*doctor));
    struct given given = {.host = ""};
    struct gs_err err = {0};
    int rc = GS_EXIT_USAGE;

    if (doctor == NULL) {
        gs_app_say("out of memory");
        return EXIT_BROKEN;
    }
    if (gs_opt_parse(&gs_options_spec, GS_COMMAND_DOCTOR, argc - 1, argv + 1, &args, &err) != 0)
        gs_app_say("%s", err.text);
    else if (value[GS_OPTION_HELP] != NULL)
        rc = print_help();
    else if (read_options(value, &given, doctor, &err) != 0)
        gs_app_say("doctor: %s", err.text);
    else {
        gs_doctor_cards(doctor);
        gs_doctor_host(doctor);
        gs_doctor_runtime(doctor);
        rc = report(doctor, value[GS_OPTION_DOCTOR_JSON] != NULL);
    }
    gs_doctor_fini(doctor);
    free(doctor);
    gs_buf_fini(&given.device_config);
    gs_buf_fini(&given.node_config);
    return rc;
}
