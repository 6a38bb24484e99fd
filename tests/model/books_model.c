/* The control plane under fire, in virtual time: pods come, finish, are evicted and force-deleted;
 * filters that no bind follows; binds that fail, whose answers are lost, or that land late; watches
 * that lag and break; a daemon that dies and one that takes over. Books and filter are the real
 * ones; API server, watch and binder are models.
 *
 * After every step: no card is over-granted, summed here from the grants in the store by code of
 * this file alone; no reservation outlives its lease. After each settling: books = store.
 *
 * usage: books_model [SEED [STEPS [choice]]]; a failure prints the seed and the step. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "control/books.h"
#include "control/filter.h"
#include "model/node.h"
#include "vendors/registry_policy.h"

#define NODES    5
#define CARDS    4
#define SHARES   4
#define MEM      16000
#define CORES    100
#define PODS     96
#define QUEUE    4096
#define LEASE_MS 5000
#define POST_MS  2000
#define HOLD_MS  30000 /* how long a confirmed decision waits for the watch */
#define LATE_MS                                                                                    \
    6000            /* a busy server does what it was asked, at most: long after it was given up   \
                     */
#define RUN_ON 3000 /* ms that containers of a pod deleted by force run on, at most */
#define GHOSTS 64

enum bind_state { IDLE, WRITING, LOST }; /* LOST: sent, and the answer did not come */

/** A pod of the store, and what its scheduler and binder know of it. */
struct pod {
    bool is_there, is_over, is_ending, inits_done, is_running;
    unsigned serial;
    int cards, mem, cores, init_mem; /**< asked for; init_mem 0: no init container */
    int node;                        /**< -1: not bound */
    char grant[512];
    /* the leader's */
    int chosen; /**< by filter; -1: none */
    enum bind_state bind;
    bool will_bind; /**< the write lands, at: */
    bool was_sent;  /**< a write before this one, and nobody knows how it ended */
    long lands_ms, deadline_ms;
    char writes[512]; /**< the grant in it */
    int sent_node;    /**< of the write that may land */
    char sent[512];
};

struct event {
    bool is_node, is_gone;
    int at;              /**< node, or slot of the pod */
    struct pod snapshot; /**< as the store had it */
    int n_cards;         /**< of a node: how many it registers */
};

/** One daemon: its books and its watch. */
struct replica {
    struct gs_books *books;
    struct event *queue;
    size_t n;
    bool is_broken;      /**< the watch: a new list is to come */
    long heard_ms;       /**< everything until then is known */
    long quiet_until_ms; /**< nothing comes, and no list is answered, until then */
    unsigned known[PODS];
};

static struct gs_arena config;
static struct gs_policies policies;
static struct replica replica[2];
static int leader;
static bool leaves_choice; /* of the node, to kube-scheduler: cards are chosen at bind */
static struct pod store[PODS];
static int node_cards[NODES]; /**< registered; 0: the node is not there */
static struct {
    struct pod pod;
    long dies_ms;
} ghost[GHOSTS];             /**< deleted by force, their containers run on */
static long unsure_until_ms; /**< some books began anew: they cannot know of ghosts */
static unsigned serials;
static long now_ms = 1;
static unsigned long step;
static unsigned long long seed, state;
static struct {
    unsigned long filters, fits, binds, lost, late, relists, restarts, switches, settles, repeats,
        ghosts;
} count;

static void die(const char *fmt, ...) GS_PRINTF(1, 2);
static void die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)fprintf(stderr, "seed %llu, step %lu, %ld ms: ", seed, step, now_ms);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static unsigned rnd(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 16) % below);
}

static bool chance(unsigned percent)
{
    return rnd(100) < percent;
}

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
        if (store[i].is_there && !store[i].is_over && store[i].node == node)
            take_of(&store[i], taken);
}

static void add_ghosts(int node, struct sum *taken)
{
    for (int i = 0; i < GHOSTS; i++)
        if (ghost[i].dies_ms > now_ms && ghost[i].pod.node == node)
            take_of(&ghost[i].pod, taken);
}

