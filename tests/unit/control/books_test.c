/* The books: what is summed, in whatever order it is learnt. Vectors of appendix A9: collapse. */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/node.h"

static int setup(void **state)
{
    struct world *w = malloc(sizeof(*w));

    assert_non_null(w);
    world_init(w);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world_fini(*state);
    free(*state);
    return 0;
}

static void assert_use(struct world *w, const char *node, const char *card, int slots, int mem,
                       int cores)
{
    const struct gs_use use = world_use(w, node, card);

    assert_int_equal(use.slots, slots);
    assert_int_equal(use.mem_mib, mem);
    assert_int_equal(use.cores, cores);
}

/* A pod with n_init init containers first. */
static int pod_of(struct world *w, const char *uid, const char *grant, size_t n_init,
                  bool inits_done)
{
    struct gs_str *grants = calloc(w->policies.n, sizeof(*grants));
    int rc;

    assert_non_null(grants);
    grants[0] = gs_str_of(grant);
    rc = gs_books_pod_set(w->books,
                          &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                 .ns = GS_STR("ns"),
                                                 .name = gs_str_of(uid),
                                                 .node = GS_STR("n"),
                                                 .grant = grants,
                                                 .n_init = n_init,
                                                 .n_slots = 16,
                                                 .inits_done = inits_done,
                                                 .start_us = GS_BOOKS_STAYS,
                                                 .ends_us = GS_BOOKS_STAYS},
                          NULL);
    free(grants);
    return rc;
}

#define G(mem, cores) "gpu0,NVIDIA," #mem "," #cores ":;"

static void a9_collapse(void **state)
{
    static const struct {
        const char *grant;
        size_t n_init;
        int mem, cores, slots;             /* of gpu0 */
        int app_mem, app_cores, app_slots; /* once the init containers have ended */
    } row[] = {
        {G(100, 10) G(200, 20), 0, 300, 30, 2, 300, 30, 2},                   /* A9.1 */
        {G(100, 10) G(200, 30), 2, 200, 30, 1, 0, 0, 0},                      /* A9.2 */
        {G(500, 50) G(100, 10), 1, 500, 50, 1, 100, 10, 1},                   /* A9.3 */
        {G(100, 10) G(300, 30) G(200, 20) G(50, 5), 3, 300, 30, 1, 50, 5, 1}, /* A9.5 */
        {G(1000, 80) G(200, 20), 1, 1000, 80, 1, 200, 20, 1},                 /* A9.6 */
        {G(100, 10) G(100, 10) G(100, 10), 0, 300, 30, 3, 300, 30, 3},        /* A9.7 */
        {"gpu0,NVIDIA,200,20:gpu1,NVIDIA,300,30:;"                            /* A9.9 */
         "gpu0,NVIDIA,100,10:gpu1,NVIDIA,150,15:;",
         1, 200, 20, 1, 100, 10, 1},
    };
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 2, 8000), 0);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        assert_int_equal(pod_of(w, "p", row[i].grant, row[i].n_init, false), 0);
        assert_use(w, "n", "gpu0", row[i].slots, row[i].mem, row[i].cores);
        if (i == 6)
            assert_use(w, "n", "gpu1", 1, 300, 30);
        assert_int_equal(pod_of(w, "p", row[i].grant, row[i].n_init, true), 0);
        assert_use(w, "n", "gpu0", row[i].app_slots, row[i].app_mem, row[i].app_cores);
        if (i == 6)
            assert_use(w, "n", "gpu1", 1, 150, 15);
    }
}

static void pods_before_their_node(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_pod(w, "p", "n", G(1000, 10)), 0);
    assert_null(gs_books_node(w->books, GS_STR("n"))); /* a ghost: no devices are known */
    assert_int_equal(gs_books_counts(w->books).nodes, 0);
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_use(w, "n", "gpu0", 1, 1000, 10);
}

