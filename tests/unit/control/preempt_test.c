/* Preemption from a refused call to its end, in virtual time: what is asked of the API server, in
 * which order, and what becomes of the room when something goes wrong in the middle. Who is chosen
 * is tested in preempt_plan_test.c, the whole on a real cluster in tests/e2e/control. */

#include "control/preempt.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "../kube/fake_http.h"
#include "control/metrics.h"
#include "control/policies.h"
#include "kube/view.h"
#include "model/node.h"
#include "vendors/registry_policy.h"

#define WATCH "watch=1"
#define CARD  8000

struct kit {
    struct fake fake;
    struct gs_arena arena;
    struct gs_policies policies;
    struct gs_books *books;
    struct gs_filter_conf conf;
    struct gs_preempt *preempt;
    const char *budgets; /**< what a list of them says */
    bool is_follower;
    /* what the server does */
    int refuse;                /**< evictions to refuse yet; -1: all */
    int refuse_after;          /**< evictions that it grants before */
    int with_status;           /**< of a refusal; 0: 429 */
    int nominate_status;       /**< of a nomination; 0: 200 */
    bool keeps_nomination;     /**< leaves the next one without an answer */
    struct gs_http_call *kept; /**< that one */
    /* what it was asked */
    char evicted[256], tried[1024]; /**< "a b ": granted; all */
    unsigned n_tried, n_nudges;
    char nominated[256]; /**< "high=n1 high= " */
};

static bool leads(void *arg)
{
    return !((struct kit *)arg)->is_follower;
}

/* ---- the cluster ---- */

static void add_node(struct kit *kit, const char *name)
{
    char text[256];
    struct gs_pair pair = {GS_STR("hami.io/node-nvidia-register"), {0}};
    struct gs_pairs annotations = {&pair, 1, 1}, none = {0};

    (void)snprintf(text, sizeof(text),
                   "[{\"id\":\"GPU-%s\",\"index\":0,\"count\":10,\"devmem\":%d,\"devcore\":100,"
                   "\"type\":\"NVIDIA\",\"health\":true}]",
                   name, CARD);
    pair.value = gs_str_of(text);
    assert_int_equal(gs_books_node_set(
                         kit->books,
                         &(struct gs_node_view){gs_str_of(name), &annotations, &none, &none, &none},
                         NULL),
                     0);
}

static void put_pod(struct kit *kit, const char *name, const char *node, int mem, int priority,
                    int64_t ends_us)
{
    struct gs_str *grant = calloc(kit->policies.n, sizeof(*grant));
    struct gs_pair label = {GS_STR("app"), gs_str_of(name)};
    struct gs_pairs labels = {&label, 1, 1};
    char text[64], uid[32];

    (void)snprintf(text, sizeof(text), "GPU-%s,NVIDIA,%d,0:;", node, mem);
    (void)snprintf(uid, sizeof(uid), "uid-%s", name);
    grant[0] = gs_str_of(text);
    assert_int_equal(gs_books_pod_set(kit->books,
                                      &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                             .ns = GS_STR("ns"),
                                                             .name = gs_str_of(name),
                                                             .node = gs_str_of(node),
                                                             .grant = grant,
                                                             .n_slots = 1,
                                                             .priority = priority,
                                                             .labels = &labels,
                                                             .ends_us = ends_us},
                                      NULL),
                     0);
    free(grant);
}

static void add_pod(struct kit *kit, const char *name, const char *node, int mem, int priority)
{
    put_pod(kit, name, node, mem, priority, GS_BOOKS_STAYS);
}

static void leave(struct kit *kit, const char *name)
{
    char uid[32];

    (void)snprintf(uid, sizeof(uid), "uid-%s", name);
    gs_books_pod_gone(kit->books, gs_str_of(uid));
    gs_preempt_pod_gone(kit->preempt, gs_str_of(uid));
}

