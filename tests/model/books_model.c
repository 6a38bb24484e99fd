/* The control plane under fire, in virtual time: pods come, finish, are evicted and force-deleted;
 * filters that no bind follows; binds that fail, whose answers are lost, or that are carried out at
 * any time later; watches that lag and break; a daemon that dies and one that takes over, and one
 * that does not hear for a while that another has. Books,
 * filter, feed, binder, fence and the client of the API server are the real ones; kube-scheduler,
 * watch, network and API server are models (control_world.c).
 *
 * After every step: no card is over-granted, summed here from the grants in the store by code of
 * this file alone; no reservation outlives its lease. After each settling: books = store.
 *
 * usage: books_model [SEED [STEPS [choice|often|broken|closed|unproven]]]; a failure prints the
 * seed and the step. `often`: the lead moves ten times as often. These are to fail: `broken`, the
 * API server does not look at the resourceVersion of a Binding; `closed`, daemons send Bindings for
 * pods that are closed (control/fence.h); `unproven`, they do not ask who leads before, and it
 * moves often. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/clock.h"
#include "control/bind.h"
#include "control/books.h"
#include "control/feed.h"
#include "control/fence.h"
#include "control/filter.h"
#include "control_world.h"
#include "core/list.h"
#include "kube/config.h"
#include "model/node.h"
#include "vendors/registry_policy.h"

#define QUEUE    4096
#define LEASE_MS 5000
#define HOLD_MS  30000 /* how long a confirmed decision waits for the watch: bind_write.c */
#define GONE_MS  30000 /* how long one that was sent outlives its pod: convert.c, of no grace */

struct ask;

/** One daemon: its books, its binder and its watch. */
struct replica {
    struct gs_kube_client *client;
    struct gs_books *books;
    struct gs_fence *fence;
    struct gs_binder *binder;
    enum gs_leader_state leads; /**< as it has heard */
    int transitions;            /**< of the lease, when it began to lead */
    struct gs_arena arena;      /**< of one object */
    struct event *queue;
    size_t n;
    bool is_broken;      /**< the watch: a new list is to come */
    long listed_ms;      /**< everything until then is known */
    long quiet_until_ms; /**< nothing comes, and no list is answered, until then */
    unsigned known[PODS];
    GS_LIST(struct ask) asks; /**< not answered yet */
};

/** A bind that kube-scheduler asked for. */
struct ask {
    GS_LINK(struct ask) link; /**< in the replica's `asks` */
    struct replica *replica;
    unsigned serial;
    int slot;
};

static struct gs_arena config;
static struct gs_policies policies;
static struct gs_filter_conf conf;
static struct gs_clock_virtual clock_of_all;
static struct gs_loop *loop;
static struct replica replica[2];
static int leader;
static bool leaves_choice;   /* of the node, to kube-scheduler: cards are chosen at bind */
static bool is_often;        /* the lead moves */
static bool is_unproven;     /* who leads is not asked for */
static long unsure_until_ms; /* some books began anew: they cannot know of ghosts */
static struct {
    unsigned long filters, fits, binds, bound, relists, restarts, switches, leads, settles, repeats;
} count;

/* ---- the judge: sums of the store ---- */

struct sum {
    int slots, mem, cores;
};

static void add_device(const char *text, size_t n, struct sum *sum)
{
    int node, card, mem, cores;
    char copy[128];

    if (n == 0 || n >= sizeof(copy))
        return;
    memcpy(copy, text, n);
    copy[n] = '\0';
    if (sscanf(copy, "gpu-%d-%d,NVIDIA,%d,%d", &node, &card, &mem, &cores) != 4)
        die("grant not understood: %s", copy);
    if (card < 0 || card >= CARDS)
        die("grant of card %d", card);
    sum[card].slots++;
    sum[card].mem += mem;
    sum[card].cores += cores;
}

/* What a live pod takes of the cards of its node: of its init container and its app container, the
 * larger. */