static void node_goes_and_returns_under_its_pods(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", G(1000, 10)), 0);
    gs_books_node_gone(w->books, GS_STR("n"));
    gs_books_node_gone(w->books, GS_STR("n"));
    assert_null(gs_books_node(w->books, GS_STR("n")));
    assert_int_equal(gs_books_counts(w->books).devices, 0);
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_use(w, "n", "gpu0", 1, 1000, 10);
    gs_books_node_gone(w->books, GS_STR("n"));
    gs_books_pod_gone(w->books, GS_STR("p"));
    gs_books_pod_gone(w->books, GS_STR("p"));
    assert_int_equal(gs_books_counts(w->books).pods, 0);
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_use(w, "n", "gpu0", 0, 0, 0);
}

static void cards_that_leave_under_their_pods(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 2, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", "gpu1,NVIDIA,1000,10:;"), 0);
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_use(w, "n", "gpu0", 0, 0, 0);
    assert_use(w, "n", "gpu1", -1, -1, -1);
    assert_int_equal(world_cards(w, "n", "gpu", 2, 8000), 0);
    assert_use(w, "n", "gpu1", 1, 1000, 10);
    /* all of them: the node is there and has none */
    assert_int_equal(world_node(w, "n", NULL), 0);
    assert_null(gs_books_node(w->books, GS_STR("n")));
}

static void pod_moves_by_another_uid(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_int_equal(world_cards(w, "m", "gpu", 1, 8000), 0); /* two nodes claim one UUID */
    assert_int_equal(world_pod(w, "p", "n", G(1000, 10)), 0);
    assert_use(w, "m", "gpu0", 0, 0, 0);
    assert_int_equal(world_pod(w, "p", "m", G(2000, 20)), 0);
    assert_use(w, "n", "gpu0", 0, 0, 0);
    assert_use(w, "m", "gpu0", 1, 2000, 20);
    /* its grant is taken away: holds nothing */
    assert_int_equal(world_pod(w, "p", "m", ""), 0);
    assert_use(w, "m", "gpu0", 0, 0, 0);
    assert_int_equal(gs_books_counts(w->books).pods, 0);
}

static void unreadable(void **state)
{
    static const char *const grant[] = {"gpu0,NVIDIA,1000", "gpu0,NVIDIA,-1,10:;", "a,b:;",
                                        "gpu0,NVIDIA,99999999999,10:;"};
    static const char *const cards[] = {"[", "[{\"id\":1}]", "[{\"id\":\"a:b\"}]",
                                        "[{\"id\":\"a\",\"count\":1e9999}]", "a,b:"};
    struct world *w = *state;
    struct gs_str name;
    size_t n = 0;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", G(1000, 10)), 0);
    for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
        assert_int_equal(world_node(w, "n", cards[i]), -EINVAL);
        assert_string_not_equal(w->err.text, "");
        assert_use(w, "n", "gpu0", 1, 1000, 10); /* what was known holds */
        assert_string_equal(gs_books_unreadable(w->books, GS_STR("n")), w->err.text);
    }
    assert_string_equal(w->err.text, "annotation hami.io/node-nvidia-register: device 0: "
                                     "unexpected field count 2 in node annotation");
    assert_int_equal(world_node(w, "m", "[}"), -EINVAL);
    assert_ptr_equal(strstr(w->err.text, "annotation hami.io/node-nvidia-register: JSON at byte 1"),
                     w->err.text);
    for (size_t pos = 0; gs_books_next_unreadable(w->books, &pos, &name) != NULL; n++)
        assert_true(gs_str_eq_c(name, "n") || gs_str_eq_c(name, "m"));
    assert_int_equal(n, 2);
    gs_books_node_gone(w->books, GS_STR("m"));
    assert_null(gs_books_unreadable(w->books, GS_STR("m")));
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_null(gs_books_unreadable(w->books, GS_STR("n")));
    for (size_t i = 0; i < sizeof(grant) / sizeof(grant[0]); i++) {
        assert_int_equal(world_pod(w, "q", "n", G(500, 5)), 0);
        assert_use(w, "n", "gpu0", 2, 1500, 15);
        if (world_pod(w, "q", "n", grant[i]) != -EINVAL)
            fail_msg("taken: %s", grant[i]);
        assert_string_not_equal(w->err.text, "");
        assert_use(w, "n", "gpu0", 1, 1000, 10); /* counts for nothing */
    }
}

