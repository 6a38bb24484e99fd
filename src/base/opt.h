#pragma once
/* Command lines from one table: parser, --help, man page and shell completion are made from the
 * same rows, so that they cannot disagree.
 *
 * A program fills a struct gs_opt_spec with static arrays (usually through an options.def file). */

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_buf;
struct gs_err;

/** An option of every command (help). */
#define GS_OPT_ANY (-1)

/** What a shell should offer. */
enum gs_opt_complete {
    GS_OPT_WORD,    /**< nothing we know */
    GS_OPT_SLICE,   /**< a name printed by `PROGRAM ls --quiet` */
    GS_OPT_PROGRAM, /**< a command line of its own */
    GS_OPT_FILE,    /**< a file's name */
    GS_OPT_CHOICE,  /**< of an option: one of the words of its argument, "a|b"; of a command: its
                         first operand is the word that `operands` has in small letters */
    GS_OPT_CARD,    /**< an index that `PROGRAM top --json` has, or `all` */
    GS_OPT_COUNT,
};

struct gs_opt {
    int command;      /**< index in the command table, or GS_OPT_ANY */
    char letter;      /**< 0 none */
    const char *name; /**< long name without dashes */
    const char *arg;  /**< name of the argument in help; NULL: a flag */
    enum gs_opt_complete complete;
    const char *help; /**< one sentence or more, plain text */
};

struct gs_opt_command {
    const char *name;
    const char *operands; /**< "[OPTION]... NAME" */
    const char *brief;    /**< one line */
    const char *text;     /**< paragraphs for the manual, separated by blank lines */
    int min_operands;
    int max_operands; /**< -1 any number */
    bool stops;       /**< the first operand ends the options: the rest is another command line */
    enum gs_opt_complete complete;
};

/** A closing section of the manual. */
struct gs_opt_section {
    const char *title;
    const char *text; /**< paragraphs; one that starts with four spaces is shown as it is */
};

struct gs_opt_spec {
    const char *program;
    const char *version;
    const char *brief;
    const struct gs_opt_command *commands;
    size_t n_commands;
    const struct gs_opt *options;
    size_t n_options;
    const struct gs_opt_section *sections;
    size_t n_sections;
};

struct gs_opt_args {
    const char *
        *value;  /**< n_options entries of the caller: NULL absent, "" a flag that was given */
    char **rest; /**< operands, inside the argv that was passed */
    int n_rest;
};

/** Index of a command by name, -ENOENT. */
int gs_opt_find(const struct gs_opt_spec *spec, const char *name);

/** Parse what follows the command's name. argv may be reordered (operands to the front) but strings
 *  are not changed; they are borrowed for as long as `args` is used. An option may be given once.
 *  `--help` ends the parse early with its value set and no check of the operands.
 *  Returns  0; -EINVAL with a line that names the option and the help command. */
GS_WUR int gs_opt_parse(const struct gs_opt_spec *spec, int command, int argc, char **argv,
                        struct gs_opt_args *args, struct gs_err *err);

/** The word that `operands` has in small letters, as "pod" in "[OPTION]... pod NAME"; empty: none.
 */
struct gs_str gs_opt_keyword(const char *operands);

/** Append the help text of one command, or of the program (command < 0). */
void gs_opt_help(const struct gs_opt_spec *spec, int command, struct gs_buf *buf);
/** Append the manual page, section 1, in man(7) macros. */
void gs_opt_man(const struct gs_opt_spec *spec, struct gs_buf *buf);
/** Append a completion script. */
void gs_opt_bash(const struct gs_opt_spec *spec, struct gs_buf *buf);
void gs_opt_zsh(const struct gs_opt_spec *spec, struct gs_buf *buf);
