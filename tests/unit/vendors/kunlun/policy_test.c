#include "kit.h"

#include <errno.h>
#include <stdlib.h>

#include "model/request.h"
#include "vendors/kunlun/policy/kunlun.h"
#include "vendors/kunlun/policy/wings.h"
#include "whole.h"
#include "yaml.h"

#define ALL 0xffu

static uint32_t bits(const char *cards)
{
    uint32_t mask = 0;

    for (; *cards != '\0'; cards++)
        mask |= 1u << (*cards - '0');
    return mask;
}

static void want_choice(const char *open, int32_t n, const char *chosen)
{
    uint32_t got = 0;

    if (chosen == NULL) {
        assert_int_equal(gs_wings_choose(bits(open), n, &got), -ENOSPC);
        return;
    }
    assert_int_equal(gs_wings_choose(bits(open), n, &got), 0);
    assert_int_equal(got, bits(chosen));
}

/* control-plane 3.5, "kunlun / XPU" */
static void test_wings(void **state)
{
    (void)state;
    want_choice("01234567", 8, "01234567"); /* A19.10 */
    want_choice("1234567", 8, NULL);        /* A19.10 */
    want_choice("012345", 1, "4");          /* A19.12: 6 and 7 are used */
    want_choice("37", 2, "37");             /* A19.13 */
    want_choice("01456", 4, "0145");        /* A19.14 */
    want_choice("01234567", 1, "0");        /* A19.16 */
    want_choice("0123", 4, "0123");         /* A19.16 */
    /* the rest follows from the rules: one card leaves an odd wing first */
    want_choice("0124", 1, "4");
    want_choice("01245", 1, "0");
    want_choice("36", 2, NULL);
    want_choice("0124567", 2, "01");
    want_choice("34567", 4, "4567");
    want_choice("0124", 4, NULL);
    /* six open: 0145 leaves 2 and 6, connected */
    want_choice("012456", 4, "0145");
    /* 0145 leaves 2 and 7, not connected; 0246 is not open; 1256 neither; so 0145 after all */
    want_choice("012457", 4, "0145");
    want_choice("012347", 3, NULL);
    want_choice("01234567", 0, NULL);
    want_choice("01234567", -1, NULL);
    want_choice("", 1, NULL);
}

/* Whatever is open, a choice is open, of the right size, and connected as told. */
static void test_wings_always(void **state)
{
    static const int32_t amounts[] = {1, 2, 4, 8};

    (void)state;
    for (uint32_t open = 0; open <= ALL; open++)
        for (size_t i = 0; i < sizeof(amounts) / sizeof(amounts[0]); i++) {
            uint32_t got = 0;
            bool may = __builtin_popcount(open & 0x0f) >= amounts[i] ||
                       __builtin_popcount(open & 0xf0) >= amounts[i];
            int rc = gs_wings_choose(open, amounts[i], &got);

            if (may)
                assert_int_equal(rc, 0);
            if (rc == 0) {
                assert_int_equal(got & ~open, 0);
                assert_int_equal(__builtin_popcount(got), amounts[i]);
            }
            if (rc == 0 && amounts[i] == 2)
                assert_true((got & 0x0f) == 0 || (got & 0xf0) == 0 || (got & 0x0f) == got >> 4);
        }
}

/* A19.17 */
static void test_bubbles(void **state)
{
    (void)state;
    assert_int_equal(gs_wings_bubbles(bits("")), 1);
    assert_int_equal(gs_wings_bubbles(bits("0123")), 1);
    assert_int_equal(gs_wings_bubbles(bits("0")), 3);
    assert_int_equal(gs_wings_bubbles(bits("4")), 3);
    assert_int_equal(gs_wings_bubbles(bits("01")), 2);
}

/* A19.18 is about two sets of cards. HAMi's second set is the pod's cards alone, so that a pod
 * which breaks the second wing beside a broken first one scores like one that breaks none ("[0] to
 * [4]"). The policy compares used cards before with used cards after: test_score_and_annotations().
 */
static void test_scores(void **state)
{
    (void)state;
    assert_true(gs_wings_score(bits("0"), bits("01")) == 3000);
    assert_true(gs_wings_score(bits("0"), bits("4")) == 2000);
    assert_true(gs_wings_score(bits("01"), bits("0")) == 1000);
    assert_true(gs_wings_score(bits("0123"), bits("0")) == 0);
}

static void setup(struct kit *kit, const char *word)
{
    kit_init(kit, &gs_kunlun_section, NULL, word);
    kit_container(kit, "c0");
    kit_container(kit, "c1");
}

static void set_used(struct kit *kit, const char *cards)
{
    for (uint32_t i = 0; i < kit->group.n; i++)
        kit->use[i].slots = bits(cards) >> kit->node.dev[i].index & 1u ? 1 : 0;
    kit_unfit(kit);
}

