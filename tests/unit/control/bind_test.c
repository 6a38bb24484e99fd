/* The binder against a small API server, in virtual time. */
#include "control/bind.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#include "api.h"
#include "kube/view.h"

struct call {
    bool is_done;
    uint64_t at_ms;
    unsigned order;
    char error[GS_ERR_TEXT];
    struct api *api;
};

struct fixture {
    struct api api;
    struct call call[128];
    enum gs_leader_state leads;
};

static unsigned n_done;

static enum gs_leader_state on_leads(void *arg)
{
    return ((struct fixture *)arg)->leads;
}

static bool on_ask(void *arg, struct gs_kube_req *ret)
{
    (void)arg;
    *ret = (struct gs_kube_req){.verb = GS_KUBE_GET,
                                .resource = &gs_kube_leases,
                                .ns = GS_STR("kube-system"),
                                .name = GS_STR("kube-scheduler")};
    return true;
}

static bool on_proves(void *arg, const struct gs_kube_result *result)
{
    yyjson_val *spec = yyjson_obj_get(result->root, "spec");

    (void)arg;
    return result->rc == 0 && yyjson_equals_str(yyjson_obj_get(spec, "holderIdentity"), "me");
}

static int on_seal(void *arg, const struct gs_extender_binding *binding, struct gs_arena *arena,
                   struct gs_pairs *annotations)
{
    (void)arg;
    return gs_pairs_set(annotations, arena, GS_STR("test/seal"), gs_arena_str(arena, binding->uid));
}

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    f.leads = GS_LEADER_YES;
    api_new(&f.api);
    api_binder(&f.api, (struct gs_binder_opt){.lock_timeout_ms = 300000,
                                              .lock_retry_ms = 28000,
                                              .leads = on_leads,
                                              .ask = on_ask,
                                              .proves = on_proves,
                                              .seal = on_seal,
                                              .arg = &f});
    f.api.holder = "me";
    for (size_t i = 0; i < 128; i++)
        f.call[i].api = &f.api;
    n_done = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    api_free(&f->api);
    return 0;
}

static void on_end(void *arg, const char *error)
{
    struct call *call = arg;

    assert_false(call->is_done);
    call->is_done = true;
    call->at_ms = fake_now_ms(&call->api->fake);
    call->order = n_done++;
    (void)snprintf(call->error, sizeof(call->error), "%s", error);
}

static struct gs_extender_binding binding_of(const struct api_pod *pod, const char *node)
{
    return (struct gs_extender_binding){gs_str_of(pod->name), gs_str_of(pod->ns),
                                        gs_str_of(pod->uid), gs_str_of(node)};
}

static struct call *start(struct fixture *f, const struct api_pod *pod, const char *node)
{
    struct gs_extender_binding binding = binding_of(pod, node);
    struct call *call = f->call;
    struct gs_err err = {0};

    while (call->at_ms != 0 || call->is_done)
        call++;
    call->at_ms = 1;
    if (gs_binder_bind(f->api.binder, &binding, on_end, call, &err) < 0) {
        assert_false(call->is_done);
        on_end(call, err.text);
        return call;
    }
    assert_false(call->is_done);
    return call;
}

static const char *bind(struct fixture *f, const struct api_pod *pod, const char *node)
{
    struct call *call = start(f, pod, node);

    for (int i = 0; i < 400 && !call->is_done; i++)
        api_serve(&f->api, 100);
    assert_true(call->is_done);
    return call->error;
}

static void prestart(struct fixture *f)
{
    strcpy(f->api.node[0].identity, "prestart");
    strcpy(f->api.node[1].identity, "prestart");
    api_tell(&f->api, &f->api.node[0]);
    api_tell(&f->api, &f->api.node[1]);
}

/* The plugin gives the lock back. */
static void unlock(struct fixture *f, size_t node)
{
    f->api.node[node].lock[0][0] = '\0';
    f->api.node[node].version++;
    api_tell(&f->api, &f->api.node[node]);
}

static bool is_reserved(struct fixture *f, const struct api_pod *pod)
{
    struct gs_books_reservation r;

    return gs_books_reserved(f->api.books, gs_str_of(pod->uid), &r);
}

static struct gs_binder_stats stats_of(struct fixture *f)
{
    struct gs_binder_stats stats;

    gs_binder_stats(f->api.binder, &stats);
    return stats;
}

/* ---- one write ---- */

static void one_call_without_a_lock(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_string_equal(pod->node, "n1");
    assert_string_equal(pod->bind_phase, "allocating");
    assert_string_equal(pod->bind_time, "1700000000");
    assert_string_equal(pod->grant,
                        "GPU-n1-7,NVIDIA,100,0:;"); /* spread: the last of equals, A12.3 */
    assert_string_equal(pod->seal, "uid-a");
    assert_int_equal(f->api.n_gets + f->api.n_patches, 0);
    assert_true(is_reserved(f, pod)); /* until the watch shows it */
}