/* kube-scheduler asks for a place. The node that it is told; "" for none. */
static const char *ask(struct kit *kit, const char *name, int priority, int mem)
{
    static char chosen[32];
    struct gs_arena arena = {0};
    struct gs_filter_note note;
    char body[1024], *reply;
    size_t n;

    (void)snprintf(
        body, sizeof(body),
        "{\"Pod\":{\"metadata\":{\"name\":\"%s\",\"namespace\":\"ns\",\"uid\":\"uid-%s\"},"
        "\"spec\":{\"priority\":%d,\"containers\":[{\"name\":\"c\",\"resources\":{"
        "\"limits\":{\"nvidia.com/gpu\":1,\"nvidia.com/gpumem\":%d}}}]}},"
        "\"NodeNames\":[\"n1\",\"n2\"]}",
        name, name, priority, mem);
    assert_int_equal(gs_filter(&(struct gs_filter_env){.books = kit->books,
                                                       .conf = &kit->conf,
                                                       .now = {(int64_t)kit->fake.clock.real_ns,
                                                               (int64_t)fake_now_ms(&kit->fake)},
                                                       .arena = &arena},
                               gs_str_of(body), &reply, &n, &note),
                     0);
    (void)snprintf(chosen, sizeof(chosen), "%.*s", (int)note.node.n,
                   note.node.n > 0 ? note.node.p : "");
    gs_preempt_refused(kit->preempt, gs_str_of(body), &note);
    free(reply);
    gs_arena_fini(&arena);
    return chosen;
}

static const char *high(struct kit *kit)
{
    return ask(kit, "high", 100, CARD);
}

/* ---- the API server ---- */

static void say(char *list, size_t size, const char *word)
{
    size_t n = strlen(list);

    (void)snprintf(list + n, size - n, "%s ", word);
}

static void refuse(struct gs_http_call *call, int status, const char *reason)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"kind\":\"Status\",\"code\":%d,\"reason\":\"%s\",\"message\":\"%s\"}", status,
                   reason, reason);
    fake_answer(call, status, body, -1);
}

static void serve_eviction(struct kit *kit, struct gs_http_call *call, const char *name)
{
    struct gs_books_holder holder;
    char uid[80];

    (void)snprintf(uid, sizeof(uid), "uid-%s", name);
    assert_non_null(strstr(call->body, uid)); /* of that pod and no other of its name */
    say(kit->tried, sizeof(kit->tried), name);
    kit->n_tried++;
    if (!gs_books_holder(kit->books, gs_str_of(uid), &holder)) {
        refuse(call, 404, "NotFound");
    } else if (kit->refuse != 0 && kit->refuse_after == 0) {
        kit->refuse -= kit->refuse > 0;
        if (kit->with_status == 0)
            refuse(call, 429, "TooManyRequests"); /* a budget: Eviction API of 1.36 */
        else
            refuse(call, kit->with_status, "InternalError");
    } else {
        kit->refuse_after -= kit->refuse_after > 0;
        say(kit->evicted, sizeof(kit->evicted), name);
        put_pod(kit, name, strstr(name, "2") != NULL ? "n2" : "n1",
                strlen(name) > 2 ? CARD / 2 : CARD, 0,
                (int64_t)(kit->fake.clock.real_ns / 1000) + 30000000);
        fake_answer(call, 201, "{\"kind\":\"Status\",\"status\":\"Success\"}", -1);
    }
}

static void serve_nomination(struct kit *kit, struct gs_http_call *call, const char *name)
{
    yyjson_doc *doc = yyjson_read(call->body, strlen(call->body), 0);
    const char *node =
        yyjson_get_str(yyjson_ptr_get(yyjson_doc_get_root(doc), "/status/nominatedNodeName"));
    char word[160];

    (void)snprintf(word, sizeof(word), "%s=%s", name, node != NULL ? node : "");
    say(kit->nominated, sizeof(kit->nominated), word);
    yyjson_doc_free(doc);
    if (kit->keeps_nomination) {
        kit->keeps_nomination = false;
        kit->kept = call;
    } else if (kit->nominate_status != 0) {
        refuse(call, kit->nominate_status, "Refused");
    } else {
        fake_answer(call, 200, "{}", -1);
    }
}

static void serve_one(struct kit *kit, struct gs_http_call *call)
{
    char name[64] = "", sub[64] = "";

    if (strstr(call->url, "/poddisruptionbudgets") != NULL) {
        fake_answer(call, 200, kit->budgets, -1);
        return;
    }
    assert_true(
        sscanf(call->url, "http://api/api/v1/namespaces/ns/pods/%63[^/?]/%63[^?]", name, sub) >= 1);
    if (strcmp(sub, "eviction") == 0) {
        serve_eviction(kit, call, name);
    } else if (strcmp(sub, "status") == 0) {
        serve_nomination(kit, call, name);
    } else {
        assert_non_null(strstr(call->body, "gpuslice.io/room-seen"));
        kit->n_nudges++;
        fake_answer(call, 200, "{}", -1);
    }
}

