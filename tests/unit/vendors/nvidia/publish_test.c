/* Annotations as A1, A2 and A17 have them, and what our own scheduler reads of them. */
#include "vendors/nvidia/node/publish.h"

#include "kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "model/register.h"
#include "vendors/nvidia/policy/node.h"
#include "vendors/nvidia/policy/policy.h"

static struct gs_inventory inv;
static struct gs_nvidia_settings set;
static struct gs_buf text;
static unsigned told;
static char last[GS_ERR_TEXT];

static void hear(void *user, const char *what)
{
    (void)user;
    told++;
    (void)snprintf(last, sizeof(last), "%s", what);
}

static const struct gs_inventory_tell tell = {hear, NULL};
static struct gs_publish_from from = {.inv = &inv, .tell = &tell};

static int teardown(void **state)
{
    (void)state;
    gs_inventory_fini(&inv);
    gs_buf_fini(&text);
    return 0;
}

static int setup(void **state)
{
    (void)teardown(state);
    told = 0;
    from = (struct gs_publish_from){.inv = &inv, .tell = &tell};
    set = (struct gs_nvidia_settings){.resource = GS_STR("nvidia.com/gpu"),
                                      .mode = GS_STR("hami-core"),
                                      .split_count = 10,
                                      .mem_scaling = 1,
                                      .core_scaling = 1};
    return gs_inventory_reserve(&inv);
}

static struct gs_inventory_card *card(const char *uuid, const char *name, uint64_t mib)
{
    struct gs_inventory_card *c = gs_inventory_add(&inv);

    assert_non_null(c);
    c->index = (uint32_t)inv.n - 1;
    c->memory = mib << 20;
    (void)snprintf(c->uuid, sizeof(c->uuid), "%s", uuid);
    (void)snprintf(c->name, sizeof(c->name), "%s", name);
    return c;
}

static const char *json(void)
{
    gs_buf_clear(&text);
    assert_true(gs_nvidia_register(&from, &set, &text) >= 0);
    return gs_buf_text(&text);
}

static void registers_as_hami_encodes(void **state)
{
    (void)state;
    assert_string_equal(json(), "[]"); /* A2.3 */
    (void)card("g", "NVIDIA A100", 8192);
    /* A2.5 */
    assert_string_equal(json(),
                        "[{\"id\":\"g\",\"count\":10,\"devmem\":8192,\"devcore\":100,"
                        "\"type\":\"NVIDIA A100\",\"mode\":\"hami-core\",\"health\":true}]");
}

static void registers_as_older_hami_encodes(void **state)
{
    (void)state;
    /* A1.18 */
    (void)card("GPU-ebe7c3f7-303d-558d-435e-99a160631fe4", "Tesla P4", 7680);
    from.as_text = true;
    assert_string_equal(
        json(),
        "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4,10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:");
}

/* control-plane 5.2: scaled figures are cut, not rounded; the type has one prefix. */
static void figures_are_scaled_and_cut(void **state)
{
    (void)state;
    (void)card("a", "GeForce RTX 3090", 24576);
    card("b", "NVIDIA L4", 23034)->numa = 1;
    set.mem_scaling = 1.3;
    set.core_scaling = 1.239;
    set.split_count = 3;
    assert_string_equal(
        json(), "[{\"id\":\"a\",\"count\":3,\"devmem\":31948,\"devcore\":123,"
                "\"type\":\"NVIDIA-GeForce RTX 3090\",\"mode\":\"hami-core\",\"health\":true},"
                "{\"id\":\"b\",\"index\":1,\"count\":3,\"devmem\":29944,\"devcore\":123,"
                "\"type\":\"NVIDIA L4\",\"numa\":1,\"mode\":\"hami-core\",\"health\":true}]");
    set.mem_scaling = 1e6;
    assert_non_null(strstr(json(), "\"devmem\":2147483647"));
}

static void a_card_that_does_not_know_its_memory_needs_a_figure(void **state)
{
    (void)state;
    (void)card("a", "NVIDIA GB10", 0);
    (void)card("b", "NVIDIA L4", 1024);
    assert_null(strstr(json(), "\"a\""));
    assert_int_equal(told, 1);
    assert_non_null(strstr(last, "preConfiguredDeviceMemory"));
    set.preset_mem_mib = 131072;
    set.mem_scaling = 2;
    assert_non_null(strstr(json(), "\"id\":\"a\",\"count\":10,\"devmem\":262144"));
    assert_int_equal(told, 1);
}