static void lock_is_taken_and_stays(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_string_equal(f->api.node[0].lock[0], "2023-11-14T22:13:20Z,default,a");
    assert_string_equal(f->api.node[1].lock[0], "");
}

static void vendors_choose_the_lock(void **state)
{
    struct fixture *f = *state;
    struct api_pod *gcu = api_pod(&f->api, "gcu"), *mlu = api_pod(&f->api, "mlu");

    gcu->is_gcu = true;
    mlu->is_mlu = true;
    api_filter(&f->api, gcu, "n1");
    api_filter(&f->api, mlu, "n2");
    assert_string_equal(bind(f, gcu, "n1"), "");
    assert_int_equal(f->api.n_patches, 0); /* Enflame's whole cards have no lock */
    assert_string_equal(bind(f, mlu, "n2"), "");
    assert_string_equal(f->api.node[1].lock[0], "");
    assert_string_equal(f->api.node[1].lock[1], "2023-11-14T22:13:20Z");
}

static void pod_that_asks_nothing_is_bound(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    pod->asks_nothing = true;
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_string_equal(pod->node, "n1");
    assert_string_equal(pod->grant, "");
    assert_int_equal(f->api.n_patches, 0);
}

/* ---- how a write may end ---- */

static void conflict_is_void(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    api_filter(&f->api, pod, "n1");
    strcpy(pod->node, "n2"); /* HAMi's scheduler was faster */
    assert_string_not_equal(bind(f, pod, "n1"), "");
    assert_false(is_reserved(f, pod));
    assert_string_equal(f->api.node[0].lock[0], ""); /* given back */
    assert_int_equal(f->api.n_bindings, 0);
}

static void lost_answer_is_found(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.is_lost = true;
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(f->api.n_bindings, 1);
    assert_true(is_reserved(f, pod));
    assert_int_equal(stats_of(f).unsure, 1);
}

/* Nothing arrived, it seems; the server does it when it has time. The pod was written to before. */
static void lost_write_cannot_land(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    uint64_t before = fake_now_ms(&f->api.fake);

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.is_lost = f->api.is_dropped = true;
    assert_string_equal(bind(f, pod, "n1"), "the API server did not take the Binding");
    assert_true(fake_now_ms(&f->api.fake) - before < 1000);
    assert_false(is_reserved(f, pod));
    assert_int_equal(f->api.n_fences, 1);
    assert_false(api_land(&f->api));
    assert_string_equal(pod->node, "");
    f->api.is_lost = f->api.is_dropped = false;
    api_filter(&f->api, pod, "n2");
    assert_string_equal(bind(f, pod, "n2"), "");
    assert_string_equal(pod->node, "n2");
}

/* The write to the pod is lost, too, and was done. */
static void lost_fence_is_found(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call;

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.is_lost = f->api.is_dropped = true;
    call = start(f, pod, "n1");
    while (f->api.n_gets == 0)
        api_serve(&f->api, 1);
    f->api.on_method = "PATCH";
    f->api.on_path = "/pods/a";
    f->api.is_dropped = false;
    api_serve(&f->api, 5000);
    assert_string_equal(call->error, "the API server did not take the Binding");
    assert_false(is_reserved(f, pod));
    assert_false(api_land(&f->api));
}

/* The API server says "conflict" of a write whose end it does not know: this one is done later. */
static void conflict_proves_nothing(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.with_status = 409;
    f->api.is_late = true;
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(f->api.n_fences, 1);
    assert_int_equal(f->api.n_bindings, 1);
    assert_int_equal(stats_of(f).rewritten, 1);
    assert_false(api_land(&f->api));
}

static void changed_pod_is_bound_all_the_same(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    api_change(pod); /* kube-scheduler nominates a node, say */
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_string_equal(pod->grant, "GPU-n1-7,NVIDIA,100,0:;");
    assert_int_equal(stats_of(f).rewritten, 1);
    assert_int_equal(f->api.n_gets, 1);
    assert_int_equal(f->api.n_fences, 0);
}

/* The next look at the pod shows 262,117 bytes of annotations, of 262,144 that can be: once bound
 * nobody could write to it, the plugin neither. */
static void fill(struct fixture *f, const struct api_pod *pod)
{
    static char body[300000];
    int at = snprintf(body, sizeof(body),
                      "{\"spec\":{\"containers\":[{\"name\":\"c\"}]},\"metadata\":{"
                      "\"namespace\":\"%s\",\"name\":\"a\",\"uid\":\"%s\","
                      "\"resourceVersion\":\"%u\",\"annotations\":{\"k\":\"",
                      pod->ns, pod->uid, pod->version);

    memset(&body[at], 'v', 262117 - 1);
    strcpy(&body[at + 262117 - 1], "\"}}}");
    f->api.on_method = "GET";
    f->api.on_path = "/pods/a";
    f->api.with_status = 200;
    f->api.with_body = body;
}