static void judge(void)
{
    struct sum taken[CARDS];
    char uid[32];

    for (int node = 0; node < NODES; node++) {
        sums_of(node, taken);
        if (now_ms >= unsure_until_ms)
            add_ghosts(node, taken);
        for (int c = 0; c < CARDS; c++)
            if (taken[c].slots > SHARES || taken[c].mem > MEM || taken[c].cores > CORES)
                die("card %d of node %d is over-granted: %d shares, %d MiB, %d cores", c, node,
                    taken[c].slots, taken[c].mem, taken[c].cores);
    }
    for (int i = 0; i < PODS; i++) {
        struct gs_books_reservation r;

        (void)snprintf(uid, sizeof(uid), "u%u", store[i].serial);
        if (gs_books_reserved(replica[leader].books, gs_str_of(uid), &r) &&
            r.until_ms <= (r.is_sent ? replica[leader].heard_ms : now_ms) &&
            !gs_books_is_pinned(replica[leader].books, gs_str_of(uid)))
            die("reservation of %s outlives its lease", uid);
    }
}

/* ---- the books learn ---- */

static void tell_node(struct replica *r, int node, int n_cards)
{
    struct gs_arena arena = {0};
    struct gs_buf text = {0};
    struct gs_pair pair = {GS_STR("hami.io/node-nvidia-register"), {0}};
    struct gs_pairs annotations = {&pair, 1, 1}, none = {0};
    char name[16];

    (void)snprintf(name, sizeof(name), "n%d", node);
    if (n_cards == 0) {
        gs_books_node_gone(r->books, gs_str_of(name));
        return;
    }
    gs_buf_adds(&text, "[");
    for (int c = 0; c < n_cards; c++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"gpu-%d-%d\",\"index\":%d,\"count\":%d,\"devmem\":%d,"
                    "\"devcore\":%d,\"type\":\"A100\",\"health\":true}",
                    c > 0 ? "," : "", node, c, c, SHARES, MEM, CORES);
    gs_buf_adds(&text, "]");
    pair.value = (struct gs_str){gs_buf_text(&text), text.n};
    if (gs_books_node_set(
            r->books, &(struct gs_node_view){gs_str_of(name), &annotations, &none, &none, &none},
            NULL) != 0)
        die("node not taken");
    gs_buf_fini(&text);
    gs_arena_fini(&arena);
}

static void tell_pod(struct replica *r, int slot, const struct pod *p, bool is_gone)
{
    static struct gs_str grants[64];
    bool is_app[2] = {p->init_mem == 0, true};
    char uid[32], node[16] = "";

    (void)snprintf(uid, sizeof(uid), "u%u", p->serial);
    if (is_gone) {
        gs_books_pod_deleted(r->books, gs_str_of(uid), now_ms);
        if (r->known[slot] == p->serial)
            r->known[slot] = 0;
        return;
    }
    r->known[slot] = p->serial;
    if (p->node >= 0)
        (void)snprintf(node, sizeof(node), "n%d", p->node);
    grants[0] = gs_str_of(p->grant);
    if (gs_books_pod_set(r->books,
                         &(struct gs_books_pod){.uid = gs_str_of(uid),
                                                .ns = GS_STR("ns"),
                                                .name = gs_str_of(uid),
                                                .node = gs_str_of(node),
                                                .grant = grants,
                                                .n_init = p->init_mem > 0,
                                                .is_app = is_app,
                                                .n_slots = p->init_mem > 0 ? 2 : 1,
                                                .inits_done = p->inits_done,
                                                .is_over = p->is_over,
                                                .outlives_ms = p->is_running ? RUN_ON : 0,
                                                .start_us = GS_BOOKS_STAYS,
                                                .ends_us = p->is_ending ? 1 : GS_BOOKS_STAYS},
                         NULL) != 0)
        die("pod not taken");
}

static void list_anew(struct replica *r)
{
    r->n = 0;
    r->is_broken = false;
    r->quiet_until_ms = 0;
    r->heard_ms = now_ms;
    unsure_until_ms = now_ms + RUN_ON;
    count.relists++;
    for (int node = 0; node < NODES; node++)
        tell_node(r, node, node_cards[node]);
    for (int i = 0; i < PODS; i++) {
        if (r->known[i] != 0 && (!store[i].is_there || store[i].serial != r->known[i])) {
            struct pod gone = {.serial = r->known[i]};

            tell_pod(r, i, &gone, true);
        }
        if (store[i].is_there)
            tell_pod(r, i, &store[i], false);
    }
}

