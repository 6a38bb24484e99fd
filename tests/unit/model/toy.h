#pragma once
/* A toy vendor for tests of the model: one policy by the usual rules, one pod, one node. A whole
 * vendor in one file, and one row in a table: nothing else knows of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/place.h"
#include "model/reason.h"

#define TOY_MAX 64

struct toy {
    struct gs_arena arena;
    struct gs_policy policy;
    struct gs_policy_ops ops;
    struct gs_fit_rules rules;
    struct gs_policies policies;
    struct gs_pod pod;
    struct gs_container container[TOY_MAX];
    struct gs_device dev[TOY_MAX];
    struct gs_use use[TOY_MAX];
    struct gs_group group;
    struct gs_node node;
    struct gs_room room;
    struct gs_ask_flags flags; /**< spread, spread, no quota */
    struct gs_ask ask;
    struct gs_placement placement;
    struct gs_reasons reasons;
    struct gs_err err;
    struct gs_buf text;
};

/** A policy "Toy" on a node "node1" without devices, and a pod without containers. */
void toy_init(struct toy *toy);
void toy_fini(struct toy *toy);

/** A further container. Init containers first. Its index. */
size_t toy_init_container(struct toy *toy);
size_t toy_sidecar(struct toy *toy);
size_t toy_container(struct toy *toy);
/** What it asks for: (n, MiB, percent, cores) as in the vectors; negative: not said. */
void toy_wants(struct toy *toy, size_t container, int n, int mem, int pct, int cores);
void toy_annotate(struct toy *toy, const char *key, const char *value);

/** A further healthy device of 10 shares, 100 cores, 8000 MiB, of type "Toy"; to be changed. */
struct gs_device *toy_device(struct toy *toy, const char *id);
/** What is taken of the last device. */
void toy_used(struct toy *toy, int slots, int mem, int cores);

/** Read the pod and place it. The answer of gs_place(). */
int toy_place(struct toy *toy);
/** As above, without the check before that a node has enough devices and without an order: the
 *  walk alone, on the first container, over the devices as they were added. */
int toy_walk(struct toy *toy, struct gs_pick *ret_pick);
/** Devices given: "uuid2,uuid1;uuid2;": per container. */
const char *toy_given(struct toy *toy);
/** "1/2 CardNotHealth" of the last refusal. */
const char *toy_reasons(struct toy *toy);
/** Value of an annotation of the placement; NULL: none. */
const char *toy_written(struct toy *toy, const char *key);

/** Numbers of a seed that is printed; GS_SEED in the environment repeats a run. */
uint32_t toy_seed(void);
uint32_t toy_random(uint32_t *state, uint32_t below);
