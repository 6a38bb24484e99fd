/* Room held in the books for a pod that waits until others have left. */

#include "control/books.h"
#include "model/ask.h"
#include "model/node.h"

#include <errno.h>
#include <string.h>

#include "control/filter.h"
#include "toy.h"

#define REGISTER                                                                                   \
    "[{\"id\":\"c0\",\"index\":0,\"count\":10,\"devmem\":8000,\"devcore\":100,\"type\":\"Toy\","   \
    "\"health\":true}]"

struct kit {
    struct toy toy;
    struct gs_books *books;
    struct gs_pairs notes, none;
};

static int32_t taken(struct kit *kit)
{
    return gs_books_node(kit->books, GS_STR("n"))->use[0].mem_mib;
}

/** Node "n" with one card of 8000 MiB; the toy's pod "uid1" wants 3000 of it. */
static void start(struct kit *kit)
{
    memset(kit, 0, sizeof(*kit));
    toy_init(&kit->toy);
    assert_int_equal(gs_books_new(&kit->toy.policies, &kit->books), 0);
    assert_int_equal(
        gs_pairs_set(&kit->notes, &kit->toy.arena, GS_STR("toy.io/register"), GS_STR(REGISTER)), 0);
    assert_int_equal(gs_books_node_set(kit->books,
                                       &(struct gs_node_view){GS_STR("n"), &kit->notes, &kit->none,
                                                              &kit->none, &kit->none},
                                       &kit->toy.err),
                     0);
    toy_wants(&kit->toy, toy_container(&kit->toy), 1, 3000, -1, 0);
    assert_int_equal(gs_ask_read(&kit->toy.pod, &kit->toy.policies, &kit->toy.flags,
                                 &kit->toy.arena, &kit->toy.ask, &kit->toy.err),
                     0);
    assert_int_equal(gs_place(&kit->toy.ask, gs_books_node(kit->books, GS_STR("n")),
                              &kit->toy.arena, &kit->toy.placement, &kit->toy.reasons),
                     0);
}

static void stop(struct kit *kit)
{
    gs_books_free(kit->books);
    toy_fini(&kit->toy);
}

static void hold(struct kit *kit, int64_t until_ms)
{
    assert_int_equal(gs_books_hold(kit->books, &kit->toy.ask, &kit->toy.placement, 100, until_ms),
                     0);
}

static int reserve(struct kit *kit)
{
    return gs_books_reserve(kit->books, &kit->toy.ask, &kit->toy.placement, &kit->none, 1000);
}

static void pod(struct kit *kit, const char *uid, int32_t priority, int64_t ends_us)
{
    const struct gs_str grant = GS_STR("c0,Toy,1000,0:;");

    assert_int_equal(gs_books_pod_set(kit->books,
                                      &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                             .ns = GS_STR("default"),
                                                             .name = gs_str_of(uid),
                                                             .node = GS_STR("n"),
                                                             .grant = &grant,
                                                             .priority = priority,
                                                             .ends_us = ends_us},
                                      &kit->toy.err),
                     0);
}

static void counts_for_lower_priorities(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    hold(&kit, 1000);
    assert_int_equal(taken(&kit), 3000);
    gs_books_lift(kit.books, GS_STR("other"), 100); /* of the same priority: it counts */
    assert_int_equal(taken(&kit), 3000);
    gs_books_lift(kit.books, GS_STR("other"), 101);
    assert_int_equal(taken(&kit), 0);
    gs_books_lift(kit.books, GS_STR("uid1"), INT32_MIN); /* the pod itself */
    assert_int_equal(taken(&kit), 0);
    gs_books_lift(kit.books, (struct gs_str){0}, INT32_MIN);
    assert_int_equal(taken(&kit), 3000);
    assert_int_equal(gs_books_counts(kit.books).holds, 1);
    assert_true(gs_books_unhold(kit.books, GS_STR("uid1")));
    assert_false(gs_books_unhold(kit.books, GS_STR("uid1")));
    assert_int_equal(taken(&kit), 0);
    stop(&kit);
}

static int reserve_for(struct kit *kit, const char *uid, int32_t priority)
{
    const struct gs_filter_conf conf = {GS_STR("spread"), GS_STR("binpack"), false, 1000};
    struct gs_pod pod = kit->toy.pod;

    pod.uid = pod.name = gs_str_of(uid);
    return gs_filter_reserve(
        &(struct gs_filter_env){
            .books = kit->books, .conf = &conf, .now = {1, 1}, .arena = &kit->toy.arena},
        &pod, priority, GS_STR("n"), &kit->toy.err);
}