/* ---- two that claim to be one card ---- */

static bool is_open(struct world *w, const char *node, const char *card)
{
    const struct gs_node *n = gs_books_node(w->books, gs_str_of(node));

    assert_non_null(n);
    for (size_t i = 0; i < n->n_dev; i++)
        if (gs_str_eq_c(n->dev[i].id, card))
            return gs_device_ask_open(&n->dev[i], &n->use[i]) == GS_REASON_COUNT;
    fail_msg("%s has no %s", node, card);
    return false;
}

static void want_rival(struct world *w, const char *node, const char *card, const char *rival)
{
    struct gs_str id, other;

    assert_true(gs_books_rival(w->books, gs_str_of(node), &id, &other));
    assert_true(gs_str_eq_c(id, card));
    assert_true(gs_str_eq_c(other, rival));
}

static void a_card_of_two_nodes(void **state)
{
    struct world *w = *state;
    struct gs_str id, rival;

    assert_int_equal(world_cards(w, "a", "x", 2, 8000), 0);
    assert_int_equal(world_cards(w, "b", "y", 2, 8000), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 0);
    assert_false(gs_books_rival(w->books, GS_STR("a"), &id, &rival));
    assert_int_equal(world_pod(w, "p", "a", "x0,NVIDIA,1000,10:;"), 0);
    /* b says that it has x0 and x1: whoever holds them goes on holding, nobody new */
    assert_int_equal(world_cards(w, "b", "x", 2, 8000), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 4);
    assert_false(is_open(w, "a", "x0"));
    assert_false(is_open(w, "a", "x1"));
    assert_false(is_open(w, "b", "x0"));
    assert_use(w, "a", "x0", 1, 1000, 10);
    want_rival(w, "a", "x0", "b");
    want_rival(w, "b", "x0", "a");
    /* said again it is no third claim */
    assert_int_equal(world_cards(w, "b", "x", 2, 8000), 0);
    assert_int_equal(world_cards(w, "c", "x", 1, 8000), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 5);
    gs_books_node_gone(w->books, GS_STR("c"));
    assert_int_equal(gs_books_claimed_twice(w->books), 4);
    /* b gives one back */
    assert_int_equal(world_cards(w, "b", "x", 1, 8000), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 2);
    assert_true(is_open(w, "a", "x1"));
    assert_false(is_open(w, "a", "x0"));
    /* and goes */
    gs_books_node_gone(w->books, GS_STR("b"));
    assert_int_equal(gs_books_claimed_twice(w->books), 0);
    assert_true(is_open(w, "a", "x0"));
    assert_use(w, "a", "x0", 1, 1000, 10);
}

static void a_card_of_two_entries(void **state)
{
    static const char twins[] = "[{\"id\":\"x0\",\"count\":10,\"devmem\":8000,\"devcore\":100,"
                                "\"type\":\"T\",\"health\":true},"
                                "{\"id\":\"x1\",\"count\":10,\"devmem\":8000,\"devcore\":100,"
                                "\"type\":\"T\",\"health\":true},"
                                "{\"id\":\"x0\",\"count\":10,\"devmem\":8000,\"devcore\":100,"
                                "\"type\":\"T\",\"health\":true}]";
    struct world *w = *state;

    assert_int_equal(world_node(w, "a", twins), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 2);
    assert_false(is_open(w, "a", "x0"));
    assert_true(is_open(w, "a", "x1"));
    want_rival(w, "a", "x0", "a");
    assert_int_equal(world_cards(w, "a", "x", 2, 8000), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 0);
    assert_true(is_open(w, "a", "x0"));
}

#define DCU(id) "[{\"id\":\"" id "\",\"count\":4,\"devmem\":8000,\"devcore\":60,\"health\":true}]"

