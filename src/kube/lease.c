#include "kube/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "core/size.h"
#include "kube/patch.h"
#include "kube/stamp.h"
#include "kube/view.h"
#include "kube/watch.h"
#include "net/loop.h"

#define DURATION_S  15
#define RENEW_S     10
#define RETRY_S     2
#define WRITE_MS    5000
#define SELECT_MAX  300
#define VERSION_MAX 64

enum write {
    WRITE_NONE,
    WRITE_TAKE, /**< create it or take it over */
    WRITE_RENEW,
    WRITE_RESIGN,
};

struct gs_kube_lease {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    gs_kube_lease_fn *fn;
    void *arg;
    void (*trouble)(void *arg, const struct gs_err *why, uint32_t wait_ms);
    struct gs_buf ns, name, identity;
    uint32_t duration_s, renew_s, retry_s;

    struct gs_kube_watch *watch;
    struct gs_kube_lease_state state, told;
    char version[VERSION_MAX];
    bool leads; /**< our last write made us the holder, and nobody else has been seen since */
    bool has_resigned;

    enum write write; /**< under way */
    uint64_t ticket, sent_ns;
    struct gs_loop_timer tick, expiry;
};

void gs_kube_lease_look(const struct gs_kube_lease *l, struct gs_kube_lease_state *ret)
{
    *ret = l->state;
    ret->is_ours = l->leads && gs_loop_now_ms(l->loop) < l->state.valid_until_ms;
}

/* Tell what is new, if anything is. */
static void tell(struct gs_kube_lease *l)
{
    struct gs_kube_lease_state now;

    gs_kube_lease_look(l, &now);
    if (now.is_known == l->told.is_known && now.is_there == l->told.is_there &&
        now.is_ours == l->told.is_ours && now.transitions == l->told.transitions &&
        strcmp(now.holder, l->told.holder) == 0)
        return;
    l->told = now;
    l->fn(l->arg, &now);
}

/* Answers to our writes and the watch come by two ways: is this older than what we know? */
static bool is_older(const struct gs_kube_lease *l, struct gs_str version)
{
    uint64_t known, seen;

    return gs_size_parse_u64(gs_str_of(l->version), &known) == 0 &&
           gs_size_parse_u64(version, &seen) == 0 && seen < known;
}

static void take_view(struct gs_kube_lease *l, const struct gs_kube_lease_view *v)
{
    if (gs_str_eq_c(v->meta.resource_version, l->version))
        return;
    if (gs_str_to_field(v->meta.resource_version, l->version, sizeof(l->version)) < 0)
        l->version[0] = '\0'; /* writes without it are refused, and then seen */
    l->state.is_known = l->state.is_there = true;
    if (gs_str_to_field(v->holder, l->state.holder, sizeof(l->state.holder)) < 0)
        (void)gs_str_to_field(GS_STR("?"), l->state.holder, sizeof(l->state.holder)); /* fits */
    l->state.duration_s = v->duration_s;
    l->state.transitions = v->transitions;
    l->state.renew_us = v->renew_us;
    l->state.changed_ms = gs_loop_now_ms(l->loop);
    if (!gs_str_eq(v->holder, gs_buf_str(&l->identity)))
        l->leads = false;
}

static void take_object(struct gs_kube_lease *l, yyjson_val *object)
{
    struct gs_kube_lease_view v;
    struct gs_arena arena;

    gs_arena_init(&arena);
    if (gs_kube_view_lease(object, &arena, &v, NULL) == 0 && !is_older(l, v.meta.resource_version))
        take_view(l, &v);
    gs_arena_fini(&arena);
}

static void on_object(void *arg, const struct gs_kube_key *key, yyjson_val *object)
{
    (void)key; /* the selector lets one name through */
    take_object(arg, object);
    tell(arg);
}

static void forget(struct gs_kube_lease *l)
{
    l->state.is_known = true;
    l->state.is_there = false;
    l->state.holder[0] = '\0';
    l->version[0] = '\0';
    l->leads = false;
}

static void on_gone(void *arg, const struct gs_kube_key *key, yyjson_val *last)
{
    (void)key;
    (void)last;
    forget(arg);
    tell(arg);
}

static void on_synced(void *arg)
{
    struct gs_kube_lease *l = arg;

    l->state.is_known = true;
    tell(l);
}