static void serve_open(struct kit *kit)
{
    struct gs_http_call *call = fake_open() > 0 ? fake_next(&kit->fake, 0) : NULL;

    while (call != NULL) {
        if (strstr(call->url, WATCH) != NULL || call == kit->kept) {
            call = call->next;
        } else {
            serve_one(kit, call);
            call = fake_open() > 0 ? fake_next(&kit->fake, 0) : NULL; /* the list has changed */
        }
    }
}

static void at_end(void *user)
{
    *(bool *)user = true;
}

static void serve(struct kit *kit, uint64_t ms)
{
    struct gs_loop_timer timer = {0};
    bool is_late = false;

    gs_loop_timer_in(kit->fake.loop, &timer, ms, at_end, &is_late);
    while (!is_late) {
        serve_open(kit);
        assert_true(gs_loop_step(kit->fake.loop, -1) >= 0);
    }
    serve_open(kit);
}

/* ---- kit ---- */

/* A budget over one pod, which allows so many disruptions. */
#define BUDGET(app, allowed)                                                                       \
    "{\"metadata\":{\"name\":\"b-" app "\",\"namespace\":\"ns\",\"uid\":\"b-" app                  \
    "\",\"resourceVersion\":\"1\"},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"" app        \
    "\"}}},\"status\":{\"disruptionsAllowed\":" allowed "}}"
#define LIST(items) "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" items "]}"

/* Two nodes of one card each. "a1" has all of the card of n1, "b2" that of n2 and matters more. */
static void start_with(struct kit *kit, const char *budgets)
{
    memset(kit, 0, sizeof(*kit));
    fake_new(&kit->fake, NULL);
    kit->budgets = budgets;
    assert_int_equal(
        gs_policies_read(&(struct gs_policies_conf){.section = gs_registry_policy,
                                                    .n_sections = gs_registry_policy_n,
                                                    .enabled = (const char *const[]){NULL}},
                         &kit->arena, &kit->policies, NULL),
        0);
    assert_int_equal(gs_books_new(&kit->policies, &kit->books), 0);
    kit->conf = (struct gs_filter_conf){
        .device_policy = GS_STR("spread"), .node_policy = GS_STR("binpack"), .lease_ms = 60000};
    add_node(kit, "n1");
    add_node(kit, "n2");
    assert_int_equal(
        gs_preempt_new(kit->fake.client, kit->books,
                       &(struct gs_preempt_opt){.filter = &kit->conf, .leads = leads, .arg = kit},
                       &kit->preempt, NULL),
        0);
    serve(kit, 1000); /* budgets are known */
}

static void start(struct kit *kit)
{
    start_with(kit, LIST(""));
    add_pod(kit, "a1", "n1", CARD, 0);
    add_pod(kit, "b2", "n2", CARD, 5);
}

static void stop(struct kit *kit)
{
    gs_preempt_free(kit->preempt);
    fake_free(&kit->fake);
    gs_books_free(kit->books);
    gs_arena_fini(&kit->arena);
}

static struct gs_preempt_stats stats_of(const struct kit *kit)
{
    struct gs_preempt_stats stats;

    gs_preempt_stats(kit->preempt, &stats);
    return stats;
}

static bool is_held(const struct kit *kit)
{
    return gs_books_is_held(kit->books, GS_STR("uid-high"));
}

static void housekeeping(struct kit *kit)
{
    (void)gs_books_expire(kit->books, (int64_t)fake_now_ms(&kit->fake),
                          (int64_t)fake_now_ms(&kit->fake));
}

static void seen(struct kit *kit, const char *node, int64_t deletion_us)
{
    gs_preempt_saw_pod(kit->preempt, &(struct gs_kube_pod){.meta = {.uid = GS_STR("uid-high"),
                                                                    .deletion_us = deletion_us},
                                                           .node_name = gs_str_of(node)});
}

/* ---- tests ---- */

