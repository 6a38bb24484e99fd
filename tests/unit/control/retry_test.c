/* Pods that found no room are told of it within 5 s, and only they. What kube-scheduler does with
 * the word is tested on a real one (tests/e2e/control/test_retry.py). */

#include "control/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api.h"
#include "kube/view.h"

#define BOTH "\"n1\",\"n2\""

struct kit {
    struct api api;
    struct gs_retry *retry;
    bool is_follower;
};

static bool leads(void *arg)
{
    return !((struct kit *)arg)->is_follower;
}

/* A pod that has all of every card of a node. */
static void fill(struct kit *kit, const char *uid, const char *node)
{
    char text[512] = "";
    struct gs_str *grant = calloc(kit->api.policies.n, sizeof(*grant));

    for (int i = 0; i < 8; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                       "GPU-%s-%d,NVIDIA,16384,100:", node, i);
    strcat(text, ";");
    grant[0] = gs_str_of(text);
    assert_int_equal(gs_books_pod_set(kit->api.books,
                                      &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                             .ns = GS_STR("default"),
                                                             .name = gs_str_of(uid),
                                                             .node = gs_str_of(node),
                                                             .grant = grant,
                                                             .n_slots = 1,
                                                             .ends_us = GS_BOOKS_STAYS},
                                      NULL),
                     0);
    free(grant);
}

static void start_with(struct kit *kit, size_t max_bytes)
{
    memset(kit, 0, sizeof(*kit));
    api_new(&kit->api);
    for (size_t i = 0; i < 2; i++)
        api_tell(&kit->api, &kit->api.node[i]);
    assert_int_equal(gs_retry_new(kit->api.fake.client, kit->api.books,
                                  &(struct gs_retry_opt){.filter = &kit->api.conf,
                                                         .leads = leads,
                                                         .arg = kit,
                                                         .max_bytes = max_bytes},
                                  &kit->retry),
                     0);
    fill(kit, "full1", "n1");
    fill(kit, "full2", "n2");
}

static void start(struct kit *kit)
{
    start_with(kit, 0);
}

static void stop(struct kit *kit)
{
    gs_retry_free(kit->retry);
    api_free(&kit->api);
}

static void on_refused(void *arg, const struct gs_filter_refusal *refusal)
{
    gs_retry_refused(arg, refusal);
}

/* kube-scheduler asks; true: there is room. */
static bool ask(struct kit *kit, const struct api_pod *pod, const char *nodes)
{
    bool is_found = api_ask(&kit->api, pod, nodes, on_refused, kit->retry);

    if (is_found)
        gs_retry_forget(kit->retry, gs_str_of(pod->uid));
    return is_found;
}

static struct api_pod *refused(struct kit *kit, const char *name, const char *nodes)
{
    struct api_pod *pod = api_pod(&kit->api, name);

    assert_false(ask(kit, pod, nodes));
    return pod;
}

static void leave(struct kit *kit, const char *uid)
{
    gs_books_pod_gone(kit->api.books, gs_str_of(uid));
}

/* It is told within 5 s: for this time, and no sooner than it is. */
static void expect_nudge(struct kit *kit, const struct api_pod *pod, unsigned nth)
{
    for (int i = 0; i < 50 && pod->n_nudges < nth; i++)
        api_serve(&kit->api, 100);
    assert_int_equal(pod->n_nudges, nth);
}

static size_t waiting(const struct kit *kit)
{
    struct gs_retry_stats stats;

    gs_retry_stats(kit->retry, &stats);
    return stats.waiting;
}

/* kube-scheduler heard of the end of a pod before the watch told the books: nothing else will make
 * it ask again. */
static void refused_from_old_books(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    api_serve(&kit.api, 60000);
    pod = refused(&kit, "a", BOTH);
    leave(&kit, "full2");
    api_serve(&kit.api, 1500);
    assert_int_equal(pod->n_nudges, 1);
    assert_true(ask(&kit, pod, BOTH));
    api_serve(&kit.api, 600000);
    assert_int_equal(pod->n_nudges, 1);
    assert_int_equal(waiting(&kit), 0);
    stop(&kit);
}

