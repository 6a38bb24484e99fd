/* Everything that a table of options is rendered to: help, manual, completion. */
#include "base/opt.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"

#define HELP_WIDTH  79
#define HELP_INDENT 28

static bool applies(const struct gs_opt *o, int command)
{
    return o->command == GS_OPT_ANY || o->command == command;
}

/* Words of `text`, broken before HELP_WIDTH; the cursor stands at `column`. */
static void wrap(struct gs_buf *buf, const char *text, size_t column, size_t indent)
{
    bool first = true;

    while (*text) {
        size_t n = strcspn(text, " \n");

        if (n > 0) {
            if (!first && column + 1 + n > HELP_WIDTH) {
                gs_buf_adds(buf, "\n");
                gs_buf_addc(buf, ' ', indent);
                column = indent;
            } else if (!first) {
                gs_buf_adds(buf, " ");
                column++;
            }
            gs_buf_add(buf, text, n);
            column += n;
            first = false;
        }
        text += n;
        text += strspn(text, " \n");
    }
    gs_buf_adds(buf, "\n");
}

static void help_entry(struct gs_buf *buf, const char *head, const char *text)
{
    size_t n = strlen(head);

    gs_buf_adds(buf, head);
    if (n + 2 > HELP_INDENT) {
        gs_buf_adds(buf, "\n");
        n = 0;
    }
    gs_buf_addc(buf, ' ', HELP_INDENT - n);
    wrap(buf, text, HELP_INDENT, HELP_INDENT);
}

static void help_option(struct gs_buf *buf, const struct gs_opt *o)
{
    char head[96];

    (void)snprintf(head, sizeof(head), "  %c%c%s --%s%s%s", o->letter ? '-' : ' ',
                   o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name, o->arg ? "=" : "",
                   o->arg ? o->arg : "");
    help_entry(buf, head, o->help);
}

static void help_program(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf, "Usage: %s COMMAND [OPTION]...\n", spec->program);
    wrap(buf, spec->brief, 0, 0);
    gs_buf_adds(buf, "\nCommands:\n");
    for (size_t i = 0; i < spec->n_commands; i++) {
        char head[64];

        (void)snprintf(head, sizeof(head), "  %s", spec->commands[i].name);
        help_entry(buf, head, spec->commands[i].brief);
    }
    gs_buf_addf(buf, "\n'%s COMMAND --help' explains one; '%s --version' prints the version.\n",
                spec->program, spec->program);
}

/* What the manual says of the command; paragraphs as there. */
static void help_paragraphs(struct gs_buf *buf, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        char part[2048];

        (void)snprintf(part, sizeof(part), "%.*s", (int)(n & 0xffff), text);
        gs_buf_adds(buf, "\n");
        if (strncmp(part, "    ", 4) == 0)
            gs_buf_addf(buf, "%s\n", part);
        else
            wrap(buf, part, 0, 0);
        text += n;
        text += strspn(text, "\n");
    }
}

/* Where the rest is. */
static void help_sections(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf line = {0};

    if (spec->n_sections == 0)
        return;
    gs_buf_addf(&line, "'man %s' has more:", spec->program);
    for (size_t i = 0; i < spec->n_sections; i++)
        gs_buf_addf(&line, "%s %s", i > 0 ? "," : "", spec->sections[i].title);
    gs_buf_adds(buf, "\n");
    wrap(buf, gs_buf_text(&line), 0, 0);
}

void gs_opt_help(const struct gs_opt_spec *spec, int command, struct gs_buf *buf)
{
    const struct gs_opt_command *c;

    if (command < 0) {
        help_program(spec, buf);
        return;
    }
    c = &spec->commands[command];
    gs_buf_addf(buf, "Usage: %s %s %s\n", spec->program, c->name, c->operands);
    wrap(buf, c->brief, 0, 0);
    gs_buf_adds(buf, "\nOptions:\n");
    for (size_t i = 0; i < spec->n_options; i++)
        if (applies(&spec->options[i], command))
            help_option(buf, &spec->options[i]);
    help_paragraphs(buf, c->text);
    help_sections(spec, buf);
}

