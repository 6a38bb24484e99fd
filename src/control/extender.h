#pragma once
/* JSON of kube-scheduler's extender protocol (extender/v1): arguments in, results out. Member names
 * of arguments match in any case, as Go's decoder has it; one that is there twice is an error (Go
 * makes one of the two). */

#include <stdbool.h>
#include <stddef.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/view.h"

/** Beyond this a call is not read; the server's own limit is far below. */
#define GS_EXTENDER_BODY_MAX ((size_t)1 << 30)

/** ExtenderArgs. */
struct gs_extender_args {
    yyjson_doc *doc;
    struct gs_kube_pod pod;
    yyjson_val *object; /**< the pod as it was sent */
    yyjson_val *items;  /**< array of node objects that came with the call; NULL: none did */
    yyjson_val *names;  /**< array of node names; NULL: null or absent */
    bool has_nodes;     /**< a list of node objects came, be it without any (Go sends null then) */
};

/** 0; -EINVAL (err: what to answer); -ENOMEM. Views are of the body's copy in doc and of the arena.
 *  Release with gs_extender_args_fini(), also after a failure. */
GS_WUR int gs_extender_read(struct gs_str body, struct gs_arena *arena,
                            struct gs_extender_args *ret, struct gs_err *err);
void gs_extender_args_fini(struct gs_extender_args *args);

/** ExtenderBindingArgs. */
struct gs_extender_binding {
    struct gs_str pod, ns, uid, node;
};
/** Text is copied into the arena. 0; -EINVAL (err: what to answer); -ENOMEM. */
GS_WUR int gs_extender_read_binding(struct gs_str body, struct gs_arena *arena,
                                    struct gs_extender_binding *ret, struct gs_err *err);

/** ExtenderFilterResult under construction; failure is sticky. Text is copied where nothing else is
 *  said. */
struct gs_extender_reply {
    yyjson_mut_doc *doc;
    yyjson_mut_val *names, *nodes, *failed; /**< NULL: null in the answer */
    const char *error;                      /**< borrowed */
};

GS_WUR int gs_extender_reply_init(struct gs_extender_reply *reply);
void gs_extender_reply_fini(struct gs_extender_reply *reply);
/** A node that fits: its name, or (where node objects came) the object as it was sent. */
void gs_extender_reply_name(struct gs_extender_reply *reply, struct gs_str name);
void gs_extender_reply_node(struct gs_extender_reply *reply, yyjson_val *node);
/** One that does not, and why. Both are borrowed until the answer is written. */
void gs_extender_reply_failed(struct gs_extender_reply *reply, struct gs_str node,
                              struct gs_str reason);
/** A copy of a text that lives as long as the answer; empty: no memory. */
struct gs_str gs_extender_reply_keep(struct gs_extender_reply *reply, struct gs_str text);
/** {"Nodes":...,"NodeNames":...,"FailedNodes":...,"FailedAndUnresolvableNodes":null,"Error":""}
 *  from malloc(). 0 or -ENOMEM. */
GS_WUR int gs_extender_reply_write(struct gs_extender_reply *reply, char **ret, size_t *ret_n);
/** {"Error":text}, of a bind; empty text: success. From malloc(). 0 or -ENOMEM. */
GS_WUR int gs_extender_write_error(const char *text, char **ret, size_t *ret_n);