static void want_fit(struct kit *kit, const char *n, const char *chosen)
{
    kit_limit(kit, 0, "kunlunxin.com/xpu", n);
    kit_ask(kit, 0);
    if (chosen == NULL) {
        assert_int_equal(kit_fit(kit, 0), -ENOSPC);
        assert_string_equal(kit_reasons(kit), "1/8 NumaNotFit");
        return;
    }
    assert_true(kit_fit(kit, 0) > 0);
    assert_string_equal(kit_chosen(kit, 0), chosen);
}

/* 1.3, A19.10 .. A19.16 through the policy */
static void test_cards(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "kunlun");
    kit_capacity(&kit, "kunlunxin.com/xpu", "8");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 8);
    assert_true(gs_str_eq_c(kit.node.dev[3].id, "node1-kunlun-3"));
    assert_int_equal(kit.node.dev[3].numa, 0);
    assert_int_equal(kit.node.dev[4].numa, 1);
    assert_int_equal(kit.node.dev[4].count, 100);
    assert_int_equal(kit.node.dev[4].mem_mib, 98304);
    assert_int_equal(kit.node.dev[4].cores, 100);
    assert_true(gs_str_eq_c(kit.node.dev[4].type, "kunlun"));

    kit_limit(&kit, 0, "kunlunxin.com/xpu", "2"); /* 3.5, row kunlun */
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit_ask(&kit, 0).nums, 2);
    assert_int_equal(kit.request[0].mem_mib, 0);
    assert_int_equal(kit.request[0].mem_pct, 100);
    assert_int_equal(kit.request[0].cores, 0);
    want_fit(&kit, "8", "0,1,2,3,4,5,6,7");
    assert_int_equal(kit.pick[0][7].mem_mib, 98304);
    assert_int_equal(kit.pick[0][7].cores, 100);
    set_used(&kit, "5");
    want_fit(&kit, "8", NULL);
    set_used(&kit, "67");
    want_fit(&kit, "1", "4");
    set_used(&kit, "012456");
    want_fit(&kit, "2", "3,7");
    set_used(&kit, "4567");
    want_fit(&kit, "4", "0,1,2,3");
    set_used(&kit, "");
    want_fit(&kit, "3", NULL);
    kit_fini(&kit);
}

/* quirk 22: wings are told by the index, not by the place in a list */
static void test_order(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "kunlun");
    kit_capacity(&kit, "kunlunxin.com/xpu", "8");
    assert_int_equal(kit_read_node(&kit), 0);
    for (uint32_t i = 0; i < 8; i++) {
        kit_device(&kit, i)->index = 7 - i;
        kit.order[i] = (i * 3) % 8;
    }
    set_used(&kit, "67");
    want_fit(&kit, "1", "4");
    assert_int_equal(kit.pick[0][0].dev, 3);
    set_used(&kit, "012456");
    want_fit(&kit, "2", "3,7");
    kit_fini(&kit);
}

static void test_score_and_annotations(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "kunlun");
    kit_capacity(&kit, "kunlunxin.com/xpu", "8");
    assert_int_equal(kit_read_node(&kit), 0);
    /* one card beside a used one fills up, beside a full wing it breaks the other */
    set_used(&kit, "0");
    want_fit(&kit, "1", "1");
    assert_true(kit_score(&kit, false) == 3000);
    set_used(&kit, "0123");
    want_fit(&kit, "1", "4");
    assert_true(kit_score(&kit, true) == 1000);
    set_used(&kit, "");
    want_fit(&kit, "1", "0");
    assert_true(kit_score(&kit, false) == 0);
    kit_limit(&kit, 1, "kunlunxin.com/xpu", "2");
    kit_ask(&kit, 1);
    assert_int_equal(kit_fit(&kit, 1), 2);
    p = kit_write(&kit, 1);
    /* 1.7: the last container's */
    assert_string_equal(kit_written(&kit, &p, "BAIDU_COM_DEVICE_IDX"), "1,2");
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/kunlun-allocated"));
    assert_int_equal(kit.policy->keys.to_allocate.n, 0);
    assert_int_equal(kit.policy->keys.lock.n, 0);
    kit_fini(&kit);
}

static void want_memory(const char *given, const char *want)
{
    struct kit kit;

    setup(&kit, "XPU");
    kit_limit(&kit, 0, "kunlunxin.com/vxpu", "1");
    kit_limit(&kit, 0, "kunlunxin.com/vxpu-memory", given);
    if (want == NULL) {
        assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    } else {
        assert_int_equal(kit_ask(&kit, 0).mem_mib, strtol(want, NULL, 10));
        assert_int_equal(kit_admit(&kit, 0), 1);
        assert_string_equal(kit_limit_of(&kit, 0, "kunlunxin.com/vxpu-memory"), want);
        assert_string_equal(kit_request_of(&kit, 0, "kunlunxin.com/vxpu-memory"), want);
    }
    kit_fini(&kit);
}

