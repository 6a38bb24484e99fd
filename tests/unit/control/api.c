#include "api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <yyjson.h>

#include "control/policies.h"
#include "core/size.h"
#include "kube/stamp.h"
#include "kube/view.h"
#include "model/node.h"
#include "vendors/registry_policy.h"

static const char *const lock_key[2] = {"hami.io/mutex.lock", "cambricon.com/dsmlu.lock"};

/* Eight cards, "GPU-<node>-<index>": no two nodes have one. */
static void put_cards(const char *node, struct gs_buf *buf)
{
    for (int i = 0; i < 8; i++)
        gs_buf_addf(buf,
                    "%s{\"id\":\"GPU-%s-%d\",\"count\":10,\"devmem\":16384,\"devcore\":100,"
                    "\"type\":\"NVIDIA-T4\",\"health\":true}",
                    i > 0 ? "," : "[", node, i);
    gs_buf_adds(buf, "]");
}

void api_tell(struct api *api, const struct api_node *node)
{
    struct gs_pair note[8], amount[] = {
                                {GS_STR("nvidia.com/gpu"), GS_STR("80")},
                                {GS_STR("cambricon.com/vmlu"), GS_STR("100")},
                                {GS_STR("cambricon.com/mlu.smlu.vcore"), GS_STR("100")},
                                {GS_STR("cambricon.com/mlu.smlu.vmemory"), GS_STR("100")},
                                {GS_STR("enflame.com/gcu"), GS_STR("4")},
                            };
    struct gs_pairs notes = {.at = note}, none = {0},
                    amounts = {.at = amount, .n = GS_ARRAY_LEN(amount)};
    GS_CLEANUP(gs_buf_fini) struct gs_buf cards = {0};
    struct gs_node_view view = {gs_str_of(node->name), &notes, &none, &amounts, &amounts};
    char version[16];

    if (!node->is_there) {
        gs_books_node_gone(api->books, view.name);
        if (api->binder != NULL)
            gs_binder_node_gone(api->binder, view.name);
        return;
    }
    put_cards(node->name, &cards);
    note[notes.n++] = (struct gs_pair){GS_STR("hami.io/node-nvidia-register"), gs_buf_str(&cards)};
    for (size_t k = 0; k < 2; k++)
        if (node->lock[k][0] != '\0')
            note[notes.n++] = (struct gs_pair){gs_str_of(lock_key[k]), gs_str_of(node->lock[k])};
    if (node->identity[0] != '\0')
        note[notes.n++] =
            (struct gs_pair){GS_STR("gpuslice.io/identity"), gs_str_of(node->identity)};
    assert_int_equal(gs_books_node_set(api->books, &view, NULL), 0);
    (void)snprintf(version, sizeof(version), "%u", node->version);
    if (api->binder != NULL)
        gs_binder_saw_node(api->binder, &view, gs_str_of(version));
}

void api_new(struct api *api)
{
    fake_new(&api->fake, NULL);
    api->fake.clock.real_ns = API_NOW * GS_CLOCK_S;
    assert_int_equal(
        gs_policies_read(&(struct gs_policies_conf){.section = gs_registry_policy,
                                                    .n_sections = gs_registry_policy_n,
                                                    .enabled = (const char *const[]){NULL}},
                         &api->arena, &api->policies, NULL),
        0);
    assert_int_equal(gs_books_new(&api->policies, &api->books), 0);
    api->conf = (struct gs_filter_conf){
        .device_policy = GS_STR("spread"), .node_policy = GS_STR("binpack"), .lease_ms = 60000};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(api->node[i].name, sizeof(api->node[i].name), "n%zu", i + 1);
        api->node[i].is_there = true;
        api->node[i].version = 100;
    }
}

void api_binder(struct api *api, struct gs_binder_opt opt)
{
    opt.filter = &api->conf;
    assert_int_equal(gs_fence_new(api->fake.client, api->books,
                                  &(struct gs_fence_opt){.filter = &api->conf}, &api->fence),
                     0);
    opt.fence = api->fence;
    assert_int_equal(gs_binder_new(api->fake.client, api->books, &opt, &api->binder), 0);
    for (size_t i = 0; i < 2; i++)
        api_tell(api, &api->node[i]);
}

void api_free(struct api *api)
{
    api->binder = gs_binder_free(api->binder);
    api->fence = gs_fence_free(api->fence);
    fake_free(&api->fake);
    gs_books_free(api->books);
    gs_arena_fini(&api->arena);
}

struct api_pod *api_pod(struct api *api, const char *name)
{
    struct api_pod *pod = api->pod;

