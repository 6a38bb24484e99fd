/* Filter and prioritize, from JSON to JSON. Vectors: spec of the control plane, appendix A12. */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/node.h"

#define GRANT "hami.io/vgpu-devices-allocated"

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

/* What the pod's Binding would carry. */
static const char *grant_of(struct world *w, const char *uid)
{
    struct gs_books_reservation r;

    if (!gs_books_reserved(w->books, gs_str_of(uid), &r))
        return "";
    for (size_t i = 0; i < r.annotations.n; i++)
        if (gs_str_eq(r.annotations.at[i].key, GS_STR(GRANT)))
            return r.annotations.at[i].value.p;
    return "";
}

static double score_of(struct world *w, const char *node)
{
    return gs_books_node(w->books, gs_str_of(node))->score;
}

/* A card with 5 of 10 shares, half of its cores and half of its 8000 MiB taken. */
static void half_used(struct world *w, const char *node, const char *card)
{
    char uid[32], grant[64];

    for (int i = 0; i < 5; i++) {
        (void)snprintf(uid, sizeof(uid), "%s-half-%d", node, i);
        (void)snprintf(grant, sizeof(grant), "%s,NVIDIA,800,10:;", card);
        assert_int_equal(world_pod(w, uid, node, grant), 0);
    }
}

static void a12_1_and_5_half_a_card(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "node1", "uuid", 1, 8000), 0);
    assert_int_equal(world_cards(w, "node2", "idle", 1, 8000), 0);
    half_used(w, "node1", "uuid0");
    assert_true(score_of(w, "node1") == 15);
    assert_true(score_of(w, "node2") == 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['node1','node2']}", world_ask(w, "p", 1000, 30));
    assert_string_equal(world_chosen(w), "node1");
    assert_string_equal(world_error(w), "");
    assert_string_equal(grant_of(w, "p"), "uuid0,NVIDIA,1000,30:;");
    assert_int_equal(world_use(w, "node1", "uuid0").mem_mib, 5000);
    assert_int_equal(world_use(w, "node1", "uuid0").cores, 80);
    assert_int_equal(world_use(w, "node1", "uuid0").slots, 6);
}

static void a12_3_and_4_spread_takes_the_last(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "node1", "uuid", 2, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['node1']}", world_ask(w, "one", 1000, 30));
    assert_string_equal(grant_of(w, "one"), "uuid1,NVIDIA,1000,30:;");
    assert_true(gs_books_release(w->books, GS_STR("one")));
    world_filter(w,
                 "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'two'},'spec':{"
                 "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':2,"
                 "'nvidia.com/gpumem':1000,'nvidia.com/gpucores':30}}}]}},'NodeNames':['node1']}");
    assert_string_equal(grant_of(w, "two"), "uuid1,NVIDIA,1000,30:uuid0,NVIDIA,1000,30:;");
}

#define LIMITS(n, mem)                                                                             \
    "'resources':{'limits':{'nvidia.com/gpu':'" #n "','nvidia.com/gpumem':'" #mem                  \
    "','nvidia.com/gpucores':'10'}}"

static void a12_7_containers_add_up(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "node1", "uuid", 2, 8000), 0);
    world_filter(w, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                    "'containers':[{'name':'a'," LIMITS(1, 8000) "},{'name':'b'," LIMITS(
                        1, 1000) "}]}},'NodeNames':['node1']}");
    assert_string_equal(grant_of(w, "p"), "uuid1,NVIDIA,8000,10:;uuid0,NVIDIA,1000,10:;");
}

static void a12_8_init_without_cards(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "node1", "uuid", 1, 8000), 0);
    world_filter(
        w, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
           "'initContainers':[{'name':'i'},{'name':'j'," LIMITS(
               1, 1000) "}],'containers':[{'name':'a'," LIMITS(1, 1000) "}]}},"
                                                                        "'NodeNames':['node1']}");
    assert_string_equal(grant_of(w, "p"), ";uuid0,NVIDIA,1000,10:;uuid0,NVIDIA,1000,10:;");
    /* A9.2: init and app one after the other are one share of the larger of both */
    assert_int_equal(world_use(w, "node1", "uuid0").slots, 1);
    assert_int_equal(world_use(w, "node1", "uuid0").mem_mib, 1000);
}

static void a12_9_init_on_more_cards(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "node1", "uuid", 2, 8000), 0);
    world_filter(
        w, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
           "'initContainers':[{'name':'i'," LIMITS(
               2, 1000) "}],"
                        "'containers':[{'name':'a'," LIMITS(1, 1000) "}]}},'NodeNames':['node1']}");
    assert_string_equal(grant_of(w, "p"),
                        "uuid1,NVIDIA,1000,10:uuid0,NVIDIA,1000,10:;uuid1,NVIDIA,1000,10:;");
}

/* node1 {device1 2000/25 used, device2 idle}, node2 {device3 idle, device4 6000/75 used} */
static void two_nodes(struct world *w)
{
    assert_int_equal(world_cards(w, "node1", "device1", 2, 8000), 0);
    assert_int_equal(world_cards(w, "node2", "device2", 2, 8000), 0);
    assert_int_equal(world_pod(w, "u1", "node1", "device10,NVIDIA,2000,25:;"), 0);
    assert_int_equal(world_pod(w, "u2", "node2", "device21,NVIDIA,6000,75:;"), 0);
}

static void a12_11_to_13_policies(void **state)
{
    static const struct {
        const char *node, *gpu, *chosen, *grant;
    } row[] = {
        {"binpack", "binpack", "node2", "device21,NVIDIA,1000,20:;"},
        {"binpack", "spread", "node2", "device20,NVIDIA,1000,20:;"},
        {"spread", "binpack", "node1", "device10,NVIDIA,1000,20:;"},
    };
    struct world *w = *state;

    two_nodes(w);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        world_filter(w,
                     "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p','annotations':{"
                     "'hami.io/node-scheduler-policy':'%s','hami.io/gpu-scheduler-policy':'%s'}},"
                     "'spec':{'containers':[{'name':'c','resources':{'limits':{"
                     "'nvidia.com/gpu':'1','nvidia.com/gpumem':'1000','nvidia.com/gpucores':'20'}"
                     "}}]}},'NodeNames':['node1','node2']}",
                     row[i].node, row[i].gpu);
        assert_string_equal(world_chosen(w), row[i].chosen);
        assert_string_equal(grant_of(w, "p"), row[i].grant);
    }
    assert_int_equal(gs_books_counts(w->books).reservations, 1); /* asked anew each time */
}