/* Text for man(7): nothing in it may be taken for a macro or an escape. */
static void man_text(struct gs_buf *buf, const char *text)
{
    bool line_start = buf->n == 0 || buf->p[buf->n - 1] == '\n';

    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            gs_buf_adds(buf, "\\&");
        line_start = *text == '\n';
        if (*text == '\\')
            gs_buf_adds(buf, "\\e");
        else if (*text == '-')
            gs_buf_adds(buf, "\\-");
        else
            gs_buf_addc(buf, *text, 1);
    }
}

/* Paragraphs, separated by blank lines; one that starts with four spaces is shown as it is. */
static void man_paragraphs(struct gs_buf *buf, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t n = end ? (size_t)(end - text) : strlen(text);
        bool literal = strncmp(text, "    ", 4) == 0;
        char part[2048];

        (void)snprintf(part, sizeof(part), "%.*s", (int)(n & 0xffff), text);
        gs_buf_adds(buf, literal ? ".PP\n.nf\n" : ".PP\n");
        man_text(buf, part);
        gs_buf_adds(buf, literal ? "\n.fi\n" : "\n");
        text += n;
        text += strspn(text, "\n");
    }
}

static void man_option(struct gs_buf *buf, const struct gs_opt *o)
{
    gs_buf_adds(buf, ".TP\n");
    if (o->letter)
        gs_buf_addf(buf, "\\fB\\-%c\\fR, ", o->letter);
    gs_buf_adds(buf, "\\fB\\-\\-");
    man_text(buf, o->name);
    gs_buf_adds(buf, "\\fR");
    if (o->arg) {
        gs_buf_adds(buf, "=\\fI");
        man_text(buf, o->arg);
        gs_buf_adds(buf, "\\fR");
    }
    gs_buf_adds(buf, "\n");
    man_text(buf, o->help);
    gs_buf_adds(buf, "\n");
}

static void man_command(const struct gs_opt_spec *spec, int command, struct gs_buf *buf)
{
    const struct gs_opt_command *c = &spec->commands[command];

    gs_buf_addf(buf, ".SS \"%s %s ", spec->program, c->name);
    man_text(buf, c->operands);
    gs_buf_adds(buf, "\"\n");
    man_text(buf, c->brief);
    gs_buf_adds(buf, "\n");
    man_paragraphs(buf, c->text);
    for (size_t i = 0; i < spec->n_options; i++)
        if (spec->options[i].command == command)
            man_option(buf, &spec->options[i]);
}

void gs_opt_man(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf,
                ".\\\" Generated from the option table; do not edit.\n.TH %s 1 \"\" \"%s %s\"\n",
                spec->program, spec->program, spec->version);
    gs_buf_addf(buf, ".SH NAME\n%s \\- ", spec->program);
    man_text(buf, spec->brief);
    gs_buf_adds(buf, "\n.SH SYNOPSIS\n");
    for (size_t i = 0; i < spec->n_commands; i++) {
        gs_buf_addf(buf, ".B %s %s\n", spec->program, spec->commands[i].name);
        man_text(buf, spec->commands[i].operands);
        gs_buf_adds(buf, i + 1 < spec->n_commands ? "\n.br\n" : "\n");
    }
    gs_buf_adds(buf, ".SH COMMANDS\n");
    for (size_t i = 0; i < spec->n_commands; i++)
        man_command(spec, (int)i, buf);
    gs_buf_adds(buf, ".SS \"every command\"\n");
    for (size_t i = 0; i < spec->n_options; i++)
        if (spec->options[i].command == GS_OPT_ANY)
            man_option(buf, &spec->options[i]);
    for (size_t i = 0; i < spec->n_sections; i++) {
        gs_buf_addf(buf, ".SH %s\n", spec->sections[i].title);
        man_paragraphs(buf, spec->sections[i].text);
    }
}

/* The words of "a|b", with blanks between. */
static void put_choices(struct gs_buf *buf, const char *arg)
{
    for (; *arg; arg++)
        gs_buf_addc(buf, *arg == '|' ? ' ' : *arg, 1);
}