/* A decision at bind keeps to holds as the filter does: 3000 of 4000 MiB that are left are held by
 * a pod of priority 100, and another wants 3000. */
static void counts_at_bind(void **state)
{
    static const char *const others[] = {"a", "b", "c", "d"};
    struct kit kit;

    (void)state;
    start(&kit);
    hold(&kit, 1000);
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        pod(&kit, others[i], 100, GS_BOOKS_STAYS);
    assert_int_equal(taken(&kit), 7000);
    assert_int_equal(reserve_for(&kit, "low", INT32_MIN), -ENOSPC);
    assert_int_equal(reserve_for(&kit, "low", 99), -ENOSPC);
    assert_int_equal(reserve_for(&kit, "same", 100), -ENOSPC);
    assert_int_equal(taken(&kit), 7000);
    assert_int_equal(reserve_for(&kit, "high", 101), 0);
    assert_true(gs_books_release(kit.books, GS_STR("high")));
    assert_int_equal(reserve_for(&kit, "uid1", 100), 0); /* whom it is held for */
    assert_int_equal(taken(&kit), 7000);
    stop(&kit);
}

/* Never twice: the hold rests beside the reservation, and comes back where that is given up. */
static void rests_beside_the_reservation(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    hold(&kit, 1000);
    assert_int_equal(reserve(&kit), 0);
    assert_int_equal(taken(&kit), 3000);
    assert_true(gs_books_release(kit.books, GS_STR("uid1")));
    assert_int_equal(taken(&kit), 3000);
    assert_int_equal(reserve(&kit), 0);
    pod(&kit, "uid1", 100, GS_BOOKS_STAYS); /* bound: its grant alone counts */
    assert_int_equal(taken(&kit), 1000);
    assert_false(gs_books_is_held(kit.books, GS_STR("uid1")));
    stop(&kit);
}

static void ends_with_its_lease(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    hold(&kit, 1000);
    gs_books_prolong(kit.books, GS_STR("uid1"), 2000);
    assert_int_equal(gs_books_expire(kit.books, 1999, 1999), 0);
    assert_int_equal(gs_books_expire(kit.books, 2000, 2000), 1);
    assert_int_equal(taken(&kit), 0);
    hold(&kit, 1000);
    gs_books_pod_gone(kit.books, GS_STR("uid1"));
    assert_int_equal(taken(&kit), 0);
    stop(&kit);
}

/* The quick look: is anybody below, who could be asked? */
static void the_lowest(void **state)
{
    struct kit kit;
    int32_t lowest;

    (void)state;
    start(&kit);
    hold(&kit, 1000);
    assert_false(gs_books_has_below(kit.books, INT32_MAX));
    assert_false(gs_books_lowest_on(kit.books, GS_STR("n"), &lowest));
    pod(&kit, "a", 10, GS_BOOKS_STAYS);
    pod(&kit, "b", 10, GS_BOOKS_STAYS);
    pod(&kit, "c", 30, GS_BOOKS_STAYS);
    assert_false(gs_books_has_below(kit.books, 10));
    assert_true(gs_books_has_below(kit.books, 11));
    assert_true(gs_books_lowest_on(kit.books, GS_STR("n"), &lowest));
    assert_int_equal(lowest, 10);
    gs_books_pod_gone(kit.books, GS_STR("a"));
    assert_true(gs_books_has_below(kit.books, 11));
    pod(&kit, "b", 10, 5); /* it is going already */
    assert_false(gs_books_has_below(kit.books, 30));
    assert_true(gs_books_has_below(kit.books, 31));
    pod(&kit, "d", -7, GS_BOOKS_STAYS);
    assert_true(gs_books_has_below(kit.books, 0));
    gs_books_pod_gone(kit.books, GS_STR("c"));
    gs_books_pod_gone(kit.books, GS_STR("d"));
    assert_false(gs_books_has_below(kit.books, INT32_MAX));
    stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_for_lower_priorities),
        cmocka_unit_test(counts_at_bind),
        cmocka_unit_test(rests_beside_the_reservation),
        cmocka_unit_test(ends_with_its_lease),
        cmocka_unit_test(the_lowest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