static void changed_pod_may_be_full(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    api_change(pod);
    fill(f, pod);
    assert_non_null(strstr(bind(f, pod, "n1"), "the pod's annotations have 262117 bytes"));
    assert_int_equal(f->api.n_bindings, 0);
    assert_int_equal(stats_of(f).rewritten, 0);
    assert_false(is_reserved(f, pod));
}

/* The filter was not told the version. */
static void pod_read_at_bind_may_be_full(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    f->api.hides_version = true;
    api_filter(&f->api, pod, "n1");
    fill(f, pod);
    assert_non_null(strstr(bind(f, pod, "n1"), "the pod's annotations have 262117 bytes"));
    assert_int_equal(f->api.n_bindings, 0);
    assert_int_equal(f->api.n_patches, 0); /* no lock was taken */
}

static void pod_that_never_rests(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    api_change(pod);
    f->api.is_restless = true;
    assert_string_equal(bind(f, pod, "n1"), "the API server did not take the Binding");
    assert_int_equal(stats_of(f).rewritten, 3);
    assert_false(is_reserved(f, pod));
}

/* Another replica leads by now, and has seen the pod unbound: nothing is written after that. */
static void fence_of_another_leader(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    api_change(pod);
    strcpy(pod->fence, "6a-0.1");
    f->api.holder = "you";
    assert_string_equal(bind(f, pod, "n1"), "another replica leads");
    assert_int_equal(f->api.n_bindings, 0);
    assert_false(is_reserved(f, pod));
}

/* ---- closed pods: control/fence.h ---- */

/* One that kube-scheduler gave up before is opened, and the server is asked who leads after that.
 */
static void refused_pod_is_opened(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    pod->was_refused = true;
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(pod->fence[strlen(pod->fence) - 1], '+');
    assert_int_equal(f->api.n_fences, 1);
    assert_int_equal(f->api.n_leases, 1);
    assert_int_equal(f->api.n_gets, 0);
    assert_int_equal(f->api.n_bindings, 1);
}

/* The pod that is opened already, and the new one, cost one call. */
static void open_pod_is_bound_at_once(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    pod->was_refused = true;
    strcpy(pod->fence, "6a-0.1+");
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(f->api.n_fences + f->api.n_leases + f->api.n_gets, 0);
}

static void opened_and_lead_lost(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    pod->was_refused = true;
    api_filter(&f->api, pod, "n1");
    f->api.holder = "you";
    assert_string_equal(bind(f, pod, "n1"), "another replica leads");
    assert_int_equal(f->api.n_bindings, 0);
    assert_false(is_reserved(f, pod));
    f->api.holder = "me"; /* who leads cannot be read: nothing is sent either */
    pod->fence[0] = '\0';
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "GET";
    f->api.on_path = "/leases/";
    f->api.with_status = 403;
    f->api.with_body = "{\"kind\":\"Status\",\"message\":\"leases is forbidden\"}";
    assert_non_null(strstr(bind(f, pod, "n1"), "leases is forbidden"));
    assert_int_equal(f->api.n_bindings, 0);
}

/* What is read by us may have changed after another began to lead. */
static void read_pod_needs_the_proof(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    f->api.holder = "you";
    assert_string_equal(bind(f, pod, "n1"), "another replica leads");
    f->api.holder = "me";
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(f->api.n_leases, 2);
    assert_int_equal(f->api.n_fences, 0);
}

static void pod_that_cannot_be_opened(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    pod->was_refused = true;
    api_filter(&f->api, pod, "n1");
    f->api.no_fences = true;
    assert_non_null(strstr(bind(f, pod, "n1"), "Forbidden"));
    assert_false(is_reserved(f, pod));
    f->api.no_fences = false;
    f->api.strips_fences = true; /* and once more, and once more, is no way */
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"),
                        "the annotation gpuslice.io/fence of the pod is taken away");
    assert_int_equal(f->api.n_fences, 1);
    assert_int_equal(f->api.n_bindings, 0);
    f->api.strips_fences = false;
    api_filter(&f->api, pod, "n1"); /* bound by somebody else meanwhile */
    strcpy(pod->node, "n2");
    assert_string_equal(bind(f, pod, "n1"), "pod is bound already");
}

static void version_is_read_where_nobody_told_it(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    f->api.hides_version = true;
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(f->api.n_gets, 1);
    assert_int_equal(stats_of(f).redecided, 0);
}

/* Nothing arrived, and the pod may not be written to: concluded only when the server must have
 * given up. The cards are taken then, too, for the pod that comes again: a server on a busy machine
 * may do later what it was asked. */
