#pragma once
/* The cluster of the control model: pods and nodes as the API server has them, and the server's
 * answers to the binders, over a network and a machine that are as bad as they may be. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "core/cleanup.h"
#include "net/loop.h"

#define NODES  5
#define CARDS  4
#define SHARES 4
#define MEM    16000
#define CORES  100
#define PODS   96
#define GHOSTS 64
#define RUN_ON 3000 /* ms that containers of a pod deleted by force run on, at most */

/** A pod of the store, by the name "s<slot>" and the UID "u<serial>", and what kube-scheduler knows
 *  of it. */
struct pod {
    bool is_there, is_over, is_ending, inits_done, is_running;
    bool is_refused; /**< kube-scheduler found no place for it, or could not bind it */
    unsigned serial;
    unsigned long version;           /**< of the whole store, at its last change */
    int cards, mem, cores, init_mem; /**< asked for; init_mem 0: no init container */
    int node;                        /**< -1: not bound */
    char grant[512], bind_time[24], fence[64];
    int chosen;      /**< by filter; -1: none */
    bool is_binding; /**< kube-scheduler waits for its bind */
};

struct event {
    bool is_node, is_gone;
    int at;              /**< node, or slot of the pod */
    struct pod snapshot; /**< as the store had it */
    int n_cards;         /**< of a node: how many it registers */
};

struct ghost {
    struct pod pod;
    long dies_ms;
};

struct world {
    struct pod pod[PODS];
    int node_cards[NODES];      /**< registered; 0: the node is not there */
    struct ghost ghost[GHOSTS]; /**< deleted by force, their containers run on */
    unsigned serials;
    unsigned long version, step;
    long now_ms;
    unsigned long long seed, state;
    int holder, transitions; /**< of kube-scheduler's lease: which replica's */
    bool ignores_versions;   /**< the server does not mind the resourceVersion of a Binding */
    bool hides_refusals;     /**< clients are not told of them, but for what watches show */
    /** What happens, for those who watch. */
    void (*publish)(const struct event *e);
    struct {
        unsigned long calls, lost, late, lies, ghosts;
    } count;
};

extern struct world world;

void die(const char *fmt, ...) GS_PRINTF(1, 2);
unsigned rnd(unsigned below);
bool chance(unsigned percent);

/** The pod as JSON. */
void world_put_pod(const struct pod *p, int slot, struct gs_buf *buf);
/** As clients and extenders are told of it. */
void world_answer_pod(const struct pod *p, int slot, struct gs_buf *buf);
/** kube-scheduler gives it up for now. */
void world_refuse(struct pod *p);
/** It is another by now: tell. */
void world_changed(struct pod *p, bool is_gone);
void world_create(struct pod *p);
/** The kubelet has ended its containers. */
void world_stop(struct pod *p);
/** By force: what runs of it runs on for a while. */
void world_kill(struct pod *p);
void world_destroy(struct pod *p);

/** Something happens to one of the calls that clients have made, or to one that its client has
 *  given up and that the server has still. */
void world_serve(void);
/** Everything is answered, and what was given up is done or is not. False: there was nothing. */
bool world_drain(void);
