#pragma once
/* Command lines of daemons as Go programs have them: --flag=value, --flag value or -flag; a switch
 * alone means true; `version` and --help. What a daemon takes is a table. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"

struct gs_buf;

enum gs_flag_kind {
    GS_FLAG_STR,  /**< const char *, borrowed from argv */
    GS_FLAG_ONE,  /**< const char *, one of the words of `arg` ("a|b") */
    GS_FLAG_BOOL, /**< bool */
    GS_FLAG_MS,   /**< int64_t, milliseconds of a Go duration */
};

struct gs_flag {
    const char *name;
    enum gs_flag_kind kind;
    size_t at;          /**< of its member in the daemon's struct */
    const char *preset; /**< as text; "" for none */
    const char *arg;    /**< in the help; NULL for a switch */
    const char *help;
};

struct gs_flag_set {
    const struct gs_flag *flag;
    size_t n;
    const char *const *ignored; /**< names that are taken and mean nothing; klog's always are */
    size_t n_ignored;
};

/** What was asked for beside flags. */
struct gs_flag_wants {
    bool help, version;
};

/** Presets first, then the arguments.
 *  @ret     the daemon's struct; parts of it are set on failure, too.
 *  Returns  0; -EINVAL with the reason, and the flag that may have been meant. */
GS_WUR int gs_flag_parse(const struct gs_flag_set *set, int argc, char **argv, void *ret,
                         struct gs_flag_wants *ret_wants, struct gs_err *err);
/** A line or two for each flag. */
void gs_flag_help(const struct gs_flag_set *set, struct gs_buf *buf);
/** For main(): print what was asked for in place of work on standard output: the help, where it was
 *  wanted, else the version. Returns the exit status. */
GS_WUR int gs_flag_answer(bool wants_help, void (*help)(struct gs_buf *buf), const char *version);
/** A Go duration, "1m30s", "500ms", "0", in milliseconds. Returns 0, -EINVAL or -ERANGE. */
GS_WUR int gs_flag_parse_ms(const char *text, int64_t *ret_ms);
