#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

/* Lines are built here byte by byte and not by a JSON library: a log must work when memory is out,
 * and the hook's build of this room has no such library. */

/** Slots of the limiter; a power of two. A message that finds no slot takes over the oldest. */
#define SITES 64u

/** How often one message came in the current window. */
struct site {
    const char *msg;
    uint64_t window_ns; /**< when the window began */
    unsigned written;
    uint64_t suppressed; /**< since the last line that was written */
};

static struct {
    pthread_mutex_t lock;    /**< guards what follows, and keeps lines whole */
    enum gs_log_level level; /**< read without the lock: relaxed, a stale value is harmless */
    int fd;
    unsigned burst;
    uint64_t window_ns;
    const struct gs_clock *clock;
    struct site site[SITES];
} state = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .level = GS_LOG_LEVEL_INFO,
    .fd = STDERR_FILENO,
    .burst = 20,
    .window_ns = 10 * GS_CLOCK_S,
};

static const char *const level_name[GS_LOG_LEVEL_COUNT] = {
    [GS_LOG_LEVEL_DEBUG] = "debug",
    [GS_LOG_LEVEL_INFO] = "info",
    [GS_LOG_LEVEL_WARNING] = "warning",
    [GS_LOG_LEVEL_ERROR] = "error",
};

void gs_log_init(const struct gs_log_options *options)
{
    pthread_mutex_lock(&state.lock);
    __atomic_store_n(&state.level, options->level, __ATOMIC_RELAXED);
    state.fd = options->fd >= 0 ? options->fd : STDERR_FILENO;
    state.burst = options->burst ? options->burst : 20;
    state.window_ns = (options->window_ms ? options->window_ms : 10000u) * GS_CLOCK_MS;
    state.clock = options->clock;
    memset(state.site, 0, sizeof(state.site));
    pthread_mutex_unlock(&state.lock);
}

void gs_log_set_level(enum gs_log_level level)
{
    __atomic_store_n(&state.level, level, __ATOMIC_RELAXED);
}

bool gs_log_is_on(enum gs_log_level level)
{
    return level >= __atomic_load_n(&state.level, __ATOMIC_RELAXED);
}

int gs_log_parse_level(struct gs_str text, enum gs_log_level *ret_level)
{
    for (size_t i = 0; i < GS_LOG_LEVEL_COUNT; i++) {
        if (gs_str_eq_c(text, level_name[i])) {
            *ret_level = (enum gs_log_level)i;
            return 0;
        }
    }
    if (gs_str_eq_c(text, "warn")) {
        *ret_level = GS_LOG_LEVEL_WARNING;
        return 0;
    }
    if (text.n == 0 || text.n > 2)
        return -EINVAL;
    unsigned verbosity = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -EINVAL;
        verbosity = verbosity * 10 + (unsigned)(text.p[i] - '0');
    }
    *ret_level = verbosity >= 4 ? GS_LOG_LEVEL_DEBUG : GS_LOG_LEVEL_INFO;
    return 0;
}

const char *gs_log_strerror(int rc)
{
    static _Thread_local char text[128];

    return strerror_r(rc < 0 ? -rc : rc, text, sizeof(text)); /* GNU's: returns the text */
}

/** Length of the UTF-8 sequence at p[0..n); 0 when it is none. Source: RFC 3629, section 4. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    size_t len;
    unsigned char low = 0x80, high = 0xbf;

    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        len = 2;
    } else if (p[0] >= 0xe0 && p[0] <= 0xef) {
        len = 3;
        low = p[0] == 0xe0 ? 0xa0 : 0x80;
        high = p[0] == 0xed ? 0x9f : 0xbf;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        len = 4;
        low = p[0] == 0xf0 ? 0x90 : 0x80;
        high = p[0] == 0xf4 ? 0x8f : 0xbf;
    } else {
        return 0;
    }
    if (n < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    }
    return len;
}

/** One ASCII character as JSON has it inside a string. Source: RFC 8259, section 7. */
static void put_ascii(struct gs_str_out *out, char c)
{
    if (c == '"' || c == '\\') {
        gs_str_put_char(out, '\\');
        gs_str_put_char(out, c);
    } else if (c == '\n') {
        gs_str_put(out, GS_STR("\\n"));
    } else if (c == '\t') {
        gs_str_put(out, GS_STR("\\t"));
    } else if ((unsigned char)c < 0x20 || c == 0x7f) {
        gs_str_put(out, GS_STR("\\u00"));
        gs_str_put_char(out, "0123456789abcdef"[(unsigned char)c >> 4]);
        gs_str_put_char(out, "0123456789abcdef"[c & 15]);
    } else {
        gs_str_put_char(out, c);
    }
}

static void put_string(struct gs_str_out *out, struct gs_str s)
{
    size_t end = s.n < GS_LOG_FIELD ? s.n : GS_LOG_FIELD;

    gs_str_put_char(out, '"');
    for (size_t i = 0; i < end;) {
        size_t len = utf8_length((const unsigned char *)s.p + i, end - i);
        if (len == 1)
            put_ascii(out, s.p[i]);
        else if (len)
            gs_str_put(out, (struct gs_str){s.p + i, len});
        else
            gs_str_put(out, GS_STR("\\ufffd"));
        i += len ? len : 1;
    }
    if (end < s.n)
        gs_str_put(out, GS_STR("..."));
    gs_str_put_char(out, '"');
}

static void put_key(struct gs_str_out *out, const char *key)
{
    gs_str_put_char(out, ',');
    put_string(out, gs_str_of(key));
    gs_str_put_char(out, ':');
}