static void sick_cards_say_so_and_dropped_ones_nothing(void **state)
{
    static const char *const drop[] = {"B"};
    static const uint32_t index[] = {3};
    struct gs_health health;
    const struct gs_note note = {
        .kind = GS_NOTE_ERROR, .card = 2, .part = -1, .harm = GS_HARM_RESET, .code = 119};

    (void)state;
    for (int i = 0; i < 5; i++)
        (void)card((const char *[]){"a", "b", "c", "d", "e"}[i], "NVIDIA L4", 1024);
    gs_health_init(&health, inv.n, 0);
    assert_true(gs_health_take(&health, &note, 0));
    from.health = &health;
    set.drop_uuid = drop;
    set.n_drop_uuids = 1;
    set.drop_index = index;
    set.n_drop_indexes = 1;
    from.as_text = true;
    assert_string_equal(json(), "a,10,1024,100,NVIDIA L4,0,true,0,hami-core:"
                                "c,10,1024,100,NVIDIA L4,0,false,2,hami-core:"
                                "e,10,1024,100,NVIDIA L4,0,true,4,hami-core:");
    gs_buf_clear(&text);
    gs_nvidia_scores(&from, &set, &text);
    assert_string_equal(gs_buf_text(&text), "[{\"uuid\":\"a\",\"score\":{\"c\":0,\"e\":0}},"
                                            "{\"uuid\":\"c\",\"score\":{\"a\":0,\"e\":0}},"
                                            "{\"uuid\":\"e\",\"score\":{\"a\":0,\"c\":0}}]");
}

static void both_ways(size_t a, size_t b, enum gs_near near, uint32_t lanes)
{
    *gs_inventory_link(&inv, a, b) = (struct gs_link){near, lanes};
    *gs_inventory_link(&inv, b, a) = (struct gs_link){near, lanes};
}

/* A17.8 */
static void scores_of_four_cards(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        (void)card((const char *[]){"gpu0", "gpu1", "gpu2", "gpu3"}[i], "NVIDIA L4", 1024);
    both_ways(0, 1, GS_NEAR_UNKNOWN, 1);
    both_ways(0, 2, GS_NEAR_UNKNOWN, 1);
    both_ways(0, 3, GS_NEAR_UNKNOWN, 2);
    both_ways(1, 2, GS_NEAR_UNKNOWN, 2);
    both_ways(1, 3, GS_NEAR_UNKNOWN, 1);
    both_ways(2, 3, GS_NEAR_UNKNOWN, 2);
    gs_nvidia_scores(&from, &set, &text);
    assert_string_equal(gs_buf_text(&text),
                        "[{\"uuid\":\"gpu0\",\"score\":{\"gpu1\":100,\"gpu2\":100,\"gpu3\":200}},"
                        "{\"uuid\":\"gpu1\",\"score\":{\"gpu0\":100,\"gpu2\":200,\"gpu3\":100}},"
                        "{\"uuid\":\"gpu2\",\"score\":{\"gpu0\":100,\"gpu1\":200,\"gpu3\":200}},"
                        "{\"uuid\":\"gpu3\",\"score\":{\"gpu0\":200,\"gpu1\":100,\"gpu2\":200}}]");
    assert_int_equal(told, 0);
}

/* A17.9 */
static void cards_that_disagree_have_no_score_and_are_told(void **state)
{
    (void)state;
    (void)card("gpu0", "NVIDIA L4", 1024);
    (void)card("gpu1", "NVIDIA L4", 1024);
    *gs_inventory_link(&inv, 0, 1) = (struct gs_link){GS_NEAR_SAME_CPU, 4};
    *gs_inventory_link(&inv, 1, 0) = (struct gs_link){GS_NEAR_SAME_CPU, 0};
    gs_nvidia_scores(&from, &set, &text);
    assert_string_equal(gs_buf_text(&text), "[{\"uuid\":\"gpu0\",\"score\":{\"gpu1\":0}},"
                                            "{\"uuid\":\"gpu1\",\"score\":{\"gpu0\":0}}]");
    assert_int_equal(told, 1);
    assert_non_null(strstr(last, "gpu0 and gpu1 disagree on the links between them (4 and 0)"));
}

