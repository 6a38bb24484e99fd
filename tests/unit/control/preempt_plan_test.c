#include "control/preempt_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/ask.h"
#include "model/usage.h"
#include "toy.h"

#define GUESTS_MAX 80
#define FEW        12 /* so that every set can be looked at */
#define NOW        INT64_C(1800000000000000)

/** One node of the toy vendor with guests, each with a part of one or two cards, by hand. */
struct kit {
    struct toy toy;
    struct gs_books_guest guest[GUESTS_MAX];
    struct gs_books_stake stake[2 * GUESTS_MAX], sorted[2 * GUESTS_MAX];
    bool is_shut[TOY_MAX];
    struct gs_books_guests guests;
    struct gs_preempt_question q;
    int32_t allowed[4];
    uint32_t budget[GUESTS_MAX][2];
    const uint32_t *of[GUESTS_MAX];
    size_t n_of[GUESTS_MAX];
    struct gs_preempt_budgets budgets;
    struct gs_preempt_plan plan;
};

static void start(struct kit *kit, int n_cards)
{
    memset(kit, 0, sizeof(*kit));
    toy_init(&kit->toy);
    for (int i = 0; i < n_cards; i++)
        toy_device(&kit->toy, gs_arena_printf(&kit->toy.arena, "card%d", i).p);
    kit->toy.node.room = &kit->toy.room;
    kit->q = (struct gs_preempt_question){&kit->toy.ask, 100, NOW};
    kit->guests = (struct gs_books_guests){
        .node = &kit->toy.node, .is_shut = kit->is_shut, .guest = kit->guest};
    kit->budgets =
        (struct gs_preempt_budgets){.allowed = kit->allowed, .of = kit->of, .n_of = kit->n_of};
    for (size_t i = 0; i < GUESTS_MAX; i++)
        kit->of[i] = kit->budget[i];
}

static void stop(struct kit *kit)
{
    toy_fini(&kit->toy);
}

/** A further guest that started `age` seconds ago. Its index. */
static uint32_t guest(struct kit *kit, int32_t priority, int age)
{
    uint32_t i = (uint32_t)kit->guests.n++;

    assert_true(i < GUESTS_MAX);
    kit->guest[i] = (struct gs_books_guest){
        .uid = gs_arena_printf(&kit->toy.arena, "guest%u", i),
        .kind = GS_BOOKS_GUEST_POD,
        .priority = priority,
        .start_us = NOW - age * INT64_C(1000000),
        .ends_us = GS_BOOKS_STAYS,
    };
    return i;
}

static void holds(struct kit *kit, uint32_t who, uint32_t card, int mem, int cores)
{
    kit->stake[kit->guests.n_stakes++] = (struct gs_books_stake){
        card, who, {.uid = kit->guest[who].uid, .slots = 1, .mem_mib = mem, .cores = cores}};
}

static void under_budget(struct kit *kit, uint32_t who, uint32_t budget)
{
    kit->budget[who][kit->n_of[who]++] = budget;
}

static uint32_t simple(struct kit *kit, uint32_t card, int mem, int32_t priority, int age)
{
    uint32_t who = guest(kit, priority, age);

    holds(kit, who, card, mem, 0);
    return who;
}

static void wants(struct kit *kit, int n, int mem)
{
    toy_wants(&kit->toy, toy_container(&kit->toy), n, mem, -1, 0);
}

static void settle(struct kit *kit)
{
    size_t n = 0;

    assert_int_equal(gs_ask_read(&kit->toy.pod, &kit->toy.policies, &kit->toy.flags,
                                 &kit->toy.arena, &kit->toy.ask, &kit->toy.err),
                     0);
    for (uint32_t card = 0; card < kit->toy.node.n_dev; card++)
        for (size_t i = 0; i < kit->guests.n_stakes; i++)
            if (kit->stake[i].dev == card)
                kit->sorted[n++] = kit->stake[i];
    kit->guests.stake = kit->sorted;
}

static int plan(struct kit *kit)
{
    settle(kit);
    return gs_preempt_plan_node(&kit->q, &kit->guests, kit->budgets.n > 0 ? &kit->budgets : NULL,
                                &kit->toy.arena, &kit->plan);
}

