#pragma once
/* Pods from JSON, and the words of NVIDIA's grants. */

#include "monitor/pods.h"

extern const struct gs_pods_keys fake_keys[1];

/** Into the set, as the API has it; what gs_pods_set() says. In the JSON a single quote stands for
 * a double one, and a backquote for one inside a text. */
int fake_pod(struct gs_pods *pods, const char *json);
