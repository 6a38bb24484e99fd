#include "contract/reason.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *text_of(const struct gs_ledger_event *event)
{
    static char buf[400];
    struct gs_str_out out;

    gs_str_out_init(&out, buf, sizeof(buf));
    gs_reason_put(&out, event);
    assert_false(out.cut);
    return buf;
}

static void test_over_limit(void **state)
{
    struct gs_ledger_event event = {
        .reason = GS_REASON_OVER_LIMIT,
        .arg = {UINT64_C(1) << 30, UINT64_C(3) << 29, UINT64_C(2) << 30, 0},
        .what = "cuMemAlloc_v2"};

    (void)state;
    assert_string_equal(text_of(&event),
                        "cuMemAlloc_v2: asked for 1 GiB, but 1.5 GiB of the slice's 2 GiB "
                        "are in use: free some, or raise the limit");
    event.arg[2] = UINT64_MAX;
    assert_non_null(strstr(text_of(&event), "no limit"));
}

/** Every reason has a text, every field in it is one we know, and none of it is printed raw. */
static void test_all(void **state)
{
    (void)state;
    for (uint16_t i = 0; i < GS_REASON_COUNT; i++) {
        struct gs_ledger_event event = {.reason = i, .arg = {28, 2, 3, 4}, .what = "/x/quota"};
        const char *text = text_of(&event);

        assert_true(strlen(text) > 0);
        assert_null(strchr(text, '{'));
        assert_null(strchr(text, '}'));
        assert_string_not_equal(gs_reason_name(i), "UNKNOWN");
    }
    assert_string_equal(gs_reason_name(GS_REASON_COUNT), "UNKNOWN");
}

static void test_hostile(void **state)
{
    struct gs_ledger_event event = {.reason = GS_REASON_UNHELD};

    (void)state;
    memset(event.what, '\x1b', sizeof(event.what)); /* no NUL either */
    assert_null(strchr(text_of(&event), '\x1b'));
    event.what[0] = '\0';
    assert_non_null(strstr(text_of(&event), "driver call"));
    event.reason = 0xffff;
    assert_string_equal(text_of(&event), "unknown reason 65535");
    event.reason = GS_REASON_NO_PROC;
    event.arg[0] = 2;
    assert_non_null(strstr(text_of(&event), "no such file"));
    event.arg[0] = 12345;
    assert_non_null(strstr(text_of(&event), "error 12345"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_over_limit),
                                       cmocka_unit_test(test_all), cmocka_unit_test(test_hostile)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