/** The plan is to ask exactly these. */
static void want_victims(struct kit *kit, size_t n, const uint32_t *who)
{
    assert_int_equal(plan(kit), 0);
    assert_int_equal(kit->plan.n, n);
    for (size_t i = 0; i < n; i++) {
        bool is_there = false;

        for (size_t k = 0; k < n; k++)
            is_there |= kit->plan.victim[k] == who[i];
        assert_true(is_there);
    }
}
#define WANT_VICTIMS(kit, ...)                                                                     \
    want_victims(kit, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                        \
                 (uint32_t[]){__VA_ARGS__})

/* The right card: of two full ones that where the one victim is enough, though it is the older. */
static void the_right_card(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit, 2);
    simple(&kit, 0, 4000, 0, 10);
    simple(&kit, 0, 4000, 0, 10);
    simple(&kit, 1, 6000, 0, 900);
    simple(&kit, 1, 2000, 0, 10);
    wants(&kit, 1, 6000);
    WANT_VICTIMS(&kit, 2);
    assert_int_equal(kit.plan.placement.n, 1);
    assert_int_equal(kit.plan.placement.taken[0].pick.dev, 1);
    stop(&kit);
}

/* pickOneNodeForPreemption: the lower highest priority wins over fewer victims. */
static void lower_priority_before_fewer(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit, 2);
    simple(&kit, 0, 8000, 50, 10);
    simple(&kit, 1, 4000, 10, 10);
    simple(&kit, 1, 4000, 10, 10);
    wants(&kit, 1, 8000);
    WANT_VICTIMS(&kit, 1, 2);
    stop(&kit);
}

static void the_latest_start_breaks_ties(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit, 3);
    simple(&kit, 0, 8000, 10, 50);
    simple(&kit, 1, 8000, 10, 20);
    simple(&kit, 2, 8000, 10, 90);
    wants(&kit, 1, 8000);
    WANT_VICTIMS(&kit, 1);
    stop(&kit);
}

static void equals_and_others_stay(void **state)
{
    static const enum gs_books_guest_kind kind[] = {GS_BOOKS_GUEST_RESERVATION,
                                                    GS_BOOKS_GUEST_LEFTOVER, GS_BOOKS_GUEST_HOLD};
    struct kit kit;

    (void)state;
    start(&kit, 1);
    simple(&kit, 0, 8000, 100, 10); /* of the same priority */
    wants(&kit, 1, 1000);
    assert_int_equal(plan(&kit), -ENOSPC);
    kit.guest[0].priority = 101;
    assert_int_equal(plan(&kit), -ENOSPC);
    for (size_t i = 0; i < GS_ARRAY_LEN(kind); i++) {
        kit.guest[0].kind = kind[i];
        assert_int_equal(plan(&kit), -ENOSPC);
    }
    kit.guest[0].priority = 99; /* a hold of lower priority gives way by itself */
    want_victims(&kit, 0, NULL);
    stop(&kit);
}

/* Who is going is waited for; who should be gone for long is not, and cannot be asked again. */
static void those_who_are_going(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit, 2);
    simple(&kit, 0, 8000, 0, 10);
    simple(&kit, 1, 8000, 0, 10);
    wants(&kit, 1, 8000);
    kit.guest[0].ends_us = NOW + 5;
    want_victims(&kit, 0, NULL);
    assert_int_equal(kit.plan.placement.taken[0].pick.dev, 0);
    kit.guest[0].ends_us = NOW - 2 * GS_PREEMPT_PLAN_PATIENCE_US;
    WANT_VICTIMS(&kit, 1);
    kit.guest[1].priority = 100;
    assert_int_equal(plan(&kit), -ENOSPC);
    stop(&kit);
}

static void closed_cards_help_nobody(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit, 2);
    simple(&kit, 0, 1000, 0, 10);
    simple(&kit, 1, 8000, 50, 10);
    kit.is_shut[0] = true;
    wants(&kit, 1, 8000);
    WANT_VICTIMS(&kit, 1);
    kit.is_shut[1] = true;
    assert_int_equal(plan(&kit), -ENOSPC);
    stop(&kit);
}

