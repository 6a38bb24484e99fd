#pragma once
/* Lines of Prometheus' text format 0.0.4.
 * Source  prometheus.io, "Exposition formats". */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/str.h"

/** A pair of a line; one without a key, or whose value has no text at all, is left out. */
struct gs_prom_label {
    const char *key;
    struct gs_str value;
};

/** HELP and TYPE of a family: before the first of its lines. */
void gs_prom_head(struct gs_buf *buf, const char *name, const char *type, const char *help);
/** name{key="value",...} value; values of labels are escaped. */
void gs_prom_line(struct gs_buf *buf, const char *name, const struct gs_prom_label *label, size_t n,
                  double value);
/** The same with its labels in the call: {"key", value}, ... */
#define GS_PROM_LINE(buf, name, value, ...)                                                        \
    gs_prom_line((buf), (name), (const struct gs_prom_label[]){__VA_ARGS__},                       \
                 sizeof((const struct gs_prom_label[]){__VA_ARGS__}) /                             \
                     sizeof(struct gs_prom_label),                                                 \
                 (double)(value))

/** What every daemon says of itself. */
struct gs_prom_process {
    const char *version;
    uint64_t resident_bytes; /**< 0: not known */
    double cpu_s;
    uint64_t start_unix_s;
};
/** hami_build_info and process_*, by the names that HAMi's and all Go programs have for them. */
void gs_prom_process(struct gs_buf *buf, const struct gs_prom_process *process);