static void cards_of_two_vendors(void **state)
{
    struct gs_pair both[] = {{GS_STR("hami.io/node-nvidia-register"), GS_STR(DCU("x"))},
                             {GS_STR("hami.io/node-dcu-register"), GS_STR(DCU("x"))}};
    struct gs_pairs annotations = {both, 2, 2}, none = {0};
    struct world *w = *state;

    assert_int_equal(
        gs_books_node_set(w->books,
                          &(struct gs_node_view){GS_STR("a"), &annotations, &none, &none, &none},
                          &w->err),
        0);
    assert_int_equal(gs_books_claimed_twice(w->books), 2);
    assert_int_equal(world_node_key(w, "a", "hami.io/node-dcu-register", DCU("x")), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 0);
    /* ids that mean something on their node alone */
    assert_int_equal(world_node_key(w, "b", "hami.io/node-va-register", DCU("0")), 0);
    assert_int_equal(world_node_key(w, "c", "hami.io/node-va-register", DCU("0")), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 0);
    /* devices without an id are nobody's */
    assert_int_equal(world_node(w, "b", DCU("")), 0);
    assert_int_equal(world_node(w, "c", DCU("")), 0);
    assert_int_equal(gs_books_claimed_twice(w->books), 0);
}

/* Whatever allocation fails: claims and views agree. */
static void claims_without_memory(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "a", "x", 2, 8000), 0);
    for (unsigned n = 1;; n++) {
        int rc;

        (void)world_fail_at(n);
        rc = world_cards(w, "b", "x", 3, 8000);
        if (!world_has_failed())
            break;
        (void)world_fail_at(0);
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(is_open(w, "a", "x0"), gs_books_claimed_twice(w->books) == 0);
        gs_books_node_gone(w->books, GS_STR("b"));
        assert_int_equal(gs_books_claimed_twice(w->books), 0);
        assert_true(is_open(w, "a", "x0"));
    }
    (void)world_fail_at(0);
    assert_int_equal(gs_books_claimed_twice(w->books), 4);
}

static void sums_do_not_wrap(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", "gpu0,NVIDIA,2147483647,2147483647:;"), 0);
    assert_int_equal(world_pod(w, "q", "n", "gpu0,NVIDIA,2147483647,2147483647:;"), 0);
    assert_use(w, "n", "gpu0", 2, INT32_MAX, INT32_MAX);
    gs_books_pod_gone(w->books, GS_STR("p"));
    gs_books_pod_gone(w->books, GS_STR("q"));
    assert_use(w, "n", "gpu0", 0, 0, 0);
}

static void muted_vendor(void **state)
{
    struct world *w = *state;
    const struct gs_policy *nvidia = gs_policies_find(&w->policies, GS_STR("NVIDIA"));

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    gs_books_node_mute(w->books, GS_STR("n"), nvidia, true);
    assert_true(world_use(w, "n", "gpu0").is_closed);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "p", 1000, 10));
    assert_string_equal(world_chosen(w), "");
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0); /* its text comes again: still dead */
    assert_true(world_use(w, "n", "gpu0").is_closed);
    gs_books_node_mute(w->books, GS_STR("other"), nvidia, true); /* unknown: nothing */
    gs_books_node_mute(w->books, GS_STR("n"), nvidia, false);
    assert_false(world_use(w, "n", "gpu0").is_closed);
}

