#include "control/untracked.h"

#include <errno.h>
#include <string.h>

#include "contract/names.h"
#include "control/books.h"
#include "model/node.h"
#include "toy.h"

/** Books over the toy vendor: node "n" with cards "c0" and "c1" of 10 shares, 8000 MiB. */
struct kit {
    struct toy toy;
    struct gs_books *books;
    struct gs_pairs notes, none;
};

static void note(struct kit *kit, const char *key, const char *value)
{
    assert_int_equal(gs_pairs_set(&kit->notes, &kit->toy.arena, gs_str_of(key), gs_str_of(value)),
                     0);
}

static int learn(struct kit *kit)
{
    return gs_books_node_set(
        kit->books,
        &(struct gs_node_view){GS_STR("n"), &kit->notes, &kit->none, &kit->none, &kit->none},
        &kit->toy.err);
}

static void start(struct kit *kit)
{
    memset(kit, 0, sizeof(*kit));
    toy_init(&kit->toy);
    assert_int_equal(gs_books_new(&kit->toy.policies, &kit->books), 0);
    note(kit, "toy.io/register",
         "[{\"id\":\"c0\",\"index\":0,\"count\":10,\"devmem\":8000,\"devcore\":100,\"type\":"
         "\"Toy\",\"health\":true},{\"id\":\"c1\",\"index\":1,\"count\":10,\"devmem\":8000,"
         "\"devcore\":100,\"type\":\"Toy\",\"health\":true}]");
    assert_int_equal(learn(kit), 0);
}

static void stop(struct kit *kit)
{
    gs_books_free(kit->books);
    toy_fini(&kit->toy);
}

static const struct gs_use *use(struct kit *kit, size_t card)
{
    const struct gs_node *node = gs_books_node(kit->books, GS_STR("n"));

    assert_non_null(node);
    return &node->use[card];
}

static void pod(struct kit *kit, const char *uid, const char *grant, bool is_over)
{
    const struct gs_str text = gs_str_of(grant);

    assert_int_equal(gs_books_pod_set(kit->books,
                                      &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                             .ns = GS_STR("ns"),
                                                             .name = gs_str_of(uid),
                                                             .node = GS_STR("n"),
                                                             .grant = &text,
                                                             .ends_us = GS_BOOKS_STAYS,
                                                             .is_over = is_over},
                                      &kit->toy.err),
                     0);
}

static void strangers_close_cards(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    assert_false(use(&kit, 1)->is_closed);
    note(&kit, GS_NAME_UNTRACKED, "[\"c1\", \"c9\"]");
    assert_int_equal(learn(&kit), 0);
    assert_false(use(&kit, 0)->is_closed);
    assert_true(use(&kit, 1)->is_closed);
    note(&kit, GS_NAME_UNTRACKED, "[]");
    assert_int_equal(learn(&kit), 0);
    assert_false(use(&kit, 1)->is_closed);
    stop(&kit);
}

/* What cannot be read leaves what was known: a card is not given away for a slip of the pen. */
static void nonsense_changes_nothing(void **state)
{
    static const char *const bad[] = {"{}", "[1]", "[null]", "[", "\"c0\"", "7"};
    struct kit kit;

    (void)state;
    start(&kit);
    note(&kit, GS_NAME_UNTRACKED, "[\"c1\"]");
    assert_int_equal(learn(&kit), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        note(&kit, GS_NAME_UNTRACKED, bad[i]);
        assert_int_equal(learn(&kit), -EINVAL);
        assert_non_null(strstr(kit.toy.err.text, GS_NAME_UNTRACKED));
        assert_true(use(&kit, 1)->is_closed);
    }
    stop(&kit);
}

static void sizes_are_bounded(void **state)
{
    struct gs_buf text = {0};
    struct gs_untracked got;
    struct kit kit;

    (void)state;
    start(&kit);
    gs_buf_adds(&text, "[");
    for (unsigned i = 0; i <= GS_UNTRACKED_CARDS_MAX; i++)
        gs_buf_adds(&text, i > 0 ? ",\"c\"" : "\"c\"");
    gs_buf_adds(&text, "]");
    note(&kit, GS_NAME_UNTRACKED, gs_buf_text(&text));
    assert_int_equal(
        gs_untracked_read(&kit.notes, &kit.toy.policies, &kit.toy.arena, &got, &kit.toy.err),
        -E2BIG);
    gs_buf_clear(&text);
    gs_buf_adds(&text, "[\"");
    for (unsigned i = 0; i < GS_UNTRACKED_BYTES_MAX; i++)
        gs_buf_adds(&text, "x");
    gs_buf_adds(&text, "\"]");
    note(&kit, GS_NAME_UNTRACKED, gs_buf_text(&text));
    assert_int_equal(
        gs_untracked_read(&kit.notes, &kit.toy.policies, &kit.toy.arena, &got, &kit.toy.err),
        -E2BIG);
    gs_buf_fini(&text);
    stop(&kit);
}

#define HELD(uid) "{\"" uid "\":{\"toy.io/allocated\":\"c0,Toy,3000,30:;\"}}"

/* A force-deleted pod counts until its node does not name it any more. */
static void leftovers_count(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    pod(&kit, "u1", "c0,Toy,3000,30:;", false);
    note(&kit, GS_NAME_HELD, HELD("u1"));
    assert_int_equal(learn(&kit), 0);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000); /* once, while the pod is there */
    gs_books_pod_gone(kit.books, GS_STR("u1"));
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    assert_int_equal(use(&kit, 0)->slots, 1);
    assert_false(gs_books_has_below(kit.books, INT32_MAX)); /* nobody can be asked to go */
    note(&kit, GS_NAME_HELD, "{}");
    assert_int_equal(learn(&kit), 0);
    assert_int_equal(use(&kit, 0)->mem_mib, 0);
    stop(&kit);
}