static void put_spec(struct gs_kube_lease *l, struct gs_kube_merge *m, enum write write)
{
    char stamp[GS_KUBE_STAMP_TEXT];
    int64_t real_us = gs_loop_unix_us(l->loop);
    struct gs_str now = gs_str_of(gs_kube_stamp_text(real_us, true, stamp));
    struct gs_str identity = gs_buf_str(&l->identity);
    bool is_other = !gs_str_eq_c(identity, l->state.holder);

    if (write == WRITE_RESIGN)
        identity = (struct gs_str){0};
    gs_kube_merge_str(m, GS_KUBE_PATH("spec", "holderIdentity"), identity);
    gs_kube_merge_i64(m, GS_KUBE_PATH("spec", "leaseDurationSeconds"),
                      write == WRITE_RESIGN ? 1 : l->duration_s);
    gs_kube_merge_str(m, GS_KUBE_PATH("spec", "renewTime"), now);
    if (write != WRITE_TAKE)
        return;
    gs_kube_merge_str(m, GS_KUBE_PATH("spec", "acquireTime"), now);
    gs_kube_merge_i64(m, GS_KUBE_PATH("spec", "leaseTransitions"),
                      !l->state.is_there ? 0 : l->state.transitions + (is_other ? 1 : 0));
}

static void on_written(void *arg, const struct gs_kube_result *result);

static int send(struct gs_kube_lease *l, enum write write)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    struct gs_kube_req req = {
        .verb = l->state.is_there ? GS_KUBE_MERGE : GS_KUBE_CREATE,
        .resource = &gs_kube_leases,
        .ns = gs_buf_str(&l->ns),
        .timeout_ms = WRITE_MS,
        .is_single_try = true,
    };
    int rc;

    gs_kube_merge_init(&m);
    if (l->state.is_there) {
        req.name = gs_buf_str(&l->name);
        gs_kube_merge_version(&m, gs_str_of(l->version));
    } else {
        gs_kube_merge_str(&m, GS_KUBE_PATH("metadata", "name"), gs_buf_str(&l->name));
    }
    put_spec(l, &m, write);
    rc = gs_kube_merge_text(&m, &text);
    gs_kube_merge_fini(&m);
    if (rc < 0)
        return rc;
    req.body = gs_buf_str(&text);
    l->sent_ns = gs_loop_now_ns(l->loop);
    rc = gs_kube_client_send(l->client, &req, on_written, l, &l->ticket, NULL);
    if (rc == 0)
        l->write = write;
    return rc;
}

static void on_expiry(void *user)
{
    tell(user);
}

static void on_written(void *arg, const struct gs_kube_result *result)
{
    struct gs_kube_lease *l = arg;
    enum write write = l->write;

    l->write = WRITE_NONE;
    if (result->rc == 0)
        take_object(l, result->root);
    if (result->rc == 0 && write != WRITE_RESIGN && !l->has_resigned &&
        gs_str_eq_c(gs_buf_str(&l->identity), l->state.holder)) {
        l->leads = true;
        l->state.valid_until_ms = (int64_t)(l->sent_ns / GS_CLOCK_MS) + l->renew_s * 1000;
        gs_loop_timer_at(l->loop, &l->expiry, (uint64_t)l->state.valid_until_ms * GS_CLOCK_MS,
                         on_expiry, l);
    }
    if (result->rc == -ENOENT)
        forget(l); /* the next tick makes it */
    if (l->has_resigned && write != WRITE_RESIGN && result->rc == 0)
        (void)send(l, WRITE_RESIGN); /* it was on its way; where this fails it runs out by itself */
    tell(l);
}

/* Free to be taken: nobody's, ours by name, or unchanged for longer than its holder promised. */
static bool is_free(const struct gs_kube_lease *l)
{
    if (!l->state.is_there || l->state.holder[0] == '\0')
        return true;
    if (gs_str_eq_c(gs_buf_str(&l->identity), l->state.holder))
        return true;
    return gs_loop_now_ms(l->loop) - l->state.changed_ms >= (int64_t)l->state.duration_s * 1000;
}