static void migs_lie_beside_their_grants(void **state)
{
    struct world *w = *state;
    struct gs_str *grants = calloc(w->policies.n, sizeof(*grants)),
                  *places = calloc(w->policies.n, sizeof(*places));
    struct gs_books_pod pod = {.uid = GS_STR("p"),
                               .ns = GS_STR("ns"),
                               .name = GS_STR("p"),
                               .node = GS_STR("n"),
                               .grant = grants,
                               .placements = places,
                               .n_slots = 1,
                               .start_us = GS_BOOKS_STAYS,
                               .ends_us = GS_BOOKS_STAYS};
    struct gs_use use;

    assert_non_null(grants);
    assert_non_null(places);
    assert_int_equal(
        world_node(
            w, "n",
            "[{\"id\":\"m\",\"count\":7,\"devmem\":40960,\"devcore\":100,\"type\":\"NVIDIA\","
            "\"mode\":\"mig\",\"health\":true,\"migProfiles\":[{\"name\":\"1g.5gb\","
            "\"memoryMB\":4864,\"core\":15,\"sliceCount\":1,\"placements\":["
            "{\"start\":0,\"size\":1},{\"start\":1,\"size\":1}]}]}]"),
        0);
    grants[0] = GS_STR("m,NVIDIA,4864,15:;");
    places[0] = GS_STR("[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"m\","
                       "\"profile\":\"1g.5gb\",\"placement\":{\"start\":1,\"size\":1}}]");
    if (gs_books_pod_set(w->books, &pod, &w->err) != 0)
        fail_msg("%s", w->err.text);
    use = world_use(w, "n", "m");
    assert_int_equal(use.slots, 1);
    assert_int_equal(use.mem_mib, 4864);
    assert_false(use.is_closed);
    assert_int_equal(use.n_tenants, 2); /* the grant and its place */
    /* A16.11: a grant on a MIG card without a place: nobody is let on it */
    places[0] = (struct gs_str){0};
    assert_int_equal(gs_books_pod_set(w->books, &pod, &w->err), 0);
    assert_true(world_use(w, "n", "m").is_closed);
    /* a place on a card that is no MIG card any more */
    places[0] = GS_STR("[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"m\","
                       "\"profile\":\"1g.5gb\",\"placement\":{\"start\":1,\"size\":1}}]");
    assert_int_equal(gs_books_pod_set(w->books, &pod, &w->err), 0);
    assert_false(world_use(w, "n", "m").is_closed);
    assert_int_equal(world_node(w, "n",
                                "[{\"id\":\"m\",\"count\":7,\"devmem\":40960,\"devcore\":100,"
                                "\"type\":\"NVIDIA\",\"mode\":\"hami-core\",\"health\":true}]"),
                     0);
    assert_true(world_use(w, "n", "m").is_closed);
    /* the place cannot be read: the pod cannot */
    places[0] = GS_STR("[{}]");
    assert_int_equal(gs_books_pod_set(w->books, &pod, &w->err), -EINVAL);
    free(grants);
    free(places);
}

static void reservation_then_bound_then_gone(void **state)
{
    struct world *w = *state;
    struct gs_books_reservation r;
    struct gs_books_holder holder;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "p", 3000, 30));
    assert_true(gs_books_reserved(w->books, GS_STR("p"), &r));
    assert_string_equal(r.node.p, "n");
    assert_string_equal(r.name.p, "p");
    assert_int_equal(r.until_ms, 1001);
    assert_use(w, "n", "gpu0", 1, 3000, 30);
    /* news of the waiting pod does not end it; the pod bound replaces it, and counts once */
    assert_int_equal(world_pod(w, "p", "", ""), 0);
    assert_use(w, "n", "gpu0", 1, 3000, 30);
    assert_int_equal(world_pod(w, "p", "n", "gpu0,NVIDIA,3000,30:;"), 0);
    assert_use(w, "n", "gpu0", 1, 3000, 30);
    assert_false(gs_books_reserved(w->books, GS_STR("p"), &r));
    assert_false(gs_books_release(w->books, GS_STR("p"))); /* a bound pod keeps its grant */
    assert_int_equal(gs_books_expire(w->books, INT64_MAX, INT64_MAX), 0);
    assert_true(gs_books_holder(w->books, GS_STR("p"), &holder));
    assert_false(holder.is_reservation);
    gs_books_pod_gone(w->books, GS_STR("p"));
    assert_use(w, "n", "gpu0", 0, 0, 0);
    assert_false(gs_books_holder(w->books, GS_STR("p"), &holder));
}

static void reservation_of_a_deleted_pod(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "p", 3000, 30));
    gs_books_pod_gone(w->books, GS_STR("p"));
    assert_use(w, "n", "gpu0", 0, 0, 0);
    assert_int_equal(gs_books_counts(w->books).reservations, 0);
}

/* Its Binding was sent: it may have been bound, have run, and been deleted by force unseen, and a
 * kubelet gives containers their 30 s even then. Nothing new can come of the Binding. */