static void a12_15_init_needs_the_idle_card(void **state)
{
    struct world *w = *state;

    two_nodes(w);
    world_filter(w, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p','annotations':{"
                    "'hami.io/node-scheduler-policy':'binpack',"
                    "'hami.io/gpu-scheduler-policy':'binpack'}},'spec':{"
                    "'initContainers':[{'name':'i'," LIMITS(
                        1, 5000) "}],"
                                 "'containers':[{'name':'a'," LIMITS(
                                     1, 4000) "}]}},"
                                              "'NodeNames':['node1','node2']}");
    assert_string_equal(world_chosen(w), "node2");
    assert_string_equal(grant_of(w, "p"), "device20,NVIDIA,5000,10:;device20,NVIDIA,4000,10:;");
    assert_int_equal(world_use(w, "node2", "device20").mem_mib, 5000);
}

/* Losses of 321 score 1679, of 200 score 1800: the latter node wins, though its name comes later.
 */
static void a12_16_and_17_metax_losses(void **state)
{
    static const struct {
        const char *name, *losses;
    } node[] = {{"a", "{\"1\":123,\"2\":321}"}, {"b", "{\"1\":100,\"2\":200}"}};
    struct world *w = *state;

    for (size_t i = 0; i < 2; i++) {
        struct gs_pair loss = {GS_STR("metax-tech.com/gpu.topology.losses"),
                               gs_str_of(node[i].losses)},
                       gpu = {GS_STR("metax-tech.com/gpu"), GS_STR("4")};
        struct gs_pairs annotations = {&loss, 1, 1}, none = {0}, capacity = {&gpu, 1, 1};

        assert_int_equal(
            gs_books_node_set(w->books,
                              &(struct gs_node_view){gs_str_of(node[i].name), &annotations, &none,
                                                     &capacity, &capacity},
                              NULL),
            0);
    }
    world_filter(w, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                    "'containers':[{'name':'c','resources':{'limits':{'metax-tech.com/gpu':2}}}]}"
                    "},'NodeNames':['a','b']}");
    assert_string_equal(world_chosen(w), "b");
}

#define SIM_NODE                                                                                   \
    "{'metadata':{'name':'sim','annotations':{'hami.io/node-nvidia-register':"                     \
    "'[{\\\"id\\\":\\\"g\\\",\\\"count\\\":10,\\\"devmem\\\":8192,\\\"devcore\\\":100,"            \
    "\\\"type\\\":\\\"NVIDIA\\\",\\\"health\\\":true}]'}}}"

/* Bodies with text inside text: quotes are written out. */
static yyjson_val *simulate(struct world *w, const char *mem, const char *nodes)
{
    static char text[8192];
    char *to = text;
    const char *from;
    int n = snprintf(text, sizeof(text),
                     "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                     "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':1,"
                     "'nvidia.com/gpumem':%s}}}]}},'Nodes':{'items':[%s]}}",
                     mem, nodes);

    for (from = text; *from != '\0'; from++, to++)
        *to = *from == '\'' ? '"' : *from;
    return world_filter_text(w, (struct gs_str){text, (size_t)n});
}

static void a12_20_simulation(void **state)
{
    struct world *w = *state;
    yyjson_val *root, *items;

    assert_int_equal(world_cards(w, "real", "uuid", 1, 8000), 0);
    root = simulate(w, "1024", SIM_NODE);
    items = yyjson_obj_get(yyjson_obj_get(root, "Nodes"), "items");
    assert_int_equal(yyjson_arr_size(items), 1);
    assert_string_equal(
        yyjson_get_str(yyjson_ptr_get(yyjson_arr_get_first(items), "/metadata/name")), "sim");
    assert_true(yyjson_is_null(yyjson_obj_get(root, "NodeNames")));
    assert_true(w->note.is_simulation);
    /* nothing was promised, and the node is not in the books */
    assert_int_equal(gs_books_counts(w->books).pods, 0);
    assert_int_equal(gs_books_counts(w->books).nodes, 1);
}

static void a12_21_simulation_without_room(void **state)
{
    struct world *w = *state;

    simulate(w, "16384", SIM_NODE);
    assert_non_null(strstr(world_failed(w, "sim"), "CardInsufficientMemory"));
    /* a node that registered nothing */
    simulate(w, "1024", "{'metadata':{'name':'cpu'}}");
    assert_string_equal(world_failed(w, "cpu"), "node unregistered");
    assert_string_equal(world_error(w), "");
}

static void a12_23_missing_pod(void **state)
{
    struct world *w = *state;

    world_filter(w, "{'NodeNames':['node1']}");
    assert_string_equal(world_error(w), "extender args missing pod");
    world_filter(w, "{'Pod':null,'NodeNames':['node1']}");
    assert_string_equal(world_error(w), "extender args missing pod");
}

/* Quirk 24: neither of both is an error that is told, not a crash. */
static void names_nodes_both_or_neither(void **state)
{
    struct world *w = *state;
    const char *ask = world_ask(w, "p", 1000, 10);

    assert_int_equal(world_cards(w, "n", "uuid", 1, 8000), 0);
    world_filter(w, "{'Pod':%s}", ask);
    assert_string_not_equal(world_error(w), "");
    world_filter(w, "{'Pod':%s,'Nodes':null,'NodeNames':null}", ask);
    assert_string_not_equal(world_error(w), "");
    world_filter(w, "{'Pod':%s,'Nodes':null,'NodeNames':['n']}", ask);
    assert_string_equal(world_chosen(w), "n");
    world_filter(w, "{'pod':%s,'nodenames':['n']}", ask); /* any case */
    assert_string_equal(world_chosen(w), "n");
    world_filter(w, "{'Pod':%s,'Nodes':{'items':null},'NodeNames':['n']}", ask);
    assert_string_equal(world_chosen(w), "n");
    /* objects come with the call: it is a simulation, whatever names come too */
    world_filter(w, "{'Pod':%s,'Nodes':{'items':[{'metadata':{'name':'n'}}]},'NodeNames':['n']}",
                 ask);
    assert_true(w->note.is_simulation);
    assert_string_equal(world_failed(w, "n"), "node unregistered");
    world_filter(w, "{'Pod':%s,'NodeNames':[]}", ask);
    assert_string_equal(world_error(w), "");
    assert_true(yyjson_is_null(yyjson_obj_get(yyjson_doc_get_root(w->answer), "NodeNames")));
}

