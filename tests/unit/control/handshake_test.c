/* HAMi's handshake, and plugins that are dead. Vectors: control-plane fact sheet, appendix A7. */
#include "control/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "../kube/fake_http.h"
#include "control/policies.h"
#include "model/node.h"
#include "vendors/registry_policy.h"

/* 2026-08-21 06:20:39 UTC */
#define NOW 1787293239

static bool is_healthy(const char *value, int64_t seen_ms, int64_t allocatable, bool *ret_answer)
{
    struct gs_str text = gs_str_of(value);

    return gs_handshake_judge(&(struct gs_handshake_facts){.value = value != NULL ? &text : NULL,
                                                           .has_handshake = true,
                                                           .seen_ms = seen_ms,
                                                           .now_s = NOW,
                                                           .allocatable = allocatable},
                              ret_answer);
}

static void vectors(void **state)
{
    bool answer;

    (void)state;
    assert_true(is_healthy("Requesting_2128-12-02 00:00:00", 0, 0, &answer)); /* A7.1 */
    assert_false(answer);
    assert_true(is_healthy("Requesting", 0, 0, &answer)); /* A7.2 */
    assert_false(answer);
    assert_true(is_healthy("Requesting_not-a-timestamp", 0, 0, &answer)); /* A7.3 */
    assert_false(answer);
    assert_false(is_healthy("Requesting_2024-01-02 00:00:00", 0, 0, &answer)); /* A7.4 */
    assert_false(answer);
    assert_true(is_healthy("Requesting_2024-01-02 00:00:00", 0, 8, &answer)); /* A7.5 */
    assert_false(answer);
    assert_true(is_healthy("Unknown", 0, 0, &answer)); /* A7.6 */
    assert_true(answer);
    assert_true(is_healthy("Requesting_2026-08-21 06:20:00", 0, 0, &answer));  /* A7.7: pending */
    assert_false(is_healthy("Requesting_2026-08-21 06:19:00", 0, 0, &answer)); /* A7.8: expired */
    assert_true(is_healthy("Reported 2026.08.21 06:20:00", 0, 0, &answer));    /* Hygon's word */
    assert_true(answer);
    assert_true(is_healthy("Deleted_2020-01-01 00:00:00", 0, 0, &answer)); /* v2.9's */
    assert_true(answer);
}

/* A zone or a clock of another machine makes a stamp young or old: our own count decides. */
static void skewed_stamps(void **state)
{
    bool answer;

    (void)state;
    assert_true(is_healthy("Requesting_2026-08-21 14:20:00", 59000, 0, &answer));
    assert_false(is_healthy("Requesting_2026-08-21 14:20:00", 60000, 0, &answer));
    assert_true(is_healthy("Requesting_2026-08-21 01:20:00", 60000, 4, &answer));
    assert_true(is_healthy(NULL, 59000, 0, &answer));
    assert_false(is_healthy(NULL, 60000, 0, &answer));
    assert_true(is_healthy(NULL, 60000, 1, &answer));
}

static void kubelet_has_lost_the_plugin(void **state)
{
    struct gs_str fresh = GS_STR("Reported_2026-08-21 06:20:30");
    struct gs_handshake_facts f = {.has_handshake = true, .value = &fresh, .now_s = NOW};
    bool answer;

    (void)state;
    f.was_offered = true; /* alloc 0, last > 0 */
    assert_false(gs_handshake_judge(&f, &answer));
    f.was_offered = false;
    f.capacity = 8; /* 8/0: its endpoint is gone */
    assert_false(gs_handshake_judge(&f, &answer));
    f.allocatable = 8;
    assert_true(gs_handshake_judge(&f, &answer));
    f = (struct gs_handshake_facts){.was_offered = true}; /* and without a handshake */
    assert_false(gs_handshake_judge(&f, &answer));
    assert_false(answer);
}

/* ---- on nodes ---- */

struct fixture {
    struct fake fake;
    struct gs_arena arena;
    struct gs_policies policies;
    struct gs_books *books;
    struct gs_handshake *handshake;
    enum gs_leader_state leads;
};

static enum gs_leader_state on_leads(void *arg)
{
    return ((struct fixture *)arg)->leads;
}

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    f.leads = GS_LEADER_YES;
    fake_new(&f.fake, NULL);
    f.fake.clock.real_ns = NOW * GS_CLOCK_S;
    assert_int_equal(
        gs_policies_read(&(struct gs_policies_conf){.section = gs_registry_policy,
                                                    .n_sections = gs_registry_policy_n,
                                                    .enabled = (const char *const[]){NULL}},
                         &f.arena, &f.policies, NULL),
        0);
    assert_int_equal(gs_books_new(&f.policies, &f.books), 0);
    assert_int_equal(gs_handshake_new(f.fake.client, f.books,
                                      &(struct gs_handshake_opt){.leads = on_leads, .arg = &f},
                                      &f.handshake),
                     0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    gs_handshake_free(f->handshake);
    gs_books_free(f->books);
    fake_free(&f->fake);
    gs_arena_fini(&f->arena);
    return 0;
}

/* A node with one DCU card, and this word of its plugin. */
static void see(struct fixture *f, const char *name, const char *word, const char *offered)
{
    struct gs_pair note[] = {
        {GS_STR("hami.io/node-dcu-register"), GS_STR("DCU-0,4,32768,100,DCU-Z100,0,true,0,hami:")},
        {GS_STR("hami.io/node-handshake-dcu"), gs_str_of(word)},
    };
    struct gs_pair amount[] = {{GS_STR("hygon.com/dcunum"), gs_str_of(offered)}};
    struct gs_pairs notes = {.at = note, .n = word != NULL ? 2 : 1}, none = {0};
    struct gs_pairs amounts = {.at = amount, .n = offered != NULL ? 1 : 0};
    struct gs_node_view view = {gs_str_of(name), &notes, &none, &amounts, &amounts};

    assert_int_equal(gs_books_node_set(f->books, &view, NULL), 0);
    gs_handshake_saw_node(f->handshake, &view);
}