    while (pod->name[0] != '\0')
        pod++;
    (void)snprintf(pod->ns, sizeof(pod->ns), "default");
    (void)snprintf(pod->name, sizeof(pod->name), "%s", name);
    (void)snprintf(pod->uid, sizeof(pod->uid), "uid-%s", name);
    (void)snprintf(pod->phase, sizeof(pod->phase), "Pending");
    pod->is_there = true;
    pod->version = 7;
    return pod;
}

static void put_pod(const struct api_pod *pod, char *text, size_t size)
{
    const char *limits = pod->limits != NULL ? pod->limits
                         : pod->asks_nothing ? "{\"cpu\":\"1\"}"
                         : pod->is_gcu       ? "{\"enflame.com/gcu\":\"1\"}"
                         : pod->is_mlu       ? "{\"cambricon.com/vmlu\":\"1\","
                                               "\"cambricon.com/mlu.smlu.vmemory\":\"1\","
                                               "\"cambricon.com/mlu.smlu.vcore\":\"1\"}"
                                       : "{\"nvidia.com/gpu\":\"1\",\"nvidia.com/gpumem\":\"100\"}";

    (void)snprintf(text, size,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":\"%s\","
                   "\"resourceVersion\":\"%u\","
                   "\"annotations\":{\"gpuslice.io/fence\":\"%s\",\"hami.io/"
                   "bind-phase\":\"%s\",\"hami.io/bind-time\":\"%s\"}},"
                   "\"spec\":{\"nodeName\":\"%s\",\"schedulerName\":\"%s\",\"priority\":%d,"
                   "\"containers\":[{\"name\":\"c\","
                   "\"resources\":{"
                   "\"limits\":%s}}]},\"status\":{\"phase\":\"%s\",\"conditions\":[{\"type\":"
                   "\"PodScheduled\",\"status\":\"%s\",\"reason\":\"Unschedulable\"}]}}",
                   pod->ns, pod->name, pod->uid, pod->version, pod->fence, pod->bind_phase,
                   pod->bind_time, pod->node, pod->scheduler != NULL ? pod->scheduler : "",
                   pod->priority, limits, pod->phase, pod->was_refused ? "False" : "");
}

bool api_ask(struct api *api, const struct api_pod *pod, const char *nodes,
             void (*refused)(void *arg, const struct gs_filter_refusal *refusal), void *arg)
{
    struct gs_filter_note note;
    struct gs_arena arena = {0};
    char object[4096], body[8192], *reply;
    bool is_chosen;
    size_t n;

    put_pod(pod, object, sizeof(object));
    if (api->hides_version)
        memcpy(strstr(object, "resourceV"), "hidden", 6);
    (void)snprintf(body, sizeof(body), "{\"Pod\":%s,\"NodeNames\":[%s]}", object, nodes);
    assert_int_equal(gs_filter(&(struct gs_filter_env){.books = api->books,
                                                       .conf = &api->conf,
                                                       .now = {(int64_t)api->fake.clock.real_ns,
                                                               (int64_t)fake_now_ms(&api->fake)},
                                                       .arena = &arena,
                                                       .refused = refused,
                                                       .arg = arg},
                               gs_str_of(body), &reply, &n, &note),
                     0);
    is_chosen = strstr(reply, "\"NodeNames\":[\"") != NULL;
    free(reply);
    gs_arena_fini(&arena);
    return is_chosen;
}

void api_filter(struct api *api, const struct api_pod *pod, const char *node)
{
    char quoted[80];

    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", node);
    assert_true(api_ask(api, pod, quoted, NULL, NULL));
}

/* ---- the server ---- */

static struct api_node *node_at(struct api *api, const char *name)
{
    for (size_t i = 0; i < 2; i++)
        if (api->node[i].is_there && strcmp(api->node[i].name, name) == 0)
            return &api->node[i];
    return NULL;
}

static struct api_pod *pod_at(struct api *api, const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(api->pod); i++)
        if (api->pod[i].is_there && strcmp(api->pod[i].name, name) == 0)
            return &api->pod[i];
    return NULL;
}

struct answer {
    int status;
    char body[8192];
};

static void refuse(struct answer *a, int status, const char *reason)
{
    a->status = status;
    (void)snprintf(a->body, sizeof(a->body),
                   "{\"kind\":\"Status\",\"code\":%d,\"reason\":\"%s\",\"message\":\"%s\"}", status,
                   reason, reason);
}