/* As Go's decoder has it: null for an object is one without members, null for a list an empty one
 * or none (a NodeList without items goes out so), and letters of names in any case. */
static void null_and_empty_forms(void **state)
{
    static const char *const none[] = {
        "'Nodes':{}",
        "'Nodes':{'items':null},'NodeNames':null",
        "'Nodes':{'metadata':{},'items':[]},'NodeNames':null",
        "'NODES':{'ITEMS':[]}",
        "'Nodes':null,'NodeNames':[]",
        "'NODES':null,'NODENAMES':[null]",
    };
    static const char *const named[] = {
        "'Nodes':{},'NodeNames':['n']",
        "'Nodes':{'items':null},'NodeNames':[null,'n']",
        "'nodes':null,'nodeNames':['n']",
    };
    static const char *const silent[] = {
        "'spec':null,'status':null",
        "'spec':{'containers':null,'initContainers':null}",
        "'spec':{'containers':[null],'initContainers':[]}",
        "'spec':{'containers':[{'resources':null,'env':null}]}",
    };
    struct world *w = *state;
    const char *ask = world_ask(w, "p", 1000, 10);
    yyjson_val *root;

    assert_int_equal(world_cards(w, "n", "uuid", 1, 8000), 0);
    world_filter_text(w, GS_STR("null"));
    assert_string_equal(world_error(w), "extender args missing pod");
    for (size_t i = 0; i < GS_ARRAY_LEN(none); i++) {
        root = world_filter(w, "{'POD':%s,%s}", ask, none[i]);
        assert_string_equal(world_error(w), "");
        assert_int_equal(w->note.outcome, GS_FILTER_NO_ROOM);
        assert_int_equal(w->note.is_simulation, i < 4);
        assert_true(yyjson_is_null(yyjson_obj_get(root, "Nodes")));
        assert_true(yyjson_is_null(yyjson_obj_get(root, "NodeNames")));
        assert_true(yyjson_is_null(yyjson_obj_get(root, "FailedNodes")));
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(named); i++) {
        world_filter(w, "{'pod':%s,%s}", ask, named[i]);
        assert_string_equal(world_chosen(w), "n");
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(silent); i++) {
        root = world_filter(
            w, "{'Pod':{'metadata':{'name':'p','labels':null},%s},'NodeNames':null}", silent[i]);
        assert_string_equal(world_error(w), "");
        assert_int_equal(w->note.outcome, GS_FILTER_NOTHING_ASKED);
        assert_true(yyjson_is_null(yyjson_obj_get(root, "NodeNames")));
    }
}

static void pod_that_asks_for_nothing_passes(void **state)
{
    struct world *w = *state;
    yyjson_val *names;

    world_filter(w, "{'Pod':{'metadata':{'name':'p','uid':'p'},'spec':{'containers':[{'name':'c'}"
                    "]}},'NodeNames':['a','b','c']}");
    names = yyjson_obj_get(yyjson_doc_get_root(w->answer), "NodeNames");
    assert_int_equal(yyjson_arr_size(names), 3);
    assert_string_equal(yyjson_get_str(yyjson_arr_get_last(names)), "c");
    assert_int_equal(w->note.outcome, GS_FILTER_NOTHING_ASKED);
    assert_int_equal(gs_books_counts(w->books).pods, 0);
}

static void a12_24_reasons_of_eight_cards(void **state)
{
    struct world *w = *state;
    struct gs_buf text = {0};
    char uid[16], grant[64];

    gs_buf_adds(&text, "[");
    for (int i = 0; i < 8; i++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"g%d\",\"count\":10,\"devmem\":8000,\"devcore\":100,"
                    "\"type\":\"NVIDIA\",\"health\":%s}",
                    i > 0 ? "," : "", i, i < 3 ? "false" : "true");
    gs_buf_adds(&text, "]");
    assert_int_equal(world_node(w, "n", gs_buf_text(&text)), 0);
    gs_buf_fini(&text);
    for (int i = 3; i < 8; i++) { /* three short of memory, two short of cores */
        (void)snprintf(uid, sizeof(uid), "u%d", i);
        (void)snprintf(grant, sizeof(grant), "g%d,NVIDIA,%d,%d:;", i, i < 6 ? 7900 : 100,
                       i < 6 ? 10 : 95);
        assert_int_equal(world_pod(w, uid, "n", grant), 0);
    }
    world_filter(w, "{'Pod':%s,'NodeNames':['n','x']}", world_ask(w, "p", 1000, 10));
    assert_true(yyjson_is_null(yyjson_obj_get(yyjson_doc_get_root(w->answer), "NodeNames")));
    assert_ptr_equal(strstr(world_failed(w, "n"), "2/8 CardInsufficientCore, "
                                                  "3/8 CardInsufficientMemory, 3/8 CardNotHealth"),
                     world_failed(w, "n"));
    assert_string_equal(world_failed(w, "x"), "node unregistered");
    assert_int_equal(w->note.outcome, GS_FILTER_NO_ROOM);
    assert_int_equal(w->note.n_unregistered, 1);
}

/* The same words as in the log and in gpuslice explain. */
static void unreadable_annotations_are_told(void **state)
{
    static const char why[] = "annotation hami.io/node-nvidia-register: device 1: "
                              "invalid count field: \"x\"";
    static const char words[] = "; of 2 nodes something cannot be read: bad: ";
    struct world *w = *state;
    const char *at;

    assert_int_equal(world_node(w, "bad", "a,1,1,1,T,0,true:b,x,1,1,T,0,true:"), -EINVAL);
    assert_string_equal(w->err.text, why);
    assert_int_equal(world_cards(w, "old", "g", 1, 1000), 0);
    assert_int_equal(world_node(w, "old", "["), -EINVAL); /* what was known holds */
    world_filter(w, "{'Pod':%s,'NodeNames':['bad','old','x']}", world_ask(w, "p", 2000, 10));
    assert_string_equal(world_failed(w, "x"), "node unregistered");
    at = world_failed(w, "bad");
    assert_ptr_equal(strstr(at, "node unregistered ("), at);
    assert_non_null(strstr(at, why));
    assert_non_null(strstr(world_failed(w, "old"), "CardInsufficientMemory"));
    at = strstr(w->note.text.p, words);
    assert_non_null(at);
    assert_non_null(strstr(at, why));
    assert_int_equal(w->note.n_unregistered, 2);
}