/* No object changes when a promise ends. */
static void room_by_the_end_of_a_reservation(void **state)
{
    struct kit kit;
    struct api_pod *first, *pod;

    (void)state;
    start(&kit);
    for (int i = 0; i < 80; i++) { /* HAMi's 10 shares of each card */
        char name[16];

        if (i == 0)
            leave(&kit, "full1");
        (void)snprintf(name, sizeof(name), "promised%d", i);
        first = api_pod(&kit.api, name);
        assert_true(ask(&kit, first, "\"n1\""));
    }
    pod = refused(&kit, "a", BOTH);
    api_serve(&kit.api, 20000);
    assert_int_equal(pod->n_nudges, 0);
    assert_true(gs_books_expire(kit.api.books, INT64_MAX, INT64_MAX) > 0);
    api_serve(&kit.api, 1500);
    assert_int_equal(pod->n_nudges, 1);
    stop(&kit);
}

/* Room on a node that was not in question (taints, affinity): no help. */
static void room_elsewhere(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    pod = refused(&kit, "a", "\"n1\"");
    leave(&kit, "full2");
    api_serve(&kit.api, 10000);
    assert_int_equal(pod->n_nudges, 0);
    leave(&kit, "full1");
    api_serve(&kit.api, 1500);
    assert_int_equal(pod->n_nudges, 1);
    stop(&kit);
}

/* Something changes, but there is no room still. */
static void no_room(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    pod = refused(&kit, "a", BOTH);
    leave(&kit, "full1");
    fill(&kit, "full3", "n1");
    for (size_t i = 0; i < 10; i++) {
        api_tell(&kit.api, &kit.api.node[1]);
        api_serve(&kit.api, 1000);
    }
    assert_int_equal(pod->n_nudges, 0);
    stop(&kit);
}

static void comes_by_itself(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    pod = refused(&kit, "a", BOTH);
    leave(&kit, "full1");
    api_serve(&kit.api, 200);
    assert_true(ask(&kit, pod, BOTH));
    api_serve(&kit.api, 10000);
    assert_int_equal(pod->n_nudges, 0);
    stop(&kit);
}

/* The write fails, or kube-scheduler does not come: again while there is room, ever more seldom. */
static void a_lost_nudge(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    pod = refused(&kit, "a", BOTH);
    leave(&kit, "full1");
    kit.api.on_method = "PATCH";
    kit.api.on_path = "/pods/a";
    kit.api.with_status = 403;
    api_serve(&kit.api, 1500);
    assert_int_equal(pod->n_nudges, 0);
    assert_null(kit.api.on_method); /* it was tried */
    api_serve(&kit.api, 3000);
    assert_int_equal(pod->n_nudges, 1);
    api_serve(&kit.api, 600000);
    assert_in_range(pod->n_nudges, 5, 20);
    stop(&kit);
}

/* Nudged, and somebody else was faster: the next room counts again, within 5 s. */
static void beaten(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    pod = refused(&kit, "a", BOTH);
    for (unsigned i = 1; i <= 5; i++) {
        leave(&kit, "full1");
        expect_nudge(&kit, pod, i);
        fill(&kit, "full1", "n1");
        assert_false(ask(&kit, pod, BOTH));
    }
    api_serve(&kit.api, 60000);
    assert_int_equal(pod->n_nudges, 5);
    stop(&kit);
}

static void set_quota(struct kit *kit, int64_t mib)
{
    int64_t *mem = calloc(kit->api.policies.n, sizeof(*mem)),
            *core = calloc(kit->api.policies.n, sizeof(*core));

    for (size_t i = 0; i < kit->api.policies.n; i++)
        mem[i] = core[i] = -1;
    mem[0] = mib;
    assert_int_equal(gs_books_quota_set(kit->api.books, GS_STR("default"), GS_STR("q"), mem, core),
                     0);
    free(mem);
    free(core);
}

static void room_in_a_quota(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    leave(&kit, "full1");
    leave(&kit, "full2");
    set_quota(&kit, 50);
    pod = refused(&kit, "a", BOTH); /* wants 100 MiB */
    set_quota(&kit, 60);
    api_serve(&kit.api, 5000);
    assert_int_equal(pod->n_nudges, 0);
    set_quota(&kit, 100);
    expect_nudge(&kit, pod, 1);
    assert_false(ask(&kit, api_pod(&kit.api, "b"), "\"n3\"")); /* no such node */
    set_quota(&kit, 50);
    assert_false(ask(&kit, pod, BOTH));
    gs_books_quota_gone(kit.api.books, GS_STR("default"), GS_STR("q"));
    expect_nudge(&kit, pod, 2);
    stop(&kit);
}

