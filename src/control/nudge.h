#pragma once
/* Having kube-scheduler try a waiting pod again: it does so when something changes that may concern
 * the pod, and the surest of these is a change of the pod itself. So the annotation
 * GS_NAME_ROOM_SEEN is written to it.
 *
 * Threads  the loop's. */

#include "core/str.h"
#include "kube/client.h"

/** Write it, where the pod still has this UID. What goes wrong is logged: whoever sees the pod wait
 *  on nudges again. */
void gs_nudge_send(struct gs_kube_client *client, struct gs_str ns, struct gs_str name,
                   struct gs_str uid);