static void rival_is_told(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "a", "x", 1, 8000), 0);
    assert_int_equal(world_cards(w, "b", "x", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['a','b']}", world_ask(w, "p", 2000, 10));
    assert_string_equal(world_failed(w, "a"), "1/1 CardClaimedTwice");
    assert_non_null(strstr(w->note.text.p, "2 nodes: card x0 is registered by a and by b"));
    assert_int_equal(world_node(w, "b",
                                "[{\"id\":\"y\",\"count\":10,\"devmem\":8000,\"devcore\":100,"
                                "\"health\":true},{\"id\":\"y\",\"count\":10,\"devmem\":8000,"
                                "\"devcore\":100,\"health\":true}]"),
                     0);
    world_filter(w, "{'Pod':%s,'NodeNames':['b']}", world_ask(w, "p", 2000, 10));
    assert_non_null(strstr(w->note.text.p, "1 node: card y is registered twice by b"));
}

/* What a node lacked is remembered, and forgotten with any change of its use. */
static void reasons_are_of_this_moment(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    assert_int_equal(world_cards(w, "m", "h", 1, 1000), 0);
    assert_int_equal(world_pod(w, "u", "n", "g0,NVIDIA,7000,10:;"), 0);
    for (int i = 0; i < 2; i++) {
        world_filter(w, "{'Pod':%s,'NodeNames':['n','m']}", world_ask(w, "p", 2000, 10));
        assert_non_null(strstr(world_failed(w, "n"), "needs 2000 MiB, at most 1000 free"));
        assert_non_null(strstr(world_failed(w, "m"), "needs 2000 MiB, at most 1000 free"));
    }
    assert_int_equal(world_pod(w, "u", "n", "g0,NVIDIA,6500,10:;"), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n','m']}", world_ask(w, "q", 2000, 10));
    assert_non_null(strstr(world_failed(w, "n"), "needs 2000 MiB, at most 1500 free"));
    assert_non_null(strstr(world_failed(w, "m"), "needs 2000 MiB, at most 1000 free"));
    world_filter(w, "{'Pod':%s,'NodeNames':['n','m']}", world_ask(w, "q", 3000, 10));
    assert_non_null(strstr(world_failed(w, "n"), "needs 3000 MiB, at most 1500 free"));
    gs_books_pod_gone(w->books, GS_STR("u"));
    world_filter(w, "{'Pod':%s,'NodeNames':['n','m']}", world_ask(w, "q", 9000, 10));
    assert_non_null(strstr(world_failed(w, "n"), "needs 9000 MiB, at most 8000 free"));
}

/* ---- reservations ---- */

/* More may be promised than a card has (a card that shrank, a grant of another's): nothing is free,
 * and not less. */
static void more_is_promised_than_there_is(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    assert_int_equal(world_pod(w, "p", "n", "g0,NVIDIA,9000,150:;"), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "q", 1000, 10));
    assert_string_equal(world_failed(w, "n"), "1/1 CardInsufficientMemory (needs 1000 MiB, at most "
                                              "0 free on a card)");
    assert_non_null(memmem(w->note.text.p, w->note.text.n, "card g0 on n has 0 free", 23));
    assert_int_equal(world_pod(w, "p", "n", "g0,NVIDIA,1000,150:;"), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['n']}", world_ask(w, "q", 1000, 10));
    assert_string_equal(world_failed(w, "n"), "1/1 CardInsufficientCore (needs 10 cores, at most 0 "
                                              "free on a card)");
}

static void asked_again_the_first_decision_is_void(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "a", "a", 1, 8000), 0);
    assert_int_equal(world_cards(w, "b", "b", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['a']}", world_ask(w, "p", 8000, 10));
    assert_int_equal(world_use(w, "a", "a0").mem_mib, 8000);
    world_filter(w, "{'Pod':%s,'NodeNames':['b']}", world_ask(w, "p", 8000, 10));
    assert_int_equal(world_use(w, "a", "a0").mem_mib, 0);
    assert_int_equal(world_use(w, "b", "b0").mem_mib, 8000);
    /* no node is left: the old decision goes all the same */
    world_filter(w, "{'Pod':%s,'NodeNames':['x']}", world_ask(w, "p", 8000, 10));
    assert_int_equal(world_use(w, "b", "b0").mem_mib, 0);
}

static void room_comes_back_with_the_end_of_the_lease(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "a", "a", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['a']}", world_ask(w, "p", 8000, 10));
    world_filter(w, "{'Pod':%s,'NodeNames':['a']}", world_ask(w, "q", 8000, 10));
    assert_string_equal(world_chosen(w), "");
    w->now_ms += 999;
    assert_int_equal(gs_books_expire(w->books, w->now_ms, w->now_ms), 0);
    w->now_ms += 1;
    assert_int_equal(gs_books_expire(w->books, w->now_ms, w->now_ms), 1);
    world_filter(w, "{'Pod':%s,'NodeNames':['a']}", world_ask(w, "q", 8000, 10));
    assert_string_equal(world_chosen(w), "a");
    /* p is asked for again after its lease: as if it were new */
    world_filter(w, "{'Pod':%s,'NodeNames':['a']}", world_ask(w, "p", 8000, 10));
    assert_string_equal(world_chosen(w), "");
}

/* kube-scheduler lost the answer to a bind: the same card, and no other. */
static void asked_again_after_its_binding_was_sent(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "a", "a", 1, 8000), 0);
    assert_int_equal(world_cards(w, "b", "b", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['a','b']}", world_ask(w, "p", 8000, 10));
    assert_string_equal(world_chosen(w), "a");
    gs_books_pin(w->books, GS_STR("p"), true);
    world_filter(w, "{'Pod':%s,'NodeNames':['a','b']}", world_ask(w, "p", 8000, 10));
    assert_string_not_equal(world_error(w), ""); /* it is being written */
    gs_books_pin(w->books, GS_STR("p"), false);
    gs_books_prolong(w->books, GS_STR("p"), 5000);
    world_filter(w, "{'Pod':%s,'NodeNames':['a','b']}", world_ask(w, "p", 8000, 10));
    assert_string_equal(world_chosen(w), "a");
    world_filter(w, "{'Pod':%s,'NodeNames':['b']}", world_ask(w, "p", 8000, 10));
    assert_string_not_equal(world_error(w), "");
    assert_int_equal(world_use(w, "a", "a0").mem_mib, 8000);
    assert_int_equal(world_use(w, "b", "b0").mem_mib, 0);
    /* the watch shows it bound */
    assert_int_equal(world_pod(w, "p", "a", "a0,NVIDIA,8000,10:;"), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['a','b']}", world_ask(w, "p", 8000, 10));
    assert_string_equal(world_error(w), "the pod is bound already");
    assert_int_equal(world_use(w, "a", "a0").mem_mib, 8000);
}