static void lost_write_is_sent_again(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct gs_extender_binding again = binding_of(pod, "n1");
    struct call *call;
    struct gs_err err = {0};

    prestart(f);
    f->api.no_fences = true;
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.is_lost = f->api.is_dropped = true;
    call = start(f, pod, "n1");
    api_serve(&f->api, 3500);
    assert_false(call->is_done);
    assert_true(gs_books_is_pinned(f->api.books, gs_str_of(pod->uid)));
    assert_false(gs_books_release(f->api.books, gs_str_of(pod->uid)));
    assert_int_equal(gs_books_expire(f->api.books, INT64_MAX, INT64_MAX), 0);
    assert_int_equal(gs_binder_bind(f->api.binder, &again, on_end, call, &err), -EBUSY);
    api_serve(&f->api, 1500);
    assert_string_equal(call->error, "the API server did not take the Binding");
    assert_true(is_reserved(f, pod));
    assert_false(gs_books_is_pinned(f->api.books, gs_str_of(pod->uid)));
    f->api.is_dropped = false;
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n1"), "");
    assert_int_equal(f->api.n_bindings, 1);
}

/* The write that was given up came to pass, and the next one finds the pod bound. */
static void late_write_holds_the_cards(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call;

    prestart(f);
    f->api.no_fences = true;
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.is_lost = f->api.is_dropped = true;
    call = start(f, pod, "n1");
    api_serve(&f->api, 5000);
    assert_true(call->is_done);
    f->api.is_dropped = false;
    assert_true(api_land(&f->api));
    strcpy(pod->bind_time, "1");
    assert_string_equal(bind(f, pod, "n1"), "the pod is bound by somebody else");
    assert_true(is_reserved(f, pod));
}

static struct api_pod *lose_a_write(struct fixture *f)
{
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    f->api.no_fences = true;
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.is_lost = f->api.is_dropped = true;
    assert_string_equal(bind(f, pod, "n1"), "the API server did not take the Binding");
    f->api.is_lost = f->api.is_dropped = false;
    return pod;
}

/* What the server says of the second write says nothing about the first. */
static void refusal_leaves_an_earlier_write(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = lose_a_write(f);

    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.with_status = 422;
    assert_string_not_equal(bind(f, pod, "n1"), "");
    assert_true(is_reserved(f, pod));
    assert_false(gs_books_is_pinned(f->api.books, gs_str_of(pod->uid)));
}

/* Nor does a bind to another node, which was decided before the first was sent. */
static void sent_decision_is_not_changed(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = lose_a_write(f);
    struct gs_books_reservation r;

    assert_string_equal(bind(f, pod, "n2"), "a Binding of the pod to node n1 was sent");
    assert_true(gs_books_reserved(f->api.books, gs_str_of(pod->uid), &r));
    assert_true(gs_str_eq_c(r.node, "n1"));
}

/* Whether it was bound, and ran, only the watch can tell: until then its cards are taken. */
static void pod_gone_after_a_lost_answer(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod[2] = {api_pod(&f->api, "a"), api_pod(&f->api, "b")};
    struct call *call;

    prestart(f);
    for (size_t i = 0; i < 2; i++) {
        api_filter(&f->api, pod[i], "n1");
        f->api.on_method = "POST";
        f->api.on_path = "/binding";
        f->api.is_lost = true;
        call = start(f, pod[i], "n1");
        if (i == 0)
            pod[i]->is_there = false;
        else
            strcpy(pod[i]->uid, "uid-another");
        api_serve(&f->api, 1000);
        assert_string_equal(call->error, i == 0 ? "the pod is gone" : "the pod is another by now");
        pod[i]->is_there = true;
        strcpy(pod[i]->uid, i == 0 ? "uid-a" : "uid-b");
        assert_true(is_reserved(f, pod[i]));
        assert_false(gs_books_is_pinned(f->api.books, gs_str_of(pod[i]->uid)));
        gs_books_pod_deleted(f->api.books, gs_str_of(pod[i]->uid), 0);
        assert_false(is_reserved(f, pod[i]));
    }
}

static void server_error_may_have_bound(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.with_status = 500;
    f->api.is_late = true;
    assert_string_equal(bind(f, pod, "n1"), "the API server did not take the Binding");
    assert_false(is_reserved(f, pod));
    assert_int_equal(stats_of(f).unsure, 1);
    assert_false(api_land(&f->api));
}

static void refused_write_is_void_at_once(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    uint64_t before = fake_now_ms(&f->api.fake);

    api_filter(&f->api, pod, "n1");
    f->api.on_method = "POST";
    f->api.on_path = "/binding";
    f->api.with_status = 403;
    f->api.with_body = "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"not you\"}";
    assert_non_null(strstr(bind(f, pod, "n1"), "not you"));
    assert_false(is_reserved(f, pod));
    assert_string_equal(f->api.node[0].lock[0], "");
    assert_true(fake_now_ms(&f->api.fake) - before < 1000);
}

