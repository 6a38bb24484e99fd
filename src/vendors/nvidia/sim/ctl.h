#pragma once
/* Commands of the tool gpuslice-sim. */

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

/** Commands on faults (ctl_fault.c). */
int gs_ctl_fault(int argc, char **argv);
int gs_ctl_slow(int argc, char **argv);
int gs_ctl_lose(int argc, char **argv);
int gs_ctl_xid(int argc, char **argv);
int gs_ctl_reset(int argc, char **argv);
