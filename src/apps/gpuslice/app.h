#pragma once
/* What the commands of gpuslice share. Each `gs_<command>_main` returns the process's exit status.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_opt_args;
struct gs_buf;

/** Exit status of `run` when gpuslice itself failed, as env(1) and timeout(1) use them. */
#define GS_EXIT_SELF      125
#define GS_EXIT_NOT_EXEC  126
#define GS_EXIT_NOT_FOUND 127
/** Exit status of the other commands. */
#define GS_EXIT_FAILED 1
#define GS_EXIT_USAGE  2

int gs_run_main(const struct gs_opt_args *args);
int gs_top_main(const struct gs_opt_args *args);
int gs_ls_main(const struct gs_opt_args *args);
int gs_rm_main(const struct gs_opt_args *args);
int gs_log_main(const struct gs_opt_args *args);
int gs_resize_main(const struct gs_opt_args *args);
int gs_suspend_main(const struct gs_opt_args *args);
int gs_resume_main(const struct gs_opt_args *args);
int gs_explain_main(const struct gs_opt_args *args);
int gs_doctor_main(const struct gs_opt_args *args);

/** One line on standard error, "gpuslice: ..."; control characters in it become '?'. */
void gs_app_say(const char *fmt, ...) GS_PRINTF(1, 2);
/** The same, ending a command: 0, or GS_EXIT_FAILED after a message where there is something to
 * say. */
int gs_app_finish(const struct gs_buf *buf);

/** Size for people: "1.5 GiB"; UINT64_MAX is "none". Returns `ret_text`. */
#define GS_APP_SIZE 32
const char *gs_app_size(uint64_t bytes, char ret_text[GS_APP_SIZE]);