/* ret_score[i]: of the i-th node that is sent. */
static void prioritize(struct world *w, const char *pod, const char *names, int *ret_score)
{
    struct gs_filter_env env = {
        .books = w->books, .conf = &w->conf, .now = {1, 1}, .arena = &w->call};
    struct gs_str body = gs_arena_printf(&w->arena, "{'Pod':%s,'NodeNames':[%s]}", pod, names);
    yyjson_val *entry;
    yyjson_doc *doc;
    char *text;
    size_t n, i, max;

    for (i = 0; i < body.n; i++)
        if (body.p[i] == '\'')
            ((char *)(uintptr_t)body.p)[i] = '"';
    assert_int_equal(gs_filter_prioritize(&env, body, &text, &n, NULL), 0);
    doc = yyjson_read(text, n, 0);
    yyjson_arr_foreach(yyjson_doc_get_root(doc), i, max, entry) ret_score[i] =
        (int)yyjson_get_int(yyjson_obj_get(entry, "Score"));
    yyjson_doc_free(doc);
    free(text);
}

static void node_choice_of_the_scheduler(void **state)
{
    struct world *w = *state;
    char *text;
    size_t n;
    int score[2];

    w->conf.leaves_node_choice = true;
    two_nodes(w);
    assert_int_equal(world_cards(w, "full", "f", 1, 500), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['node1','full','node2']}", world_ask(w, "p", 1000, 10));
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(w->answer), "NodeNames")),
                     2);
    assert_int_equal(gs_books_counts(w->books).reservations, 0);
    prioritize(w, world_ask(w, "p", 1000, 10), "'node1','node2'", score);
    assert_int_equal(score[0], 0);
    assert_int_equal(score[1], 10);
    assert_int_equal(gs_filter_prioritize(
                         &(struct gs_filter_env){
                             .books = w->books, .conf = &w->conf, .now = {1, 1}, .arena = &w->call},
                         GS_STR("[]"), &text, &n, &w->err),
                     -EINVAL);
    assert_string_equal(w->err.text, "extender args: not an object");
}

/* kube-scheduler asks about the next pod before it has bound this one. */
static void what_is_on_its_way_counts(void **state)
{
    struct world *w = *state;
    struct gs_books_reservation r;
    int score[3];

    w->conf.leaves_node_choice = true;
    for (int i = 1; i <= 3; i++)
        assert_int_equal(world_cards(w, (char[]){'n', (char)('0' + i), 0},
                                     (char[]){(char)('a' + i), 0}, 1, 8000),
                         0);
    /* all alike: one of them comes first, and the next pod is sent there as well */
    for (int pod = 0; pod < 2; pod++) {
        prioritize(w, world_ask(w, pod == 0 ? "p" : "q", 3000, 10), "'n1','n2','n3'", score);
        assert_int_equal(score[0], 10);
        assert_int_equal(score[1], 0);
        assert_true(gs_books_reserved(w->books, gs_str_of(pod == 0 ? "p" : "q"), &r));
        assert_true(gs_str_eq_c(r.node, "n1"));
    }
    /* it is full then, for the filter, too */
    world_filter(w, "{'Pod':%s,'NodeNames':['n1','n2','n3']}", world_ask(w, "r", 3000, 10));
    assert_int_equal(yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(w->answer), "NodeNames")),
                     2);
    prioritize(w, world_ask(w, "r", 3000, 10), "'n3','n2'", score);
    assert_int_equal(score[1], 10);
    /* a single one is taken without being asked about scores */
    world_filter(w, "{'Pod':%s,'NodeNames':['n3']}", world_ask(w, "s", 3000, 10));
    assert_true(gs_books_reserved(w->books, GS_STR("s"), &r));
    /* asked again it is free to go elsewhere; its bind may be long in coming, or never come */
    prioritize(w, world_ask(w, "p", 3000, 10), "'n2','n3'", score);
    assert_int_equal(world_use(w, "n1", "b0").mem_mib, 3000);
    assert_int_equal(gs_books_expire(w->books, 2001, 2001), 4);
    /* where the filter chooses nothing is guessed */
    w->conf.leaves_node_choice = false;
    prioritize(w, world_ask(w, "t", 3000, 10), "'n1','n2','n3'", score);
    assert_int_equal(gs_books_counts(w->books).reservations, 0);
}

/* ---- hostile ---- */

static void numbers(void **state)
{
    static const struct {
        const char *value;
        bool fits; /* as a memory of MiB on a card of 8000 */
    } row[] = {{"'1000'", true}, {"1000", true}, {"'1k'", true}, {"'1e3'", true}, {"1e3", true}};
    static const char *const strange[] = {"9223372036854775808",
                                          "'9223372036854775808'",
                                          "-1",
                                          "'-1'",
                                          "1.5",
                                          "'1.5'",
                                          "'100m'",
                                          "'x'",
                                          "''",
                                          "true",
                                          "[]",
                                          "{}",
                                          "1e999",
                                          "'1e99999999999'"};
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        world_filter(w,
                     "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                     "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':1,"
                     "'nvidia.com/gpumem':%s}}}]}},'NodeNames':['n']}",
                     row[i].value);
        assert_string_equal(world_error(w), "");
        assert_string_equal(world_chosen(w), "n");
        assert_int_equal(w->note.outcome, GS_FILTER_FOUND);
        assert_int_equal(world_use(w, "n", "g0").mem_mib, 1000);
    }
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
            world_filter(w,
                         "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                         "'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':%s,"
                         "'nvidia.com/gpumem':%s}}}]}},'NodeNames':['n']}",
                         k == 0 ? strange[i] : "1", k == 1 ? strange[i] : "1000");
            assert_non_null(w->answer);
            /* whatever is made of it: never more than there is, nor less than nothing, and nobody
             * passes without a card */
            assert_in_range(world_use(w, "n", "g0").mem_mib, 0, 8000);
            assert_in_range(world_use(w, "n", "g0").slots, 0, 1);
            if (w->note.outcome != GS_FILTER_FOUND) {
                assert_int_equal(w->note.outcome, GS_FILTER_ERROR);
                assert_true(w->note.text.n > 0);
            }
        }
}