static void take_of(const struct pod *p, struct sum *taken)
{
    struct sum slot[2][CARDS];
    const char *at = p->grant;
    int has_init = p->init_mem > 0, which = has_init ? 0 : 1;

    memset(slot, 0, sizeof(slot));
    for (; *at != '\0' && which < 2; which++) {
        const char *end = strchr(at, ';');
        size_t n = end != NULL ? (size_t)(end - at) : strlen(at);
        const char *dev = at;

        while (dev < at + n) {
            const char *colon = memchr(dev, ':', (size_t)(at + n - dev));
            size_t part = colon != NULL ? (size_t)(colon - dev) : (size_t)(at + n - dev);

            add_device(dev, part, slot[which]);
            dev += part + 1;
        }
        at += n + (end != NULL);
    }
    for (int c = 0; c < CARDS; c++) {
        const struct sum *init = &slot[0][c], *app = &slot[1][c];
        bool counts = has_init && !p->inits_done;

        taken[c].slots += counts && init->slots > app->slots ? init->slots : app->slots;
        taken[c].mem += counts && init->mem > app->mem ? init->mem : app->mem;
        taken[c].cores += counts && init->cores > app->cores ? init->cores : app->cores;
    }
}

static void sums_of(int node, struct sum *taken)
{
    memset(taken, 0, CARDS * sizeof(*taken));
    for (int i = 0; i < PODS; i++)
        if (world.pod[i].is_there && !world.pod[i].is_over && world.pod[i].node == node)
            take_of(&world.pod[i], taken);
}

static void add_ghosts(int node, struct sum *taken)
{
    for (int i = 0; i < GHOSTS; i++)
        if (world.ghost[i].dies_ms > world.now_ms && world.ghost[i].pod.node == node)
            take_of(&world.ghost[i].pod, taken);
}

static void judge(void)
{
    const struct replica *r = &replica[leader];
    struct sum taken[CARDS];
    char uid[32];

    for (int node = 0; node < NODES; node++) {
        sums_of(node, taken);
        if (world.now_ms >= unsure_until_ms)
            add_ghosts(node, taken);
        for (int c = 0; c < CARDS; c++)
            if (taken[c].slots > SHARES || taken[c].mem > MEM || taken[c].cores > CORES)
                die("card %d of node %d is over-granted: %d shares, %d MiB, %d cores", c, node,
                    taken[c].slots, taken[c].mem, taken[c].cores);
    }
    for (int i = 0; i < PODS; i++) {
        struct gs_books_reservation held;

        (void)snprintf(uid, sizeof(uid), "u%u", world.pod[i].serial);
        if (gs_books_reserved(r->books, gs_str_of(uid), &held) &&
            held.until_ms <= (held.is_sent ? r->listed_ms : world.now_ms) &&
            !gs_books_is_pinned(r->books, gs_str_of(uid)))
            die("reservation of %s outlives its lease", uid);
    }
}

/* ---- the daemons learn ---- */

static void tell_node(struct replica *r, int node, int n_cards)
{
    struct gs_buf text = {0};
    struct gs_pair pair[2] = {{GS_STR("hami.io/node-nvidia-register"), {0}},
                              {GS_STR("gpuslice.io/identity"), GS_STR("prestart")}};
    struct gs_pairs annotations = {pair, 2, 2}, none = {0};
    struct gs_node_view view = {{0}, &annotations, &none, &none, &none};
    char name[16];

    (void)snprintf(name, sizeof(name), "n%d", node);
    view.name = gs_str_of(name);
    if (n_cards == 0) {
        gs_books_node_gone(r->books, view.name);
        gs_binder_node_gone(r->binder, view.name);
        return;
    }
    gs_buf_adds(&text, "[");
    for (int c = 0; c < n_cards; c++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"gpu-%d-%d\",\"index\":%d,\"count\":%d,\"devmem\":%d,"
                    "\"devcore\":%d,\"type\":\"A100\",\"health\":true}",
                    c > 0 ? "," : "", node, c, c, SHARES, MEM, CORES);
    gs_buf_adds(&text, "]");
    pair[0].value = gs_buf_str(&text);
    if (gs_books_node_set(r->books, &view, NULL) != 0)
        die("node not taken");
    gs_binder_saw_node(r->binder, &view, GS_STR("1"));
    gs_buf_fini(&text);
}

static void on_bound(void *arg, const struct gs_kube_pod *pod)
{
    gs_binder_saw_bound(((struct replica *)arg)->binder, pod);
}

