#pragma once
/* Structured log: one JSON object per line on a descriptor (stderr): ts, level, msg, then fields.
 *
 *     GS_LOG_WARN("certificate refused", GS_LOG_CSTR("file", path), GS_LOG_ERR(&err));
 *     GS_LOG_INFO("stopping");
 *
 * `msg` is constant text (the reader greps for it and the limiter counts by it); whatever varies is
 * a field. Never a secret, never what a stranger sent beyond a name. Bytes that are no UTF-8,
 * quotes and control characters are escaped; a field is cut at GS_LOG_FIELD bytes, a line at
 * GS_LOG_LINE. Lines of one msg beyond `burst` per `window_ms` are counted instead of written; the
 * count is added to the next line of that msg that is written as "suppressed". Never allocates. One
 * log per process: this is the one global of the room (lock inside, taken last).
 *
 * Threads  any. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_clock;
struct gs_err;

#define GS_LOG_FIELD 1024
#define GS_LOG_LINE  8192

enum gs_log_level {
    GS_LOG_LEVEL_DEBUG,   /**< the rest */
    GS_LOG_LEVEL_INFO,    /**< a state changed */
    GS_LOG_LEVEL_WARNING, /**< we went on; says how */
    GS_LOG_LEVEL_ERROR,   /**< someone must act */
    GS_LOG_LEVEL_COUNT,
};

enum gs_log_kind {
    GS_LOG_KIND_END,
    GS_LOG_KIND_STR,
    GS_LOG_KIND_INT,
    GS_LOG_KIND_UINT,
    GS_LOG_KIND_BOOL,
};

struct gs_log_field {
    const char *key; /**< constant, letters, digits and '_' */
    enum gs_log_kind kind;
    union {
        struct gs_str str; /**< borrowed for the call */
        int64_t i;
        uint64_t u;
        bool b;
    };
};

#define GS_LOG_STR(k, v) ((struct gs_log_field){.key = (k), .kind = GS_LOG_KIND_STR, .str = (v)})
/** NULL is written as "". */
#define GS_LOG_CSTR(k, v) GS_LOG_STR(k, gs_str_of(v))
#define GS_LOG_INT(k, v)  ((struct gs_log_field){.key = (k), .kind = GS_LOG_KIND_INT, .i = (v)})
#define GS_LOG_UINT(k, v) ((struct gs_log_field){.key = (k), .kind = GS_LOG_KIND_UINT, .u = (v)})
#define GS_LOG_BOOL(k, v) ((struct gs_log_field){.key = (k), .kind = GS_LOG_KIND_BOOL, .b = (v)})
/** "error": the text of a struct gs_err; nothing was set: "". */
#define GS_LOG_ERR(err) GS_LOG_CSTR("error", (err)->text)
/** "error": the text of a negative errno. */
#define GS_LOG_RC(rc) GS_LOG_CSTR("error", gs_log_strerror(rc))
#define GS_LOG_END    ((struct gs_log_field){.key = NULL, .kind = GS_LOG_KIND_END})

struct gs_log_options {
    enum gs_log_level level;      /**< lines below are dropped */
    int fd;                       /**< where to; -1: standard error */
    unsigned burst;               /**< lines per msg and window; 0: 20 */
    unsigned window_ms;           /**< 0: 10 s */
    const struct gs_clock *clock; /**< NULL: the machine's; must outlive the log */
};

/** Replace the settings and forget the limiter's counts. Before the first call: info, standard
 *  error, the machine's clock. */
void gs_log_init(const struct gs_log_options *options);
void gs_log_set_level(enum gs_log_level level);
/** "debug", "info", "warning" (or "warn"), "error", or klog's verbosity as HAMi's --v has it: a
 *  number, 4 and above is debug. Returns 0 or -EINVAL. */
GS_WUR int gs_log_parse_level(struct gs_str text, enum gs_log_level *ret_level);
/** True where a line of that level would be looked at: guards costly fields. */
bool gs_log_is_on(enum gs_log_level level);
/** Text of a negative errno in a buffer of the calling thread. */
const char *gs_log_strerror(int rc);

/** @fields  ended by GS_LOG_END. Use the macros. */
void gs_log_put(enum gs_log_level level, const char *msg, const struct gs_log_field *fields);

#define GS_LOG_AT(level, msg, ...)                                                                 \
    (gs_log_is_on(level) ? gs_log_put(level, msg, (const struct gs_log_field[]){__VA_ARGS__})      \
                         : (void)0)
#define GS_LOG_DEBUG(...) GS_LOG_AT(GS_LOG_LEVEL_DEBUG, __VA_ARGS__, GS_LOG_END)
#define GS_LOG_INFO(...)  GS_LOG_AT(GS_LOG_LEVEL_INFO, __VA_ARGS__, GS_LOG_END)
#define GS_LOG_WARN(...)  GS_LOG_AT(GS_LOG_LEVEL_WARNING, __VA_ARGS__, GS_LOG_END)
#define GS_LOG_ERROR(...) GS_LOG_AT(GS_LOG_LEVEL_ERROR, __VA_ARGS__, GS_LOG_END)