static void on_tick(void *user)
{
    struct gs_kube_lease *l = user;
    uint32_t ms = l->retry_s * 1000;

    gs_loop_timer_in(l->loop, &l->tick, ms - ms / 10 + gs_kube_client_jitter(l->client, ms / 5 + 1),
                     on_tick, l);
    if (l->has_resigned || l->write != WRITE_NONE || !l->state.is_known)
        return;
    if (l->leads)
        (void)send(l, WRITE_RENEW); /* no memory: the next tick tries again */
    else if (is_free(l))
        (void)send(l, WRITE_TAKE); /* as above */
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    struct gs_kube_lease *l = arg;

    if (l->trouble != NULL)
        l->trouble(l->arg, why, wait_ms);
}

static int start(struct gs_kube_lease *l, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns = {.added = on_object,
                                                 .modified = on_object,
                                                 .deleted = on_gone,
                                                 .synced = on_synced,
                                                 .trouble = on_trouble};
    char select[SELECT_MAX];
    struct gs_str_out out;
    struct gs_kube_watch_opt opt = {
        .resource = &gs_kube_leases,
        .ns = gs_buf_str(&l->ns),
    };
    int rc;

    gs_str_out_init(&out, select, sizeof(select));
    gs_str_put_c(&out, "metadata.name=");
    gs_str_put(&out, gs_buf_str(&l->name));
    if (out.cut)
        return gs_err_set(err, -EINVAL, "the lease's name is too long");
    opt.field_selector = (struct gs_str){select, out.n};
    rc = gs_kube_watch_new(l->client, &opt, &fns, l, &l->watch, err);
    if (rc == 0 && l->identity.n > 0)
        gs_loop_timer_in(l->loop, &l->tick, 0, on_tick, l);
    return rc;
}

int gs_kube_lease_new(struct gs_kube_client *client, const struct gs_kube_lease_opt *opt,
                      gs_kube_lease_fn *fn, void *arg, struct gs_kube_lease **ret_lease,
                      struct gs_err *err)
{
    struct gs_kube_lease *l;
    int rc = 0;

    if (opt->ns.n == 0 || opt->name.n == 0 || opt->identity.n >= GS_KUBE_HOLDER_MAX)
        return gs_err_set(err, -EINVAL, "a lease needs namespace, name and a short identity");
    l = calloc(1, sizeof(*l));
    if (!l)
        return gs_err_set(err, -ENOMEM, "no memory for a lease");
    l->client = client;
    l->loop = gs_kube_client_loop(client);
    l->fn = fn;
    l->arg = arg;
    l->trouble = opt->trouble;
    l->duration_s = opt->duration_s ? opt->duration_s : DURATION_S;
    l->renew_s = opt->renew_s ? opt->renew_s : RENEW_S;
    l->retry_s = opt->retry_s ? opt->retry_s : RETRY_S;
    l->state.renew_us = GS_KUBE_NO_TIME;
    l->told = l->state;
    gs_buf_put(&l->ns, opt->ns);
    gs_buf_put(&l->name, opt->name);
    gs_buf_put(&l->identity, opt->identity);
    if (l->renew_s >= l->duration_s || l->retry_s >= l->renew_s)
        rc = gs_err_set(err, -EINVAL, "a lease needs retry < renew < duration");
    else if (gs_buf_check(&l->ns) < 0 || gs_buf_check(&l->name) < 0 ||
             gs_buf_check(&l->identity) < 0)
        rc = gs_err_set(err, -ENOMEM, "no memory for a lease");
    if (rc == 0)
        rc = start(l, err);
    if (rc < 0) {
        gs_kube_lease_free(l);
        return rc;
    }
    *ret_lease = l;
    return 0;
}

struct gs_kube_lease *gs_kube_lease_free(struct gs_kube_lease *lease)
{
    if (!lease)
        return NULL;
    gs_kube_watch_free(lease->watch);
    if (lease->write != WRITE_NONE)
        gs_kube_client_cancel(lease->client, lease->ticket);
    gs_loop_timer_cancel(lease->loop, &lease->tick);
    gs_loop_timer_cancel(lease->loop, &lease->expiry);
    gs_buf_fini(&lease->ns);
    gs_buf_fini(&lease->name);
    gs_buf_fini(&lease->identity);
    free(lease);
    return NULL;
}

void gs_kube_lease_resign(struct gs_kube_lease *lease)
{
    bool led = lease->leads;

    if (lease->has_resigned)
        return;
    lease->has_resigned = true;
    lease->leads = false;
    if (led && lease->write == WRITE_NONE)
        (void)send(lease, WRITE_RESIGN); /* where this fails it runs out by itself */
}