static void deliver(struct replica *r, size_t n)
{
    size_t told = 0;

    if (r->is_broken || now_ms < r->quiet_until_ms)
        return;
    for (; told < n && told < r->n; told++) {
        const struct event *e = &r->queue[told];

        if (e->is_node)
            tell_node(r, e->at, e->n_cards);
        else
            tell_pod(r, e->at, &e->snapshot, e->is_gone);
    }
    r->n -= told;
    memmove(r->queue, r->queue + told, r->n * sizeof(*r->queue));
    if (r->n == 0)
        r->heard_ms = now_ms;
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

static void changed(int slot, bool is_gone)
{
    publish(&(struct event){.at = slot, .is_gone = is_gone, .snapshot = store[slot]});
}

/* ---- API server ---- */

static void land(struct pod *p)
{
    p->will_bind = false;
    if (!p->is_there || p->node >= 0)
        return; /* refused: gone, or bound already */
    p->node = p->sent_node;
    memcpy(p->grant, p->sent, sizeof(p->grant));
    changed((int)(p - store), false);
}

static void land_late_writes(void)
{
    for (int i = 0; i < PODS; i++)
        if (store[i].will_bind && store[i].lands_ms <= now_ms) {
            count.late++;
            land(&store[i]);
        }
}

static void create(struct pod *p)
{
    *p = (struct pod){.is_there = true,
                      .serial = ++serials,
                      .cards = 1 + (int)rnd(8) / 6,
                      .mem = 500 * (1 + (int)rnd(20)),
                      .cores = chance(10) ? 100 : (int)rnd(60),
                      .init_mem = chance(20) ? 500 * (1 + (int)rnd(30)) : 0,
                      .node = -1,
                      .chosen = -1};
    changed((int)(p - store), false);
}

/* The kubelet has ended its containers. */
static void stop(struct pod *p)
{
    if (!p->is_running)
        return;
    p->is_running = false;
    changed((int)(p - store), false);
}

/* By force: what runs of it runs on for a while. */
static void kill_pod(struct pod *p)
{
    for (int i = 0; i < GHOSTS && p->is_running && !p->is_over; i++)
        if (ghost[i].dies_ms <= now_ms) {
            ghost[i].pod = *p;
            ghost[i].dies_ms = now_ms + 1 + (long)rnd(RUN_ON - 1);
            count.ghosts++;
            break;
        }
    p->is_there = false;
    changed((int)(p - store), true);
}

static void destroy(struct pod *p)
{
    stop(p);
    p->is_there = false;
    changed((int)(p - store), true);
}

/* ---- scheduler and binder of the leader ---- */

static struct gs_str uid_of(const struct pod *p)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "u%u", p->serial);
    return gs_str_of(text);
}

static void write_body(const struct pod *p, struct gs_buf *body)
{
    gs_buf_addf(body,
                "{\"Pod\":{\"metadata\":{\"name\":\"u%u\",\"namespace\":\"ns\",\"uid\":\"u%u\"},"
                "\"spec\":{",
                p->serial, p->serial);
    if (p->init_mem > 0)
        gs_buf_addf(body,
                    "\"initContainers\":[{\"name\":\"i\",\"resources\":{\"limits\":{"
                    "\"nvidia.com/gpu\":1,\"nvidia.com/gpumem\":%d,\"nvidia.com/gpucores\":%d}}}],",
                    p->init_mem, p->cores);
    gs_buf_addf(body,
                "\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":%d,"
                "\"nvidia.com/gpumem\":%d,\"nvidia.com/gpucores\":%d}}}]}},\"NodeNames\":[",
                p->cards, p->mem, p->cores);
    for (int node = 0, first = (int)rnd(NODES); node < NODES; node++)
        gs_buf_addf(body, "%s\"n%d\"", node > 0 ? "," : "", (first + node) % NODES);
    gs_buf_adds(body, "]}");
}

static struct gs_filter_conf conf_of(void)
{
    return (struct gs_filter_conf){.device_policy =
                                       chance(50) ? GS_STR("spread") : GS_STR("binpack"),
                                   .node_policy = chance(50) ? GS_STR("spread") : GS_STR("binpack"),
                                   .leaves_node_choice = leaves_choice,
                                   .lease_ms = LEASE_MS};
}