/* As the daemon's registry and its listeners do. */
static void tell_pod(struct replica *r, int slot, const struct pod *p)
{
    const struct gs_feed feed = {
        .books = r->books, .arena = &r->arena, .arg = r, .bound = on_bound};
    struct gs_buf text = {0};
    struct gs_feed_pod got;
    struct gs_err err = {0};
    yyjson_doc *doc;

    r->known[slot] = p->serial;
    world_put_pod(p, slot, &text);
    doc = yyjson_read(gs_buf_text(&text), text.n, 0);
    gs_arena_reset(&r->arena);
    if (gs_feed_pod(&feed, yyjson_doc_get_root(doc), &got, &err) != 0)
        die("pod not taken: %s", err.text);
    gs_fence_saw_pod(r->fence, &got.pod);
    yyjson_doc_free(doc);
    gs_buf_fini(&text);
}

static void tell_gone(struct replica *r, int slot, unsigned serial, bool had_no_node)
{
    char uid[24], name[24];

    (void)snprintf(uid, sizeof(uid), "u%u", serial);
    (void)snprintf(name, sizeof(name), "s%d", slot);
    if (had_no_node)
        gs_books_pod_gone(r->books, gs_str_of(uid));
    else
        gs_books_pod_deleted(r->books, gs_str_of(uid), world.now_ms);
    gs_binder_pod_gone(r->binder, GS_STR("ns"), gs_str_of(name));
    gs_fence_pod_gone(r->fence, gs_str_of(uid));
    if (r->known[slot] == serial)
        r->known[slot] = 0;
}

static void list_anew(struct replica *r)
{
    r->n = 0;
    r->is_broken = false;
    r->quiet_until_ms = 0;
    r->listed_ms = world.now_ms;
    unsure_until_ms = world.now_ms + RUN_ON;
    count.relists++;
    for (int node = 0; node < NODES; node++)
        tell_node(r, node, world.node_cards[node]);
    for (int i = 0; i < PODS; i++) {
        const struct pod *p = &world.pod[i];

        if (r->known[i] != 0 && (!p->is_there || p->serial != r->known[i]))
            tell_gone(r, i, r->known[i], false);
        if (p->is_there)
            tell_pod(r, i, p);
    }
}

static void deliver(struct replica *r, size_t n)
{
    size_t told = 0;

    if (r->is_broken || world.now_ms < r->quiet_until_ms)
        return;
    for (; told < n && told < r->n; told++) {
        const struct event *e = &r->queue[told];

        if (e->is_node)
            tell_node(r, e->at, e->n_cards);
        else if (e->is_gone)
            tell_gone(r, e->at, e->snapshot.serial, e->snapshot.node < 0);
        else
            tell_pod(r, e->at, &e->snapshot);
    }
    r->n -= told;
    memmove(r->queue, r->queue + told, r->n * sizeof(*r->queue));
}

static void publish(const struct event *e)
{
    for (int k = 0; k < 2; k++) {
        struct replica *r = &replica[k];

        if (r->n == QUEUE) /* the server forgets what nobody reads: 410 */
            r->is_broken = true;
        if (!r->is_broken)
            r->queue[r->n++] = *e;
    }
}

/* ---- kube-scheduler ---- */

static struct gs_str uid_of(const struct pod *p)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "u%u", p->serial);
    return gs_str_of(text);
}

static void draw_conf(void)
{
    conf.device_policy = chance(50) ? GS_STR("spread") : GS_STR("binpack");
    conf.node_policy = chance(50) ? GS_STR("spread") : GS_STR("binpack");
}

/* Other score plugins have their say as well: the best is taken in most cases. */
static void prioritize(struct pod *p, const struct gs_filter_env *env, const struct gs_buf *body)
{
    yyjson_doc *doc;
    yyjson_val *entry;
    char *text;
    size_t n, i, max;

    if (gs_filter_prioritize(env, gs_buf_str(body), &text, &n, NULL) != 0)
        die("no priorities");
    doc = yyjson_read(text, n, 0);
    yyjson_arr_foreach(yyjson_doc_get_root(doc), i, max, entry)
    {
        if (yyjson_get_int(yyjson_obj_get(entry, "Score")) == 10 && chance(70))
            p->chosen = atoi(yyjson_get_str(yyjson_obj_get(entry, "Host")) + 1);
    }
    yyjson_doc_free(doc);
    free(text);
}

