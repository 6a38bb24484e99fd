#pragma once
/* Pods from the API server (kube/view.h) as decisions (model/pod.h) and as the books see them. */

#include "base/arena.h"
#include "base/err.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "kube/view.h"
#include "model/pod.h"

/** As decisions see it. Text is borrowed from the view. 0 or -ENOMEM. */
GS_WUR int gs_convert_pod(const struct gs_kube_pod *pod, struct gs_arena *arena,
                          struct gs_pod *ret);

/** May no Binding name the pod as it is (control/fence.h)? By what is in the pod alone, so that all
 *  agree on it. Pure. */
bool gs_convert_is_closed(const struct gs_kube_pod *pod);

/** As the books need it: grants by the policies' annotations. `placed` is the same pod by
 *  gs_convert_pod(). Arrays in the arena. 0 or -ENOMEM. */
GS_WUR int gs_convert_books_pod(const struct gs_kube_pod *pod, const struct gs_pod *placed,
                                const struct gs_policies *policies, struct gs_arena *arena,
                                struct gs_books_pod *ret);
