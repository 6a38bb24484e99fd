#include "base/opt.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

/** A parse in progress. */
struct parse {
    const struct gs_opt_spec *spec;
    int command;
    int argc;
    char **argv;
    int at; /**< next word */
    struct gs_opt_args *args;
    struct gs_err *err;
};

int gs_opt_find(const struct gs_opt_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->n_commands; i++)
        if (strcmp(spec->commands[i].name, name) == 0)
            return (int)i;
    return -ENOENT;
}

static const char *command_name(const struct parse *p)
{
    return p->spec->commands[p->command].name;
}

static int see_help(const struct parse *p, const char *what, const char *word, size_t n)
{
    return gs_err_set(p->err, -EINVAL, "%s '%.*s'; see '%s %s --help'", what, (int)(n & 0x7f), word,
                      p->spec->program, command_name(p));
}

static bool applies(const struct parse *p, const struct gs_opt *o)
{
    return o->command == GS_OPT_ANY || o->command == p->command;
}

static int find_long(const struct parse *p, const char *name, size_t n)
{
    for (size_t i = 0; i < p->spec->n_options; i++) {
        const struct gs_opt *o = &p->spec->options[i];

        if (applies(p, o) && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return (int)i;
    }
    return -ENOENT;
}

static int find_letter(const struct parse *p, char letter)
{
    for (size_t i = 0; i < p->spec->n_options; i++) {
        const struct gs_opt *o = &p->spec->options[i];

        if (applies(p, o) && o->letter == letter)
            return (int)i;
    }
    return -ENOENT;
}

/* @inline_value  text after '=' or after the letter; NULL none */
static int take(struct parse *p, int option, const char *inline_value)
{
    const struct gs_opt *o = &p->spec->options[option];
    const char *value = inline_value;

    if (p->args->value[option])
        return see_help(p, "option given twice:", o->name, strlen(o->name));
    if (!o->arg) {
        if (inline_value)
            return see_help(p, "no value belongs to option", o->name, strlen(o->name));
        value = "";
    } else if (!value) {
        if (p->at >= p->argc)
            return see_help(p, "a value is missing for option", o->name, strlen(o->name));
        value = p->argv[p->at++];
    }
    p->args->value[option] = value;
    return 0;
}

static int parse_long(struct parse *p, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    int option = find_long(p, word, n);

    if (option < 0)
        return see_help(p, "unknown option", word - 2, n + 2);
    return take(p, option, equals ? equals + 1 : NULL);
}

/* Letters may be joined; the last may take a value in the same word. */
static int parse_letters(struct parse *p, const char *letters)
{
    for (; *letters; letters++) {
        int option = find_letter(p, *letters), rc;

        if (option < 0)
            return see_help(p, "unknown option letter", letters, 1);
        if (p->spec->options[option].arg)
            return take(p, option, letters[1] ? letters + 1 : NULL);
        rc = take(p, option, NULL);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int check_operands(const struct parse *p)
{
    const struct gs_opt_command *c = &p->spec->commands[p->command];

    struct gs_str keyword = gs_opt_keyword(c->operands);

    if (keyword.n > 0 && p->args->n_rest > 0 && !gs_str_eq_c(keyword, p->args->rest[0]))
        return gs_err_set(
            p->err, -EINVAL, "%s: '%.*s' is missing in front of '%s'; usage: %s %s %s", c->name,
            (int)keyword.n, keyword.p, p->args->rest[0], p->spec->program, c->name, c->operands);
    if (p->args->n_rest < c->min_operands)
        return gs_err_set(p->err, -EINVAL, "%s: missing operand; usage: %s %s %s", c->name,
                          p->spec->program, c->name, c->operands);
    if (c->max_operands >= 0 && p->args->n_rest > c->max_operands)
        return see_help(p, "unexpected operand", p->args->rest[c->max_operands],
                        strlen(p->args->rest[c->max_operands]));
    return 0;
}

static bool wants_help(const struct parse *p)
{
    int help = find_long(p, "help", 4);

    return help >= 0 && p->args->value[help];
}

int gs_opt_parse(const struct gs_opt_spec *spec, int command, int argc, char **argv,
                 struct gs_opt_args *args, struct gs_err *err)
{
    struct parse p = {spec, command, argc, argv, 0, args, err};
    int n_rest = 0, rc = 0;

    memset(args->value, 0, spec->n_options * sizeof(*args->value));
    args->rest = argv;
    args->n_rest = 0;
    while (p.at < argc) {
        char *word = argv[p.at];

        if (strcmp(word, "--") == 0) {
            p.at++;
            break;
        }
        if (word[0] != '-' || word[1] == '\0') {
            if (spec->commands[command].stops)
                break;
            p.at++;
            argv[n_rest++] = word;
            continue;
        }
        p.at++;
        rc = word[1] == '-' ? parse_long(&p, word + 2) : parse_letters(&p, word + 1);
        if (rc != 0)
            return rc;
        if (wants_help(&p))
            return 0;
    }
    if (n_rest == 0) { /* keep argv's end, so that a command line stays NULL terminated */
        args->rest = argv + p.at;
        args->n_rest = argc - p.at;
    } else {
        while (p.at < argc)
            argv[n_rest++] = argv[p.at++];
        args->n_rest = n_rest;
    }
    return check_operands(&p);
}
