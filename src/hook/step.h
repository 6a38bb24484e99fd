#pragma once
/* Labelled kill points, for the crash matrix. Nothing at all unless built with -Dsteps=true. */

#ifdef GS_STEPS
/** Called at each label. The default kills the process (SIGKILL) at the n-th passage of the label
 * that the environment names: GPUSLICE_KILL_AT="label:n". A test program may replace it. */
extern void (*gs_step_hook)(const char *label);
#define GS_STEP(label) gs_step_hook(label)
#else
#define GS_STEP(label) ((void)0)
#endif
