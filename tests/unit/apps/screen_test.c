#include "apps/gpuslice/screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"

#define K "\033[K\n"

static void draws(size_t rows, size_t columns, const char *text, const char *expected)
{
    const struct gs_screen screen = {rows, columns};
    GS_CLEANUP(gs_buf_fini) struct gs_buf in = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf page = {0};

    gs_buf_adds(&in, text);
    gs_screen_draw(&screen, &in, &page);
    assert_int_equal(gs_buf_check(&page), 0);
    assert_int_equal(strncmp(gs_buf_text(&page), "\033[H", 3), 0);
    assert_string_equal(gs_buf_text(&page) + 3, expected);
}

static void all_of_it_where_there_is_room(void **state)
{
    (void)state;
    draws(SIZE_MAX, SIZE_MAX, "a\n\nbc\n", "a" K K "bc" K "\033[J");
    draws(24, 80, "no newline", "no newline" K "\033[J");
    draws(24, 80, "", "\033[J");
}

/** The last row stays empty: a newline there would scroll. */
static void rows_below_the_screen_are_left_out(void **state)
{
    (void)state;
    draws(3, 80, "1\n2\n3\n4\n", "1" K "2" K "\033[J");
    draws(5, 80, "1\n2\n3\n4\n", "1" K "2" K "3" K "4" K "\033[J");
}

/** Behind a full line nothing is erased: the cursor still stands on its last character. */
static void lines_are_cut_by_characters(void **state)
{
    (void)state;
    draws(24, 10, "123456789\n1234567890\n12345678901\n",
          "123456789" K "1234567890\n1234567890\n"
          "\033[J");
    draws(24, 10, "\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588x\n",
          "\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\u2588\n\033[J");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_where_there_is_room),
        cmocka_unit_test(rows_below_the_screen_are_left_out),
        cmocka_unit_test(lines_are_cut_by_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