static void sent_reservation_of_a_deleted_pod(void **state)
{
    struct world *w = *state;
    struct gs_books_holder holder;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "p", 3000, 30));
    gs_books_pin(w->books, GS_STR("p"), true);
    gs_books_pod_deleted(w->books, GS_STR("p"), 1000); /* found gone by a list */
    assert_use(w, "n", "gpu0", 1, 3000, 30);
    assert_int_equal(gs_books_counts(w->books).reservations, 0);
    assert_false(gs_books_is_pinned(w->books, GS_STR("p")));
    assert_true(gs_books_holder(w->books, GS_STR("p"), &holder));
    assert_true(holder.is_leftover);
    gs_books_pod_deleted(w->books, GS_STR("p"), 2000); /* its binder says so, too */
    gs_books_void(w->books);
    (void)gs_books_expire(w->books, 60999, 60999);
    assert_use(w, "n", "gpu0", 1, 3000, 30);
    (void)gs_books_expire(w->books, 61000, 0);
    assert_use(w, "n", "gpu0", 0, 0, 0);
    assert_int_equal(gs_books_counts(w->books).pods, 0);
    /* the stream told its last state: it never had a node */
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "q", 3000, 30));
    gs_books_pin(w->books, GS_STR("q"), true);
    gs_books_pod_gone(w->books, GS_STR("q"));
    assert_use(w, "n", "gpu0", 0, 0, 0);
    /* nothing was sent */
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "r", 3000, 30));
    gs_books_pod_deleted(w->books, GS_STR("r"), 1000);
    assert_use(w, "n", "gpu0", 0, 0, 0);
}

/* It was bound, and the stream that is to show it is minutes behind: bytes come all the time. */
static void sent_reservation_and_a_backlog(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "p", 3000, 30));
    gs_books_prolong(w->books, GS_STR("p"), 5000);
    gs_books_pin(w->books, GS_STR("p"), true);
    assert_false(gs_books_is_overdue(w->books, 5000)); /* its binder looks after it */
    gs_books_pin(w->books, GS_STR("p"), false);
    assert_false(gs_books_is_overdue(w->books, 4999));
    assert_true(gs_books_is_overdue(w->books, 5000));
    assert_int_equal(gs_books_expire(w->books, 900000, 4999), 0); /* the last list was before */
    assert_use(w, "n", "gpu0", 1, 3000, 30);
    assert_int_equal(gs_books_expire(w->books, 900000, 5000), 1);
    assert_false(gs_books_is_overdue(w->books, 900000));
}

static void leases_end_all_at_once(void **state)
{
    struct world *w = *state;
    char uid[16];

    assert_int_equal(world_cards(w, "n", "gpu", 8, 8000), 0);
    for (int i = 0; i < 64; i++) {
        (void)snprintf(uid, sizeof(uid), "p%d", i);
        world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, uid, 100, 1));
        assert_string_equal(world_chosen(w), "n");
    }
    gs_books_prolong(w->books, GS_STR("p7"), 5000);
    gs_books_prolong(w->books, GS_STR("p8"), 1); /* never shortens */
    assert_int_equal(gs_books_expire(w->books, 1000, 1000), 0);
    assert_int_equal(gs_books_expire(w->books, 1001, 1001), 63);
    assert_int_equal(gs_books_counts(w->books).reservations, 1);
    gs_books_pin(w->books, GS_STR("p7"), true); /* its Binding is on its way: it does not end */
    assert_int_equal(gs_books_expire(w->books, INT64_MAX, INT64_MAX), 0);
    gs_books_pin(w->books, GS_STR("p7"), false);
    assert_int_equal(gs_books_expire(w->books, 5000, 5000), 1);
    assert_int_equal(gs_books_counts(w->books).pods, 0);
}

/* ---- quotas ---- */

