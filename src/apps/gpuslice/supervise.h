#pragma once
/* One child in front of which `gpuslice run` stands: it gets the signals we get, we get its end. */

struct gs_err;

/** Start argv with the current environment and wait for it. Orphans of its tree become our
 *  children, so that they can still be told from strangers; they are reaped but not waited for.
 *  Signals sent to us reach the child; what the terminal sends to the whole foreground group it
 *  gets from there, once. A stop by the terminal stops us too.
 *  @started  called once the child runs, where it does: threads may be started there, for we fork
 *            no more.
 *  Returns  exit status of the child, 128 + signal; GS_EXIT_NOT_FOUND, GS_EXIT_NOT_EXEC or
 *           GS_EXIT_SELF after a message where it was not started. */
int gs_supervise_run(char *const *argv, void (*started)(void *arg), void *arg);