static void the_usual_course(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    assert_string_equal(high(&kit), "");
    serve(&kit, 1000);
    assert_string_equal(kit.nominated, "high=n1 ");
    assert_string_equal(kit.evicted, "a1 ");
    assert_true(is_held(&kit));
    leave(&kit, "a1");
    assert_string_equal(ask(&kit, "low", 1, 100), ""); /* what became free is not for everybody */
    serve(&kit, 200);
    assert_int_equal(kit.n_nudges, 0);
    serve(&kit, 100); /* it has not come within 250 ms: kube-scheduler may not know */
    assert_int_equal(kit.n_nudges, 1);
    assert_string_equal(high(&kit), "n1");
    serve(&kit, 10000);
    assert_int_equal(kit.n_nudges, 1);
    put_pod(&kit, "high", "n1", CARD, 100, GS_BOOKS_STAYS);
    seen(&kit, "n1", GS_KUBE_NO_TIME);
    assert_false(is_held(&kit));
    assert_int_equal(stats_of(&kit).waiting, 0);
    assert_int_equal(stats_of(&kit).lost, 0);
    assert_string_equal(kit.tried, "a1 ");
    stop(&kit);
}

/* Nobody whose leaving would help, or who may be asked. */
static void nobody_to_ask(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    assert_string_equal(ask(&kit, "same", 0, CARD), "");
    assert_string_equal(ask(&kit, "large", 100, CARD + 1), "");
    serve(&kit, 5000);
    assert_int_equal(kit.n_tried, 0);
    assert_string_equal(kit.nominated, "");
    assert_int_equal(stats_of(&kit).helpless, 1);
    assert_int_equal(stats_of(&kit).waiting, 0);
    stop(&kit);
}

/* Budgets say no everywhere: each node in its turn, ever more seldom; and yes in the end. */
static void budgets_exhausted_and_refilled(void **state)
{
    struct kit kit;
    unsigned tried;

    (void)state;
    start_with(&kit, LIST(BUDGET("a1", "0") "," BUDGET("b2", "0")));
    add_pod(&kit, "a1", "n1", CARD, 0);
    add_pod(&kit, "b2", "n2", CARD, 5);
    kit.refuse = -1;
    (void)high(&kit);
    serve(&kit, 1500);
    assert_int_equal(strncmp(kit.tried, "a1 b2 ", 6), 0);
    serve(&kit, 60000);
    tried = kit.n_tried;
    assert_in_range(tried, 6, 40);
    assert_string_equal(kit.evicted, "");
    assert_int_equal(stats_of(&kit).refused, tried);
    kit.refuse = 0;
    serve(&kit, 35000); /* an avoided node comes again after 32 s at most */
    assert_string_equal(kit.evicted, "a1 ");
    assert_true(is_held(&kit));
    leave(&kit, "a1");
    assert_string_equal(high(&kit), "n1");
    stop(&kit);
}

/* For ever: it ends, and asks no more by itself; when the pod is refused again, it begins anew. */
static void budgets_exhausted_for_good(void **state)
{
    struct kit kit;
    unsigned tried;

    (void)state;
    start(&kit);
    kit.refuse = -1;
    (void)high(&kit);
    serve(&kit, 3600000);
    tried = kit.n_tried;
    assert_in_range(tried, 10, 200);
    assert_int_equal(stats_of(&kit).waiting, 0);
    assert_false(is_held(&kit));
    serve(&kit, 3600000);
    assert_int_equal(kit.n_tried, tried);
    (void)high(&kit);
    serve(&kit, 1000);
    assert_true(kit.n_tried > tried);
    stop(&kit);
}

/* Two have to go, and the second is refused after the first has gone. */
static void a_budget_in_the_middle(void **state)
{
    struct kit kit;

    (void)state;
    for (int refusals = 3; refusals >= -1; refusals -= 4) {
        start_with(&kit, LIST(""));
        add_pod(&kit, "a11", "n1", CARD / 2, 0);
        add_pod(&kit, "a12", "n1", CARD / 2, 0);
        add_pod(&kit, "b2", "n2", CARD, 50);
        kit.refuse = refusals;
        kit.refuse_after = 1;
        (void)high(&kit);
        serve(&kit, 1000);
        assert_int_equal(strlen(kit.evicted), 4);
        assert_true(is_held(&kit)); /* no other node now: one has gone for this one */
        serve(&kit, 180000);
        if (refusals > 0) { /* 0.5 s, 1 s, 2 s: tried again */
            assert_int_equal(strlen(kit.evicted), 8);
            assert_int_equal(kit.n_tried, 5);
            assert_true(is_held(&kit));
        } else { /* a minute or so, then given up: nothing stays behind */
            assert_int_equal(strlen(kit.evicted), 4);
            assert_in_range(kit.n_tried, 8, 20);
            assert_false(is_held(&kit));
            assert_string_equal(kit.nominated, "high=n1 high= ");
            assert_int_equal(stats_of(&kit).lost, 1);
        }
        stop(&kit);
    }
}