/* The API server is away for long: the caller hears that nobody knows, the cards stay taken, and
 * the watch that shows the pod bound settles it. */
static void unknown_end_holds_the_cards(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call;
    struct gs_kube_pair note[2];
    struct gs_kube_pod seen = {0};

    prestart(f);
    api_filter(&f->api, pod, "n1");
    call = start(f, pod, "n1");
    fake_break(fake_next(&f->api.fake, 10), -ECONNRESET);
    while (!call->is_done)
        fake_break(fake_next(&f->api.fake, 10000), -ECONNRESET);
    assert_string_equal(call->error, "the API server did not say whether the pod is bound");
    assert_true(gs_books_is_pinned(f->api.books, gs_str_of(pod->uid)));
    assert_int_equal(stats_of(f).under_way, 1);
    note[0] = (struct gs_kube_pair){GS_STR("hami.io/bind-time"), GS_STR("1700000000")};
    note[1] = (struct gs_kube_pair){GS_STR("hami.io/vgpu-node"), GS_STR("n1")};
    seen.meta.ns = gs_str_of(pod->ns);
    seen.meta.name = gs_str_of(pod->name);
    seen.meta.uid = gs_str_of(pod->uid);
    seen.meta.annotations = (struct gs_kube_pairs){note, 2};
    seen.node_name = GS_STR("n1");
    while (fake_open() > 0)
        fake_break(fake_next(&f->api.fake, 0), -ECONNRESET);
    gs_binder_saw_bound(f->api.binder, &seen);
    assert_int_equal(stats_of(f).under_way, 0);
    assert_false(gs_books_is_pinned(f->api.books, gs_str_of(pod->uid)));
    assert_true(is_reserved(f, pod));
    api_serve(&f->api, 1000);
    assert_int_equal(f->api.n_labels, 1); /* and it lacked its label */
}

/* ---- who may bind what ---- */

static void forged_names_change_nothing(void **state)
{
    struct fixture *f = *state;
    struct api_pod *victim = api_pod(&f->api, "victim"), forged;

    prestart(f);
    api_filter(&f->api, victim, "n1");
    forged = *victim;
    strcpy(forged.name, "madeup");
    assert_string_equal(bind(f, &forged, "n1"), "pod has another uid");
    assert_true(is_reserved(f, victim)); /* HAMi#3030: its memory was freed */
    (void)api_pod(&f->api, "other");
    strcpy(forged.name, "other");
    assert_string_equal(bind(f, &forged, "n1"), "pod has another uid");
    assert_true(is_reserved(f, victim));
    strcpy(forged.uid, "uid-of-nobody"); /* nothing is known of it: the pod is read */
    assert_string_equal(bind(f, &forged, "n1"), "pod has another uid");
    strcpy(forged.name, "madeup");
    assert_string_equal(bind(f, &forged, "n1"), "pod not found");
    assert_string_equal(bind(f, victim, "n1"), "");
    assert_string_equal(bind(f, victim, "n2"), "a Binding of the pod to node n1 was sent");
    assert_int_equal(f->api.n_bindings, 1);
}

/* A bind of a decision that is void by now: nothing that was decided since is undone. */
static void another_node_than_the_filter_chose(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call;

    prestart(f);
    api_filter(&f->api, pod, "n1");
    assert_string_equal(bind(f, pod, "n2"), "the filter chose node n1 for the pod");
    assert_true(is_reserved(f, pod));
    assert_string_equal(bind(f, pod, "nowhere"), "the filter chose node n1 for the pod");
    assert_int_equal(f->api.n_bindings, 0);
    /* nor is the right one ended, which waits for its node's lock */
    f->api.node[0].identity[0] = '\0';
    api_lock_text(&f->api, 0, "default", "other", f->api.node[0].lock[0]);
    strcpy(api_pod(&f->api, "other")->node, "n1");
    strcpy(f->api.pod[1].bind_phase, "allocating");
    api_tell(&f->api, &f->api.node[0]);
    call = start(f, pod, "n1");
    api_serve(&f->api, 2000);
    assert_false(call->is_done);
    assert_string_equal(bind(f, pod, "n2"), "the filter chose node n1 for the pod");
    assert_false(call->is_done);
    unlock(f, 0);
    api_serve(&f->api, 2000);
    assert_string_equal(call->error, "");
    assert_string_equal(pod->node, "n1");
    assert_int_equal(f->api.n_bindings, 1);
}

