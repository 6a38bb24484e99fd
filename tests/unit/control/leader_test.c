/* Who may write Bindings, by the kube-scheduler's lease; in virtual time. */
#include "control/leader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "../kube/fake_http.h"

struct fixture {
    struct fake fake;
    struct gs_leader *leader;
    struct gs_http_call *watch;
    unsigned n_relists, n_fences, n_leads, n_follows;
    unsigned version;
};

static void on_relist(void *arg)
{
    ((struct fixture *)arg)->n_relists++;
}

static void on_fence(void *arg)
{
    ((struct fixture *)arg)->n_fences++;
}

static void on_follows(void *arg)
{
    ((struct fixture *)arg)->n_follows++;
}

/* Everything is listed, and every pod that waits was written to. */
static void relisted(struct fixture *f)
{
    unsigned before = f->n_fences;

    gs_leader_relisted(f->leader);
    assert_int_equal(f->n_fences, before + 1);
    assert_int_equal(gs_leader_state(f->leader), GS_LEADER_NOT_YET);
    gs_leader_fenced(f->leader);
}

static void on_leads(void *arg)
{
    struct fixture *f = arg;

    f->n_leads++;
    assert_int_equal(gs_leader_state(f->leader), GS_LEADER_YES);
}

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    fake_new(&f.fake, NULL);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    f->leader = gs_leader_free(f->leader);
    fake_free(&f->fake);
    return 0;
}

static void start(struct fixture *f, const char *lease)
{
    assert_int_equal(gs_leader_new(f->fake.client,
                                   &(struct gs_leader_opt){.lease_ns = GS_STR("ns"),
                                                           .lease_name = gs_str_of(lease),
                                                           .host = GS_STR("pod-a"),
                                                           .relist = on_relist,
                                                           .fence = on_fence,
                                                           .follows = on_follows,
                                                           .leads = on_leads,
                                                           .arg = f},
                                   &f->leader, NULL),
                     0);
}

static void put_lease(struct fixture *f, char *text, size_t size, const char *holder, int moves)
{
    (void)snprintf(text, size,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"sched\",\"uid\":\"u\","
                   "\"resourceVersion\":\"%u\"},\"spec\":{\"holderIdentity\":\"%s\","
                   "\"leaseDurationSeconds\":15,\"leaseTransitions\":%d}}",
                   ++f->version, holder, moves);
}

/* The first list; the stream after it. */
static void listed(struct fixture *f, const char *holder, int moves)
{
    char lease[512], list[1024];

    put_lease(f, lease, sizeof(lease), holder, moves);
    (void)snprintf(list, sizeof(list), "{\"metadata\":{\"resourceVersion\":\"%u\"},\"items\":[%s]}",
                   f->version, lease);
    fake_answer(fake_next(&f->fake, 1000), 200, list, -1);
    f->watch = fake_next(&f->fake, 1000);
}

static void renewed(struct fixture *f, const char *holder, int moves)
{
    char lease[512], event[1024];

    put_lease(f, lease, sizeof(lease), holder, moves);
    (void)snprintf(event, sizeof(event), "{\"type\":\"MODIFIED\",\"object\":%s}\n", lease);
    assert_true(fake_chunk(f->watch, event));
}

static enum gs_leader_state state_of(struct fixture *f)
{
    return gs_leader_state(f->leader);
}

static void only_replica_waits_and_lists(void **state)
{
    struct fixture *f = *state;

    start(f, "");
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET);
    fake_run(&f->fake, 2400);
    assert_int_equal(f->n_relists, 0);
    fake_run(&f->fake, 200);
    assert_int_equal(f->n_relists, 1);
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET);
    gs_leader_fenced(f->leader); /* of an earlier term */
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET);
    relisted(f);
    assert_int_equal(state_of(f), GS_LEADER_YES);
    gs_leader_relisted(f->leader); /* a list for another reason */
    assert_int_equal(f->n_leads, 1);
    assert_int_equal(f->n_fences, 1);
}