static void filter(struct pod *p)
{
    struct gs_arena arena = {0};
    struct gs_filter_conf conf = conf_of();
    struct gs_filter_env env = {.books = replica[leader].books,
                                .conf = &conf,
                                .now = {now_ms * 1000000L, now_ms},
                                .arena = &arena};
    struct gs_filter_note note;
    struct gs_buf body = {0};
    yyjson_doc *doc;
    yyjson_val *names;
    char *text;
    size_t n;

    write_body(p, &body);
    count.filters++;
    if (gs_filter(&env, (struct gs_str){body.p, body.n}, &text, &n, &note) != 0)
        die("no answer");
    doc = yyjson_read(text, n, 0);
    names = yyjson_obj_get(yyjson_doc_get_root(doc), "NodeNames");
    p->chosen = -1;
    if (yyjson_arr_size(names) > 0) {
        size_t which = leaves_choice ? rnd((unsigned)yyjson_arr_size(names)) : 0;

        p->chosen = atoi(yyjson_get_str(yyjson_arr_get(names, which)) + 1);
        count.fits++;
    }
    yyjson_doc_free(doc);
    free(text);
    gs_buf_fini(&body);
    gs_arena_fini(&arena);
}

static bool copy_decision(struct pod *p)
{
    struct gs_books_reservation r;
    char node[16];

    (void)snprintf(node, sizeof(node), "n%d", p->chosen);
    if (!gs_books_reserved(replica[leader].books, uid_of(p), &r) || !gs_str_eq_c(r.node, node))
        return false;
    for (size_t i = 0; i < r.annotations.n; i++)
        if (gs_str_eq(r.annotations.at[i].key, GS_STR("hami.io/vgpu-devices-allocated")))
            (void)snprintf(p->writes, sizeof(p->writes), "%.*s", (int)r.annotations.at[i].value.n,
                           r.annotations.at[i].value.p);
    return true;
}

/* Its reservation expired before the bind came: the pod is read, and decided for this node. */
static bool decide_at_bind(struct pod *p)
{
    struct gs_arena arena = {0};
    struct gs_filter_conf conf = conf_of();
    struct gs_filter_env env = {.books = replica[leader].books,
                                .conf = &conf,
                                .now = {now_ms * 1000000L, now_ms},
                                .arena = &arena};
    char number[3][16], node[16], uid[32];
    struct gs_pair limit[3] = {{GS_STR("nvidia.com/gpu"), {0}},
                               {GS_STR("nvidia.com/gpumem"), {0}},
                               {GS_STR("nvidia.com/gpucores"), {0}}};
    struct gs_container c = {.name = GS_STR("c"), .limits = {limit, 3, 3}};
    struct gs_pod pod = {.arena = &arena, .ns = GS_STR("ns"), .container = &c, .n_containers = 1};
    const int value[3] = {p->cards, p->mem, p->cores};
    int rc;

    if (p->node >= 0 || p->init_mem > 0)
        return false;
    for (int i = 0; i < 3; i++) {
        (void)snprintf(number[i], sizeof(number[i]), "%d", value[i]);
        limit[i].value = gs_str_of(number[i]);
    }
    (void)snprintf(uid, sizeof(uid), "u%u", p->serial);
    (void)snprintf(node, sizeof(node), "n%d", p->chosen);
    pod.uid = pod.name = gs_str_of(uid);
    rc = gs_filter_reserve(&env, &pod, 0, gs_str_of(node), NULL);
    gs_arena_fini(&arena);
    return rc == 0 && copy_decision(p);
}

static void bind(struct pod *p)
{
    struct gs_books *books = replica[leader].books;
    unsigned fate = rnd(100);

    if (!copy_decision(p) && !decide_at_bind(p)) {
        p->chosen = -1;
        return;
    }
    count.binds++;
    if (!p->will_bind) { /* one that may land yet is of the same decision */
        p->sent_node = p->chosen;
        memcpy(p->sent, p->writes, sizeof(p->sent));
    } else if (p->sent_node != p->chosen || strcmp(p->sent, p->writes) != 0) {
        die("a write of u%u may land yet, and another decision is sent", p->serial);
    }
    gs_books_pin(books, uid_of(p), true);
    gs_books_prolong(books, uid_of(p), now_ms + POST_MS + HOLD_MS);
    p->deadline_ms = now_ms + POST_MS;
    if (fate < 70) { /* taken, and answered */
        land(p);
        p->bind = WRITING;
    } else if (fate < 80) { /* refused, and answered */
        p->bind = WRITING;
    } else { /* the answer is lost; taken at once, later, or never */
        count.lost++;
        p->bind = LOST;
        if (fate < 87)
            land(p);
        if (!p->will_bind && fate >= 87 && fate < 95) {
            p->will_bind = true;
            p->lands_ms = now_ms + (long)rnd(LATE_MS);
        }
    }
}