/* What the node writes our scheduler reads: both forms, and the scores. */
static void our_scheduler_reads_it_back(void **state)
{
    struct kit kit;
    const struct gs_nvidia_facts *facts;
    struct gs_buf scores = {0};

    for (int as_text = 0; as_text < 2; as_text++) {
        (void)setup(state);
        kit_init(&kit, &gs_nvidia_section, NULL, "NVIDIA");
        (void)card("GPU-1", "Tesla \"P4\" <x>", 7680);
        card("GPU-2", "NVIDIA A100-SXM4-80GB", 81920)->numa = 1;
        both_ways(0, 1, GS_NEAR_SINGLE_SWITCH, 3);
        from.as_text = as_text;
        (void)json();
        gs_buf_clear(&scores);
        gs_nvidia_scores(&from, &set, &scores);
        kit_annotate_node(&kit, gs_nvidia_publish_vendor.register_key, gs_buf_text(&text));
        kit_annotate_node(&kit, gs_nvidia_publish_vendor.score_key, gs_buf_text(&scores));
        assert_int_equal(kit_read_node(&kit), 0);
        assert_int_equal(kit.group.n, 2);
        assert_true(gs_str_eq_c(kit.node.dev[0].type, "NVIDIA-Tesla \"P4\" <x>"));
        assert_int_equal(kit.node.dev[0].mem_mib, 7680);
        assert_int_equal(kit.node.dev[0].count, 10);
        assert_true(kit.node.dev[0].is_healthy);
        assert_true(gs_str_eq_c(kit.node.dev[1].id, "GPU-2"));
        assert_int_equal(kit.node.dev[1].index, 1);
        assert_int_equal(kit.node.dev[1].numa, 1);
        assert_int_equal(kit.node.dev[1].cores, 100);
        facts = kit.group.facts;
        assert_int_equal(facts->score[1], 350);
        assert_int_equal(facts->score[2], 350);
        kit_fini(&kit);
    }
    gs_buf_fini(&scores);
}

/* --- MIG strategies --- */

static void split(struct gs_inventory_card *c, const char *const *profile, size_t n)
{
    c->is_split = true;
    c->n_parts = n;
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(c->part[i].profile, sizeof(c->part[i].profile), "%s", profile[i]);
        (void)snprintf(c->part[i].uuid, sizeof(c->part[i].uuid), "MIG-%.60s-%zu", c->uuid, i);
    }
}

static struct gs_offer offer[GS_OFFERS];
static struct gs_err err;

static int offers(enum gs_nvidia_mig_strategy strategy)
{
    set.strategy = strategy;
    err = (struct gs_err){0};
    return gs_nvidia_offers(&from, &set, offer, &err);
}

static void none_offers_cards_as_they_are(void **state)
{
    (void)state;
    (void)card("a", "NVIDIA A100", 40960);
    split(card("b", "NVIDIA A100", 40960), (const char *const[]){"1g.5gb"}, 1);
    assert_int_equal(offers(GS_NVIDIA_MIG_NONE), 2);
    assert_string_equal(offer[1].resource, "nvidia.com/gpu");
    assert_int_equal(offer[1].part, -1);
    assert_int_equal(offer[1].n_shares, 10);
    assert_non_null(strstr(json(), "\"id\":\"b\""));
}

static void mixed_offers_each_profile_under_its_name(void **state)
{
    static const char *const want[] = {"nvidia.com/gpu", "nvidia.com/mig-1g.5gb",
                                       "nvidia.com/mig-1g.5gb.me", "nvidia.com/mig-3g.20gb"};

    (void)state;
    (void)card("a", "NVIDIA A100", 40960);
    split(card("b", "NVIDIA A100", 40960), (const char *const[]){"1g.5gb", "1g.5gb+me", "3g.20gb"},
          3);
    split(card("c", "NVIDIA A100", 40960), NULL, 0);
    assert_int_equal(offers(GS_NVIDIA_MIG_MIXED), 4);
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++)
        assert_string_equal(offer[i].resource, want[i]);
    assert_int_equal(offer[3].card, 1);
    assert_int_equal(offer[3].part, 2);
    assert_int_equal(offer[3].n_shares, 1);
    /* slices are of whole cards */
    assert_non_null(strstr(json(), "\"id\":\"a\""));
    assert_null(strstr(json(), "\"id\":\"b\""));
}