/* What its own cache shows of a pod may be old; here it is old where the resourceVersion is. */
static void filter(struct pod *p)
{
    struct gs_arena arena = {0};
    struct gs_filter_env env = {.books = replica[leader].books,
                                .conf = &conf,
                                .now = {world.now_ms * 1000000L, world.now_ms},
                                .arena = &arena};
    struct gs_filter_note note;
    struct gs_buf body = {0};
    struct pod seen = *p;
    yyjson_doc *doc;
    yyjson_val *names;
    char *text;
    size_t n;

    draw_conf();
    seen.version -= chance(10);
    gs_buf_adds(&body, "{\"Pod\":");
    world_answer_pod(&seen, (int)(p - world.pod), &body);
    gs_buf_adds(&body, ",\"NodeNames\":[");
    for (int node = 0, first = (int)rnd(NODES); node < NODES; node++)
        gs_buf_addf(&body, "%s\"n%d\"", node > 0 ? "," : "", (first + node) % NODES);
    gs_buf_adds(&body, "]}");
    count.filters++;
    if (gs_filter(&env, gs_buf_str(&body), &text, &n, &note) != 0)
        die("no answer");
    doc = yyjson_read(text, n, 0);
    names = yyjson_obj_get(yyjson_doc_get_root(doc), "NodeNames");
    p->chosen = -1;
    if (yyjson_arr_size(names) > 0) {
        size_t which = leaves_choice ? rnd((unsigned)yyjson_arr_size(names)) : 0;

        p->chosen = atoi(yyjson_get_str(yyjson_arr_get(names, which)) + 1);
        count.fits++;
    }
    if (leaves_choice && yyjson_arr_size(names) > 1 && chance(90))
        prioritize(p, &env, &body);
    if (p->chosen < 0)
        world_refuse(p);
    yyjson_doc_free(doc);
    free(text);
    gs_buf_fini(&body);
    gs_arena_fini(&arena);
}

static void on_told(void *arg, const char *error)
{
    struct ask ask = *(struct ask *)arg;
    struct pod *p = &world.pod[ask.slot];

    GS_LIST_REMOVE(&ask.replica->asks, (struct ask *)arg, link);
    free(arg);
    if (p->serial != ask.serial)
        return;
    p->is_binding = false;
    if (error[0] != '\0') {
        p->chosen = -1;
        if (p->is_there)
            world_refuse(p);
        return;
    }
    count.bound++;
    if (p->is_there && p->node < 0)
        die("u%u is said to be bound", p->serial);
}

static void bind(struct pod *p)
{
    struct replica *r = &replica[leader];
    struct ask *ask = calloc(1, sizeof(*ask));
    char node[16], name[16];

    if (ask == NULL)
        die("no memory");
    draw_conf();
    (void)snprintf(node, sizeof(node), "n%d", p->chosen);
    (void)snprintf(name, sizeof(name), "s%d", (int)(p - world.pod));
    *ask = (struct ask){.replica = r, .serial = p->serial, .slot = (int)(p - world.pod)};
    count.binds++;
    if (gs_binder_bind(r->binder,
                       &(struct gs_extender_binding){gs_str_of(name), GS_STR("ns"), uid_of(p),
                                                     gs_str_of(node)},
                       on_told, ask, NULL) == 0) {
        GS_LIST_PUSH(&r->asks, ask, link);
        p->is_binding = true;
        return;
    }
    free(ask);
    p->chosen = -1;
}

/* kube-scheduler asks again for a pod whose bind it has no answer to, or that is bound. */
static void ask_again(struct pod *p)
{
    int before = p->chosen;

    filter(p);
    count.repeats++;
    if (p->node >= 0 && p->chosen >= 0 && p->chosen != p->node &&
        replica[leader].leads == GS_LEADER_YES)
        die("u%u is bound to node %d and given node %d", p->serial, p->node, p->chosen);
    p->is_binding = false;
    p->chosen = p->node < 0 ? p->chosen : before;
}

