#include "node/inventory.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* HAMi's scale of places, control-plane 5.2. */
static void a_pair_counts_its_place_and_its_links(void **state)
{
    static const int32_t want[GS_NEAR_COUNT] = {
        [GS_NEAR_CROSS_CPU] = 10,    [GS_NEAR_SAME_CPU] = 20,      [GS_NEAR_HOST_BRIDGE] = 30,
        [GS_NEAR_MULTI_SWITCH] = 40, [GS_NEAR_SINGLE_SWITCH] = 50, [GS_NEAR_SAME_BOARD] = 60,
    };
    bool is_odd = true;

    (void)state;
    for (enum gs_near near = GS_NEAR_UNKNOWN; near < GS_NEAR_COUNT; near++) {
        struct gs_link link = {near, 0};

        assert_int_equal(gs_inventory_score(link, link, &is_odd), want[near]);
        assert_false(is_odd);
        for (uint32_t lanes = 1; lanes <= 18; lanes++) {
            link.n_lanes = lanes;
            assert_int_equal(gs_inventory_score(link, link, NULL), want[near] + 100 * (int)lanes);
        }
    }
}

/* A17, case 9: PCIe and NV4 one way, PCIe alone back. */
static void a_pair_that_disagrees_counts_nothing(void **state)
{
    const struct gs_link from = {GS_NEAR_SAME_CPU, 4}, back = {GS_NEAR_SAME_CPU, 0};
    bool is_odd = false;

    (void)state;
    assert_int_equal(gs_inventory_score(from, back, &is_odd), 0);
    assert_true(is_odd);
    assert_int_equal(gs_inventory_score(back, from, NULL), 0);
    assert_int_equal(gs_inventory_score((struct gs_link){GS_NEAR_SAME_CPU, 2}, from, &is_odd), 0);
    assert_true(is_odd);
}

static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/bus", root);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/bus/pci", root);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/bus/pci/devices", root);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/bus/pci/devices/%s", root, name);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", root, name);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void numa_nodes_are_sysfs_own(void **state)
{
    static const struct {
        const char *text;
        int32_t want;
    } rows[] = {{"1\n", 1},    {"0\n", 0}, {"-1\n", 0}, {"63", 63},
                {"many\n", 0}, {"", 0},    {"1x\n", 0}, {"99999999999\n", 0}};
    char root[] = "/tmp/gs-inventory-XXXXXX", command[64];

    (void)state;
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        put(root, "0000:65:00.0", rows[i].text);
        assert_int_equal(gs_inventory_numa(root, "0000:65:00.0"), rows[i].want);
    }
    assert_int_equal(gs_inventory_numa(root, "0000:66:00.0"), 0);
    assert_int_equal(gs_inventory_numa(root, ""), 0);
    assert_int_equal(gs_inventory_numa(root, "../../x"), 0);
    (void)snprintf(command, sizeof(command), "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void there_is_room_for_so_many_cards(void **state)
{
    struct gs_inventory inv = {0};

    (void)state;
    assert_int_equal(gs_inventory_reserve(&inv), 0);
    for (uint32_t i = 0; i < GS_INVENTORY_CARDS; i++)
        assert_int_equal(gs_inventory_add(&inv)->minor, GS_INVENTORY_UNKNOWN);
    assert_null(gs_inventory_add(&inv));
    assert_non_null(gs_inventory_link(&inv, 63, 63));
    assert_null(gs_inventory_link(&inv, 64, 0));
    gs_inventory_link(&inv, 2, 60)->n_lanes = 9;
    assert_int_equal(inv.link[2 * 64 + 60].n_lanes, 9);
    gs_inventory_fini(&inv);
    gs_inventory_fini(NULL);
}

static void a_filter_names_cards_by_uuid_or_index(void **state)
{
    static const char *const uuid[] = {"gpu-AB"};
    static const uint32_t index[] = {4, 7};
    const struct gs_inventory_filter filter = {uuid, 1, index, 2};
    struct gs_inventory_card card = {.uuid = "GPU-ab", .index = 1};

    (void)state;
    assert_true(gs_inventory_is_dropped(&card, &filter));
    (void)snprintf(card.uuid, sizeof(card.uuid), "GPU-abc");
    assert_false(gs_inventory_is_dropped(&card, &filter));
    card.index = 7;
    assert_true(gs_inventory_is_dropped(&card, &filter));
    assert_false(gs_inventory_is_dropped(&card, &(struct gs_inventory_filter){0}));
}

static int find_none(const char *sysfs, const struct gs_inventory_tell *tell,
                     struct gs_inventory *inv, struct gs_err *err)
{
    (void)sysfs;
    (void)tell;
    (void)inv;
    return gs_err_set(err, -ENODEV, "none");
}

static void a_vendors_failure_is_the_answer(void **state)
{
    static const struct gs_inventory_vendor vendor = {"x", find_none};
    struct gs_inventory inv;
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(gs_inventory_read(&vendor, "/sys", NULL, &inv, &err), -ENODEV);
    assert_string_equal(err.text, "none");
    gs_inventory_fini(&inv);
    gs_inventory_say(NULL, "nobody listens %d", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_counts_its_place_and_its_links),
        cmocka_unit_test(a_pair_that_disagrees_counts_nothing),
        cmocka_unit_test(numa_nodes_are_sysfs_own),
        cmocka_unit_test(there_is_room_for_so_many_cards),
        cmocka_unit_test(a_filter_names_cards_by_uuid_or_index),
        cmocka_unit_test(a_vendors_failure_is_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
