#pragma once
/* Commands of the tool gpuslice-sim. */

#include <stdint.h>

/** One command; `run` gets the words after its name and returns 0 or a negative errno (-EINVAL: the
 *  words are wrong, usage is printed). The cards are open. */
struct gs_ctl_command {
    const char *name;
    const char *arguments;
    const char *help;
    int (*run)(int argc, char **argv);
};

/** What each slice had of each card (ctl_usage.c). */
int gs_ctl_usage(int argc, char **argv);

/** `text` as a JSON string on stdout. */
void gs_ctl_print_text(const char *text);

/** Digits alone, at most `max`. 0 or -EINVAL. */
int gs_ctl_read_number(const char *text, uint64_t max, uint64_t *ret);

/** Commands on faults (ctl_fault.c). */
int gs_ctl_fault(int argc, char **argv);
int gs_ctl_slow(int argc, char **argv);
int gs_ctl_lose(int argc, char **argv);
int gs_ctl_xid(int argc, char **argv);
int gs_ctl_reset(int argc, char **argv);
int gs_ctl_return(int argc, char **argv);

/** Commands on how cards sit and are split (ctl_layout.c). */
int gs_ctl_driver(int argc, char **argv);
int gs_ctl_link(int argc, char **argv);
int gs_ctl_mig(int argc, char **argv);
int gs_ctl_near(int argc, char **argv);
int gs_ctl_recovery(int argc, char **argv);