struct gs_str gs_opt_keyword(const char *operands)
{
    while (*operands) {
        size_t n = strcspn(operands, " ");

        if (strspn(operands, "abcdefghijklmnopqrstuvwxyz") == n)
            return (struct gs_str){operands, n};
        operands += n;
        operands += strspn(operands, " ");
    }
    return (struct gs_str){operands, 0};
}

static void put_keyword(struct gs_buf *buf, const char *operands)
{
    struct gs_str word = gs_opt_keyword(operands);

    gs_buf_add(buf, word.p, word.n);
}

/* "run:--memory|run:-m" */
static void bash_pattern(const struct gs_opt_spec *spec, const struct gs_opt *o, struct gs_buf *buf)
{
    gs_buf_addf(buf, "%s:--%s", spec->commands[o->command].name, o->name);
    if (o->letter)
        gs_buf_addf(buf, "|%s:-%c", spec->commands[o->command].name, o->letter);
}

static bool takes_value(const struct gs_opt *o)
{
    return o->arg && o->command != GS_OPT_ANY;
}

/* Which options have their value in the next word. */
static void bash_takes(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    const char *sep = "";

    gs_buf_addf(buf, "_%s_takes()\n{\n    case $1 in\n    ", spec->program);
    for (size_t i = 0; i < spec->n_options; i++) {
        if (!takes_value(&spec->options[i]))
            continue;
        gs_buf_adds(buf, sep);
        bash_pattern(spec, &spec->options[i], buf);
        sep = "|\\\n    ";
    }
    gs_buf_adds(buf, ") return 0 ;;\n    esac\n    return 1\n}\n");
}

static void bash_slices(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf, "$(%s ls --quiet 2>/dev/null)", spec->program);
}

/* Indices out of the JSON of `top`. */
static void put_cards(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf,
                "$(%s top --json 2>/dev/null | grep -o '\"index\":[0-9]*' | grep -o '[0-9]*$') all",
                spec->program);
}

static void bash_value(const struct gs_opt_spec *spec, const struct gs_opt *o, struct gs_buf *buf)
{
    if (o->complete == GS_OPT_FILE) {
        gs_buf_adds(buf, "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")");
        return;
    }
    if (o->complete == GS_OPT_WORD) {
        gs_buf_adds(buf, "COMPREPLY=()");
        return;
    }
    gs_buf_adds(buf, "COMPREPLY=($(compgen -W \"");
    if (o->complete == GS_OPT_SLICE)
        bash_slices(spec, buf);
    else if (o->complete == GS_OPT_CARD)
        put_cards(spec, buf);
    else
        put_choices(buf, o->arg);
    gs_buf_adds(buf, "\" -- \"$cur\"))");
}

static void bash_option_values(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    for (size_t i = 0; i < spec->n_options; i++) {
        if (!takes_value(&spec->options[i]))
            continue;
        gs_buf_adds(buf, "    ");
        bash_pattern(spec, &spec->options[i], buf);
        gs_buf_adds(buf, ") ");
        bash_value(spec, &spec->options[i], buf);
        gs_buf_adds(buf, "; return ;;\n");
    }
}

static void bash_commands(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    for (size_t i = 0; i < spec->n_commands; i++) {
        const struct gs_opt_command *c = &spec->commands[i];

        gs_buf_addf(buf, "    %s) words='", c->name);
        for (size_t k = 0; k < spec->n_options; k++)
            if (applies(&spec->options[k], (int)i))
                gs_buf_addf(buf, "--%s%s ", spec->options[k].name, spec->options[k].arg ? "=" : "");
        gs_buf_adds(buf, "'");
        if (c->complete == GS_OPT_SLICE) {
            gs_buf_adds(buf, "; [[ $cur == -* ]] || words=\"");
            bash_slices(spec, buf);
            gs_buf_adds(buf, "\"");
        } else if (c->complete == GS_OPT_CHOICE) {
            gs_buf_adds(buf, "; [[ $cur == -* ]] || { words=''; ((first)) || words='");
            put_keyword(buf, c->operands);
            gs_buf_adds(buf, "'; }");
        } else if (c->complete == GS_OPT_PROGRAM) {
            gs_buf_addf(buf, "; [[ $cur == -* ]] || { _%s_program $COMP_CWORD; return; }",
                        spec->program);
        }
        gs_buf_adds(buf, " ;;\n");
    }
}