static void single_offers_one_kind_or_nothing(void **state)
{
    static const char *const twins[] = {"1g.5gb", "1g.5gb"};

    (void)state;
    split(card("a", "NVIDIA A100", 40960), twins, 2);
    assert_int_equal(offers(GS_NVIDIA_MIG_SINGLE), 2);
    assert_string_equal(offer[0].resource, "nvidia.com/gpu");
    assert_int_equal(offer[0].part, 0);
    split(card("b", "NVIDIA A100", 40960), (const char *const[]){"2g.10gb"}, 1);
    assert_int_equal(offers(GS_NVIDIA_MIG_SINGLE), -EINVAL);
    assert_string_equal(err.text, "MIG strategy single: MIG-a-0 is 1g.5gb, but MIG-b-0 is 2g.10gb");
    split(&inv.card[1], NULL, 0);
    assert_int_equal(offers(GS_NVIDIA_MIG_SINGLE), -EINVAL);
    assert_string_equal(err.text, "MIG strategy single: b has no MIG device");
    inv.card[1].is_split = false;
    assert_int_equal(offers(GS_NVIDIA_MIG_SINGLE), -EINVAL);
    assert_string_equal(err.text, "MIG strategy single: a is in MIG mode, but b is not");
    inv.card[0].is_split = false;
    inv.card[0].n_parts = 0;
    assert_int_equal(offers(GS_NVIDIA_MIG_SINGLE), 2); /* no MIG at all: cards */
    assert_int_equal(offer[0].part, -1);
}

/* The row: files to texts. */
static void the_row_reads_the_files(void **state)
{
    struct gs_published p;

    (void)state;
    (void)card("a", "NVIDIA A100", 1000);
    from.device_config = GS_STR("nvidia:\n  deviceSplitCount: 2\n");
    from.node_config = GS_STR("{\"nodeconfig\":[{\"name\":\"n\",\"devicememoryscaling\":1.5}]}");
    from.node = GS_STR("n");
    assert_int_equal(gs_nvidia_publish_vendor.publish(&from, &p, &err), 0);
    assert_int_equal(p.n_registered, 1);
    assert_int_equal(p.n_offers, 1);
    assert_int_equal(p.offer[0].n_shares, 2);
    assert_string_equal(
        gs_buf_text(&p.registered),
        "[{\"id\":\"a\",\"count\":2,\"devmem\":1500,\"devcore\":100,\"type\":\"NVIDIA A100\","
        "\"mode\":\"hami-core\",\"health\":true}]");
    assert_string_equal(gs_buf_text(&p.scores), "[{\"uuid\":\"a\",\"score\":{}}]");
    gs_published_fini(&p);
    from.node_config = GS_STR("{");
    assert_int_equal(gs_nvidia_publish_vendor.publish(&from, &p, &err), 0);
    assert_int_equal(told, 1);
    gs_published_fini(&p);
    from.device_config = GS_STR("nvidia: 7\n");
    assert_int_equal(gs_nvidia_publish_vendor.publish(&from, &p, &err), -EINVAL);
    assert_null(p.offer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(registers_as_hami_encodes, setup),
        cmocka_unit_test_setup(registers_as_older_hami_encodes, setup),
        cmocka_unit_test_setup(figures_are_scaled_and_cut, setup),
        cmocka_unit_test_setup(a_card_that_does_not_know_its_memory_needs_a_figure, setup),
        cmocka_unit_test_setup(sick_cards_say_so_and_dropped_ones_nothing, setup),
        cmocka_unit_test_setup(scores_of_four_cards, setup),
        cmocka_unit_test_setup(cards_that_disagree_have_no_score_and_are_told, setup),
        cmocka_unit_test(our_scheduler_reads_it_back),
        cmocka_unit_test_setup(none_offers_cards_as_they_are, setup),
        cmocka_unit_test_setup(mixed_offers_each_profile_under_its_name, setup),
        cmocka_unit_test_setup(single_offers_one_kind_or_nothing, setup),
        cmocka_unit_test_setup(the_row_reads_the_files, setup),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
