/* Bound pods whose grants are not believed: what the log says of them, in virtual time. */
#include "control/doubt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <yyjson.h>

#include "base/clock.h"
#include "base/log.h"

struct fixture {
    struct gs_clock_virtual clock;
    struct gs_loop *loop;
    struct gs_doubt doubt;
    int log;
    size_t at; /**< of the log: what was looked at */
    yyjson_doc *line;
};

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    gs_clock_virtual_init(&f.clock, 1700000000 * GS_CLOCK_S, false);
    assert_int_equal(gs_loop_new(&f.clock.clock, &f.loop), 0);
    f.doubt.loop = f.loop;
    f.log = memfd_create("log", 0);
    assert_true(f.log >= 0);
    gs_log_init(&(struct gs_log_options){.level = GS_LOG_LEVEL_INFO, .fd = f.log});
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    gs_doubt_fini(&f->doubt);
    yyjson_doc_free(f->line);
    gs_loop_free(f->loop);
    gs_log_init(&(struct gs_log_options){.level = GS_LOG_LEVEL_INFO, .fd = -1});
    (void)close(f->log);
    return 0;
}

static void saw(struct fixture *f, const char *name, bool is_doubted)
{
    gs_doubt_saw(&f->doubt, gs_str_of(name), GS_STR("team"), gs_str_of(name), is_doubted);
}

static void pass(struct fixture *f, uint64_t ms)
{
    gs_clock_virtual_advance(&f->clock, ms * GS_CLOCK_MS);
    while (gs_loop_step(f->loop, 0) > 0) {
    }
}

/* The lines since the last call: none, or one. */
static yyjson_val *said(struct fixture *f)
{
    char text[GS_LOG_LINE];
    ssize_t n = pread(f->log, text, sizeof(text), (off_t)f->at);

    assert_true(n >= 0);
    if (n == 0)
        return NULL;
    f->at += (size_t)n;
    assert_ptr_equal(memchr(text, '\n', (size_t)n), &text[n - 1]);
    yyjson_doc_free(f->line);
    f->line = yyjson_read(text, (size_t)n, 0);
    assert_non_null(f->line);
    return yyjson_doc_get_root(f->line);
}

static void want_doubt(struct fixture *f, size_t pods, const char *first)
{
    yyjson_val *line = said(f);

    assert_non_null(line);
    assert_true(yyjson_equals_str(yyjson_obj_get(line, "level"), "warning"));
    assert_non_null(
        strstr(yyjson_get_str(yyjson_obj_get(line, "msg")), "their cards may be given twice"));
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(line, "pods")), pods);
    if (first != NULL)
        assert_string_equal(yyjson_get_str(yyjson_obj_get(line, "first")), first);
}

static void pod_that_is_believed_is_not_told(void **state)
{
    struct fixture *f = *state;

    saw(f, "a", false);
    pass(f, 10000);
    assert_null(said(f));
    assert_int_equal(f->doubt.pod.n, 0);
}

static void told_with_its_name_once(void **state)
{
    struct fixture *f = *state;

    saw(f, "a", true);
    pass(f, GS_DOUBT_TELL_MS - 1);
    assert_null(said(f));
    pass(f, 1);
    want_doubt(f, 1, "team/a");
    for (int i = 0; i < 5; i++) { /* its status changes */
        saw(f, "a", true);
        pass(f, GS_DOUBT_TELL_MS);
    }
    assert_null(said(f));
}

/* Thousands at a start make one line, with their number and three of their names. */
static void many_make_one_line(void **state)
{
    struct fixture *f = *state;
    yyjson_val *line;
    char name[16];
    const char *first;
    size_t blanks = 0;

    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        saw(f, name, true);
    }
    pass(f, GS_DOUBT_TELL_MS);
    line = said(f);
    assert_int_equal(yyjson_get_uint(yyjson_obj_get(line, "pods")), 3000);
    first = yyjson_get_str(yyjson_obj_get(line, "first"));
    for (const char *p = first; *p != '\0'; p++)
        blanks += *p == ' ';
    assert_int_equal(blanks, 3);
    assert_string_equal(first + strlen(first) - 4, " ...");
    pass(f, 60000);
    assert_null(said(f));
}

static void each_change_of_their_number_is_told(void **state)
{
    struct fixture *f = *state;
    yyjson_val *line;

    saw(f, "a", true);
    pass(f, GS_DOUBT_TELL_MS);
    want_doubt(f, 1, "team/a");
    saw(f, "b", true);
    pass(f, GS_DOUBT_TELL_MS);
    want_doubt(f, 2, NULL);
    saw(f, "a", false);
    pass(f, GS_DOUBT_TELL_MS);
    want_doubt(f, 1, "team/b");
    saw(f, "c", true); /* came and went between two looks */
    saw(f, "c", false);
    pass(f, GS_DOUBT_TELL_MS);
    assert_null(said(f));
    saw(f, "b", false);
    pass(f, GS_DOUBT_TELL_MS);
    line = said(f);
    assert_true(yyjson_equals_str(yyjson_obj_get(line, "level"), "info"));
    assert_true(yyjson_equals_str(yyjson_obj_get(line, "msg"),
                                  "the grants of all bound pods are believed again"));
    pass(f, 60000);
    assert_null(said(f));
}

static void the_longest_names_fit(void **state)
{
    struct fixture *f = *state;
    char ns[64], name[254], want[3 * (63 + 1 + 253) + 2 + 1] = "", uid[2] = "0";

    memset(ns, 'n', 63);
    memset(name, 'p', 253);
    ns[63] = name[253] = '\0';
    for (int i = 0; i < 3; i++, uid[0]++) {
        gs_doubt_saw(&f->doubt, gs_str_of(uid), gs_str_of(ns), gs_str_of(name), true);
        (void)snprintf(want + strlen(want), sizeof(want) - strlen(want), "%s%s/%s",
                       i > 0 ? " " : "", ns, name);
    }
    pass(f, GS_DOUBT_TELL_MS);
    want_doubt(f, 3, want);
}

static void end_before_it_is_told(void **state)
{
    struct fixture *f = *state;

    saw(f, "a", true); /* the timer and the name go with it */
    gs_doubt_fini(&f->doubt);
    pass(f, 60000);
    assert_null(said(f));
    f->doubt = (struct gs_doubt){.loop = f->loop};
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(pod_that_is_believed_is_not_told),
        T(told_with_its_name_once),
        T(many_make_one_line),
        T(each_change_of_their_number_is_told),
        T(the_longest_names_fit),
        T(end_before_it_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