static void victims_that_do_not_go(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    (void)high(&kit);
    for (int s = 0; s < 890; s++) {
        serve(&kit, 1000);
        housekeeping(&kit);
        if (s % 60 == 30)
            assert_string_equal(high(&kit), ""); /* tried again: that changes nothing */
    }
    assert_true(is_held(&kit));
    assert_string_equal(kit.tried, "a1 ");
    serve(&kit, 30000); /* 15 minutes */
    assert_false(is_held(&kit));
    assert_string_equal(kit.nominated, "high=n1 high= ");
    assert_int_equal(stats_of(&kit).lost, 1);
    stop(&kit);
}

static void a_pod_that_does_not_come(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    (void)high(&kit);
    serve(&kit, 1000);
    leave(&kit, "a1");
    serve(&kit, 25000);
    assert_true(is_held(&kit));
    assert_in_range(kit.n_nudges, 5, 15);
    serve(&kit, 10000);
    assert_false(is_held(&kit));
    assert_string_equal(kit.nominated, "high=n1 high= ");
    serve(&kit, 60000);
    assert_int_equal(stats_of(&kit).waiting, 0);
    assert_string_equal(ask(&kit, "low", 1, CARD), "n1"); /* the room is everybody's */
    stop(&kit);
}

/* The pod is deleted while its nomination is on its way: nobody leaves for it. */
static void deleted_while_nominated(void **state)
{
    struct kit kit;

    (void)state;
    for (int answer = 0; answer < 2; answer++) {
        start(&kit);
        kit.keeps_nomination = true;
        (void)high(&kit);
        serve(&kit, 1000);
        assert_non_null(kit.kept);
        assert_int_equal(kit.n_tried, 0); /* first the nomination, then evictions */
        seen(&kit, "", 1700000000000000);
        assert_false(is_held(&kit));
        if (answer == 0)
            fake_answer(kit.kept, 200, "{}", -1);
        else
            fake_break(kit.kept, -ECONNRESET);
        kit.kept = NULL;
        serve(&kit, 60000);
        assert_int_equal(kit.n_tried, 0);
        assert_int_equal(stats_of(&kit).waiting, 0);
        stop(&kit);
    }
}

/* Between two evictions. */
static void gone_between_evictions(void **state)
{
    struct kit kit;

    (void)state;
    start_with(&kit, LIST(""));
    add_pod(&kit, "a11", "n1", CARD / 2, 0);
    add_pod(&kit, "a12", "n1", CARD / 2, 0);
    add_pod(&kit, "b2", "n2", CARD, 50);
    kit.refuse = 1;
    kit.refuse_after = 1;
    (void)high(&kit);
    serve(&kit, 400); /* the second is refused, and to be tried again after 500 ms */
    assert_int_equal(kit.n_tried, 2);
    gs_books_pod_gone(kit.books, GS_STR("uid-high"));
    gs_preempt_pod_gone(kit.preempt, GS_STR("uid-high"));
    serve(&kit, 60000);
    assert_int_equal(kit.n_tried, 2);
    assert_false(is_held(&kit));
    assert_int_equal(stats_of(&kit).waiting, 0);
    stop(&kit);
}

/* It found a place elsewhere while its victim was going. */
static void bound_elsewhere(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    (void)high(&kit);
    serve(&kit, 1000);
    leave(&kit, "b2");
    assert_string_equal(high(&kit), "n2");
    put_pod(&kit, "high", "n2", CARD, 100, GS_BOOKS_STAYS);
    seen(&kit, "n2", GS_KUBE_NO_TIME);
    assert_false(is_held(&kit));
    leave(&kit, "a1");
    serve(&kit, 5000);
    assert_int_equal(kit.n_nudges, 0);
    assert_string_equal(ask(&kit, "low", 1, CARD), "n1");
    stop(&kit);
}

/* The server has no such pod, or another of that name. */
static void nomination_refused(void **state)
{
    static const int status[] = {404, 409, 403};
    struct kit kit;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(status); i++) {
        start(&kit);
        kit.nominate_status = status[i];
        (void)high(&kit);
        serve(&kit, 20000);
        /* without the right to nominate it goes on: the hold is what counts */
        assert_string_equal(kit.evicted, status[i] == 403 ? "a1 " : "");
        assert_int_equal(is_held(&kit), status[i] == 403);
        stop(&kit);
    }
}