static int quota(struct world *w, const char *name, int64_t mem, int64_t core)
{
    unsigned armed = world_fail_at(0);
    int64_t *mems = calloc(w->policies.n, sizeof(*mems)),
            *cores = calloc(w->policies.n, sizeof(*mems));
    int rc;

    assert_non_null(mems);
    assert_non_null(cores);
    for (size_t i = 0; i < w->policies.n; i++)
        mems[i] = cores[i] = -1;
    mems[0] = mem;
    cores[0] = core;
    (void)world_fail_at(armed);
    rc = gs_books_quota_set(w->books, GS_STR("ns"), gs_str_of(name), mems, cores);
    free(mems);
    free(cores);
    return rc;
}

static struct gs_ns_quota_line line_of(struct world *w, const char *but)
{
    const struct gs_ns_quota *q;

    gs_arena_reset(&w->call);
    assert_int_equal(gs_books_quota(w->books, GS_STR("ns"), gs_str_of(but), &w->call, &q), 0);
    return q != NULL ? q->line[0] : (struct gs_ns_quota_line){NULL, -2, -2, -2, -2};
}

static void quota_lines(void **state)
{
    struct world *w = *state;
    struct gs_str ns;
    size_t pos = 0;

    assert_int_equal(line_of(w, "").mem_limit, -2); /* none */
    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", G(1000, 10)), 0);
    assert_int_equal(quota(w, "a", 5000, -1), 0);
    assert_int_equal(quota(w, "b", 4000, 50), 0);
    assert_int_equal(quota(w, "c", 9000, 0), 0);
    assert_true(gs_books_next_quota(w->books, &pos, &ns));
    assert_string_equal(ns.p, "ns");
    assert_false(gs_books_next_quota(w->books, &pos, &ns));
    /* several quotas: the lowest of each (HAMi: the last one read; quirk 19) */
    assert_int_equal(line_of(w, "").mem_limit, 4000);
    assert_int_equal(line_of(w, "").core_limit, 0);
    assert_int_equal(line_of(w, "").mem_used, 1000);
    assert_int_equal(line_of(w, "").core_used, 10);
    assert_int_equal(line_of(w, "p").mem_used, 0); /* but for the pod itself */
    assert_int_equal(quota(w, "b", 4500, 60), 0);  /* replaces */
    assert_int_equal(line_of(w, "").mem_limit, 4500);
    gs_books_quota_gone(w->books, GS_STR("ns"), GS_STR("b"));
    gs_books_quota_gone(w->books, GS_STR("ns"), GS_STR("b"));
    gs_books_quota_gone(w->books, GS_STR("other"), GS_STR("b"));
    assert_int_equal(line_of(w, "").mem_limit, 5000);
    /* a reservation counts as a bound pod does */
    gs_books_quota_gone(w->books, GS_STR("ns"), GS_STR("c"));
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "q", 4000, 10));
    assert_string_equal(world_chosen(w), "n");
    assert_int_equal(line_of(w, "").mem_used, 5000);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "r", 1, 1));
    assert_non_null(strstr(world_failed(w, "n"), "ResourceQuotaNotFit"));
    (void)gs_books_release(w->books, GS_STR("q"));
    gs_books_pod_gone(w->books, GS_STR("p"));
    assert_int_equal(line_of(w, "").mem_used, 0);
    gs_books_quota_gone(w->books, GS_STR("ns"), GS_STR("a"));
    assert_int_equal(line_of(w, "").mem_limit, -2);
}

/* ---- walks ---- */

static void nodes_by_name(void **state)
{
    static const char *const name[] = {"b", "aa", "c", "a"};
    struct world *w = *state;
    const struct gs_node *node, *several[3];
    const struct gs_str names[] = {GS_STR("c"), GS_STR("x"), GS_STR("a")};
    size_t pos = 0, n = 0;

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(world_cards(w, name[i], "g", 1, 8000), 0);
    assert_int_equal(world_node(w, "empty", NULL), 0);
    while ((node = gs_books_next(w->books, &pos)) != NULL) {
        static const char *const sorted[] = {"a", "aa", "b", "c"};

        assert_string_equal(node->name.p, sorted[n]);
        assert_int_equal(gs_books_rank(node), n++);
    }
    assert_int_equal(n, 4);
    gs_books_nodes(w->books, names, 3, several);
    assert_string_equal(several[0]->name.p, "c");
    assert_null(several[1]);
    assert_string_equal(several[2]->name.p, "a");
    gs_books_node_gone(w->books, GS_STR("aa"));
    pos = n = 0;
    while (gs_books_next(w->books, &pos) != NULL)
        n++;
    assert_int_equal(n, 3);
    assert_int_equal(gs_books_counts(w->books).nodes, 3);
}