/* The binder learns how its write ended: from the answer, or by reading the pod after the deadline.
 */
static void conclude(struct pod *p)
{
    struct gs_books *books = replica[leader].books;
    bool is_bound = p->is_there && p->node >= 0;

    if (p->bind == IDLE || (p->bind == LOST && !is_bound && now_ms <= p->deadline_ms))
        return;
    p->was_sent |= p->bind == LOST;
    p->bind = IDLE;
    gs_books_pin(books, uid_of(p), false);
    if (is_bound || !p->is_there || p->was_sent) { /* gone: it may have run; or may land yet */
        gs_books_prolong(books, uid_of(p), now_ms + HOLD_MS);
    } else {
        (void)gs_books_release(books, uid_of(p));
        p->chosen = -1;
    }
}

/* kube-scheduler asks again for a pod whose bind it has no answer to. */
static void ask_again(struct pod *p)
{
    int before = p->chosen;

    if ((p->bind != LOST && p->node < 0) || p->is_over)
        return;
    filter(p);
    count.repeats++;
    if (p->chosen >= 0 && p->chosen != (p->node >= 0 ? p->node : before))
        die("a pod that is bound, or may be, to node %d is given another: %d",
            p->node >= 0 ? p->node : before, p->chosen);
    p->chosen = before;
}

/* ---- daemons ---- */

static void start(struct replica *r)
{
    r->books = gs_books_free(r->books);
    memset(r->known, 0, sizeof(r->known));
    if (gs_books_new(&policies, &r->books) != 0)
        die("no books");
    list_anew(r);
}

/* Whoever grants next has let the writes under way end, and reads the store before. */
static void begin_to_lead(void)
{
    list_anew(&replica[leader]);
    /* decided on books that the one before still wrote in: void, as in the daemon */
    gs_books_void(replica[leader].books);
    for (int i = 0; i < PODS; i++) {
        store[i].chosen = store[i].node >= 0 ? store[i].node : -1;
        store[i].was_sent = false;
    }
}

/* SIGKILL: books and binder are gone, what was sent may land yet. */
static void restart(void)
{
    count.restarts++;
    for (int i = 0; i < PODS; i++)
        store[i].bind = IDLE;
    now_ms += LATE_MS + 1;
    land_late_writes();
    start(&replica[leader]);
    begin_to_lead();
}

/* The other replica leads; the binder of this one sees its writes to their ends. */
static void switch_over(void)
{
    count.switches++;
    now_ms += LATE_MS + 1;
    land_late_writes();
    for (int i = 0; i < PODS; i++)
        conclude(&store[i]);
    leader = 1 - leader;
    begin_to_lead();
}

static void settle(void)
{
    struct replica *r = &replica[leader];
    struct sum taken[CARDS];
    char card[32], name[16];

    count.settles++;
    now_ms += LATE_MS + 1;
    land_late_writes();
    for (int i = 0; i < PODS; i++)
        conclude(&store[i]);
    r->quiet_until_ms = 0;
    if (r->is_broken)
        list_anew(r);
    deliver(r, SIZE_MAX);
    now_ms += POST_MS + HOLD_MS + LEASE_MS + 1;
    deliver(r, SIZE_MAX);
    (void)gs_books_expire(r->books, now_ms, r->heard_ms);
    if (gs_books_counts(r->books).reservations != 0)
        die("%zu reservations are left", gs_books_counts(r->books).reservations);
    for (int node = 0; node < NODES; node++) {
        const struct gs_node *view;

        (void)snprintf(name, sizeof(name), "n%d", node);
        view = gs_books_node(r->books, gs_str_of(name));
        sums_of(node, taken);
        if ((view != NULL ? (int)view->n_dev : 0) != node_cards[node])
            die("node %d has %zu cards", node, view != NULL ? view->n_dev : 0);
        for (int c = 0; c < node_cards[node]; c++) {
            (void)snprintf(card, sizeof(card), "gpu-%d-%d", node, c);
            if (!gs_str_eq_c(view->dev[c].id, card) || view->use[c].slots != taken[c].slots ||
                view->use[c].mem_mib != taken[c].mem || view->use[c].cores != taken[c].cores)
                die("books of %s: %d shares, %d MiB, %d cores; store: %d, %d, %d", card,
                    view->use[c].slots, view->use[c].mem_mib, view->use[c].cores, taken[c].slots,
                    taken[c].mem, taken[c].cores);
        }
    }
}

