#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"

/** date -u -d @1767225599.25 : 2025-12-31T23:59:59.25 */
#define NEW_YEARS_EVE (1767225599ull * GS_CLOCK_S + 250 * GS_CLOCK_MS)
#define HEAD          "{\"ts\":\"2025-12-31T23:59:59.250Z\",\"level\":"

static struct gs_clock_virtual virtual;
static int ends[2];
static char text[65536];

static int set_up(void **state)
{
    (void)state;
    gs_clock_virtual_init(&virtual, NEW_YEARS_EVE, false);
    if (pipe2(ends, O_NONBLOCK) != 0)
        return -1;
    gs_log_init(&(struct gs_log_options){.level = GS_LOG_LEVEL_INFO,
                                         .fd = ends[1],
                                         .burst = 3,
                                         .window_ms = 1000,
                                         .clock = &virtual.clock});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static const char *written(void)
{
    ssize_t n = read(ends[0], text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static void writes_one_object_per_line(void **state)
{
    struct gs_err err = {0};

    (void)state;
    (void)gs_err_set(&err, -EACCES, "no \"way\"");
    GS_LOG_INFO("started");
    assert_string_equal(written(), HEAD "\"info\",\"msg\":\"started\"}\n");
    GS_LOG_WARN("went on", GS_LOG_CSTR("file", "a\tb\n\\\x01"), GS_LOG_INT("i", INT64_MIN),
                GS_LOG_UINT("u", UINT64_MAX), GS_LOG_BOOL("b", true), GS_LOG_BOOL("c", false),
                GS_LOG_ERR(&err));
    assert_string_equal(written(),
                        HEAD "\"warning\",\"msg\":\"went on\",\"file\":\"a\\tb\\n\\\\\\u0001\","
                             "\"i\":-9223372036854775808,\"u\":18446744073709551615,"
                             "\"b\":true,\"c\":false,\"error\":\"no \\\"way\\\"\"}\n");
    GS_LOG_ERROR("failed", GS_LOG_RC(-ENOENT), GS_LOG_CSTR("none", NULL));
    assert_string_equal(
        written(), HEAD
        "\"error\",\"msg\":\"failed\",\"error\":\"No such file or directory\",\"none\":\"\"}\n");
}

static void drops_what_is_below_the_level(void **state)
{
    (void)state;
    GS_LOG_DEBUG("quiet");
    assert_string_equal(written(), "");
    gs_log_set_level(GS_LOG_LEVEL_DEBUG);
    GS_LOG_DEBUG("loud");
    assert_string_equal(written(), HEAD "\"debug\",\"msg\":\"loud\"}\n");
    gs_log_set_level(GS_LOG_LEVEL_ERROR);
    GS_LOG_WARN("quiet");
    assert_string_equal(written(), "");
}

/** RFC 3629: what is valid stays, each other byte becomes U+FFFD. */
static void mends_text_that_is_no_utf8(void **state)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"\x80", "\\ufffd"},
        {"\xc3", "\\ufffd"},
        {"\xc0\xaf", "\\ufffd\\ufffd"},                       /* overlong */
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},            /* surrogate */
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"}, /* beyond U+10FFFF */
        {"\xe2\x82z", "\\ufffd\\ufffdz"},
        {"\x7f", "\\u007f"},
    };

    (void)state;
    gs_log_init(&(struct gs_log_options){
        .level = GS_LOG_LEVEL_INFO, .fd = ends[1], .burst = 100, .clock = &virtual.clock});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char want[256];
        GS_LOG_INFO("x", GS_LOG_CSTR("s", rows[i].in));
        (void)snprintf(want, sizeof(want), HEAD "\"info\",\"msg\":\"x\",\"s\":\"%s\"}\n",
                       rows[i].out);
        assert_string_equal(written(), want);
    }
}

static void cuts_what_is_too_long(void **state)
{
    char big[4000];
    struct gs_log_field many[32];

    (void)state;
    memset(big, 'a', sizeof(big));
    GS_LOG_INFO("long", GS_LOG_STR("s", ((struct gs_str){big, sizeof(big)})), GS_LOG_INT("i", 1));
    assert_non_null(strstr(written(), "a...\",\"i\":1}\n"));
    assert_int_equal(strlen(strstr(text, "\"s\":\"")), 5 + GS_LOG_FIELD + 3 + 1 + 6 + 2);
    for (size_t i = 0; i < 31; i++)
        many[i] = GS_LOG_STR("s", ((struct gs_str){big, 1000}));
    many[31] = GS_LOG_END;
    gs_log_put(GS_LOG_LEVEL_INFO, "many", many);
    size_t n = strlen(written());
    assert_true(n <= GS_LOG_LINE && n > GS_LOG_LINE - 1200);
    assert_string_equal(text + n - strlen("\",\"cut\":true}\n"), "\",\"cut\":true}\n");
}

static void say(const char *msg)
{
    gs_log_put(GS_LOG_LEVEL_INFO, msg, (const struct gs_log_field[]){GS_LOG_END});
}

static void counts_repeated_lines(void **state)
{
    static const char noisy[] = "noisy", calm[] = "calm";
    int lines = 0;

    (void)state;
    for (int i = 0; i < 10; i++)
        say(noisy);
    say(calm);
    for (const char *p = written(); *p; p++)
        lines += *p == '\n';
    assert_int_equal(lines, 4); /* burst of 3, and the other message */
    gs_clock_virtual_advance(&virtual, 999 * GS_CLOCK_MS);
    say(noisy);
    assert_string_equal(written(), "");
    gs_clock_virtual_advance(&virtual, 1 * GS_CLOCK_MS);
    say(noisy);
    assert_non_null(strstr(written(), "\"msg\":\"noisy\",\"suppressed\":8}"));
    say(noisy);
    assert_null(strstr(written(), "suppressed"));
}

/** More messages than the limiter has room for: none is lost for that. */
static void many_messages_pass(void **state)
{
    static char msg[1000][16];
    int lines = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(msg[i], sizeof(msg[i]), "m%d", i);
        say(msg[i]);
        for (const char *p = written(); *p; p++)
            lines += *p == '\n';
    }
    assert_int_equal(lines, 1000);
}

static void reads_levels(void **state)
{
    static const struct {
        const char *text;
        int level; /**< -1 refused */
    } rows[] = {
        {"debug", GS_LOG_LEVEL_DEBUG},
        {"info", GS_LOG_LEVEL_INFO},
        {"warn", GS_LOG_LEVEL_WARNING},
        {"warning", GS_LOG_LEVEL_WARNING},
        {"error", GS_LOG_LEVEL_ERROR},
        {"0", GS_LOG_LEVEL_INFO},
        {"3", GS_LOG_LEVEL_INFO},
        {"4", GS_LOG_LEVEL_DEBUG},
        {"10", GS_LOG_LEVEL_DEBUG},
        {"", -1},
        {"100", -1},
        {"-1", -1},
        {"loud", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum gs_log_level level = GS_LOG_LEVEL_COUNT;
        int rc = gs_log_parse_level(gs_str_of(rows[i].text), &level);
        assert_int_equal(rc, rows[i].level < 0 ? -EINVAL : 0);
        assert_int_equal(level, rows[i].level < 0 ? (int)GS_LOG_LEVEL_COUNT : rows[i].level);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(writes_one_object_per_line),
        TEST(drops_what_is_below_the_level),
        TEST(mends_text_that_is_no_utf8),
        TEST(cuts_what_is_too_long),
        TEST(counts_repeated_lines),
        TEST(many_messages_pass),
        TEST(reads_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
