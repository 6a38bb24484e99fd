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