/* Budgets first, and who is beyond them is asked first. */
static void budgets_are_spared(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit, 2);
    under_budget(&kit, simple(&kit, 0, 8000, 0, 10), 0);
    simple(&kit, 1, 8000, 90, 10);
    wants(&kit, 1, 8000);
    kit.budgets.n = 1;
    WANT_VICTIMS(&kit, 1); /* none allowed */
    kit.allowed[0] = 1;
    WANT_VICTIMS(&kit, 0);
    stop(&kit);

    start(&kit, 1);
    simple(&kit, 0, 4000, 50, 10);
    under_budget(&kit, simple(&kit, 0, 4000, 0, 10), 0);
    wants(&kit, 1, 8000);
    kit.budgets.n = 1;
    WANT_VICTIMS(&kit, 0, 1); /* nothing else helps */
    assert_int_equal(kit.plan.cost.violations, 1);
    assert_int_equal(kit.plan.victim[0], 1);
    stop(&kit);
}

/* ---- against every set ---- */

static bool fits_without(struct kit *kit, unsigned out)
{
    struct toy *toy = &kit->toy;
    struct gs_placement placement;
    struct gs_reasons reasons;

    for (uint32_t card = 0; card < toy->node.n_dev; card++) {
        toy->use[card] = (struct gs_use){.is_closed = kit->is_shut[card]};
        for (size_t i = 0; i < kit->guests.n_stakes; i++) {
            const struct gs_books_stake *s = &kit->stake[i];

            if (s->dev != card || (out >> s->guest & 1) != 0 ||
                kit->guest[s->guest].ends_us != GS_BOOKS_STAYS)
                continue;
            toy->use[card].slots++;
            toy->use[card].mem_mib += s->tenant.mem_mib;
            toy->use[card].cores += s->tenant.cores;
        }
    }
    gs_usage_settle(&toy->node, &toy->room);
    return gs_place(&toy->ask, &toy->node, &toy->arena, &placement, &reasons) == 0;
}

/** The costs as the Kubernetes source has them, written once more: by sorting and adding. */
static struct gs_preempt_cost cost_without(struct kit *kit, unsigned out)
{
    struct gs_preempt_cost cost = {.highest = INT32_MIN, .start_us = INT64_MAX};
    int32_t taken[4] = {0};

    for (uint32_t i = 0; i < kit->guests.n; i++) {
        if ((out >> i & 1) == 0)
            continue;
        cost.n++;
        cost.sum += (int64_t)kit->guest[i].priority + INT64_C(2147483648);
        if (kit->guest[i].priority > cost.highest)
            cost.highest = kit->guest[i].priority;
        for (size_t b = 0; b < kit->n_of[i]; b++)
            cost.violations += ++taken[kit->budget[i][b]] > kit->allowed[kit->budget[i][b]];
    }
    for (uint32_t i = 0; i < kit->guests.n; i++)
        if ((out >> i & 1) != 0 && kit->guest[i].priority == cost.highest &&
            kit->guest[i].start_us < cost.start_us)
            cost.start_us = kit->guest[i].start_us;
    return cost;
}

static bool is_less(const struct gs_preempt_cost *a, const struct gs_preempt_cost *b)
{
    return a->violations != b->violations ? a->violations < b->violations
           : a->highest != b->highest     ? a->highest < b->highest
           : a->sum != b->sum             ? a->sum < b->sum
           : a->n != b->n                 ? a->n < b->n
                                          : a->start_us > b->start_us;
}

static void random_node(struct kit *kit, uint32_t *seed)
{
    static const int32_t priority[] = {INT32_MIN, -5, 0, 0, 10, 10, 99, 100, 2000};
    uint32_t n_cards = 1 + toy_random(seed, 4), n = toy_random(seed, FEW);

    start(kit, (int)n_cards);
    for (uint32_t i = 0; i < 4; i++)
        kit->allowed[i] = (int32_t)toy_random(seed, 3);
    kit->budgets.n = toy_random(seed, 3) == 0 ? 4 : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t who = guest(kit, priority[toy_random(seed, GS_ARRAY_LEN(priority))],
                             (int)toy_random(seed, 5));
        uint32_t card = toy_random(seed, n_cards);

        holds(kit, who, card, 1000 * (int)(1 + toy_random(seed, 4)), 10 * (int)toy_random(seed, 5));
        if (n_cards > 1 && toy_random(seed, 4) == 0)
            holds(kit, who, (card + 1) % n_cards, 1000, 10);
        if (kit->budgets.n > 0 && toy_random(seed, 2) == 0)
            under_budget(kit, who, toy_random(seed, 4));
        if (toy_random(seed, 12) == 0)
            kit->guest[who].ends_us = NOW + 1;
        else if (toy_random(seed, 12) == 0)
            kit->guest[who].kind = GS_BOOKS_GUEST_RESERVATION;
    }
    kit->is_shut[0] = toy_random(seed, 8) == 0;
    for (uint32_t c = toy_random(seed, 3) == 0 ? 2 : 1; c > 0; c--)
        toy_wants(&kit->toy, toy_container(&kit->toy), (int)(1 + toy_random(seed, 2)),
                  1000 * (int)(1 + toy_random(seed, 8)), -1, 20 * (int)toy_random(seed, 4));
}