/* ---- no memory: every step either happens or does not, and the sums are right afterwards ---- */

static int step(struct world *w, int i)
{
    switch (i) {
    case 0:
        return world_cards(w, "n", "gpu", 2, 8000);
    case 1:
        return world_pod(w, "p", "n", G(1000, 10));
    case 2:
        return world_pod(w, "q", "ghost", G(1000, 10));
    case 3:
        return world_pod(w, "p", "n", "gpu1,NVIDIA,2000,20:;");
    case 4:
        return quota(w, "a", 5000, 50);
    case 5:
        return world_cards(w, "n", "gpu", 3, 8000);
    default:
        return world_cards(w, "ghost", "gpu", 1, 8000);
    }
}

static void no_memory(void **state)
{
    struct world *w = *state;

    for (int i = 0; i < 7; i++) {
        unsigned n = 1;

        for (;; n++) {
            int rc;

            (void)world_fail_at(n);
            rc = step(w, i);
            if (!world_has_failed()) {
                (void)world_fail_at(0);
                assert_int_equal(rc, 0);
                break;
            }
            (void)world_fail_at(0);
            if (rc != 0 && rc != -ENOMEM)
                fail_msg("step %d, allocation %u: %d %s", i, n, rc, w->err.text);
            assert_true(world_use(w, "n", "gpu0").mem_mib <= 1000);
        }
        assert_true(n > 1);
        /* adding up anew without memory closes the node to everybody */
        (void)world_use(w, "n", "gpu0");
    }
    assert_use(w, "n", "gpu0", 0, 0, 0);
    assert_use(w, "n", "gpu1", 1, 2000, 20);
    assert_use(w, "n", "gpu2", 0, 0, 0);
    assert_use(w, "ghost", "gpu0", 1, 1000, 10);
    assert_int_equal(line_of(w, "").mem_used, 3000);
}

static void closed_where_the_sum_has_no_memory(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", G(1000, 10)), 0);
    for (unsigned n = 1; n < 3; n++) {
        gs_books_node_mute(w->books, GS_STR("n"), w->policies.at[0], n % 2 == 1);
        (void)world_fail_at(n);
        (void)gs_books_node(w->books, GS_STR("n"));
        if (world_has_failed() && n == 2)
            assert_true(world_use(w, "n", "gpu0").is_closed);
        (void)world_fail_at(0);
    }
}

static void a_pod_without_a_namespace(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "gpu", 1, 8000), 0);
    world_filter(w, "{'Pod':{'metadata':{'name':'p','uid':'p'},'spec':{'containers':[{'name':'c',"
                    "'resources':{'limits':{'nvidia.com/gpu':1}}}]}},'NodeNames':['n']}");
    assert_string_equal(world_chosen(w), "n");
    assert_true(gs_books_release(w->books, GS_STR("p")));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a9_collapse),
        T(pods_before_their_node),
        T(node_goes_and_returns_under_its_pods),
        T(cards_that_leave_under_their_pods),
        T(pod_moves_by_another_uid),
        T(unreadable),
        T(a_card_of_two_nodes),
        T(a_card_of_two_entries),
        T(cards_of_two_vendors),
        T(claims_without_memory),
        T(sums_do_not_wrap),
        T(muted_vendor),
        T(migs_lie_beside_their_grants),
        T(reservation_then_bound_then_gone),
        T(reservation_of_a_deleted_pod),
        T(sent_reservation_of_a_deleted_pod),
        T(sent_reservation_and_a_backlog),
        T(leases_end_all_at_once),
        T(quota_lines),
        T(nodes_by_name),
        T(no_memory),
        T(closed_where_the_sum_has_no_memory),
        T(a_pod_without_a_namespace),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