/* The pod was being read for a bind without a reservation when the filter chose for it. */
static void the_filter_chose_meanwhile(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call;

    prestart(f);
    call = start(f, pod, "n2");
    api_filter(&f->api, pod, "n1");
    api_serve(&f->api, 1000);
    assert_string_equal(call->error, "the filter chose node n1 for the pod");
    assert_true(is_reserved(f, pod));
    assert_string_equal(bind(f, pod, "n1"), "");
}

/* nodeChoice: scheduler. It may have chosen another by now. */
static void another_node_by_the_scheduler(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1"); /* as a bind to n1 that was given up leaves it */
    f->api.conf.leaves_node_choice = true;
    assert_string_equal(bind(f, pod, "n2"), "");
    assert_string_equal(pod->node, "n2");
    assert_string_equal(pod->grant, "GPU-n2-7,NVIDIA,100,0:;");
}

/* One kube-scheduler with several profiles calls one extender for all of them (KubeScheduler
 * Configuration: extenders are not of a profile), and HAMi does not look either. */
static void pods_of_other_profiles(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b");

    prestart(f);
    a->scheduler = b->scheduler = "default-scheduler";
    api_filter(&f->api, a, "n1");
    assert_string_equal(bind(f, a, "n1"), "");
    assert_string_equal(a->grant, "GPU-n1-7,NVIDIA,100,0:;");
    assert_string_equal(bind(f, b, "n1"), "");
    assert_string_equal(b->node, "n1");
}

/* HAMi binds it without a card. */
static void amounts_that_cannot_be_given(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    pod->limits = "{\"nvidia.com/gpu\":\"1\",\"nvidia.com/gpumem\":\"5000000000\"}";
    assert_string_equal(bind(f, pod, "n1"),
                        "calcScore failed: invalid nvidia.com/gpumem value 5000000000 in container "
                        "c: must be an integer below 2^31");
    assert_int_equal(f->api.n_bindings, 0);
}

static void lost_reservation_is_decided_anew(void **state) /* a restart, an expired lease */
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    assert_string_equal(bind(f, pod, "n2"), "");
    assert_string_equal(pod->node, "n2");
    assert_string_equal(pod->grant, "GPU-n2-7,NVIDIA,100,0:;");
    assert_int_equal(stats_of(f).redecided, 1);
    pod = api_pod(&f->api, "b");
    assert_string_equal(bind(f, pod, "nowhere"), "failed to get node nowhere");
    assert_false(is_reserved(f, pod));
}

static void follower_does_not_write(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->leads = GS_LEADER_NO;
    assert_string_equal(bind(f, pod, "n1"), "another replica leads");
    assert_int_equal(f->api.n_bindings, 0);
}

/* The lead was lost while the bind waited for the lock. */
static void lead_is_looked_at_before_the_write(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call;

    api_filter(&f->api, pod, "n1");
    call = start(f, pod, "n1");
    (void)fake_next(&f->api.fake, 100); /* it writes the lock */
    f->leads = GS_LEADER_NO;
    api_serve(&f->api, 1000);
    assert_string_equal(call->error, "another replica leads");
    assert_string_equal(f->api.node[0].lock[0], "");
    assert_int_equal(f->api.n_bindings, 0);
}

static void new_leader_waits_and_decides_anew(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a"), *late = api_pod(&f->api, "b");
    struct call *call, *call_late;

    prestart(f);
    api_filter(&f->api, pod, "n1");
    f->leads = GS_LEADER_NOT_YET;
    call = start(f, pod, "n1");
    api_serve(&f->api, 2000);
    assert_false(call->is_done);
    (void)gs_books_expire(f->api.books, INT64_MAX, INT64_MAX);
    f->leads = GS_LEADER_YES;
    gs_binder_go(f->api.binder);
    api_serve(&f->api, 100);
    assert_string_equal(call->error, "");
    assert_int_equal(stats_of(f).redecided, 1);
    f->leads = GS_LEADER_NOT_YET; /* and for ever is bounded */
    call_late = start(f, late, "n1");
    api_serve(&f->api, 28100);
    assert_string_equal(call_late->error, "this replica does not lead yet");
}

/* ---- the queue ---- */

static void waiters_go_in_order(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod[5];
    struct call *call[5];

    for (size_t i = 0; i < 5; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "p%zu", i);
        pod[i] = api_pod(&f->api, name);
        api_filter(&f->api, pod[i], "n1");
        call[i] = start(f, pod[i], "n1");
    }
    for (size_t i = 0; i < 5; i++) {
        api_serve(&f->api, 200);
        assert_true(call[i]->is_done);
        assert_string_equal(call[i]->error, "");
        assert_int_equal(call[i]->order, i);
        if (i < 4)
            assert_false(call[i + 1]->is_done);
        unlock(f, 0);
        api_serve(&f->api, 20); /* at once, not at the next look */
        if (i < 4)
            assert_true(call[i + 1]->is_done);
    }
    assert_int_equal(f->api.n_bindings, 5);
}