static unsigned mask_of(const struct kit *kit)
{
    unsigned out = 0;

    for (size_t i = 0; i < kit->plan.n; i++)
        out |= 1u << kit->plan.victim[i];
    return out;
}

static void against_every_set(struct kit *kit)
{
    unsigned allowed = 0, best_out = 0, out;
    struct gs_preempt_cost best = {0}, cost;
    bool is_there = false;
    int rc = plan(kit);

    for (uint32_t i = 0; i < kit->guests.n; i++)
        if (kit->guest[i].priority < kit->q.priority && kit->guest[i].kind == GS_BOOKS_GUEST_POD &&
            kit->guest[i].ends_us == GS_BOOKS_STAYS)
            allowed |= 1u << i;
    for (unsigned set = 0; set <= allowed; set++) {
        if ((set & ~allowed) != 0 || !fits_without(kit, set))
            continue;
        cost = cost_without(kit, set);
        if (!is_there || is_less(&cost, &best)) {
            best = cost;
            best_out = set;
        }
        is_there = true;
    }
    assert_int_equal(rc, is_there ? 0 : -ENOSPC);
    if (rc < 0)
        return;
    out = mask_of(kit);
    assert_int_equal(out & ~allowed, 0); /* nobody who may not be asked */
    assert_true(fits_without(kit, out)); /* it is enough */
    for (uint32_t i = 0; i < kit->guests.n; i++)
        if ((out >> i & 1) != 0)
            assert_false(fits_without(kit, out & ~(1u << i))); /* nobody for nothing */
    if (best_out == 0) {
        assert_int_equal(out, 0);
        return;
    }
    cost = cost_without(kit, out);
    assert_false(is_less(&cost, &kit->plan.cost) || is_less(&kit->plan.cost, &cost));
    if (kit->toy.ask.n_lines == 1)
        assert_false(is_less(&best, &cost)); /* and nothing is cheaper */
}

static void every_set(void **state)
{
    uint32_t seed = toy_seed();
    size_t n_found = 0;

    (void)state;
    for (int i = 0; i < 1500; i++) {
        struct kit kit;

        random_node(&kit, &seed);
        against_every_set(&kit);
        n_found += kit.plan.n > 0;
        stop(&kit);
    }
    assert_true(n_found > 200); /* the nodes are not all trivial */
}

/* 8 cards full of 10 guests each: bounded work, a whole card's guests and nobody else. */
static void a_large_node(void **state)
{
    struct kit kit;
    uint32_t card;

    (void)state;
    start(&kit, 8);
    for (uint32_t i = 0; i < 80; i++)
        simple(&kit, i % 8, 800, (int32_t)(i % 3), (int)i);
    wants(&kit, 1, 8000);
    assert_int_equal(plan(&kit), 0);
    assert_int_equal(kit.plan.n, 10);
    card = kit.plan.placement.taken[0].pick.dev;
    for (size_t i = 0; i < kit.plan.n; i++)
        assert_int_equal(kit.plan.victim[i] % 8, card);
    assert_in_range(kit.plan.n_tries, 1, 1200);
    toy_wants(&kit.toy, 0, 8, 800, -1, 0);
    assert_int_equal(plan(&kit), 0);
    assert_int_equal(kit.plan.n, 8); /* one of each card */
    assert_int_equal(kit.plan.cost.highest, 0);
    assert_in_range(kit.plan.n_tries, 1, 1200);
    stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_card),
        cmocka_unit_test(lower_priority_before_fewer),
        cmocka_unit_test(the_latest_start_breaks_ties),
        cmocka_unit_test(equals_and_others_stay),
        cmocka_unit_test(those_who_are_going),
        cmocka_unit_test(closed_cards_help_nobody),
        cmocka_unit_test(budgets_are_spared),
        cmocka_unit_test(every_set),
        cmocka_unit_test(a_large_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