static void put_node(const struct api_node *node, struct answer *a)
{
    a->status = 200;
    (void)snprintf(a->body, sizeof(a->body),
                   "{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"%u\",\"annotations\":{",
                   node->name, node->version);
    for (size_t k = 0; k < 2; k++)
        if (node->lock[k][0] != '\0') {
            size_t n = strlen(a->body);

            (void)snprintf(a->body + n, sizeof(a->body) - n, "\"%s\":\"%s\",", lock_key[k],
                           node->lock[k]);
        }
    strcat(a->body, "\"x\":\"y\"}}}");
}

static void patch_node(struct api *api, struct api_node *node, yyjson_val *patch, struct answer *a)
{
    yyjson_val *meta = yyjson_obj_get(patch, "metadata");
    yyjson_val *notes = yyjson_obj_get(meta, "annotations"), *val;
    char version[16];

    (void)snprintf(version, sizeof(version), "%u", node->version);
    if (!yyjson_equals_str(yyjson_obj_get(meta, "resourceVersion"), version)) {
        refuse(a, 409, "Conflict");
        return;
    }
    for (size_t k = 0; k < 2; k++) {
        val = yyjson_obj_get(notes, lock_key[k]);
        if (val != NULL)
            (void)snprintf(node->lock[k], sizeof(node->lock[k]), "%s",
                           yyjson_is_str(val) ? yyjson_get_str(val) : "");
    }
    node->version++;
    api->n_patches++;
    put_node(node, a);
}

static void copy_note(yyjson_val *meta, const char *key, char *at, size_t size)
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(meta, "annotations"), key));

    (void)snprintf(at, size, "%s", text != NULL ? text : "");
}

static void bind_pod(struct api *api, struct api_pod *pod, yyjson_val *binding, struct answer *a)
{
    yyjson_val *meta = yyjson_obj_get(binding, "metadata");
    const char *node = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(binding, "target"), "name"));

    char version[16];

    (void)snprintf(version, sizeof(version), "%u", pod->version);
    if (!yyjson_equals_str(yyjson_obj_get(meta, "uid"), pod->uid) || pod->node[0] != '\0' ||
        !yyjson_equals_str(yyjson_obj_get(meta, "resourceVersion"), version)) {
        refuse(a, 409, "Conflict");
        return;
    }
    pod->version++;
    (void)snprintf(pod->node, sizeof(pod->node), "%s", node);
    copy_note(meta, "hami.io/bind-phase", pod->bind_phase, sizeof(pod->bind_phase));
    copy_note(meta, "hami.io/bind-time", pod->bind_time, sizeof(pod->bind_time));
    copy_note(meta, "hami.io/vgpu-devices-allocated", pod->grant, sizeof(pod->grant));
    copy_note(meta, "test/seal", pod->seal, sizeof(pod->seal));
    api->n_bindings++;
    a->status = 201;
    (void)snprintf(a->body, sizeof(a->body), "{\"kind\":\"Status\",\"status\":\"Success\"}");
}

static void serve_node(struct api *api, const struct gs_http_call *call, const char *name,
                       yyjson_val *body, struct answer *a)
{
    struct api_node *node = node_at(api, name);

    if (node == NULL)
        refuse(a, 404, "NotFound");
    else if (strcmp(call->method, "GET") == 0)
        put_node(node, a);
    else
        patch_node(api, node, body, a);
}

static void serve_pod(struct api *api, const struct gs_http_call *call, const char *name,
                      const char *sub, yyjson_val *body, struct answer *a)
{
    struct api_pod *pod = pod_at(api, name);

    if (pod == NULL) {
        refuse(a, 404, "NotFound");
    } else if (strcmp(call->method, "GET") == 0) {
        a->status = 200;
        put_pod(pod, a->body, sizeof(a->body));
        pod->version += api->is_restless;
    } else if (strcmp(sub, "binding") == 0) {
        assert_non_null(strstr(call->url, "timeout=2s"));
        bind_pod(api, pod, body, a);
    } else if (yyjson_ptr_get(body, "/metadata/annotations/gpuslice.io~1room-seen") != NULL) {
        assert_true(yyjson_equals_str(yyjson_ptr_get(body, "/metadata/uid"), pod->uid));
        pod->n_nudges++;
        a->status = 200;
        put_pod(pod, a->body, sizeof(a->body));
    } else if (yyjson_ptr_get(body, "/metadata/annotations/gpuslice.io~1fence") != NULL &&
               api->no_fences) {
        refuse(a, 403, "Forbidden");
    } else if (yyjson_ptr_get(body, "/metadata/annotations/gpuslice.io~1fence") != NULL) {
        assert_true(yyjson_equals_str(yyjson_ptr_get(body, "/metadata/uid"), pod->uid));
        copy_note(yyjson_obj_get(body, "metadata"), "gpuslice.io/fence", pod->fence,
                  sizeof(pod->fence));
        if (api->strips_fences)
            pod->fence[0] = '\0';
        pod->version++;
        api->n_fences++;
        a->status = 200;
        put_pod(pod, a->body, sizeof(a->body));
    } else {
        pod->has_label = true;
        api->n_labels++;
        a->status = 200;
        put_pod(pod, a->body, sizeof(a->body));
    }
}