/* A13, "XPU memory rounding" */
static void test_xpu_memory(void **state)
{
    (void)state;
    want_memory("0", "24576");
    want_memory("24576", "24576");
    want_memory("24577", "49152");
    want_memory("49152", "49152");
    want_memory("49153", "98304");
    want_memory("200000", "98304");
    want_memory("-1", NULL);
    want_memory("many", NULL);
}

static void test_xpu_request(void **state)
{
    struct kit kit;
    struct gs_request r;

    (void)state;
    setup(&kit, "XPU");
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_limit(&kit, 0, "kunlunxin.com/vxpu", "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit.pod.n_edits, 0);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 1);
    assert_int_equal(r.mem_mib, 98304);
    assert_int_equal(r.mem_pct, 100);
    assert_int_equal(r.cores, 100);
    kit_request(&kit, 1, "kunlunxin.com/vxpu", "2");
    kit_request(&kit, 1, "kunlunxin.com/vxpu-memory", "24576");
    r = kit_ask(&kit, 1);
    assert_int_equal(r.nums, 2);
    assert_int_equal(r.mem_mib, 24576);
    assert_int_equal(r.mem_pct, 0);
    assert_int_equal(r.cores, 25);
    kit_fini(&kit);
}

static void read_xpus(struct kit *kit, int32_t mem_mib)
{
    gs_buf_clear(&kit->text);
    for (int i = 0; i < 8; i++)
        gs_buf_addf(&kit->text,
                    "%s{\"id\":\"xpu-%d\",\"index\":%d,\"count\":4,\"devmem\":%d,\"devcore\":100,"
                    "\"type\":\"XPU\",\"health\":true}",
                    i == 0 ? "[" : ",", i, i, mem_mib);
    gs_buf_adds(&kit->text, "]");
    kit_annotate_node(kit, "hami.io/node-register-xpu",
                      gs_arena_str(&kit->arena, gs_str_of(gs_buf_text(&kit->text))).p);
    assert_int_equal(kit_read_node(kit), 0);
    assert_int_equal(kit->group.n, 8);
}

static void test_xpu_fit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "XPU");
    read_xpus(&kit, 1024);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 2048};
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/8 NumaNotFit"); /* A19.20 */

    read_xpus(&kit, 98304);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 24576, .cores = 25};
    for (int i = 0; i < 8; i++)
        kit.use[i] = (struct gs_use){.slots = 1, .mem_mib = 49152, .cores = 50};
    kit.use[6] = (struct gs_use){.slots = 2, .mem_mib = 49152, .cores = 50};
    kit.use[7] = (struct gs_use){.slots = 4, .mem_mib = 98304, .cores = 100};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "6");
    assert_int_equal(kit.pick[0][0].mem_mib, 24576);
    assert_int_equal(kit.pick[0][0].cores, 25);
    kit_unfit(&kit);
    kit.device_policy.is_mutex = true;
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "8/8 ExclusiveDeviceAllocateConflict");
    kit_fini(&kit);
}

/* 3.5, table of selections: both pairs of keys must pass */
static void test_selection(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "XPU");
    read_xpus(&kit, 98304);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 24576, .cores = 25};
    kit_annotate_pod(&kit, "hami.io/use-xpu-uuid", "xpu-2,xpu-5");
    kit_annotate_pod(&kit, "baidu.com/nouse-gpuuuid", "xpu-2");
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "5");
    kit_unfit(&kit);
    kit_annotate_pod(&kit, "hami.io/no-use-xpu-uuid", "xpu-5");
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "8/8 CardUuidMismatch");
    kit_annotate_pod(&kit, "hami.io/no-use-xpu-uuid", "");
    kit_device(&kit, 5)->is_healthy = false;
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/8 CardNotHealth, 7/8 CardUuidMismatch");
    kit_want_cordoned(&kit, 0);
    assert_true(gs_str_eq_c(kit.policy->keys.lock, "hami.io/mutex.lock"));
    kit_fini(&kit);
}