/* ---- steps ---- */

static void on_pod(struct pod *p)
{
    unsigned what = rnd(100);

    if (!p->is_there) {
        if (p->bind == IDLE && !p->will_bind)
            create(p);
    } else if (what < 4) {
        kill_pod(p);
    } else if (what < 7) {
        p->is_ending = true; /* evicted: gone later */
        changed((int)(p - store), false);
    } else if (p->is_ending && what < 30) {
        destroy(p);
    } else if (p->node >= 0 && !p->is_running && !p->is_over && what < 20) {
        p->is_running = true;
        changed((int)(p - store), false);
    } else if (p->node >= 0 && what < 14) {
        p->is_over = true;
        p->is_running = false;
        changed((int)(p - store), false);
    } else if (p->node >= 0 && what < 25 && p->init_mem > 0 && !p->inits_done) {
        p->inits_done = true;
        changed((int)(p - store), false);
    } else if ((p->node >= 0 || p->bind == LOST) && what < 40) {
        ask_again(p);
    } else if (p->node < 0 && p->bind == IDLE && !p->is_ending) {
        if (p->chosen < 0 || chance(10))
            filter(p);
        else if (chance(85))
            bind(p);
    }
}

static void on_node(void)
{
    int node = (int)rnd(NODES);

    node_cards[node] = chance(30) ? (int)rnd(CARDS + 1) : CARDS;
    publish(&(struct event){.is_node = true, .at = node, .n_cards = node_cards[node]});
}

/* The watch breaks, or hangs; often for longer than a confirmed decision is held. */
static void go_quiet(struct replica *r)
{
    r->is_broken = r->is_broken || chance(50);
    r->quiet_until_ms = now_ms + (long)rnd(3 * HOLD_MS);
}

static void one_step(void)
{
    unsigned what = rnd(1000);

    if (what >= 960 && what < 966 && chance(95))
        what = 900; /* seldom: a gap in the watch is to last for longer than a decision is held */
    if (what < 600)
        on_pod(&store[rnd(PODS)]);
    else if (what < 720)
        conclude(&store[rnd(PODS)]);
    else if (what < 850)
        deliver(&replica[rnd(2)], 1 + rnd(8));
    else if (what < 940)
        now_ms += rnd(400);
    else if (what < 950)
        on_node();
    else if (what < 953)
        go_quiet(&replica[rnd(2)]);
    else if (what < 960)
        for (int k = 0; k < 2; k++) {
            if (replica[k].is_broken && now_ms >= replica[k].quiet_until_ms)
                list_anew(&replica[k]);
        }
    else if (what < 962)
        restart();
    else if (what < 964)
        switch_over();
    else if (what < 966)
        settle();
    land_late_writes();
    for (int k = 0; k < 2; k++)
        (void)gs_books_expire(replica[k].books, now_ms, replica[k].heard_ms);
}

int main(int argc, char **argv)
{
    const char *env = getenv("GS_SEED");
    unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 200000;

    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : env != NULL ? strtoull(env, NULL, 10) : 1;
    leaves_choice = argc > 3 && strcmp(argv[3], "choice") == 0;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    if (gs_registry_policy[0]->make(NULL, false, &config, &policies, NULL) != 0)
        die("no policy");
    for (int node = 0; node < NODES; node++)
        node_cards[node] = CARDS;
    for (int k = 0; k < 2; k++) {
        replica[k].queue = calloc(QUEUE, sizeof(*replica[k].queue));
        if (replica[k].queue == NULL)
            die("no memory");
        start(&replica[k]);
    }
    for (step = 0; step < steps; step++) {
        one_step();
        judge();
    }
    settle();
    for (int k = 0; k < 2; k++) {
        gs_books_free(replica[k].books);
        free(replica[k].queue);
    }
    gs_arena_fini(&config);
    (void)printf("seed %llu: %lu steps, %lu filters (%lu found room), %lu binds (%lu answers lost, "
                 "%lu writes late), %lu asked again while bound, %lu deleted by force while "
                 "running, %lu lists, %lu restarts, %lu switches, %lu settled\n",
                 seed, steps, count.filters, count.fits, count.binds, count.lost, count.late,
                 count.repeats, count.ghosts, count.relists, count.restarts, count.switches,
                 count.settles);
    return 0;
}
