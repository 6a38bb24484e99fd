/* Command lines as Go's flag packages take them. */

#include "base/flag.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

struct conf {
    const char *address, *choice;
    bool debug;
    int64_t wait_ms;
};

static const struct gs_flag flag[] = {
    {"bind-address", GS_FLAG_STR, offsetof(struct conf, address), ":80", "ADDR", "where"},
    {"choice", GS_FLAG_ONE, offsetof(struct conf, choice), "a", "a|b", "which"},
    {"debug", GS_FLAG_BOOL, offsetof(struct conf, debug), "false", NULL, "more"},
    {"wait", GS_FLAG_MS, offsetof(struct conf, wait_ms), "5m", "TIME", "how long"},
};
static const char *const ignored[] = {"old-name"};
static const struct gs_flag_set set = {flag, GS_ARRAY_LEN(flag), ignored, GS_ARRAY_LEN(ignored)};

static int parse(struct conf *c, struct gs_flag_wants *w, struct gs_err *err, const char *a,
                 const char *b)
{
    char *argv[] = {(char *)"x", (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};

    *err = (struct gs_err){0};
    return gs_flag_parse(&set, a == NULL ? 1 : b == NULL ? 2 : 3, argv, c, w, err);
}

static void values(void **state)
{
    struct gs_flag_wants w;
    struct gs_err err;
    struct conf c;

    (void)state;
    assert_int_equal(parse(&c, &w, &err, NULL, NULL), 0);
    assert_string_equal(c.address, ":80");
    assert_string_equal(c.choice, "a");
    assert_int_equal(c.wait_ms, 300000);
    assert_false(c.debug || w.help || w.version);
    assert_int_equal(parse(&c, &w, &err, "--bind-address", ":1"), 0);
    assert_string_equal(c.address, ":1");
    assert_int_equal(parse(&c, &w, &err, "-debug", "--choice=b"), 0);
    assert_true(c.debug);
    assert_string_equal(c.choice, "b");
    assert_int_equal(parse(&c, &w, &err, "--debug=false", "version"), 0);
    assert_true(!c.debug && w.version);
    assert_int_equal(parse(&c, &w, &err, "--v=4", "--old-name=3"), 0);
    assert_int_equal(parse(&c, &w, &err, "-v", "4"), 0);
    assert_int_equal(parse(&c, &w, &err, "--help", NULL), 0);
    assert_true(w.help);
}

static void refusals(void **state)
{
    static const char *const bad[][2] = {
        {"--choice=c", "--choice: 'c' is none of a|b"},
        {"--debug=maybe", "--debug: 'maybe' is not a truth value"},
        {"--wait=5", "--wait: '5' is not a duration"},
        {"--wait", "--wait wants a value"},
        {"--bindaddress=:1", "unknown flag '--bindaddress=:1'; is it --bind-address? See --help"},
        {"--zzzzzzzz", "unknown flag '--zzzzzzzz'; see --help"},
        {"go", "unknown argument 'go'; see --help"},
    };
    struct gs_flag_wants w;
    struct gs_err err;
    struct conf c;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        assert_int_equal(parse(&c, &w, &err, bad[i][0], NULL), -EINVAL);
        assert_string_equal(err.text, bad[i][1]);
    }
}

/* Go's time.ParseDuration: these are its examples and errors. */
static void durations(void **state)
{
    static const struct {
        const char *text;
        int rc;
        int64_t ms;
    } row[] = {{"0", 0, 0},         {"1h10m10s", 0, 4210000}, {"1.5h", 0, 5400000},
               {"250ms", 0, 250},   {"100us", 0, 0},          {"5", -EINVAL, 0},
               {"s", -EINVAL, 0},   {"1 s", -EINVAL, 0},      {"1x", -EINVAL, 0},
               {"-1s", -EINVAL, 0}, {"9999999h", -ERANGE, 0}};
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        ms = 0;
        assert_int_equal(gs_flag_parse_ms(row[i].text, &ms), row[i].rc);
        assert_int_equal(ms, row[i].ms);
    }
}

static void help(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    gs_flag_help(&set, &buf);
    assert_non_null(strstr(gs_buf_text(&buf), "  --bind-address ADDR\n        where (:80)\n"));
    assert_non_null(strstr(gs_buf_text(&buf), "  --debug\n        more (false)\n"));
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(refusals),
        cmocka_unit_test(durations),
        cmocka_unit_test(help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
