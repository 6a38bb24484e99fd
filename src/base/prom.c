#include "base/prom.h"

#include <math.h>

void gs_prom_head(struct gs_buf *buf, const char *name, const char *type, const char *help)
{
    gs_buf_addf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_escaped(struct gs_buf *buf, struct gs_str s)
{
    size_t from = 0;

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c != '\\' && c != '"' && c != '\n')
            continue;
        gs_buf_add(buf, s.p + from, i - from);
        gs_buf_add(buf, c == '\n' ? "\\n" : c == '"' ? "\\\"" : "\\\\", 2);
        from = i + 1;
    }
    gs_buf_add(buf, s.p + from, s.n - from);
}

void gs_prom_line(struct gs_buf *buf, const char *name, const struct gs_prom_label *label, size_t n,
                  double value)
{
    char before = '{';

    gs_buf_adds(buf, name);
    for (size_t i = 0; i < n; i++) {
        if (label[i].key == NULL || label[i].value.p == NULL)
            continue;
        gs_buf_addc(buf, before, 1);
        gs_buf_adds(buf, label[i].key);
        gs_buf_add(buf, "=\"", 2);
        add_escaped(buf, label[i].value);
        gs_buf_addc(buf, '"', 1);
        before = ',';
    }
    if (before == ',')
        gs_buf_addc(buf, '}', 1);
    if (value >= 0 && value < 9e15 && value == floor(value))
        gs_buf_addf(buf, " %llu\n", (unsigned long long)value);
    else
        gs_buf_addf(buf, " %.9g\n", value);
}

#ifdef __clang__
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif
#ifdef __aarch64__
#define PLATFORM "linux/arm64"
#else
#define PLATFORM "linux/amd64"
#endif

static void one(struct gs_buf *buf, const char *name, const char *type, const char *help,
                double value)
{
    gs_prom_head(buf, name, type, help);
    gs_prom_line(buf, name, NULL, 0, value);
}

void gs_prom_process(struct gs_buf *buf, const struct gs_prom_process *process)
{
    gs_prom_head(buf, "hami_build_info", "gauge", "What runs here.");
    GS_PROM_LINE(buf, "hami_build_info", 1, {"version", gs_str_of(process->version)},
                 {"revision", GS_STR("")}, {"build_date", GS_STR("")}, {"go_version", GS_STR("")},
                 {"compiler", GS_STR(COMPILER)}, {"platform", GS_STR(PLATFORM)});
    if (process->resident_bytes > 0)
        one(buf, "process_resident_memory_bytes", "gauge", "Memory of this process.",
            (double)process->resident_bytes);
    one(buf, "process_cpu_seconds_total", "counter", "Processor time of this process.",
        process->cpu_s);
    one(buf, "process_start_time_seconds", "gauge", "Unix time when this process started.",
        (double)process->start_unix_s);
}
