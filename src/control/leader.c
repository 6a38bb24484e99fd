#include "control/leader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "kube/lease.h"
#include "kube/view.h"
#include "net/loop.h"

#define WAIT_MS 2500

enum stage { FOLLOWS, WAITS, LISTS, FENCES, LEADS };

struct gs_leader {
    struct gs_loop *loop;
    struct gs_leader_opt opt;
    char *host, *ns, *name;
    struct gs_kube_lease *lease; /**< NULL: the only replica */
    enum stage stage;
    int32_t transitions; /**< of the lease, at the begin of this term */
    struct gs_loop_timer timer;
};

bool gs_leader_is_on(struct gs_str holder, struct gs_str host)
{
    size_t n = holder.n;

    while (n > 0 && holder.p[n - 1] != '_')
        n--;
    return n > 1 && gs_str_eq((struct gs_str){holder.p, n - 1}, host);
}

static void on_waited(void *user)
{
    struct gs_leader *l = user;

    l->stage = LISTS;
    l->opt.relist(l->opt.arg);
}

static void begin(struct gs_leader *l)
{
    l->stage = WAITS;
    gs_loop_timer_in(l->loop, &l->timer, l->opt.wait_ms != 0 ? l->opt.wait_ms : WAIT_MS, on_waited,
                     l);
}

void gs_leader_relisted(struct gs_leader *l)
{
    if (l->stage != LISTS)
        return;
    l->stage = FENCES;
    l->opt.fence(l->opt.arg);
}

void gs_leader_fenced(struct gs_leader *l)
{
    if (l->stage != FENCES)
        return;
    l->stage = LEADS;
    GS_LOG_INFO("leading");
    l->opt.leads(l->opt.arg);
}

/* Another kube-scheduler on this host takes over from the one before: nobody else wrote. But where
 * the lease changed hands more often than we saw, somebody may have. */
static bool may_miss_one(const struct gs_leader *l, int32_t transitions)
{
    return transitions > l->transitions + 1;
}

static void on_lease(void *arg, const struct gs_kube_lease_state *state)
{
    struct gs_leader *l = arg;
    bool ours = state->is_there && gs_leader_is_on(gs_str_of(state->holder), gs_str_of(l->host));

    if (!ours) {
        gs_loop_timer_cancel(l->loop, &l->timer);
        if (l->stage != FOLLOWS) {
            GS_LOG_INFO("following", GS_LOG_CSTR("leader", state->holder));
            l->stage = FOLLOWS;
            l->opt.follows(l->opt.arg);
        }
        return;
    }
    if (l->stage == FOLLOWS || may_miss_one(l, state->transitions))
        begin(l);
    l->transitions = state->transitions;
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    (void)arg;
    GS_LOG_WARN("lease not seen, trying again", GS_LOG_ERR(why), GS_LOG_UINT("wait_ms", wait_ms));
}

static char *copy_of(struct gs_str text)
{
    return strndup(text.n > 0 ? text.p : "", text.n);
}

int gs_leader_new(struct gs_kube_client *client, const struct gs_leader_opt *opt,
                  struct gs_leader **ret, struct gs_err *err)
{
    struct gs_leader *l = calloc(1, sizeof(*l));
    int rc = 0;

    if (l == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    l->loop = gs_kube_client_loop(client);
    l->opt = *opt;
    l->host = copy_of(opt->host);
    l->ns = copy_of(opt->lease_ns);
    l->name = copy_of(opt->lease_name);
    if (l->host == NULL || l->ns == NULL || l->name == NULL)
        rc = gs_err_set(err, -ENOMEM, "no memory");
    else if (opt->lease_name.n == 0)
        begin(l);
    else
        rc = gs_kube_lease_new(client,
                               &(struct gs_kube_lease_opt){.ns = opt->lease_ns,
                                                           .name = opt->lease_name,
                                                           .trouble = on_trouble},
                               on_lease, l, &l->lease, err);
    if (rc < 0) {
        gs_leader_free(l);
        return rc;
    }
    *ret = l;
    return 0;
}

struct gs_leader *gs_leader_free(struct gs_leader *l)
{
    if (l == NULL)
        return NULL;
    gs_kube_lease_free(l->lease);
    gs_loop_timer_cancel(l->loop, &l->timer);
    free(l->host);
    free(l->ns);
    free(l->name);
    free(l);
    return NULL;
}

/* Its holder may be gone, and we may not have heard. */
static bool is_stale(const struct gs_leader *l)
{
    struct gs_kube_lease_state state;

    gs_kube_lease_look(l->lease, &state);
    return gs_loop_now_ms(l->loop) >= state.changed_ms + (int64_t)state.duration_s * 1000;
}

enum gs_leader_state gs_leader_state(const struct gs_leader *l)
{
    if (l->stage == FOLLOWS || (l->lease != NULL && is_stale(l)))
        return GS_LEADER_NO;
    return l->stage == LEADS ? GS_LEADER_YES : GS_LEADER_NOT_YET;
}

bool gs_leader_ask(const struct gs_leader *l, struct gs_kube_req *ret)
{
    *ret = (struct gs_kube_req){.verb = GS_KUBE_GET,
                                .resource = &gs_kube_leases,
                                .ns = gs_str_of(l->ns),
                                .name = gs_str_of(l->name)};
    return l->lease != NULL;
}

bool gs_leader_proves(const struct gs_leader *l, const struct gs_kube_result *result)
{
    struct gs_kube_lease_view view;
    struct gs_arena arena;
    bool is_ours;

    if (l->stage != LEADS || result->rc < 0)
        return false;
    gs_arena_init(&arena);
    is_ours = gs_kube_view_lease(result->root, &arena, &view, NULL) == 0 &&
              gs_leader_is_on(view.holder, gs_str_of(l->host)) &&
              !may_miss_one(l, view.transitions);
    gs_arena_fini(&arena);
    return is_ours;
}
