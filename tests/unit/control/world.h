#pragma once
/* What tests of books and filter share: every vendor's policy at its defaults, books, nodes by
 * their annotations, pods by their grants, and calls of the extender as JSON. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <yyjson.h>

#include "control/books.h"
#include "control/filter.h"

struct world {
    struct gs_arena arena; /**< of the policies */
    struct gs_arena call;  /**< of the last call */
    struct gs_policies policies;
    struct gs_books *books;
    struct gs_filter_conf conf; /**< binpack over nodes, spread over cards, leases of 1,000 ms */
    int64_t now_ms;
    struct gs_filter_note note; /**< of the last filter */
    yyjson_doc *answer;
    struct gs_err err;
};

void world_init(struct world *w);
void world_fini(struct world *w);

/** The register annotation of NVIDIA: "[...]", or NULL for a node that says nothing. */
int world_node(struct world *w, const char *name, const char *nvidia);
/** The same of any one annotation. */
int world_node_key(struct world *w, const char *name, const char *key, const char *value);
/** Cards "<prefix>0", "<prefix>1", ... of so many MiB, each with 10 shares and 100 cores. */
int world_cards(struct world *w, const char *node, const char *prefix, int n, int mem_mib);
/** A bound pod of namespace "ns" with one container and this NVIDIA grant. */
int world_pod(struct world *w, const char *uid, const char *node, const char *grant);

/** Call the extender; the answer's JSON is kept. `fmt` is a body with ' in place of ". */
yyjson_val *world_filter(struct world *w, const char *fmt, ...) GS_PRINTF(2, 3);
yyjson_val *world_filter_text(struct world *w, struct gs_str body);
/** A pod of namespace "ns" that asks for one card, these MiB and cores: as JSON with ', for bodies.
 */
const char *world_ask(struct world *w, const char *uid, int mem_mib, int cores);
/** The only name in NodeNames; "" where there is none. */
const char *world_chosen(struct world *w);
const char *world_error(struct world *w);
/** FailedNodes[node]; NULL: it is not there. */
const char *world_failed(struct world *w, const char *node);
/** Use of a card; all -1 where the node or the card is not known. */
struct gs_use world_use(struct world *w, const char *node, const char *card);

/** From now on the n-th allocation fails, and those after it do not; 0: none. (malloc, calloc,
 *  realloc, strndup; what world_ functions need for themselves does not count.) Returns what was to
 *  fail before. */
unsigned world_fail_at(unsigned n);
/** Has one failed since the last world_fail_at() of more than 0? */
bool world_has_failed(void);
