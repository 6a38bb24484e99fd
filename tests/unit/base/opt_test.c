#include "base/opt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

enum { GO, LIST };
enum { SIZE, FAST, NAME, HELP, N_OPTIONS };

static const struct gs_opt_command commands[] = {
    {"go", "[OPTION]... CMD", "Start it.", "One.\n\n.Two\n\n    code", 1, -1, true, GS_OPT_PROGRAM},
    {"list", "[NAME]", "List them.", "", 0, 1, false, GS_OPT_SLICE},
};
static const struct gs_opt options[] = {
    [SIZE] = {GO, 's', "size", "SIZE", GS_OPT_WORD, "How much; it's a \\ number"},
    [FAST] = {GO, 'f', "fast", NULL, GS_OPT_WORD, "Hurry"},
    [NAME] = {LIST, 'n', "name", "NAME", GS_OPT_SLICE, "Who"},
    [HELP] = {GS_OPT_ANY, 'h', "help", NULL, GS_OPT_WORD, "Explain"},
};
static const struct gs_opt_section sections[] = {{"FILES", "None."}};
static const struct gs_opt_spec spec = {
    "prog", "1.2", "do things", commands, 2, options, N_OPTIONS, sections, 1,
};

static int parse(int command, char **argv, struct gs_opt_args *args, struct gs_err *err)
{
    static const char *value[N_OPTIONS];
    int argc = 0;

    while (argv[argc])
        argc++;
    args->value = value;
    return gs_opt_parse(&spec, command, argc, argv, args, err);
}

static void takes_values_in_every_form(void **state)
{
    static char *forms[][5] = {
        {"--size=5", "cmd", NULL},      {"--size", "5", "cmd", NULL}, {"-s5", "cmd", NULL},
        {"-s", "5", "--", "cmd", NULL}, {"-s", "5", "cmd", NULL},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(forms); i++) {
        struct gs_opt_args args;

        assert_int_equal(parse(GO, forms[i], &args, NULL), 0);
        assert_string_equal(args.value[SIZE], "5");
        assert_null(args.value[FAST]);
        assert_int_equal(args.n_rest, 1);
        assert_string_equal(args.rest[0], "cmd");
        assert_null(args.rest[1]); /* as execvp wants it */
    }
}

static void a_command_line_is_left_alone(void **state)
{
    char *argv[] = {"-fs1", "cmd", "--size", "--", "-f", NULL};
    struct gs_opt_args args;

    (void)state;
    assert_int_equal(parse(GO, argv, &args, NULL), 0);
    assert_non_null(args.value[FAST]);
    assert_string_equal(args.value[SIZE], "1");
    assert_int_equal(args.n_rest, 4);
    assert_string_equal(args.rest[1], "--size");
}

static void operands_may_stand_before_options(void **state)
{
    char *argv[] = {"a", "-n", "b", NULL};
    struct gs_opt_args args;

    (void)state;
    assert_int_equal(parse(LIST, argv, &args, NULL), 0);
    assert_int_equal(args.n_rest, 1);
    assert_string_equal(args.rest[0], "a");
    assert_string_equal(args.value[NAME], "b");
}

static void refuses_and_says_what(void **state)
{
    static struct {
        int command;
        char *argv[5];
        const char *says;
    } rows[] = {
        {GO, {"--sizes=1", "c", NULL}, "--sizes"},
        {GO, {"--siz=1", "c", NULL}, "--siz"},
        {GO, {"-x", "c", NULL}, "'x'"},
        {GO, {"--fast=1", "c", NULL}, "fast"},
        {GO, {"--size", NULL}, "size"},
        {GO, {"-f", "--fast", "c", NULL}, "twice"},
        {GO, {"-f", NULL}, "missing operand"},
        {GO, {"--name=a", "c", NULL}, "--name"}, /* another command's */
        {LIST, {"a", "b", NULL}, "'b'"},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_opt_args args;
        struct gs_err err = {0};

        assert_int_equal(parse(rows[i].command, rows[i].argv, &args, &err), -EINVAL);
        assert_non_null(strstr(err.text, rows[i].says));
    }
    assert_int_equal(gs_opt_find(&spec, "go"), GO);
    assert_int_equal(gs_opt_find(&spec, "gone"), -ENOENT);
}

static void help_needs_no_operand(void **state)
{
    char *argv[] = {"--help", NULL};
    struct gs_opt_args args;

    (void)state;
    assert_int_equal(parse(GO, argv, &args, NULL), 0);
    assert_non_null(args.value[HELP]);
}

/* Every row must show in every text that is made from the table. */
static void all_texts_name_every_row(void **state)
{
    static void (*const render[])(const struct gs_opt_spec *,
                                  struct gs_buf *) = {gs_opt_man, gs_opt_bash, gs_opt_zsh};

    (void)state;
    for (size_t r = 0; r < GS_ARRAY_LEN(render); r++) {
        struct gs_buf buf = {0};

        render[r](&spec, &buf);
        assert_int_equal(gs_buf_check(&buf), 0);
        for (size_t i = 0; i < 2; i++)
            assert_non_null(strstr(buf.p, commands[i].name));
        for (size_t i = 0; i < N_OPTIONS; i++)
            assert_non_null(strstr(buf.p, options[i].name));
        gs_buf_fini(&buf);
    }
}

static void help_fits_a_terminal(void **state)
{
    struct gs_buf buf = {0};
    size_t column = 0;

    (void)state;
    gs_opt_help(&spec, -1, &buf);
    gs_opt_help(&spec, GO, &buf);
    assert_non_null(strstr(buf.p, "-s, --size=SIZE"));
    assert_null(strstr(buf.p, "--name")); /* another command's */
    assert_non_null(strstr(buf.p, "\nOne.\n\n.Two\n\n    code\n\n'man prog' has more: FILES\n"));
    for (size_t i = 0; i < buf.n; i++) {
        column = buf.p[i] == '\n' ? 0 : column + 1;
        assert_true(column < 80);
    }
    gs_buf_fini(&buf);
}

static void manual_escapes_what_roff_would_read(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    gs_opt_man(&spec, &buf);
    assert_non_null(strstr(buf.p, "\n\\&.Two\n"));
    assert_non_null(strstr(buf.p, "it's a \\e number"));
    assert_non_null(strstr(buf.p, ".nf\n    code\n.fi\n"));
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_values_in_every_form),
        cmocka_unit_test(a_command_line_is_left_alone),
        cmocka_unit_test(operands_may_stand_before_options),
        cmocka_unit_test(refuses_and_says_what),
        cmocka_unit_test(help_needs_no_operand),
        cmocka_unit_test(all_texts_name_every_row),
        cmocka_unit_test(help_fits_a_terminal),
        cmocka_unit_test(manual_escapes_what_roff_would_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
