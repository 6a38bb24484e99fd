#pragma once
/* What gpuslice-explain knows of a cluster: everything but the pod in question in the books, and
 * that pod. */

#include "base/buf.h"
#include "base/err.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_gather {
    struct gs_books *books;   /**< the caller's */
    struct gs_str ns, name;   /**< the pod; ns empty: that of the kubeconfig, "default" in a dump */
    struct gs_buf ns_text;    /**< own */
    struct gs_buf pod;        /**< its JSON; empty: it was not there */
    size_t n_unreadable;      /**< objects that were left out */
    struct gs_err unreadable; /**< the first of them, and why */
    bool lacks_quotas;        /**< they may not be read with these rights */
};

/** Read a cluster once. @path  as --kubeconfig; may be NULL. 0, or negative with err. */
GS_WUR int gs_gather_cluster(struct gs_gather *g, const char *path, const char *context,
                             struct gs_err *err);
/** Read a dump: a List of nodes, pods and quotas. 0, or negative with err. */
GS_WUR int gs_gather_dump(struct gs_gather *g, const char *path, struct gs_err *err);
void gs_gather_fini(struct gs_gather *g);