/* ---- daemons ---- */

static enum gs_leader_state leads(void *arg)
{
    return ((const struct replica *)arg)->leads;
}

static bool ask_who_leads(void *arg, struct gs_kube_req *ret)
{
    (void)arg;
    *ret = (struct gs_kube_req){.verb = GS_KUBE_GET,
                                .resource = &gs_kube_leases,
                                .ns = GS_STR("ns"),
                                .name = GS_STR("lease")};
    return !is_unproven;
}

static bool proves(void *arg, const struct gs_kube_result *result)
{
    const struct replica *r = arg;
    yyjson_val *spec = yyjson_obj_get(result->root, "spec");

    return result->rc == 0 && r->leads == GS_LEADER_YES &&
           atoi(yyjson_get_str(yyjson_obj_get(spec, "holderIdentity"))) == r - replica &&
           yyjson_get_int(yyjson_obj_get(spec, "leaseTransitions")) == r->transitions;
}

/* What was decided before is void: it was decided on books that the one before us still wrote in.
 */
static void on_fenced(void *arg)
{
    struct replica *r = arg;

    if (r->leads != GS_LEADER_NOT_YET)
        return;
    count.leads++;
    r->leads = GS_LEADER_YES;
    gs_books_void(r->books);
    gs_binder_go(r->binder);
}

static void stop(struct replica *r)
{
    r->binder = gs_binder_free(r->binder);
    r->fence = gs_fence_free(r->fence);
    r->client = gs_kube_client_free(r->client);
    r->books = gs_books_free(r->books);
    while (r->asks.first != NULL) {
        struct ask *ask = r->asks.first;

        GS_LIST_REMOVE(&r->asks, ask, link);
        free(ask);
    }
    r->leads = GS_LEADER_NO;
    memset(r->known, 0, sizeof(r->known));
}

static void start(struct replica *r)
{
    struct gs_kube_config kube = {.server = "http://api", .ns = "ns"};

    if (gs_kube_client_new(&kube, loop, &(struct gs_kube_client_opt){.seed = 1 + rnd(1000000)},
                           &r->client, NULL) != 0 ||
        gs_books_new(&policies, &r->books) != 0 ||
        gs_fence_new(r->client, r->books,
                     &(struct gs_fence_opt){.filter = &conf, .done = on_fenced, .arg = r},
                     &r->fence) != 0 ||
        gs_binder_new(r->client, r->books,
                      &(struct gs_binder_opt){.filter = &conf,
                                              .fence = r->fence,
                                              .lock_timeout_ms = 300000,
                                              .lock_retry_ms = 28000,
                                              .leads = leads,
                                              .ask = ask_who_leads,
                                              .proves = proves,
                                              .arg = r},
                      &r->binder) != 0)
        die("no daemon");
    list_anew(r);
}

/* At once: nothing that the one before has sent is waited for. */
static void begin_to_lead(void)
{
    struct replica *r = &replica[leader];

    r->leads = GS_LEADER_NOT_YET;
    r->transitions = world.transitions;
    list_anew(r);
    gs_fence_begin(r->fence);
}

/* SIGKILL: books and binder are gone, what was sent is with the server. */
static void restart(void)
{
    count.restarts++;
    stop(&replica[leader]);
    for (int i = 0; i < PODS; i++)
        world.pod[i].is_binding = false;
    start(&replica[leader]);
    begin_to_lead();
}

/* It is told by its watch who leads. */
static void hear(int which)
{
    if (which == leader)
        return;
    replica[which].leads = GS_LEADER_NO;
    gs_fence_stop(replica[which].fence);
}

/* The other replica leads; the binder of this one sees its writes to their ends, and goes on with
 * all that it was asked for until it hears of it. */
static void switch_over(void)
{
    count.switches++;
    leader = 1 - leader;
    world.holder = leader;
    world.transitions++;
    if (chance(30))
        hear(1 - leader);
    begin_to_lead();
}

static void run_loop(void)
{
    while (gs_loop_step(loop, 0) > 0) {
    }
}