/* Another command line begins at word $1: what it takes nobody knows better than its own
 * completion; without that, files, and programs in its first word. */
static void bash_program(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(
        buf,
        "_%s_program()\n{\n"
        "    if declare -F _command_offset >/dev/null; then _command_offset $1; return; fi\n"
        "    compopt -o filenames\n"
        "    mapfile -t COMPREPLY < <(\n"
        "        ((COMP_CWORD > $1)) || compgen -c -- \"${COMP_WORDS[COMP_CWORD]}\"\n"
        "        compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\")\n}\n",
        spec->program);
}

/* The commands whose first operand begins another command line, as "run|exec". */
static void bash_stops(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    const char *sep = "";

    for (size_t i = 0; i < spec->n_commands; i++) {
        if (!spec->commands[i].stops)
            continue;
        gs_buf_addf(buf, "%s%s", sep, spec->commands[i].name);
        sep = "|";
    }
}

/* `first` becomes the place of the first operand before the cursor, 0 where there is none. */
static void bash_find_operand(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf,
                "    for ((i = 2; i < COMP_CWORD && !first; i++)); do\n"
                "        case ${COMP_WORDS[i]} in\n"
                "        --) first=$((i + 1)) ;;\n"
                "        -*) ! _%s_takes \"${COMP_WORDS[1]}:${COMP_WORDS[i]}\" || ((++i))\n"
                "            # --option=value is three words\n"
                "            [[ ${COMP_WORDS[i]} != = ]] || ((++i)) ;;\n"
                "        *) first=$i ;;\n"
                "        esac\n"
                "    done\n"
                "    case $first:${COMP_WORDS[1]} in\n    0:*) ;;\n    *:",
                spec->program);
    bash_stops(spec, buf);
    gs_buf_addf(buf, ") _%s_program $first; return ;;\n    esac\n", spec->program);
}

void gs_opt_bash(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf, "# bash completion for %s; generated from the option table\n", spec->program);
    bash_takes(spec, buf);
    bash_program(spec, buf);
    gs_buf_addf(buf, "_%s()\n{\n", spec->program);
    gs_buf_adds(buf, "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
                     "words='' i first=0\n    COMPREPLY=()\n"
                     "    if ((COMP_CWORD == 1)); then\n        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; i < spec->n_commands; i++)
        gs_buf_addf(buf, "%s ", spec->commands[i].name);
    gs_buf_adds(buf, "--help --version' -- \"$cur\"))\n        return\n    fi\n");
    bash_find_operand(spec, buf);
    gs_buf_adds(buf, "    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                     "    [[ $cur == = ]] && { prev=${COMP_WORDS[COMP_CWORD-1]}; cur=''; }\n"
                     "    case ${COMP_WORDS[1]}:$prev in\n");
    bash_option_values(spec, buf);
    gs_buf_adds(buf, "    esac\n    case ${COMP_WORDS[1]} in\n");
    bash_commands(spec, buf);
    gs_buf_addf(buf,
                "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                "    [[ ${COMPREPLY-} == *= ]] && compopt -o nospace\n    return 0\n}\n"
                "complete -F _%s %s\n",
                spec->program, spec->program);
}

/* Inside '...' of zsh: no quote, and no bracket or colon that _arguments would read. */
static void zsh_text(struct gs_buf *buf, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            gs_buf_adds(buf, "'\\''");
        else if (strchr("[]:\\", *text))
            gs_buf_addf(buf, "\\%c", *text);
        else
            gs_buf_addc(buf, *text, 1);
    }
}

/* The first sentence is enough in a menu. A point or semicolon inside a word ends none. */
static size_t first_sentence(const char *text)
{
    size_t n = strcspn(text, ".;");

    while (text[n] && text[n + 1] && text[n + 1] != ' ' && text[n + 1] != '\n')
        n += 1 + strcspn(text + n + 1, ".;");
    return n;
}