static void put_int(struct gs_str_out *out, int64_t v)
{
    if (v < 0)
        gs_str_put_char(out, '-');
    gs_str_put_u64(out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static void put_padded(struct gs_str_out *out, unsigned v, unsigned width)
{
    for (unsigned scale = width == 4 ? 1000 : width == 3 ? 100 : 10; scale; scale /= 10)
        gs_str_put_char(out, (char)('0' + v / scale % 10));
}

/** RFC 3339, UTC, milliseconds. */
static void put_time(struct gs_str_out *out, uint64_t real_ns)
{
    time_t s = (time_t)(real_ns / GS_CLOCK_S);
    struct tm t = {0};

    (void)gmtime_r(&s, &t); /* fails beyond the year 2^31 only */
    put_padded(out, (unsigned)t.tm_year + 1900u, 4);
    gs_str_put_char(out, '-');
    put_padded(out, (unsigned)t.tm_mon + 1u, 2);
    gs_str_put_char(out, '-');
    put_padded(out, (unsigned)t.tm_mday, 2);
    gs_str_put_char(out, 'T');
    put_padded(out, (unsigned)t.tm_hour, 2);
    gs_str_put_char(out, ':');
    put_padded(out, (unsigned)t.tm_min, 2);
    gs_str_put_char(out, ':');
    put_padded(out, (unsigned)t.tm_sec, 2);
    gs_str_put_char(out, '.');
    put_padded(out, (unsigned)(real_ns / GS_CLOCK_MS % 1000), 3);
    gs_str_put_char(out, 'Z');
}

static void put_field(struct gs_str_out *out, const struct gs_log_field *f)
{
    put_key(out, f->key);
    switch (f->kind) {
    case GS_LOG_KIND_STR:
        put_string(out, f->str);
        break;
    case GS_LOG_KIND_INT:
        put_int(out, f->i);
        break;
    case GS_LOG_KIND_UINT:
        gs_str_put_u64(out, f->u);
        break;
    case GS_LOG_KIND_BOOL:
        gs_str_put_c(out, f->b ? "true" : "false");
        break;
    case GS_LOG_KIND_END:
        break;
    }
}

/** Build the line. A field that would not fit whole is left out with all after it: what is written
 *  is always JSON. */
static size_t build(char *line, size_t cap, enum gs_log_level level, const char *msg,
                    const struct gs_log_field *fields, uint64_t suppressed)
{
    struct gs_str_out out;
    const struct gs_clock *clock = state.clock ? state.clock : gs_clock_real();

    gs_str_out_init(&out, line, cap - sizeof("\"cut\":true,}\n") - 32);
    gs_str_put(&out, GS_STR("{\"ts\":\""));
    put_time(&out, gs_clock_real_ns(clock));
    gs_str_put(&out, GS_STR("\",\"level\":\""));
    gs_str_put_c(&out, level_name[level]);
    gs_str_put(&out, GS_STR("\",\"msg\":"));
    put_string(&out, gs_str_of(msg));
    if (suppressed) {
        put_key(&out, "suppressed");
        gs_str_put_u64(&out, suppressed);
    }
    size_t good = out.n;
    for (const struct gs_log_field *f = fields; f->kind != GS_LOG_KIND_END; f++) {
        put_field(&out, f);
        if (out.cut)
            break;
        good = out.n;
    }
    bool cut = out.cut;
    out = (struct gs_str_out){.p = line, .cap = cap, .n = good};
    if (cut)
        gs_str_put(&out, GS_STR(",\"cut\":true"));
    gs_str_put(&out, GS_STR("}\n"));
    return out.n;
}

/** The limiter's slot of a message; called with the lock. */
static struct site *site_of(const char *msg, uint64_t now)
{
    size_t start = ((uintptr_t)msg >> 3) * 0x9e3779b97f4a7c15ull >> 58;
    struct site *oldest = NULL;

    for (size_t i = 0; i < 8; i++) {
        struct site *s = &state.site[(start + i) % SITES];
        if (s->msg == msg)
            return s;
        if (!s->msg) {
            oldest = s;
            break;
        }
        if (!oldest || s->window_ns < oldest->window_ns)
            oldest = s;
    }
    *oldest = (struct site){.msg = msg, .window_ns = now};
    return oldest;
}

/** True where the line is to be written; then *ret_suppressed lines went before it unwritten. */
static bool may_write(const char *msg, uint64_t *ret_suppressed)
{
    uint64_t now = gs_clock_mono_ns(state.clock ? state.clock : gs_clock_real());
    struct site *s = site_of(msg, now);

    if (now - s->window_ns >= state.window_ns) {
        s->window_ns = now;
        s->written = 0;
    }
    if (s->written >= state.burst) {
        s->suppressed++;
        return false;
    }
    s->written++;
    *ret_suppressed = s->suppressed;
    s->suppressed = 0;
    return true;
}

void gs_log_put(enum gs_log_level level, const char *msg, const struct gs_log_field *fields)
{
    char line[GS_LOG_LINE];
    uint64_t suppressed = 0;
    int saved = errno;

    if (!gs_log_is_on(level) || level >= GS_LOG_LEVEL_COUNT)
        return;
    pthread_mutex_lock(&state.lock);
    if (may_write(msg, &suppressed)) {
        size_t n = build(line, sizeof(line), level, msg, fields, suppressed);
        ssize_t done;
        do {
            done = write(state.fd, line, n);
        } while (done < 0 && errno == EINTR);
        /* A log that cannot be written has nowhere to complain. */
    }
    pthread_mutex_unlock(&state.lock);
    errno = saved;
}
