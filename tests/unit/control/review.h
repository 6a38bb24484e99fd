#pragma once
/* The webhook with every vendor's policy: whole reviews in, answers out, patches applied by
 * yyjson's own JSON Patch. Texts write ' for ". */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <yyjson.h>

#include "base/arena.h"
#include "control/admit.h"
#include "control/books.h"
#include "model/policy.h"

struct review {
    struct gs_arena conf, call;
    struct gs_policies policies;
    struct gs_books *books;
    struct gs_admit_conf admit;
    struct gs_admit_reply reply;
    yyjson_doc *answer;
    yyjson_mut_doc *pod; /**< as the patch leaves it; NULL: not allowed */
};

/** `yaml`: of a device configuration; NULL: every vendor by its defaults. */
void review_init(struct review *r, const char *yaml);
void review_fini(struct review *r);

/** Hand a body in as it is. */
void review_send(struct review *r, const char *body, size_t n);
/** A v1 review of a new pod. */
void review_pod(struct review *r, const char *pod);

/** The answer's member at a JSON pointer as text; "-" where it is not there. Valid until the next
 *  call. */
const char *review_answer(struct review *r, const char *pointer);
/** The same of the patched pod. */
const char *review_got(struct review *r, const char *pointer);
/** Send, and expect "no CODE TEXT", or "ok POINTER=VALUE..." of the patched pod (VALUE may not have
 *  blanks), or "same": no patch at all. */
void review_want(struct review *r, const char *pod, const char *want);

/** A pod of one container "c" with these limits and annotations. */
#define REVIEW_POD(limits, annotations)                                                            \
    "{'metadata':{'name':'p','namespace':'ns','annotations':{" annotations                         \
    "}},'spec':{'containers':[{'name':'c','resources':{'limits':{" limits "}}}]}}"