static void lease_moves_to_us_and_away(void **state)
{
    struct fixture *f = *state;

    start(f, "sched");
    assert_int_equal(state_of(f), GS_LEADER_NO);
    listed(f, "pod-b_1111", 3);
    assert_int_equal(state_of(f), GS_LEADER_NO);
    renewed(f, "pod-a_2222", 4);
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET); /* a Binding of pod-b may be on its way */
    gs_leader_relisted(f->leader);                    /* not the list that we ask for */
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET);
    fake_run(&f->fake, 2600);
    assert_int_equal(f->n_relists, 1);
    relisted(f);
    assert_int_equal(state_of(f), GS_LEADER_YES);
    renewed(f, "pod-b_3333", 5);
    assert_int_equal(state_of(f), GS_LEADER_NO);
    assert_int_equal(f->n_follows, 1);
    renewed(f, "pod-a_2222", 6);
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET);
    renewed(f, "pod-b_3333", 7); /* and back before we began */
    fake_run(&f->fake, 10000);
    assert_int_equal(f->n_relists, 1);
    assert_int_equal(state_of(f), GS_LEADER_NO);
}

static void lead(struct fixture *f)
{
    start(f, "sched");
    listed(f, "pod-a_2222", 4);
    fake_run(&f->fake, 2600);
    relisted(f);
    assert_int_equal(state_of(f), GS_LEADER_YES);
}

static void unrenewed_lease_is_nobodys(void **state)
{
    struct fixture *f = *state;

    lead(f);
    fake_run(&f->fake, 12000);
    assert_int_equal(state_of(f), GS_LEADER_YES);
    fake_run(&f->fake, 3000);
    assert_int_equal(state_of(f), GS_LEADER_NO);
    renewed(f, "pod-a_2222", 4); /* only we had not heard of it */
    assert_int_equal(state_of(f), GS_LEADER_YES);
}

static void same_host_goes_on(void **state)
{
    struct fixture *f = *state;

    lead(f);
    renewed(f, "pod-a_4444", 5); /* its kube-scheduler was started again */
    assert_int_equal(state_of(f), GS_LEADER_YES);
    renewed(f, "pod-a_4444", 7); /* but between these somebody else led */
    assert_int_equal(state_of(f), GS_LEADER_NOT_YET);
}

static bool proves(struct fixture *f, int rc, const char *holder, int moves)
{
    char lease[512];
    yyjson_doc *doc;
    bool is_proof;

    put_lease(f, lease, sizeof(lease), holder, moves);
    doc = yyjson_read(lease, strlen(lease), 0);
    is_proof = gs_leader_proves(
        f->leader, &(struct gs_kube_result){.rc = rc, .root = yyjson_doc_get_root(doc)});
    yyjson_doc_free(doc);
    return is_proof;
}

/* The watch may be behind: the server's own answer counts. */
static void server_tells_who_leads(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_req req;

    lead(f);
    assert_true(gs_leader_ask(f->leader, &req));
    assert_int_equal(req.verb, GS_KUBE_GET);
    assert_ptr_equal(req.resource, &gs_kube_leases);
    assert_true(gs_str_eq(req.ns, GS_STR("ns")) && gs_str_eq(req.name, GS_STR("sched")));
    assert_true(proves(f, 0, "pod-a_2222", 4));
    assert_true(proves(f, 0, "pod-a_4444", 5)); /* as in same_host_goes_on */
    assert_false(proves(f, 0, "pod-a_2222", 6));
    assert_false(proves(f, 0, "pod-b_3333", 5));
    assert_false(proves(f, 0, "", 4));
    assert_false(proves(f, -EPERM, "pod-a_2222", 4));
    renewed(f, "pod-b_3333", 5);
    assert_false(proves(f, 0, "pod-a_2222", 6)); /* we have to begin first */
}

static void nobody_to_ask(void **state)
{
    struct fixture *f = *state;
    struct gs_kube_req req;

    start(f, "");
    assert_false(gs_leader_ask(f->leader, &req));
}

static void host_is_the_whole_of_it(void **state)
{
    (void)state;
    assert_true(gs_leader_is_on(GS_STR("sched-1_0f3c-11"), GS_STR("sched-1")));
    assert_false(gs_leader_is_on(GS_STR("sched-11_0f3c-11"), GS_STR("sched-1"))); /* HAMi's quirk */
    assert_true(gs_leader_is_on(GS_STR("odd_host_0f3c"), GS_STR("odd_host")));
    assert_false(gs_leader_is_on(GS_STR("sched-1"), GS_STR("sched-1")));
    assert_false(gs_leader_is_on(GS_STR(""), GS_STR("")));
    assert_false(gs_leader_is_on(GS_STR("_x"), GS_STR("")));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(only_replica_waits_and_lists), T(lease_moves_to_us_and_away),
        T(unrenewed_lease_is_nobodys),   T(same_host_goes_on),
        T(server_tells_who_leads),       T(nobody_to_ask),
        T(host_is_the_whole_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