static void test_bad_nodes(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "kunlun");
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_capacity(&kit, "kunlunxin.com/xpu", "1.5");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, "kunlunxin.com/xpu", "100000");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    /* four cards: there is only a left wing */
    kit_capacity(&kit, "kunlunxin.com/xpu", "4");
    assert_int_equal(kit_read_node(&kit), 0);
    kit.request[0] = (struct gs_request){.nums = 4};
    assert_int_equal(kit_fit(&kit, 0), 4);
    assert_string_equal(kit_chosen(&kit, 0), "0,1,2,3");
    kit_fini(&kit);

    setup(&kit, "XPU");
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_annotate_node(&kit, "hami.io/node-register-xpu", "not-json");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_annotate_node(&kit, "hami.io/node-register-xpu", "[]"); /* all taken back */
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 0);
    kit_fini(&kit);
}

/* Both words as a whole: grants of shares and of cards */
static void test_grant(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "XPU");
    read_xpus(&kit, 98304);
    kit_limit(&kit, 1, "kunlunxin.com/vxpu", "2");
    kit_limit(&kit, 1, "kunlunxin.com/vxpu-memory", "30000");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/xpu-devices-allocated"),
                        ";xpu-0,XPU,49152,50:xpu-1,XPU,49152,50:;");
    assert_string_equal(kit_written(&kit, &p, "hami.io/xpu-devices-to-allocate"),
                        ";xpu-0,XPU,49152,50:xpu-1,XPU,49152,50:;");
    kit_limit(&kit, 1, "kunlunxin.com/vxpu", "16");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "NodeInsufficientDevice");
    kit_fini(&kit);

    setup(&kit, "kunlun");
    kit_capacity(&kit, "kunlunxin.com/xpu", "8");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 0, "kunlunxin.com/xpu", "1");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/kunlun-allocated"),
                        "node1-kunlun-0,kunlun,98304,100:;;");
    assert_string_equal(kit_written(&kit, &p, "BAIDU_COM_DEVICE_IDX"), "0");
    kit_fini(&kit);
}

/* Pods of all sizes that come and go: a card holds equal shares and no more than its memory. */
static void test_equal_shares(void **state)
{
    static const int32_t sizes[] = {24576, 49152, 98304};
    unsigned seed = 20261130;
    struct kit kit;

    (void)state;
    print_message("seed %u\n", seed);
    setup(&kit, "XPU");
    read_xpus(&kit, 98304);
    for (int step = 0; step < 20000; step++) {
        struct gs_use *use = &kit.use[rand_r(&seed) % 8];

        if (use->slots > 0 && rand_r(&seed) % 3 > 0) {
            use->mem_mib -= use->mem_mib / use->slots;
            use->slots--;
        }
        kit.request[0] = (struct gs_request){.nums = 1 << rand_r(&seed) % 4,
                                             .mem_mib = sizes[rand_r(&seed) % 3]};
        kit_unfit(&kit);
        if (kit_fit(&kit, 0) < 0)
            continue;
        for (size_t i = 0; i < kit.n_picks[0]; i++) {
            use = &kit.use[kit.pick[0][i].dev];
            assert_true(use->slots == 0 || use->mem_mib / use->slots == kit.request[0].mem_mib);
            use->slots++;
            use->mem_mib += kit.request[0].mem_mib;
            assert_true(use->mem_mib <= 98304);
        }
    }
    kit_fini(&kit);
}

/* 4.1 */
static void test_section(void **state)
{
    static const char text[] = "resourceCountName: \"\"\nresourceVCountName: example.com/x\n";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_kunlun_section, text, "kunlun");
    assert_int_equal(kit.policies.n, 2);
    kit_container(&kit, "c0");
    kit_limit(&kit, 0, "kunlunxin.com/xpu", "1");
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_fini(&kit);
    yaml_kit(&kit, &gs_kunlun_section, text, "XPU");
    assert_true(gs_str_eq_c(kit.policy->names.count, "example.com/x"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, "kunlunxin.com/vxpu-memory"));
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "kunlun");
    kit_capacity(&kit, "kunlunxin.com/xpu", "8");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 0, "kunlunxin.com/xpu", "1");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_no_memory(&kit, &gs_kunlun_section);
    kit_want_cordoned(&kit, 0);
    kit_fini(&kit);
    setup(&kit, "XPU");
    read_xpus(&kit, 98304);
    kit_no_memory(&kit, &gs_kunlun_section);
    kit_limit(&kit, 0, "kunlunxin.com/vxpu", "1");
    kit_limit(&kit, 0, "kunlunxin.com/vxpu-memory", "30000");
    kit.arena.failed = true;
    assert_int_equal(kit_admit(&kit, 0), -ENOMEM);
    kit.arena.failed = false;
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wings),
        cmocka_unit_test(test_wings_always),
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_cards),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_score_and_annotations),
        cmocka_unit_test(test_xpu_memory),
        cmocka_unit_test(test_xpu_request),
        cmocka_unit_test(test_xpu_fit),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_bad_nodes),
        cmocka_unit_test(test_section),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_grant),
        cmocka_unit_test(test_equal_shares),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