static void serve_lease(struct api *api, struct answer *a)
{
    api->n_gets--;
    api->n_leases++;
    a->status = 200;
    (void)snprintf(a->body, sizeof(a->body), "{\"spec\":{\"holderIdentity\":\"%s\"}}", api->holder);
}

static void effect(struct api *api, const struct gs_http_call *call, struct answer *a)
{
    yyjson_doc *doc = yyjson_read(call->body, strlen(call->body), 0);
    char name[64] = "", sub[64] = "";
    struct api_node before[2];

    memcpy(before, api->node, sizeof(before));
    api->n_gets += strcmp(call->method, "GET") == 0;
    if (strstr(call->url, "/leases/kube-scheduler") != NULL)
        serve_lease(api, a);
    else if (sscanf(call->url, "http://api/api/v1/nodes/%63[^/?]", name) == 1)
        serve_node(api, call, name, yyjson_doc_get_root(doc), a);
    else if (sscanf(call->url, "http://api/api/v1/namespaces/%*[^/]/pods/%63[^/?]/%63[^?]", name,
                    sub) >= 1)
        serve_pod(api, call, name, sub, yyjson_doc_get_root(doc), a);
    else
        fail_msg("%s %s", call->method, call->url);
    yyjson_doc_free(doc);
    for (size_t i = 0; !api->is_deaf && i < 2; i++)
        if (memcmp(&before[i], &api->node[i], sizeof(before[i])) != 0)
            api_tell(api, &api->node[i]);
}

static void keep_late(struct api *api, const struct gs_http_call *call)
{
    api->has_late = sscanf(call->url, "http://api/api/v1/namespaces/%*[^/]/pods/%63[^/]/binding",
                           api->late_pod) == 1;
    (void)snprintf(api->late, sizeof(api->late), "%s", call->body);
}

bool api_land(struct api *api)
{
    yyjson_doc *doc = yyjson_read(api->late, strlen(api->late), 0);
    struct answer a = {0};

    assert_true(api->has_late);
    api->has_late = false;
    bind_pod(api, pod_at(api, api->late_pod), yyjson_doc_get_root(doc), &a);
    yyjson_doc_free(doc);
    return a.status == 201;
}

void api_change(struct api_pod *pod)
{
    pod->version++;
}

static void serve_one(struct api *api, struct gs_http_call *call)
{
    struct answer a = {0};
    bool is_special = api->on_method != NULL && strcmp(call->method, api->on_method) == 0 &&
                      strstr(call->url, api->on_path) != NULL;

    if (!is_special) {
        effect(api, call, &a);
        fake_answer(call, a.status, a.body, -1);
        return;
    }
    api->on_method = NULL;
    if (api->is_lost) {
        if (!api->is_dropped)
            effect(api, call, &a);
        else
            keep_late(api, call);
        fake_break(call, -ECONNRESET);
        return;
    }
    if (api->is_late)
        keep_late(api, call);
    fake_answer(call, api->with_status, api->with_body != NULL ? api->with_body : "{}", -1);
}

static void at_end(void *user)
{
    *(bool *)user = true;
}

void api_serve(struct api *api, uint64_t ms)
{
    struct gs_loop_timer timer = {0};
    bool is_late = false;

    gs_loop_timer_in(api->fake.loop, &timer, ms, at_end, &is_late);
    while (!is_late) {
        while (fake_open() > 0)
            serve_one(api, fake_next(&api->fake, 0));
        assert_true(gs_loop_step(api->fake.loop, -1) >= 0);
    }
    while (fake_open() > 0)
        serve_one(api, fake_next(&api->fake, 0));
}

void api_lock_text(const struct api *api, int64_t age_s, const char *ns, const char *pod,
                   char text[160])
{
    char stamp[GS_KUBE_STAMP_TEXT];
    int64_t now_us = (int64_t)(api->fake.clock.real_ns / 1000);

    (void)gs_kube_stamp_text(now_us - age_s * 1000000, false, stamp);
    (void)snprintf(text, 160, ns[0] != '\0' ? "%s,%s,%s" : "%s", stamp, ns, pod);
}
