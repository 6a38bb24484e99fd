#pragma once
/* Paths and queries of the API. Inside the room only. */

#include "base/err.h"
#include "core/cleanup.h"
#include "kube/request.h"

struct gs_buf;

/** Append server, path and query. Names and values are escaped.
 *  @more    further query text, already escaped; or NULL.
 *  Returns  0; -EINVAL a name is missing, or is one that a path cannot hold; -ENOMEM.
 *  Source   Kubernetes documentation, "API concepts", resource URIs. */
GS_WUR int gs_kube_url_put(struct gs_buf *buf, const char *server, const struct gs_kube_req *req,
                           const char *more, struct gs_err *err);
/** "GET", "PATCH", ... */
const char *gs_kube_url_method(enum gs_kube_verb verb);