static void bodies_that_are_none(void **state)
{
    static const char *const body[] = {
        "",
        "x",
        "null",
        "[]",
        "{}",
        "\"\"",
        "{\"Pod\":[]}",
        "{\"Pod\":{},\"NodeNames\":{}}",
        "{\"Pod\":{},\"Nodes\":[]}",
        "{\"Pod\":{},\"Nodes\":{\"items\":{}}}",
        "{\"Pod\":{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":{}}},\"NodeNames\":[]}",
        "{\"Pod\":{\"metadata\":{\"name\":\"p\"}},\"NodeNames\":[\"a\"]",
        "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"annotations\":{\"a\":1}}},\"NodeNames\":[]}",
    };
    struct world *w = *state;

    for (size_t i = 0; i < sizeof(body) / sizeof(body[0]); i++) {
        world_filter_text(w, gs_str_of(body[i]));
        assert_non_null(w->answer);
        assert_string_not_equal(world_error(w), "");
        assert_int_equal(w->note.outcome, GS_FILTER_ERROR);
    }
}

static void hostile_nodes_and_names(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':[null,1,true,[],{},'','n','n','\\u0000']}",
                 world_ask(w, "p", 1000, 10));
    assert_string_equal(world_chosen(w), "n");
    assert_int_equal(world_use(w, "n", "g0").slots, 1);
    world_filter(w, "{'Pod':%s,'NodeNames':[null,1,[],'','\\u0000','n']}",
                 world_ask(w, "p", 9000, 10));
    assert_non_null(world_failed(w, "n"));
    world_filter(w,
                 "{'Pod':%s,'Nodes':{'items':[null,1,[],{},{'metadata':null},{'metadata':{'name':1}"
                 "},{'metadata':{'name':'m','annotations':{'hami.io/node-nvidia-register':'[{'}}},"
                 "{'metadata':{'name':'m','annotations':[]}}]}}",
                 world_ask(w, "p", 1000, 10));
    assert_string_equal(world_chosen(w), "");
    assert_non_null(w->answer);
}

/* Lists where names belong: how many entries a list has is no length of a text. */
static void lists_in_place_of_names(void **state)
{
    struct world *w = *state;
    struct gs_buf body = {0};

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    /* one that is longer than anything that may be read behind an empty text */
    gs_buf_addf(&body, "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"p\"},"
                       "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{"
                       "\"nvidia.com/gpu\":\"1\",\"nvidia.com/gpumem\":\"1000\"}}}]}},"
                       "\"NodeNames\":[[0");
    for (int i = 0; i < 3000000; i++)
        gs_buf_adds(&body, ",111111");
    gs_buf_adds(&body, "],\"n\"]}");
    world_filter_text(w, gs_buf_str(&body));
    gs_buf_fini(&body);
    assert_string_equal(world_error(w), "");
    assert_string_equal(world_chosen(w), "n");
    /* as long as the name of the node where its Binding was sent */
    gs_books_pin(w->books, GS_STR("p"), true);
    gs_books_pin(w->books, GS_STR("p"), false);
    world_filter(w, "{'Pod':%s,'NodeNames':[[1],{'n':1}]}", world_ask(w, "p", 1000, 10));
    assert_string_not_equal(world_error(w), "");
    world_filter(w, "{'Pod':%s,'NodeNames':[[1],'n']}", world_ask(w, "p", 1000, 10));
    assert_string_equal(world_chosen(w), "n");
    /* names of objects */
    world_filter(w, "{'Pod':%s,'Nodes':{'items':[{'metadata':{'name':['n']}}]}}",
                 world_ask(w, "q", 1000, 10));
    assert_string_equal(world_chosen(w), "");
    assert_non_null(w->answer);
}

static void a_million_names(void **state)
{
    struct world *w = *state;
    struct gs_buf body = {0};

    assert_int_equal(world_cards(w, "n999999", "g", 1, 8000), 0);
    gs_buf_adds(&body, "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"p\"},"
                       "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{"
                       "\"nvidia.com/gpu\":\"1\",\"nvidia.com/gpumem\":\"1000\"}}}]}},"
                       "\"NodeNames\":[\"n0\"");
    for (int i = 1; i < 1000000; i++)
        gs_buf_addf(&body, ",\"n%d\"", i);
    gs_buf_adds(&body, "]}");
    world_filter_text(w, (struct gs_str){body.p, body.n});
    assert_string_equal(world_chosen(w), "n999999");
    assert_int_equal(w->note.n_nodes, 1000000);
    gs_buf_fini(&body);
}

static void a_pod_of_a_thousand_containers(void **state)
{
    struct world *w = *state;
    struct gs_buf body = {0};
    struct gs_buf cards = {0};
    struct gs_use use;

    gs_buf_adds(&cards, "[{\"id\":\"g0\",\"count\":2000,\"devmem\":8000,\"devcore\":100,"
                        "\"type\":\"NVIDIA\",\"health\":true}]");
    assert_int_equal(world_node(w, "n", gs_buf_text(&cards)), 0);
    gs_buf_fini(&cards);
    gs_buf_adds(&body, "{\"Pod\":{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"p\"},"
                       "\"spec\":{\"containers\":[");
    for (int i = 0; i < 1000; i++)
        gs_buf_addf(&body,
                    "%s{\"name\":\"c%d\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\","
                    "\"nvidia.com/gpumem\":\"8\"}}}",
                    i > 0 ? "," : "", i);
    gs_buf_adds(&body, "]}},\"NodeNames\":[\"n\"]}");
    world_filter_text(w, (struct gs_str){body.p, body.n});
    gs_buf_fini(&body);
    assert_string_equal(world_error(w), "");
    assert_string_equal(world_chosen(w), "n");
    use = world_use(w, "n", "g0");
    assert_int_equal(use.slots, 1000);
    assert_int_equal(use.mem_mib, 8000);
}

