#include "base/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

static void columns_line_up(void **state)
{
    struct gs_table t;
    struct gs_buf buf = {0};

    (void)state;
    gs_table_init(&t, 3, 1u << 1);
    gs_table_add(&t, "a");
    gs_table_add(&t, "1");
    gs_table_add(&t, "end");
    gs_table_add(&t, "long");
    gs_table_addf(&t, "%d", 1000);
    gs_table_add(&t, "x");
    assert_int_equal(gs_table_write(&t, "> ", &buf), 0);
    assert_string_equal(gs_buf_text(&buf), "> a        1  end\n> long  1000  x\n");
    gs_table_fini(&t);
    gs_buf_fini(&buf);
}

static void rows_end_without_blanks(void **state)
{
    struct gs_table t;
    struct gs_buf buf = {0};

    (void)state;
    gs_table_init(&t, 3, 0);
    gs_table_add(&t, "long");
    gs_table_add(&t, "1");
    gs_table_add(&t, "end");
    gs_table_add(&t, "a");
    gs_table_add(&t, "");
    gs_table_add(&t, "");
    assert_int_equal(gs_table_write(&t, " ", &buf), 0);
    assert_string_equal(gs_buf_text(&buf), " long  1  end\n a\n");
    gs_table_fini(&t);
    gs_buf_fini(&buf);
}

static void control_characters_cannot_reach_the_terminal(void **state)
{
    struct gs_table t;
    struct gs_buf buf = {0};

    (void)state;
    gs_table_init(&t, 1, 0);
    gs_table_add(&t, "\033[2Jx\n");
    assert_int_equal(gs_table_write(&t, "", &buf), 0);
    assert_string_equal(gs_buf_text(&buf), "?[2Jx?\n");
    gs_buf_clear(&buf);
    gs_table_clean(&buf, "a\tb\x7f");
    assert_string_equal(gs_buf_text(&buf), "a?b?");
    gs_table_fini(&t);
    gs_buf_fini(&buf);
}

static void width_counts_characters_not_bytes(void **state)
{
    struct gs_table t;
    struct gs_buf buf = {0};

    (void)state;
    gs_table_init(&t, 2, 0);
    gs_table_add(&t, "\u2588\u2588");
    gs_table_add(&t, "x");
    gs_table_add(&t, "abc");
    gs_table_add(&t, "y");
    assert_int_equal(gs_table_write(&t, "", &buf), 0);
    assert_string_equal(gs_buf_text(&buf), "\u2588\u2588   x\nabc  y\n");
    gs_table_fini(&t);
    gs_buf_fini(&buf);
}

static void bar_shows_the_share(void **state)
{
    static const struct {
        uint64_t part, whole;
        const char *text;
    } rows[] = {
        {0, 100, "[----]"},   {1, 1000, "[#---]"},          {50, 100, "[##--]"},
        {100, 100, "[####]"}, {200, 100, "[####]"},         {5, 0, "[----]"},
        {0, 0, "[----]"},     {UINT64_MAX, 1000, "[####]"},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_buf buf = {0};

        gs_table_bar(&buf, rows[i].part, rows[i].whole, 4, true);
        assert_string_equal(gs_buf_text(&buf), rows[i].text);
        gs_buf_fini(&buf);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_line_up),
        cmocka_unit_test(rows_end_without_blanks),
        cmocka_unit_test(control_characters_cannot_reach_the_terminal),
        cmocka_unit_test(width_counts_characters_not_bytes),
        cmocka_unit_test(bar_shows_the_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
