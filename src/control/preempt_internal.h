#pragma once
/* Insides of preemption, shared by its files: who is chosen (preempt.c), what is done to them
 * (preempt_act.c), and what is said of kube-scheduler's own choice (preempt_verb.c). The first two
 * call each other: a want goes from one to the other and back until its pod is bound, and may end
 * in each. */

#include "base/map.h"
#include "control/budgets.h"
#include "control/preempt.h"
#include "core/list.h"
#include "net/loop.h"

#define GS_PREEMPT_AVOIDED_MAX  8
#define GS_PREEMPT_REFUSED_MS   2000 /* a budget said no everywhere: so long until the next round */
#define GS_PREEMPT_REFUSALS_MAX 30   /* rounds that a pod tries by itself */

enum gs_preempt_step {
    GS_PREEMPT_RESTING,
    GS_PREEMPT_READING, /**< the call that refused the pod */
    GS_PREEMPT_PICKING, /**< nodes to plan for */
    GS_PREEMPT_PLANNING,
    GS_PREEMPT_NOMINATING,
    GS_PREEMPT_EVICTING,
    GS_PREEMPT_WAITING, /**< until the victims are gone and the pod is bound */
};

struct gs_preempt_victim {
    struct gs_str uid, ns, name;
    bool is_ours; /**< in the map of those asked, by this pod */
};

/** A node where a budget refused. */
struct gs_preempt_avoided {
    char text[256];
    struct gs_str node;
    int64_t until_ms;
};

struct gs_preempt_case;

/** A pod that wants others to leave. Its text is behind it. */
struct gs_preempt_want {
    struct gs_preempt *p;
    GS_LINK(struct gs_preempt_want) link; /**< in `all` */
    struct gs_str uid, ns, name;
    int32_t priority;
    enum gs_preempt_step step;
    bool is_in_flight; /**< a request's answer comes yet */
    bool is_over;
    bool is_nominated;
    struct gs_preempt_case *what; /**< NULL: nothing more to plan */
    struct gs_arena made;         /**< of what was decided */
    struct gs_str node;
    struct gs_preempt_victim *victim;
    size_t n_victims, next_victim;
    unsigned n_evicted, n_tries, n_refusals;
    struct gs_preempt_avoided avoided[GS_PREEMPT_AVOIDED_MAX];
    size_t next_avoided;
    int64_t not_before_ms, began_ms, empty_ms;
    struct gs_loop_timer timer;
    struct gs_loop_task task;
};

struct gs_preempt {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_preempt_opt opt;
    struct gs_budgets *budgets;
    struct gs_map wants, asked;          /**< by UID: of pods that want, of victims (the want) */
    GS_LIST(struct gs_preempt_want) all; /**< also those over whose answer is awaited */
    struct gs_preempt_stats stats;
};

bool gs_preempt_leads(const struct gs_preempt *p);
/** Guests as they are, but those whom a pod has asked already are going, though no event has told
 *  so yet. The copy, to be changed further. 0 or -ENOMEM. */
GS_WUR int gs_preempt_mark_asked(const struct gs_preempt *p, struct gs_arena *arena,
                                 struct gs_books_guests *guests, struct gs_books_guest **ret);

/** The want is over: hold and marks go, memory when no answer is awaited. */
void gs_preempt_end(struct gs_preempt_want *w);
/** The answer has come. Frees a want that is over: false, it is gone. */
bool gs_preempt_answered(struct gs_preempt_want *w);
/** A pause, then forgotten unless the pod is refused again. */
void gs_preempt_rest(struct gs_preempt_want *w);
/** Planning that is under way goes on to its end at once. */
void gs_preempt_hurry(struct gs_preempt_want *w);
/** Choose anew, for the same call. */
void gs_preempt_plan_again(struct gs_preempt_want *w);
/** Nothing more will be planned for the call. */
void gs_preempt_drop_case(struct gs_preempt_want *w);

/** Write down what the plan says: the hold, the victims. 0 or -ENOMEM. */
GS_WUR int gs_preempt_decide(struct gs_preempt_want *w, const struct gs_ask *ask,
                             const struct gs_books_guests *guests,
                             const struct gs_preempt_plan *plan);
/** Undo it: the hold is given up, the victims are nobody's. */
void gs_preempt_take_back(struct gs_preempt_want *w);
/** Tell the API server, then evict, then wait. */
void gs_preempt_nominate(struct gs_preempt_want *w);
void gs_preempt_wait(struct gs_preempt_want *w);
/** One of them is gone. */
void gs_preempt_victim_gone(struct gs_preempt_want *w);
/** Is one of the victims still there? */
bool gs_preempt_has_victims(const struct gs_preempt_want *w);