static void other_nodes_do_not_wait(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b"),
                   *c = api_pod(&f->api, "c");
    struct call *waiting;

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    api_filter(&f->api, c, "n2");
    assert_string_equal(bind(f, a, "n1"), "");
    waiting = start(f, b, "n1");
    assert_string_equal(bind(f, c, "n2"), "");
    assert_false(waiting->is_done);
    assert_int_equal(stats_of(f).waiting, 1);
}

static void wait_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b"),
                   *c = api_pod(&f->api, "c");
    struct call *first, *second;

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    api_filter(&f->api, c, "n1");
    assert_string_equal(bind(f, a, "n1"), "");
    first = start(f, b, "n1");
    second = start(f, c, "n1");
    api_serve(&f->api, 27000);
    assert_false(first->is_done);
    api_serve(&f->api, 1500);
    assert_non_null(
        strstr(first->error, "timed out after 28s waiting for node n1 to be unlocked: "));
    assert_non_null(strstr(first->error, "node lock contention"));
    assert_non_null(
        strstr(second->error, "timed out after 28s waiting for node n1 to be unlocked: "));
    assert_false(is_reserved(f, b));
    assert_false(is_reserved(f, c));
    assert_non_null(strstr(f->api.node[0].lock[0], ",default,a")); /* not ours to drop */
}

static void pod_gone_frees_its_lock(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b");
    struct call *call;

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    assert_string_equal(bind(f, a, "n1"), "");
    call = start(f, b, "n1");
    api_serve(&f->api, 200);
    assert_false(call->is_done);
    a->is_there = false;
    gs_binder_pod_gone(f->api.binder, gs_str_of(a->ns), gs_str_of(a->name));
    api_serve(&f->api, 20);
    assert_string_equal(call->error, "");
    b->is_there = false; /* and where nobody waits it is swept */
    gs_binder_pod_gone(f->api.binder, gs_str_of(b->ns), gs_str_of(b->name));
    api_serve(&f->api, 20);
    assert_string_equal(f->api.node[0].lock[0], "");
    assert_int_equal(stats_of(f).swept, 1);
}

/* The watch says nothing; looking finds that the owner is gone. */
static void owner_gone_unseen(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b");
    struct call *call;

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    assert_string_equal(bind(f, a, "n1"), "");
    call = start(f, b, "n1");
    api_serve(&f->api, 500);
    a->is_there = false;
    api_serve(&f->api, 1300);
    assert_string_equal(call->error, "");
}

/* A daemon that died between lock and Binding left its lock: the pod is there, and not bound. */
static void lock_of_a_dead_scheduler(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b");
    struct call *call;

    api_lock_text(&f->api, 0, a->ns, a->name, f->api.node[0].lock[0]);
    api_tell(&f->api, &f->api.node[0]);
    api_filter(&f->api, b, "n1");
    call = start(f, b, "n1");
    api_serve(&f->api, 19000);
    assert_false(call->is_done);
    api_serve(&f->api, 3000);
    assert_string_equal(call->error, "");
    assert_non_null(strstr(f->api.node[0].lock[0], ",default,b"));
}

static void second_bind_ends_the_first(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b");
    struct call *first;

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    assert_string_equal(bind(f, a, "n1"), "");
    first = start(f, b, "n1");
    api_serve(&f->api, 500);
    api_filter(&f->api, b, "n2"); /* kube-scheduler gave the first up */
    assert_string_equal(bind(f, b, "n2"), "");
    assert_string_equal(first->error, "asked again: the new bind counts");
    assert_string_equal(b->node, "n2");
    assert_true(is_reserved(f, b));
    assert_int_equal(stats_of(f).superseded, 1);
    api_serve(&f->api, 60000);
    assert_int_equal(stats_of(f).under_way, 0);
}

/* The pod was being read for the first when the second came: the answer decides nothing. */
static void answer_to_the_first_is_not_heard(void **state)
{
    struct fixture *f = *state;
    struct api_pod *pod = api_pod(&f->api, "a");
    struct call *call[2];

    prestart(f);
    call[0] = start(f, pod, "n1");
    call[1] = start(f, pod, "n2");
    api_serve(&f->api, 1000);
    assert_string_equal(call[0]->error, "asked again: the new bind counts");
    assert_string_equal(call[1]->error, "");
    assert_string_equal(pod->node, "n2");
    assert_int_equal(f->api.n_bindings, 1);
    assert_false(gs_books_is_pinned(f->api.books, gs_str_of(pod->uid)));
}

/* HAMi's words: spec/control-plane.md 1.10. By the watch, by the server where the watch is behind,
 * and for a node that never was; what was decided is given up. */