/* Also where the scheduler starts after the pod went, where it has failed, and not twice. */
static void leftovers_of_all_kinds(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    note(&kit, GS_NAME_HELD, HELD("u1"));
    assert_int_equal(learn(&kit), 0);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    pod(&kit, "u1", "c0,Toy,4000,30:;", false); /* it is there after all: its own grant */
    assert_int_equal(use(&kit, 0)->mem_mib, 4000);
    pod(&kit, "u1", "c0,Toy,4000,30:;", true);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    pod(&kit, "u1", "c0,Toy,4000,30:;", true);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    gs_books_node_gone(kit.books, GS_STR("n"));
    assert_int_equal(gs_books_counts(kit.books).pods, 0);
    stop(&kit);
}

/* "u1" of 3000 MiB, with a container that could run on for so long; 0: they have all ended. */
static void running_pod(struct kit *kit, int64_t outlives_ms)
{
    const struct gs_str text = GS_STR("c0,Toy,3000,30:;");

    assert_int_equal(gs_books_pod_set(kit->books,
                                      &(struct gs_books_pod){.uid = GS_STR("u1"),
                                                             .ns = GS_STR("ns"),
                                                             .name = GS_STR("p1"),
                                                             .node = GS_STR("n"),
                                                             .grant = &text,
                                                             .ends_us = GS_BOOKS_STAYS,
                                                             .outlives_ms = outlives_ms},
                                      &kit->toy.err),
                     0);
}

static void force_delete(struct kit *kit, int64_t now_ms)
{
    gs_books_pod_deleted(kit->books, GS_STR("u1"), now_ms);
}

/* Nobody reports for the node: the kubelet's time for the container is waited for, and no longer.
 */
static void deleted_while_running(void **state)
{
    struct gs_books_holder holder;
    struct kit kit;

    (void)state;
    start(&kit);
    running_pod(&kit, 60000);
    force_delete(&kit, 1000);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    assert_true(gs_books_holder(kit.books, GS_STR("u1"), &holder));
    assert_true(holder.is_leftover && holder.is_going);
    assert_false(gs_books_has_below(kit.books, INT32_MAX)); /* nobody can be asked to go */
    force_delete(&kit, 50000);                              /* said twice: the first counts */
    gs_books_void(kit.books); /* another leads by now: the container runs all the same */
    assert_int_equal(learn(&kit), 0);
    assert_int_equal(gs_books_expire(kit.books, 60999, 60999), 0);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    assert_int_equal(gs_books_expire(kit.books, 61000, 0), 0); /* no reservation */
    assert_int_equal(use(&kit, 0)->mem_mib, 0);
    assert_int_equal(gs_books_counts(kit.books).pods, 0);
    stop(&kit);
}

static void deleted_after_its_containers(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    running_pod(&kit, 60000);
    running_pod(&kit, 0);
    force_delete(&kit, 1000);
    assert_int_equal(use(&kit, 0)->mem_mib, 0);
    stop(&kit);
}

/* The node names it: from there on the node's word counts, however long. */
static void deleted_and_reported(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    running_pod(&kit, 60000);
    force_delete(&kit, 1000);
    note(&kit, GS_NAME_HELD, HELD("u1"));
    assert_int_equal(learn(&kit), 0);
    (void)gs_books_expire(kit.books, INT64_MAX, INT64_MAX);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    note(&kit, GS_NAME_HELD, "{}");
    assert_int_equal(learn(&kit), 0);
    assert_int_equal(use(&kit, 0)->mem_mib, 0);
    running_pod(&kit, 60000); /* the plugin knows it, and has its slots back already */
    force_delete(&kit, 1000);
    note(&kit, GS_NAME_HELD, "{\"u1\":{}}");
    assert_int_equal(learn(&kit), 0);
    assert_int_equal(use(&kit, 0)->mem_mib, 0);
    stop(&kit);
}

/* It was a mistake of the watch: the pod is there. */
static void deleted_and_back(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    running_pod(&kit, 60000);
    force_delete(&kit, 1000);
    running_pod(&kit, 60000);
    (void)gs_books_expire(kit.books, INT64_MAX, INT64_MAX);
    assert_int_equal(use(&kit, 0)->mem_mib, 3000);
    assert_true(gs_books_has_below(kit.books, INT32_MAX));
    gs_books_pod_gone(kit.books, GS_STR("u1"));
    assert_int_equal(use(&kit, 0)->mem_mib, 0);
    stop(&kit);
}

static void bad_leftovers(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{\"u1\":[]}",
        "{\"u1\":{\"toy.io/allocated\":1}}",
        "{\"\":{}}",
        "{\"u1\":{\"toy.io/allocated\":\"c0,Toy,-1,30:;\"}}",
    };
    struct kit kit;

    (void)state;
    start(&kit);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        note(&kit, GS_NAME_HELD, bad[i]);
        assert_int_equal(learn(&kit), -EINVAL);
        assert_int_equal(use(&kit, 0)->slots, 0);
    }
    note(&kit, GS_NAME_HELD, "{\"u1\":{\"other/key\":\"x\"}}");
    assert_int_equal(learn(&kit), 0);
    stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_close_cards),
        cmocka_unit_test(nonsense_changes_nothing),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(leftovers_count),
        cmocka_unit_test(leftovers_of_all_kinds),
        cmocka_unit_test(deleted_while_running),
        cmocka_unit_test(deleted_after_its_containers),
        cmocka_unit_test(deleted_and_reported),
        cmocka_unit_test(deleted_and_back),
        cmocka_unit_test(bad_leftovers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