static bool is_open(struct fixture *f, const char *name)
{
    const struct gs_node *node = gs_books_node(f->books, gs_str_of(name));

    assert_non_null(node);
    return !node->use[0].is_closed;
}

static struct gs_handshake_stats stats_of(struct fixture *f)
{
    struct gs_handshake_stats stats;

    gs_handshake_stats(f->handshake, &stats);
    return stats;
}

static void word_is_answered_once(void **state)
{
    struct fixture *f = *state;
    struct gs_http_call *call;

    see(f, "n1", "Reported 2026.08.21 06:20:30", "4");
    call = fake_next(&f->fake, 100);
    assert_string_equal(call->method, "PATCH");
    assert_string_equal(call->url, "http://api/api/v1/nodes/n1");
    assert_string_equal(call->body,
                        "{\"metadata\":{\"annotations\":{\"hami.io/node-handshake-dcu\":"
                        "\"Requesting_2026-08-21 06:20:39\"}}}");
    fake_answer(call, 200, "{}", -1);
    see(f, "n1", "Requesting_2026-08-21 06:20:39", "4");
    fake_run(&f->fake, 30000);
    assert_int_equal(fake_open(), 0);
    see(f, "n1", "Reported 2026.08.21 06:21:09", "4"); /* too soon after the last answer */
    fake_run(&f->fake, 1000);
    assert_int_equal(fake_open(), 0);
    fake_run(&f->fake, 30000);
    see(f, "n1", "Reported 2026.08.21 06:21:39", "4");
    fake_answer(fake_next(&f->fake, 100), 200, "{}", -1);
    assert_int_equal(stats_of(f).answers, 2);
}

static void silent_plugin_is_muted_and_comes_back(void **state)
{
    struct fixture *f = *state;

    see(f, "n1", "Reported 2026.08.21 06:20:30", NULL);
    fake_answer(fake_next(&f->fake, 100), 200, "{}", -1);
    see(f, "n1", "Requesting_2026-08-21 06:20:39", NULL);
    fake_run(&f->fake, 50000);
    assert_true(is_open(f, "n1"));
    fake_run(&f->fake, 15000); /* no event: time alone */
    assert_false(is_open(f, "n1"));
    assert_int_equal(stats_of(f).muted, 1);
    see(f, "n1", "Requesting_2026-08-21 06:20:39", NULL); /* the kubelet's heartbeat */
    assert_false(is_open(f, "n1"));
    see(f, "n1", "Reported 2026.08.21 06:22:00", NULL);
    assert_true(is_open(f, "n1"));
    assert_int_equal(stats_of(f).muted, 0);
    fake_answer(fake_next(&f->fake, 100), 200, "{}", -1);
}

static void dead_plugin_by_allocatable(void **state)
{
    struct fixture *f = *state;

    see(f, "n1", NULL, "4");
    assert_true(is_open(f, "n1"));
    see(f, "n1", NULL, "0");
    assert_false(is_open(f, "n1"));
    see(f, "n1", NULL, "4");
    assert_true(is_open(f, "n1"));
    assert_int_equal(fake_open(), 0); /* a plugin without a handshake gets no answer */
}

static void followers_do_not_write(void **state)
{
    struct fixture *f = *state;

    f->leads = GS_LEADER_NO;
    see(f, "n1", "Reported_x", "4");
    see(f, "n2", "Reported_x", "4");
    fake_run(&f->fake, 3000);
    assert_int_equal(fake_open(), 0);
    /* the leader has answered one of them, and ends */
    see(f, "n2", "Requesting_2023-11-14 22:13:20", "4");
    f->leads = GS_LEADER_YES;
    fake_run(&f->fake, 1500);
    assert_int_equal(fake_open(), 1);
    assert_non_null(strstr(fake_next(&f->fake, 1000)->url, "/nodes/n1"));
    assert_int_equal(stats_of(f).waiting, 0);
}

/* Hundreds of plugins report at once: a few answers at a time, and a server that does not take them
 * holds up nobody. */
static void answers_take_turns(void **state)
{
    struct fixture *f = *state;
    unsigned n = 0;

    for (int i = 0; i < 200; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        see(f, name, "Reported_x", "4");
    }
    fake_run(&f->fake, 5000);
    assert_int_equal(fake_open(), 4);
    assert_int_equal(stats_of(f).waiting, 196);
    gs_handshake_node_gone(f->handshake, GS_STR("n150"));
    while (fake_open() > 0 || stats_of(f).waiting > 0) {
        fake_answer(fake_next(&f->fake, 1000), n % 2 ? 200 : 409, "{}", -1);
        n++;
        fake_run(&f->fake, 50);
    }
    assert_int_equal(n, 199);
    assert_int_equal(stats_of(f).answers + stats_of(f).failed, 199);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(skewed_stamps),
        cmocka_unit_test(kubelet_has_lost_the_plugin),
        T(word_is_answered_once),
        T(silent_plugin_is_muted_and_comes_back),
        T(dead_plugin_by_allocatable),
        T(followers_do_not_write),
        T(answers_take_turns),
    };

    (void)setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