static void another_leads(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.is_follower = true; /* before anything */
    (void)high(&kit);
    serve(&kit, 5000);
    assert_string_equal(kit.nominated, "");
    assert_int_equal(kit.n_tried, 0);
    assert_int_equal(stats_of(&kit).waiting, 0);

    kit.is_follower = false; /* while the nomination is on its way */
    kit.keeps_nomination = true;
    (void)high(&kit);
    serve(&kit, 1000);
    assert_non_null(kit.kept);
    kit.is_follower = true;
    fake_answer(kit.kept, 200, "{}", -1);
    kit.kept = NULL;
    serve(&kit, 5000);
    assert_int_equal(kit.n_tried, 0);
    assert_false(is_held(&kit));
    assert_string_equal(kit.nominated, "high=n1 high= ");
    stop(&kit);
}

/* After the first of two has been evicted: the second is the other replica's. */
static void another_leads_in_the_middle(void **state)
{
    struct kit kit;

    (void)state;
    start_with(&kit, LIST(""));
    add_pod(&kit, "a11", "n1", CARD / 2, 0);
    add_pod(&kit, "a12", "n1", CARD / 2, 0);
    add_pod(&kit, "b2", "n2", CARD, 50);
    kit.refuse = 1;
    kit.refuse_after = 1;
    (void)high(&kit);
    serve(&kit, 400);
    assert_int_equal(kit.n_tried, 2);
    kit.is_follower = true;
    serve(&kit, 60000);
    assert_int_equal(kit.n_tried, 2);
    assert_false(is_held(&kit));
    stop(&kit);
}

/* Deleted by hand before its eviction came: that is as good. */
static void a_victim_goes_by_itself(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.keeps_nomination = true;
    (void)high(&kit);
    serve(&kit, 1000);
    leave(&kit, "a1");
    fake_answer(kit.kept, 200, "{}", -1);
    kit.kept = NULL;
    serve(&kit, 1000);
    assert_int_equal(kit.n_tried, 0);
    assert_string_equal(high(&kit), "n1");
    stop(&kit);
}

static void the_server_is_ill(void **state)
{
    struct kit kit;

    (void)state;
    start(&kit);
    kit.refuse = 2;
    kit.with_status = 500;
    (void)high(&kit);
    serve(&kit, 20000);
    assert_int_equal(stats_of(&kit).failed, 2);
    assert_int_equal(stats_of(&kit).refused, 0);
    assert_int_equal(stats_of(&kit).evicted, 1);
    stop(&kit);
}

#define POD "\"Pod\":{\"metadata\":{\"name\":\"p\",\"uid\":\"u\"},\"spec\":{}}"

/* POST /preempt, as kube-scheduler's types go out: null for a map or a list that has nothing. What
 * is refused is said. */
static void odd_questions(void **state)
{
    static const struct {
        const char *body, *want; /* the answer, or what is wrong */
        int rc;
    } row[] = {
        {"{" POD "}", "{\"NodeNameToMetaVictims\":{}}", 0},
        {"{" POD ",\"NodeNameToMetaVictims\":null,\"NodeNameToVictims\":null}",
         "{\"NodeNameToMetaVictims\":{}}", 0},
        {"{" POD ",\"NodeNameToMetaVictims\":{}}", "{\"NodeNameToMetaVictims\":{}}", 0},
        {"{" POD ",\"nodenametovictims\":{\"n1\":null}}",
         "{\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[],\"NumPDBViolations\":0}}}", 0},
        {"{" POD ",\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":null,\"NumPDBViolations\":null}}}",
         "{\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[],\"NumPDBViolations\":0}}}", 0},
        {"{" POD ",\"NodeNameToMetaVictims\":null,\"NodeNameToVictims\":{\"n1\":{\"Pods\":[{"
         "\"metadata\":{\"uid\":\"v\"}}],\"NumPDBViolations\":1}}}",
         "{\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[{\"UID\":\"v\"}],"
         "\"NumPDBViolations\":1}}}",
         0},
        {"null", "preemption args missing pod", -EINVAL},
        {"{}", "preemption args missing pod", -EINVAL},
        {"{\"Pod\":null,\"NodeNameToMetaVictims\":{}}", "preemption args missing pod", -EINVAL},
        {"{" POD ",\"NodeNameToMetaVictims\":[]}",
         "preemption args: nodes are no map of names to victims", -EINVAL},
        {"{" POD ",\"NodeNameToVictims\":\"n1\"}",
         "preemption args: nodes are no map of names to victims", -EINVAL},
        {"{" POD ",\"NodeNameToVictims\":{},\"nodeNameToVictims\":{}}",
         "NodeNameToVictims is there twice", -EINVAL},
        {"[]", "not an object", -EINVAL},
    };
    struct kit kit;

    (void)state;
    start(&kit);
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        struct gs_arena arena = {0};
        struct gs_err err = {0};
        char *text = NULL;
        size_t n;

        assert_int_equal(
            gs_preempt_answer(kit.preempt, gs_str_of(row[i].body), &arena, &text, &n, &err),
            row[i].rc);
        assert_string_equal(row[i].rc == 0 ? text : err.text, row[i].want);
        free(text);
        gs_arena_fini(&arena);
    }
    stop(&kit);
}