static void no_such_node(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b"),
                   *c = api_pod(&f->api, "c");

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n2");
    gs_binder_node_gone(f->api.binder, GS_STR("n1"));
    assert_string_equal(bind(f, a, "n1"), "failed to get node n1");
    assert_false(is_reserved(f, a));
    f->api.node[1].is_there = false;
    assert_string_equal(bind(f, b, "n2"), "failed to get node n2");
    assert_false(is_reserved(f, b));
    assert_string_equal(bind(f, c, "nowhere"), "failed to get node nowhere");
    assert_int_equal(f->api.n_bindings, 0);
}

static void node_gone_ends_its_queue(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b"),
                   *c = api_pod(&f->api, "c");
    struct call *first, *second;

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    api_filter(&f->api, c, "n1");
    assert_string_equal(bind(f, a, "n1"), "");
    first = start(f, b, "n1");
    second = start(f, c, "n1");
    api_serve(&f->api, 300);
    f->api.node[0].is_there = false;
    api_tell(&f->api, &f->api.node[0]);
    api_serve(&f->api, 300);
    assert_true(first->is_done && second->is_done);
    assert_string_not_equal(first->error, "");
    assert_int_equal(stats_of(f).under_way, 0);
}

static void hundred_on_one_node(void **state)
{
    struct fixture *f = *state;
    struct call *call[100];
    struct api_pod *pod[100];

    for (size_t i = 0; i < 80; i++) { /* as many as there are shares */
        char name[16];

        (void)snprintf(name, sizeof(name), "p%zu", i);
        pod[i] = api_pod(&f->api, name);
        api_filter(&f->api, pod[i], "n1");
        call[i] = start(f, pod[i], "n1");
    }
    for (size_t i = 0; i < 80; i++) {
        for (int n = 0; n < 50 && !call[i]->is_done; n++)
            api_serve(&f->api, 1);
        assert_string_equal(call[i]->error, "");
        unlock(f, 0);
    }
    assert_int_equal(f->api.n_bindings, 80);
    assert_int_equal(f->api.n_patches, 80); /* of the version that the watch has shown */
    assert_int_equal(f->api.n_gets, 0);
}

static void freed_in_the_middle(void **state)
{
    struct fixture *f = *state;
    struct api_pod *a = api_pod(&f->api, "a"), *b = api_pod(&f->api, "b");
    struct call *call[2];

    api_filter(&f->api, a, "n1");
    api_filter(&f->api, b, "n1");
    call[0] = start(f, a, "n1");
    call[1] = start(f, b, "n1");
    (void)fake_next(&f->api.fake, 100);
    f->api.binder = gs_binder_free(f->api.binder);
    api_serve(&f->api, 60000);
    assert_false(call[0]->is_done || call[1]->is_done);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(one_call_without_a_lock),
        T(lock_is_taken_and_stays),
        T(vendors_choose_the_lock),
        T(pod_that_asks_nothing_is_bound),
        T(conflict_is_void),
        T(lost_answer_is_found),
        T(lost_write_cannot_land),
        T(lost_fence_is_found),
        T(conflict_proves_nothing),
        T(changed_pod_is_bound_all_the_same),
        T(changed_pod_may_be_full),
        T(pod_read_at_bind_may_be_full),
        T(pod_that_never_rests),
        T(fence_of_another_leader),
        T(refused_pod_is_opened),
        T(open_pod_is_bound_at_once),
        T(opened_and_lead_lost),
        T(read_pod_needs_the_proof),
        T(pod_that_cannot_be_opened),
        T(version_is_read_where_nobody_told_it),
        T(lost_write_is_sent_again),
        T(late_write_holds_the_cards),
        T(refusal_leaves_an_earlier_write),
        T(sent_decision_is_not_changed),
        T(pod_gone_after_a_lost_answer),
        T(server_error_may_have_bound),
        T(refused_write_is_void_at_once),
        T(unknown_end_holds_the_cards),
        T(forged_names_change_nothing),
        T(another_node_than_the_filter_chose),
        T(the_filter_chose_meanwhile),
        T(another_node_by_the_scheduler),
        T(pods_of_other_profiles),
        T(amounts_that_cannot_be_given),
        T(lost_reservation_is_decided_anew),
        T(follower_does_not_write),
        T(lead_is_looked_at_before_the_write),
        T(new_leader_waits_and_decides_anew),
        T(waiters_go_in_order),
        T(other_nodes_do_not_wait),
        T(wait_is_bounded),
        T(pod_gone_frees_its_lock),
        T(owner_gone_unseen),
        T(lock_of_a_dead_scheduler),
        T(second_bind_ends_the_first),
        T(answer_to_the_first_is_not_heard),
        T(no_such_node),
        T(node_gone_ends_its_queue),
        T(hundred_on_one_node),
        T(freed_in_the_middle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