static void cards_that_two_claim_are_told(void **state)
{
    static const char node[] =
        "{'metadata':{'name':'%s','annotations':{'hami.io/node-nvidia-register':'[{\\\"id\\\":"
        "\\\"t0\\\",\\\"count\\\":10,\\\"devmem\\\":8000,\\\"devcore\\\":100,\\\"type\\\":"
        "\\\"T\\\",\\\"health\\\":true}]'}}}";
    struct world *w = *state;
    char a[512], b[512];

    assert_int_equal(world_cards(w, "a", "x", 2, 8000), 0);
    assert_int_equal(world_cards(w, "b", "x", 1, 8000), 0);
    world_filter(w, "{'Pod':%s,'NodeNames':['a','b']}", world_ask(w, "p", 1000, 10));
    assert_string_equal(world_chosen(w), "a");
    assert_string_equal(grant_of(w, "p"), "x1,NVIDIA,1000,10:;");
    world_filter(w, "{'Pod':%s,'NodeNames':['b']}", world_ask(w, "q", 1000, 10));
    assert_string_equal(world_failed(w, "b"), "1/1 CardClaimedTwice");
    assert_true(w->note.why == 1u << GS_REASON_CARD_CLAIMED_TWICE);
    assert_non_null(strstr(w->note.text.p, "1 node: card x0 is registered by b and by a"));
    /* an autoscaler thinks nodes up by copying one: these are not two that claim a card */
    (void)snprintf(a, sizeof(a), node, "t1");
    (void)snprintf(b, sizeof(b), node, "t2");
    world_filter(w, "{'Pod':%s,'Nodes':{'items':[%s,%s]}}", world_ask(w, "r", 1000, 10), a, b);
    assert_true(w->note.is_simulation);
    assert_int_equal(w->note.outcome, GS_FILTER_FOUND);
}

/* HAMi drops such a request and lets the pod go without a card: it would wait, or start without,
 * and nothing would say why. */
static void amounts_that_nothing_can_be_given_for_are_told(void **state)
{
    static const struct {
        const char *limits, *text;
    } row[] = {
        {"'nvidia.com/gpu':'1','nvidia.com/gpumem':'5000000000'",
         "invalid nvidia.com/gpumem value 5000000000 in container c: must be an integer below "
         "2^31"},
        {"'nvidia.com/gpu':'-1'", "invalid nvidia.com/gpu value -1 in container c"},
        {"'nvidia.com/gpu':'1','nvidia.com/gpucores':'100m'", "invalid nvidia.com/gpucores"},
        {"'nvidia.com/gpumem':'1000'", "it is a part of a card, and no card is asked for"},
        {"'vastaitech.com/va':'4294967297'", "invalid vastaitech.com/va value 4294967297"},
        {"'birentech.com/gpu':'2147483648'", "invalid birentech.com/gpu value 2147483648"},
        {"'amd.com/gpu':'1','amd.com/gpucores':'150'",
         "invalid amd.com/gpucores value 150 in container c: no card can be given for it"},
        {"'kunlunxin.com/vxpu':'1','kunlunxin.com/vxpu-memory':'1.5'",
         "invalid kunlunxin.com/vxpu-memory value 1.5"},
        /* one vendor's request is no excuse for another's */
        {"'nvidia.com/gpu':'1','hygon.com/dcunum':'4294967297'", "invalid hygon.com/dcunum"},
    };
    static const char *const fine[] = {"'nvidia.com/gpu':'0'",
                                       "'nvidia.com/gpu':null", /* Go has null for 0 */
                                       "'nvidia.com/gpu':'0','nvidia.com/gpumem':'1000'",
                                       "'cpu':'100m','memory':'64Gi','example.com/x':'1.5'",
                                       "'nvidia.com/gpumem':'0','nvidia.com/priority':'1'"};
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        world_filter(w,
                     "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                     "'containers':[{'name':'c','resources':{'limits':{%s}}}]}},"
                     "'NodeNames':['n']}",
                     row[i].limits);
        if (strstr(world_error(w), row[i].text) == NULL)
            fail_msg("%s: %s", row[i].limits, world_error(w));
        assert_int_equal(w->note.outcome, GS_FILTER_ERROR);
        assert_true(gs_str_eq_c(w->note.uid, "p")); /* so that its pod gets the event */
    }
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        world_filter(w,
                     "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p'},'spec':{"
                     "'containers':[{'name':'c','resources':{'limits':{%s}}}]}},"
                     "'NodeNames':['n']}",
                     fine[i]);
        assert_string_equal(world_error(w), "");
        assert_int_equal(w->note.outcome, GS_FILTER_NOTHING_ASKED);
    }
}

static void bad_weights_are_told(void **state)
{
    struct world *w = *state;

    assert_int_equal(world_cards(w, "n", "g", 1, 8000), 0);
    world_filter(
        w, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p','annotations':{"
           "'hami.io/device-scoring-weights':'slot=x'}},'spec':{'containers':[{'name':'c'," LIMITS(
               1, 1000) "}]}},'NodeNames':['n']}");
    assert_ptr_equal(strstr(world_error(w), "calcScore failed"), world_error(w));
}

/* Whatever allocation fails: an answer or none at all, nothing promised that is not said. */
static void no_memory(void **state)
{
    struct world *w = *state;
    struct gs_str asks = gs_str_of(world_ask(w, "p", 1000, 10));
    struct gs_buf pod = {0};
    const char *ask;

    /* beside others, so that what the books read before has left no room for them */
    gs_buf_add(&pod, asks.p, asks.n - strlen("]}}"));
    for (int i = 0; i < 200; i++)
        gs_buf_addf(&pod, ",{'name':'c%d'}", i);
    gs_buf_adds(&pod, "]}}");
    ask = gs_buf_text(&pod);
    two_nodes(w);
    for (unsigned n = 1;; n++) {
        (void)world_fail_at(n);
        world_filter(w, "{'Pod':%s,'NodeNames':['node1','node2','x']}", ask);
        if (!world_has_failed()) {
            (void)world_fail_at(0);
            assert_true(n > 5);
            break;
        }
        (void)world_fail_at(0);
        if (w->answer != NULL && world_error(w)[0] == '\0')
            assert_string_equal(world_chosen(w), "node2");
        assert_in_range(gs_books_counts(w->books).reservations, 0, 1);
        assert_in_range(world_use(w, "node2", "device21").mem_mib, 6000, 6000);
        (void)gs_books_release(w->books, GS_STR("p"));
        assert_int_equal(world_use(w, "node2", "device20").mem_mib, 0);
    }
    world_filter(w, "{'Pod':%s,'NodeNames':['node1','node2']}", ask);
    assert_string_equal(world_chosen(w), "node2");
    gs_buf_fini(&pod);
}