static void pass(long ms)
{
    world.now_ms += ms;
    gs_clock_virtual_advance(&clock_of_all, (uint64_t)ms * GS_CLOCK_MS);
    run_loop();
}

static void expire(void)
{
    for (int k = 0; k < 2; k++)
        (void)gs_books_expire(replica[k].books, world.now_ms, replica[k].listed_ms);
}

/* Everything is answered, told and over. */
static void calm_down(void)
{
    struct replica *r = &replica[leader];
    struct gs_binder_stats stats;

    for (int i = 0; i < 100000; i++) {
        bool any = world_drain();

        run_loop();
        r->quiet_until_ms = 0;
        if (r->is_broken)
            list_anew(r);
        deliver(r, SIZE_MAX);
        run_loop();
        gs_binder_stats(r->binder, &stats);
        if (!any && stats.under_way == 0 && r->leads == GS_LEADER_YES)
            return;
        if (!any)
            pass(100);
    }
    die("does not come to rest: %zu binds, leads %d", stats.under_way, (int)r->leads);
}

static void compare(int node)
{
    const struct gs_node *view;
    struct sum taken[CARDS];
    char card[32], name[16];

    (void)snprintf(name, sizeof(name), "n%d", node);
    view = gs_books_node(replica[leader].books, gs_str_of(name));
    sums_of(node, taken);
    if ((view != NULL ? (int)view->n_dev : 0) != world.node_cards[node])
        die("node %d has %zu cards", node, view != NULL ? view->n_dev : 0);
    for (int c = 0; c < world.node_cards[node]; c++) {
        (void)snprintf(card, sizeof(card), "gpu-%d-%d", node, c);
        if (!gs_str_eq_c(view->dev[c].id, card) || view->use[c].slots != taken[c].slots ||
            view->use[c].mem_mib != taken[c].mem || view->use[c].cores != taken[c].cores)
            die("books of %s: %d shares, %d MiB, %d cores; store: %d, %d, %d", card,
                view->use[c].slots, view->use[c].mem_mib, view->use[c].cores, taken[c].slots,
                taken[c].mem, taken[c].cores);
    }
}

static void settle(void)
{
    struct replica *r = &replica[leader];

    count.settles++;
    hear(1 - leader);
    calm_down();
    pass(HOLD_MS + GONE_MS + LEASE_MS + 1);
    if (gs_books_is_overdue(r->books, world.now_ms))
        list_anew(r); /* as the daemon's housekeeping asks for */
    expire();
    if (gs_books_counts(r->books).reservations != 0)
        die("%zu reservations are left", gs_books_counts(r->books).reservations);
    for (int node = 0; node < NODES; node++)
        compare(node);
}

/* ---- steps ---- */

static void on_pod(struct pod *p)
{
    unsigned what = rnd(100);

    if (!p->is_there) {
        world_create(p);
    } else if (what < 4) {
        world_kill(p);
    } else if (what < 7) {
        p->is_ending = true; /* evicted: gone later */
        world_changed(p, false);
    } else if (p->is_ending && what < 30) {
        world_destroy(p);
    } else if (p->node >= 0 && !p->is_running && !p->is_over && what < 20) {
        p->is_running = true;
        world_changed(p, false);
    } else if (p->node >= 0 && what < 14) {
        p->is_over = true;
        p->is_running = false;
        world_changed(p, false);
    } else if (p->node >= 0 && what < 25 && p->init_mem > 0 && !p->inits_done) {
        p->inits_done = true;
        world_changed(p, false);
    } else if ((p->node >= 0 || p->is_binding) && what < 40) {
        if (!p->is_over)
            ask_again(p);
    } else if (p->node < 0 && what < 12) {
        world_changed(p, false); /* its status, say */
    } else if (p->node < 0 && !p->is_binding && !p->is_ending) {
        if (p->chosen < 0 || chance(10))
            filter(p);
        else if (chance(85))
            bind(p);
    }
}

static void on_node(void)
{
    int node = (int)rnd(NODES);

    world.node_cards[node] = chance(30) ? (int)rnd(CARDS + 1) : CARDS;
    publish(&(struct event){.is_node = true, .at = node, .n_cards = world.node_cards[node]});
}

