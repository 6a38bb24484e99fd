/* Lines as Prometheus' text format 0.0.4 has them (prometheus.io, "Exposition formats"). */

#include "base/prom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void lines(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    gs_prom_head(&buf, "up", "gauge", "Is it up?");
    gs_prom_line(&buf, "up", NULL, 0, 1);
    GS_PROM_LINE(&buf, "up", 0.25, {"a", GS_STR("x\\y\"z\n")}, {NULL, GS_STR("left out")},
                 {"b", {0}}, {"c", GS_STR("")});
    GS_PROM_LINE(&buf, "up", -3, {NULL, GS_STR("left out")});
    gs_prom_line(&buf, "up", NULL, 0, 4398046511104.0); /* whole numbers to the last digit */
    assert_string_equal(gs_buf_text(&buf), "# HELP up Is it up?\n"
                                           "# TYPE up gauge\n"
                                           "up 1\n"
                                           "up{a=\"x\\\\y\\\"z\\n\",c=\"\"} 0.25\n"
                                           "up -3\n"
                                           "up 4398046511104\n");
    gs_buf_fini(&buf);
}

/* Names as Go programs and HAMi have them; what is not known is left out. */
static void process(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    gs_prom_process(&buf, &(struct gs_prom_process){
                              .version = "1.2", .cpu_s = 0.5, .start_unix_s = 1790000000});
    assert_non_null(strstr(gs_buf_text(&buf), "\nhami_build_info{version=\"1.2\",revision=\"\","));
    assert_non_null(strstr(gs_buf_text(&buf), "\nprocess_cpu_seconds_total 0.5\n"));
    assert_non_null(strstr(gs_buf_text(&buf), "\nprocess_start_time_seconds 1790000000\n"));
    assert_null(strstr(gs_buf_text(&buf), "resident"));
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lines), cmocka_unit_test(process)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
