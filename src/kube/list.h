#pragma once
/* A whole list, page by page, of one consistent moment; memory is that of one page. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"

struct gs_kube_list;

struct gs_kube_list_opt {
    const struct gs_kube_resource *resource;
    struct gs_str ns; /**< empty: all */
    struct gs_str label_selector, field_selector;
    uint32_t page;       /**< objects per page; 0: 500 */
    uint32_t timeout_ms; /**< for each page; 0: the client's */
};

struct gs_kube_list_fns {
    /** One object. */
    void (*item)(void *arg, struct yyjson_val *object);
    /** The pages so far are void: the server forgot the moment they were of (410), it all starts
     *  again. NULL: not needed. */
    void (*restart)(void *arg);
    /** Once, at the end. version: the list's resourceVersion, empty after a failure. */
    void (*done)(void *arg, const struct gs_kube_result *result, struct gs_str version);
};

/** Start. Callbacks come from the loop, after this returned.
 *  Returns  0; -EINVAL; -ENOMEM. The list frees itself after `done`; *ret_list is for
 *           gs_kube_list_cancel() before that, and may be NULL. */
GS_WUR int gs_kube_list_start(struct gs_kube_client *client, const struct gs_kube_list_opt *opt,
                              const struct gs_kube_list_fns *fns, void *arg,
                              struct gs_kube_list **ret_list, struct gs_err *err);
/** No callback any more. Allowed inside `item` and `restart`. */
void gs_kube_list_cancel(struct gs_kube_list *list);