/* The watch breaks, or hangs; often for longer than a confirmed decision is held. */
static void go_quiet(struct replica *r)
{
    r->is_broken = r->is_broken || chance(50);
    r->quiet_until_ms = world.now_ms + (long)rnd(3 * HOLD_MS);
}

static void list_where_due(void)
{
    for (int k = 0; k < 2; k++) {
        struct replica *r = &replica[k];

        if (world.now_ms >= r->quiet_until_ms &&
            (r->is_broken || gs_books_is_overdue(r->books, world.now_ms)))
            list_anew(r);
    }
}

static void one_step(void)
{
    unsigned what = rnd(1000);

    if (what >= 960 && what < 966 && chance(is_often ? 50 : 95))
        what = 900; /* seldom: a gap in the watch is to last for longer than a decision is held */
    if (what < 500)
        on_pod(&world.pod[rnd(PODS)]);
    else if (what < 720)
        world_serve();
    else if (what < 850)
        deliver(&replica[rnd(2)], 1 + rnd(8));
    else if (what < 940)
        pass((long)rnd(400));
    else if (what < 950)
        on_node();
    else if (what < 951)
        hear((int)rnd(2));
    else if (what < 953)
        go_quiet(&replica[rnd(2)]);
    else if (what < 960)
        list_where_due();
    else if (what < 962)
        restart();
    else if (what < 964)
        switch_over();
    else if (what < 966)
        settle();
    else
        world_serve();
    run_loop();
    expire();
}

static void set_up(void)
{
    gs_clock_virtual_init(&clock_of_all, 1700000000ull * GS_CLOCK_S, false);
    clock_of_all.mono_ns = (uint64_t)world.now_ms * GS_CLOCK_MS;
    conf = (struct gs_filter_conf){.leaves_node_choice = leaves_choice, .lease_ms = LEASE_MS};
    draw_conf();
    world.publish = publish;
    if (gs_registry_policy[0]->make(NULL, false, &config, &policies, NULL) != 0 ||
        gs_loop_new(&clock_of_all.clock, &loop) != 0)
        die("no policy or no loop");
    for (int node = 0; node < NODES; node++)
        world.node_cards[node] = CARDS;
    for (int k = 0; k < 2; k++) {
        replica[k].queue = calloc(QUEUE, sizeof(*replica[k].queue));
        if (replica[k].queue == NULL)
            die("no memory");
        start(&replica[k]);
    }
    begin_to_lead();
}

int main(int argc, char **argv)
{
    const char *env = getenv("GS_SEED");
    unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 200000;

    world.seed = argc > 1 ? strtoull(argv[1], NULL, 10) : env != NULL ? strtoull(env, NULL, 10) : 1;
    leaves_choice = argc > 3 && strcmp(argv[3], "choice") == 0;
    world.ignores_versions = argc > 3 && strcmp(argv[3], "broken") == 0;
    world.hides_refusals = argc > 3 && strcmp(argv[3], "closed") == 0;
    is_unproven = argc > 3 && strcmp(argv[3], "unproven") == 0;
    is_often = is_unproven || (argc > 3 && strcmp(argv[3], "often") == 0);
    world.state = world.seed * 0x9e3779b97f4a7c15u + 1;
    set_up();
    for (; world.step < steps; world.step++) {
        one_step();
        judge();
    }
    settle();
    for (int k = 0; k < 2; k++) {
        stop(&replica[k]);
        gs_arena_fini(&replica[k].arena);
        free(replica[k].queue);
    }
    while (world_drain()) {
    }
    gs_loop_free(loop);
    gs_arena_fini(&config);
    (void)printf("seed %llu: %lu steps, %lu filters (%lu found room), %lu binds (%lu told done), "
                 "%lu calls (%lu answers lost, %lu lies, %lu done late), %lu asked again, "
                 "%lu deleted by force while running, %lu lists, %lu restarts, %lu switches "
                 "(%lu led), %lu settled\n",
                 world.seed, steps, count.filters, count.fits, count.binds, count.bound,
                 world.count.calls, world.count.lost, world.count.lies, world.count.late,
                 count.repeats, world.count.ghosts, count.relists, count.restarts, count.switches,
                 count.leads, count.settles);
    return 0;
}