/* A pod with `n` bytes of annotations, and `more`, that asks for so many containers of one card
 * each. */
static void filter_full_with(struct world *w, size_t n, const char *more, int containers,
                             const char *asks)
{
    struct gs_buf body = {0};
    size_t at;

    gs_buf_addf(&body, "{'Pod':{'metadata':{'name':'p','namespace':'ns','uid':'p',"
                       "'annotations':{'k':'");
    at = body.n;
    for (size_t i = 1; i < n; i++)
        gs_buf_adds(&body, "v");
    assert_int_equal(body.n - at + 1, n);
    gs_buf_addf(&body, "'%s}},'spec':{'containers':[", more);
    for (int i = 0; i < containers; i++)
        gs_buf_addf(&body, "%s{'name':'c%d','resources':{'limits':{%s}}}", i > 0 ? "," : "", i,
                    asks);
    gs_buf_adds(&body, "]}},'NodeNames':['node1']}");
    for (size_t i = 0; i < body.n; i++)
        if (body.p[i] == '\'')
            body.p[i] = '"';
    world_filter_text(w, gs_buf_str(&body));
    gs_buf_fini(&body);
}

static void filter_full(struct world *w, size_t n, int containers, const char *asks)
{
    filter_full_with(w, n, "", containers, asks);
}

/* The API server takes 262,144 bytes of annotations (TotalAnnotationSizeLimitB), in a Binding any
 * number: then nobody can write to the pod any more. */
static void grant_has_to_fit_into_the_annotations(void **state)
{
    static const char asks[] = "'nvidia.com/gpu':'1','nvidia.com/gpumem':'100'";
    struct world *w = *state;

    assert_int_equal(world_cards(w, "node1", "uuid", 8, 80000), 0);
    filter_full(w, 262144 - 16384, 1, asks);
    assert_string_equal(world_chosen(w), "node1");
    filter_full(w, 262144 - 16384 + 1, 1, asks);
    assert_string_equal(world_error(w),
                        "calcScore failed: the pod's annotations have 245761 bytes: with a grant, "
                        "which takes 16384, they would be more than 262144, the most that can be");
    assert_int_equal(w->note.outcome, GS_FILTER_ERROR);
    filter_full(w, 262117, 1, asks);
    assert_non_null(strstr(world_error(w), "annotations have 262117 bytes"));
    filter_full(w, 262144, 1, "'cpu':'1'");
    assert_string_equal(world_error(w), "");
    assert_string_equal(world_chosen(w), "node1");
}

/* A pod that the webhook let pass is not refused for what we have written to it since. */
static void marks_of_ours_take_no_room(void **state)
{
    static const char asks[] = "'nvidia.com/gpu':'1','nvidia.com/gpumem':'100'";
    static const char marks[] = ",'gpuslice.io/fence':'8f1c04d27a7e49b1a6d2f43b5f0f2c11.42',"
                                "'gpuslice.io/room-seen':'1796047200123'";
    struct world *w = *state;
    char large[512];

    assert_int_equal(world_cards(w, "node1", "uuid", 8, 80000), 0);
    filter_full_with(w, 262144 - 16384, marks, 1, asks);
    assert_string_equal(world_error(w), "");
    assert_string_equal(world_chosen(w), "node1");
    /* no mark of ours */
    (void)snprintf(large, sizeof(large), ",'gpuslice.io/fence':'%0300d'", 0);
    filter_full_with(w, 262144 - 16384, large, 1, asks);
    assert_non_null(strstr(world_error(w), "the pod's annotations have 246077 bytes"));
}

/* Beyond what is kept for each pod: by the bytes of the grant itself. */
static void large_grant_has_to_fit_too(void **state)
{
    static const char asks[] = "'nvidia.com/gpu':'1','nvidia.com/gpumem':'1'";
    struct gs_books_reservation r;
    struct world *w = *state;
    size_t n = 0, room;

    assert_int_equal(world_cards(w, "node1", "GPU-00000000-0000-0000-0000-00000000000", 64, 80000),
                     0);
    filter_full(w, 2, 200, asks);
    assert_string_equal(world_chosen(w), "node1");
    assert_true(gs_books_reserved(w->books, GS_STR("p"), &r));
    for (size_t i = 0; i < r.annotations.n; i++)
        n += r.annotations.at[i].key.n + r.annotations.at[i].value.n;
    assert_true(n > 200 * 50); /* "GPU-<36>,NVIDIA,1,0:;" and longer */
    room = 262144 - 4096 - 2 * n;
    assert_true(room < 262144 - 16384);
    filter_full(w, room, 200, asks);
    assert_string_equal(world_error(w), "");
    assert_string_equal(world_chosen(w), "node1");
    filter_full(w, room + 1, 200, asks);
    assert_non_null(strstr(world_error(w), "the pod's annotations have"));
    assert_false(gs_books_reserved(w->books, GS_STR("p"), &r));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a12_1_and_5_half_a_card),
        T(a12_3_and_4_spread_takes_the_last),
        T(a12_7_containers_add_up),
        T(a12_8_init_without_cards),
        T(a12_9_init_on_more_cards),
        T(a12_11_to_13_policies),
        T(a12_15_init_needs_the_idle_card),
        T(a12_16_and_17_metax_losses),
        T(a12_20_simulation),
        T(a12_21_simulation_without_room),
        T(a12_23_missing_pod),
        T(a12_24_reasons_of_eight_cards),
        T(reasons_are_of_this_moment),
        T(unreadable_annotations_are_told),
        T(rival_is_told),
        T(names_nodes_both_or_neither),
        T(null_and_empty_forms),
        T(pod_that_asks_for_nothing_passes),
        T(asked_again_the_first_decision_is_void),
        T(room_comes_back_with_the_end_of_the_lease),
        T(asked_again_after_its_binding_was_sent),
        T(node_choice_of_the_scheduler),
        T(what_is_on_its_way_counts),
        T(numbers),
        T(bodies_that_are_none),
        T(hostile_nodes_and_names),
        T(lists_in_place_of_names),
        T(a_million_names),
        T(a_pod_of_a_thousand_containers),
        T(more_is_promised_than_there_is),
        T(cards_that_two_claim_are_told),
        T(amounts_that_nothing_can_be_given_for_are_told),
        T(bad_weights_are_told),
        T(grant_has_to_fit_into_the_annotations),
        T(marks_of_ours_take_no_room),
        T(large_grant_has_to_fit_too),
        T(no_memory),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