static void a_follower_is_silent(void **state)
{
    struct kit kit;
    struct api_pod *pod;

    (void)state;
    start(&kit);
    kit.is_follower = true;
    pod = refused(&kit, "a", BOTH);
    leave(&kit, "full1");
    api_serve(&kit.api, 20000);
    assert_int_equal(pod->n_nudges, 0);
    kit.is_follower = false;
    api_serve(&kit.api, 1500);
    assert_int_equal(pod->n_nudges, 1);
    stop(&kit);
}

/* A card comes free where 40 wait: those that matter most first, never all at once. */
static void many_wait(void **state)
{
    struct api_pod *pod[40];
    struct kit kit;
    unsigned told = 0;

    (void)state;
    start(&kit);
    for (size_t i = 0; i < 40; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "a%zu", i);
        pod[i] = api_pod(&kit.api, name);
        pod[i]->priority = i >= 30 ? 1000 : 0;
        assert_false(ask(&kit, pod[i], BOTH));
    }
    leave(&kit, "full1");
    api_serve(&kit.api, 1200);
    for (size_t i = 0; i < 40; i++)
        told += pod[i]->n_nudges;
    assert_int_equal(told, 16);
    for (size_t i = 30; i < 40; i++)
        assert_int_equal(pod[i]->n_nudges, 1);
    for (size_t i = 0; i < 6; i++) /* then who came first */
        assert_int_equal(pod[i]->n_nudges, 1);
    api_serve(&kit.api, 2000);
    for (size_t i = 0; i < 40; i++)
        assert_true(pod[i]->n_nudges > 0);
    stop(&kit);
}

static void who_is_gone_is_forgotten(void **state)
{
    const struct gs_kube_pod bound = {.meta = {.uid = GS_STR("uid-a"),
                                               .deletion_us = GS_KUBE_NO_TIME},
                                      .node_name = GS_STR("n1")},
                             waits = {.meta = {.uid = GS_STR("uid-b"),
                                               .deletion_us = GS_KUBE_NO_TIME}},
                             going = {.meta = {.uid = GS_STR("uid-b"), .deletion_us = 1}};
    struct kit kit;

    (void)state;
    start(&kit);
    (void)refused(&kit, "a", BOTH);
    (void)refused(&kit, "b", BOTH);
    (void)refused(&kit, "c", BOTH);
    gs_retry_saw_pod(kit.retry, &bound);
    gs_retry_saw_pod(kit.retry, &waits);
    assert_int_equal(waiting(&kit), 2);
    gs_retry_saw_pod(kit.retry, &going);
    gs_retry_forget(kit.retry, GS_STR("uid-c"));
    gs_retry_forget(kit.retry, GS_STR("uid-x"));
    assert_int_equal(waiting(&kit), 0);
    leave(&kit, "full1");
    api_serve(&kit.api, 5000);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(kit.api.pod[i].n_nudges, 0);
    stop(&kit);
}

static void memory_is_bounded(void **state)
{
    struct gs_retry_stats stats;
    struct kit kit;

    (void)state;
    start_with(&kit, 8192);
    for (size_t i = 0; i < 20; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "a%zu", i);
        (void)refused(&kit, name, BOTH);
    }
    gs_retry_stats(kit.retry, &stats);
    assert_in_range(stats.waiting, 1, 7);
    assert_in_range(stats.bytes, 1, 8192);
    assert_int_equal(stats.waiting + stats.dropped, 20);
    assert_false(ask(&kit, &kit.api.pod[0], BOTH)); /* again, and still known */
    assert_int_equal(waiting(&kit), stats.waiting);
    stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_from_old_books),
        cmocka_unit_test(room_by_the_end_of_a_reservation),
        cmocka_unit_test(room_elsewhere),
        cmocka_unit_test(no_room),
        cmocka_unit_test(comes_by_itself),
        cmocka_unit_test(a_lost_nudge),
        cmocka_unit_test(beaten),
        cmocka_unit_test(room_in_a_quota),
        cmocka_unit_test(a_follower_is_silent),
        cmocka_unit_test(many_wait),
        cmocka_unit_test(who_is_gone_is_forgotten),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