static void zsh_brief(struct gs_buf *buf, const char *text)
{
    size_t n = first_sentence(text);
    char part[512];

    (void)snprintf(part, sizeof(part), "%.*s", (int)(n & 0xffff), text);
    zsh_text(buf, part);
}

static void zsh_operand(const struct gs_opt_spec *spec, const struct gs_opt_command *c,
                        struct gs_buf *buf)
{
    if (c->complete == GS_OPT_PROGRAM) {
        gs_buf_adds(buf, " '(-)1:command:_command_names -e' '*::arguments:_normal'");
    } else if (c->complete == GS_OPT_SLICE) {
        gs_buf_addf(buf, " '*:slice:_%s_slices'", spec->program);
    } else if (c->complete == GS_OPT_CHOICE) {
        gs_buf_adds(buf, " '1:what:(");
        put_keyword(buf, c->operands);
        gs_buf_adds(buf, ")'");
    }
}

static void zsh_value(const struct gs_opt_spec *spec, const struct gs_opt *o, struct gs_buf *buf)
{
    gs_buf_adds(buf, ":");
    zsh_text(buf, o->arg);
    if (o->complete == GS_OPT_SLICE) {
        gs_buf_addf(buf, ":_%s_slices", spec->program);
    } else if (o->complete == GS_OPT_CARD) {
        gs_buf_addf(buf, ":_%s_cards", spec->program);
    } else if (o->complete == GS_OPT_FILE) {
        gs_buf_adds(buf, ":_files");
    } else if (o->complete == GS_OPT_CHOICE) {
        gs_buf_adds(buf, ":(");
        put_choices(buf, o->arg);
        gs_buf_adds(buf, ")");
    } else {
        gs_buf_adds(buf, ": ");
    }
}

/* '(-m --memory)'{-m+,--memory=}'[what it is]:SIZE: ' */
static void zsh_option(const struct gs_opt_spec *spec, const struct gs_opt *o, struct gs_buf *buf)
{
    const char *equals = o->arg ? "=" : "";

    if (o->letter)
        gs_buf_addf(buf, " '(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter,
                    o->arg ? "+" : "", o->name, equals);
    else
        gs_buf_addf(buf, " '--%s%s[", o->name, equals);
    zsh_brief(buf, o->help);
    gs_buf_adds(buf, "]");
    if (o->arg)
        zsh_value(spec, o, buf);
    gs_buf_adds(buf, "'");
}

void gs_opt_zsh(const struct gs_opt_spec *spec, struct gs_buf *buf)
{
    gs_buf_addf(buf,
                "#compdef %s\n# generated from the option table\n"
                "_%s_slices() {\n    local -a names\n    names=(${(f)\"$(%s ls --quiet "
                "2>/dev/null)\"})\n    _describe slice names\n}\n"
                "_%s_cards() {\n    local -a cards\n    cards=(",
                spec->program, spec->program, spec->program, spec->program);
    put_cards(spec, buf);
    gs_buf_addf(buf,
                ")\n    _describe card cards\n}\n"
                "_%s() {\n    local -a commands\n    commands=(\n",
                spec->program);
    for (size_t i = 0; i < spec->n_commands; i++) {
        gs_buf_addf(buf, "        '%s:", spec->commands[i].name);
        zsh_brief(buf, spec->commands[i].brief);
        gs_buf_adds(buf, "'\n");
    }
    gs_buf_adds(buf, "    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
                     "        return\n    fi\n    shift words; ((CURRENT--))\n"
                     "    case $words[1] in\n");
    for (size_t i = 0; i < spec->n_commands; i++) {
        gs_buf_addf(buf, "    %s) _arguments -S", spec->commands[i].name);
        for (size_t k = 0; k < spec->n_options; k++)
            if (applies(&spec->options[k], (int)i))
                zsh_option(spec, &spec->options[k], buf);
        zsh_operand(spec, &spec->commands[i], buf);
        gs_buf_adds(buf, " ;;\n");
    }
    gs_buf_addf(buf, "    esac\n}\n_%s \"$@\"\n", spec->program);
}