/* As many violations as a number can say, and ours beside them. */
static void violations_without_end(void **state)
{
    struct gs_arena arena = {0};
    struct kit kit;
    char *text;
    size_t n;

    (void)state;
    start_with(&kit, LIST(BUDGET("a1", "0")));
    add_pod(&kit, "a1", "n1", CARD, 0);
    assert_int_equal(
        gs_preempt_answer(kit.preempt,
                          GS_STR("{\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\","
                                 "\"uid\":\"u\"},\"spec\":{\"priority\":9,\"containers\":[{"
                                 "\"resources\":{\"limits\":{\"nvidia.com/gpu\":1}}}]}},"
                                 "\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[],"
                                 "\"NumPDBViolations\":9223372036854775807}}}"),
                          &arena, &text, &n, NULL),
        0);
    assert_string_equal(text, "{\"NodeNameToMetaVictims\":{\"n1\":{\"Pods\":[{\"UID\":\"uid-a1\"}"
                              "],\"NumPDBViolations\":9223372036854775807}}}");
    free(text);
    gs_arena_fini(&arena);
    stop(&kit);
}

/* What Prometheus is told of it. */
static void counted(void **state)
{
    static const char *const want[] = {
        "\ngpuslice_scheduler_preemption_attempts_total{outcome=\"victims\"} 2\n",
        "\ngpuslice_scheduler_preemption_attempts_total{outcome=\"helpless\"} 0\n",
        "\ngpuslice_scheduler_preemption_victims_total{outcome=\"evicted\"} 1\n",
        "\ngpuslice_scheduler_preemption_victims_total{outcome=\"budget\"} 1\n",
        "\ngpuslice_scheduler_preemption_victims_total{outcome=\"failed\"} 0\n",
        "\ngpuslice_scheduler_preemption_given_up_total 0\n",
        "\ngpuslice_scheduler_preemption_pods 1\n",
        "\ngpuslice_scheduler_books{kind=\"holds\"} 1\n",
    };
    struct gs_buf text = {0};
    struct kit kit;

    (void)state;
    start(&kit);
    kit.refuse = 1;
    (void)high(&kit);
    serve(&kit, 1000);
    assert_string_equal(kit.tried, "a1 b2 ");
    gs_metrics_write(&(struct gs_metrics_from){.books = kit.books, .preempt = kit.preempt}, &text);
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++)
        if (strstr(gs_buf_text(&text), want[i]) == NULL)
            fail_msg("not there: %s", want[i]);
    gs_buf_fini(&text);
    stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_course),
        cmocka_unit_test(nobody_to_ask),
        cmocka_unit_test(budgets_exhausted_and_refilled),
        cmocka_unit_test(budgets_exhausted_for_good),
        cmocka_unit_test(a_budget_in_the_middle),
        cmocka_unit_test(victims_that_do_not_go),
        cmocka_unit_test(a_pod_that_does_not_come),
        cmocka_unit_test(deleted_while_nominated),
        cmocka_unit_test(gone_between_evictions),
        cmocka_unit_test(bound_elsewhere),
        cmocka_unit_test(nomination_refused),
        cmocka_unit_test(another_leads),
        cmocka_unit_test(another_leads_in_the_middle),
        cmocka_unit_test(a_victim_goes_by_itself),
        cmocka_unit_test(the_server_is_ill),
        cmocka_unit_test(counted),
        cmocka_unit_test(odd_questions),
        cmocka_unit_test(violations_without_end),
    };

    return cmocka_run_group_tests_name("control_preempt", tests, NULL, NULL);
}
