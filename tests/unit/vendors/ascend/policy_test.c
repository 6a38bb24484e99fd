#include "whole.h"
#include "yaml.h"

#include <errno.h>
#include <string.h>

#include "model/ns_quota.h"
#include "model/request.h"
#include "vendors/ascend/policy/ascend.h"
#include "vendors/ascend/policy/vnpu.h"

#define B3 "huawei.com/Ascend910B3"

/* Vectors: V-A of the sheet on other vendors (9.1, 9.2), A of the control plane's. Of 9.2, V-A24 to
 * 26 and 29 to 33 are the node's side. */

static void setup(struct kit *kit, const char *word)
{
    kit_init(kit, &gs_ascend_section, NULL, word);
    kit_container(kit, "c0");
}

static const char *resource(struct kit *kit, const char *behind)
{
    return gs_arena_printf(&kit->arena, "huawei.com/%s%s", kit->policy->word, behind).p;
}

/* A node of `n` cards as the plugin registers them, all of network i / per_network (0: not told).
 */
static void cards(struct kit *kit, uint32_t n, int32_t mem, int32_t cores, uint32_t per_network)
{
    struct gs_buf buf = {0};

    gs_buf_adds(&buf, "[");
    for (uint32_t i = 0; i < n; i++) {
        gs_buf_addf(&buf,
                    "%s{\"id\":\"U%u\",\"index\":%u,\"count\":8,\"devmem\":%d,\"devcore\":%d,"
                    "\"type\":\"%s\",\"health\":true",
                    i > 0 ? "," : "", i, i, mem, cores, kit->policy->word);
        if (per_network > 0)
            gs_buf_addf(&buf, ",\"custominfo\":{\"NetworkID\":%u}", i / per_network);
        gs_buf_adds(&buf, "}");
    }
    gs_buf_adds(&buf, "]");
    kit_annotate_node(kit,
                      gs_arena_printf(&kit->arena, "hami.io/node-register-%s", kit->policy->word).p,
                      gs_arena_str(&kit->arena, gs_str_of(gs_buf_text(&buf))).p);
    gs_buf_fini(&buf);
    assert_int_equal(kit_read_node(kit), 0);
    assert_int_equal(kit->group.n, n);
}

/* Admit count 1 and `mem`; the memory that is written, and the template it names; NULL: refused. */
static void want_trim(const char *word, const char *mem, const char *written, const char *templ)
{
    const struct gs_vnpu_template *is = NULL;
    struct kit kit;

    setup(&kit, word);
    kit_limit(&kit, 0, resource(&kit, ""), "1");
    kit_limit(&kit, 0, resource(&kit, "-memory"), mem);
    assert_int_equal(kit_admit(&kit, 0), written != NULL ? 1 : -EINVAL);
    if (written == NULL) {
        assert_non_null(strstr(kit.err.text, "is invalid"));
    } else {
        assert_string_equal(kit_limit_of(&kit, 0, resource(&kit, "-memory")), written);
        assert_string_equal(kit_request_of(&kit, 0, resource(&kit, "-memory")), written);
        assert_true(gs_vnpu_trim(kit.policy->conf, kit_ask(&kit, 0).mem_mib, &is) > 0);
        assert_int_equal(is != NULL, templ != NULL);
        assert_true(is == NULL || gs_str_eq_c(is->name, templ));
    }
    kit_fini(&kit);
}

/* V-A1 to V-A15 (V-A4, 8, 12 are not in the sheet; 10 is below), A14.17 */
static void test_trim(void **state)
{
    (void)state;
    want_trim("Ascend910A", "2000", "2184", "vir02");
    want_trim("Ascend910A", "2184", "2184", "vir02");
    want_trim("Ascend910A", "2185", "4369", "vir04");
    want_trim("Ascend910A", "17477", "32768", NULL);
    want_trim("Ascend910A", "20000", "32768", NULL);
    want_trim("Ascend910A", "32769", NULL, NULL);
    want_trim("Ascend910A", "40000", NULL, NULL);
    want_trim("Ascend910B2", "8193", "16384", "vir06_1c_16g");
    want_trim("Ascend910B3", "28672", "32768", "vir10_3c_32g");
    want_trim("Ascend910B4", "12000", "16384", "vir10_3c_16g");
    want_trim("Ascend310P", "1024", "3072", "vir01");
    want_trim("Ascend310P", "12289", "21527", NULL);
    want_trim("Ascend310P", "22000", "21527", NULL);
    want_trim("Ascend310P", "24577", NULL, NULL);
}

static void want_refused(struct kit *kit, const char *text)
{
    assert_int_equal(kit_admit(kit, 0), -EINVAL);
    assert_string_equal(kit->err.text, text);
    assert_int_equal(kit->pod.n_edits, 0);
    kit_fini(kit);
}

/* V-A18, 19, 21, A14.16, A14.19 */
static void test_refusals(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "2");
    kit_limit(&kit, 0, B3 "-memory", "16384");
    want_refused(&kit, "vNPU not supported for multiple devices");
    setup(&kit, "Ascend910A");
    kit_limit(&kit, 0, "huawei.com/Ascend910A", "2");
    kit_limit(&kit, 0, "huawei.com/Ascend910A-memory", "8738");
    want_refused(&kit, "vNPU not supported for multiple devices");
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-core", "40");
    want_refused(&kit, B3 "-core is only supported in hami-core (soft split) mode");
    /* the pod of the examples, its annotation left out */
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "28672");
    kit_limit(&kit, 0, B3 "-core", "40");
    want_refused(&kit, B3 "-core is only supported in hami-core (soft split) mode");
    setup(&kit, "Ascend910C");
    kit_limit(&kit, 0, "huawei.com/Ascend910C", "3");
    want_refused(&kit, "Ascend910C device request must be 1 or 2*n, got 3");
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "-1");
    want_refused(&kit, B3 " must be an integer of at least 1");
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "1");
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "enpu");
    want_refused(&kit, "huawei.com/vnpu-mode enpu is not supported: hami-core for a soft split, "
                       "none for templates");
    /* core 0 is no wish for a soft split */
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-core", "0");
    assert_int_equal(kit_admit(&kit, 0), 1);
    kit_fini(&kit);
}

/* V-A22: bytes where MiB are meant. HAMi lets the pod in and it never gets a card. */
static void test_bytes_for_mib(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "16Gi");
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    want_refused(&kit, B3 "-memory 16Gi is invalid: a card has 65536 MiB, ask in units of 1 MiB");
}

/* V-A17; the runtime class where the pod has none */
static void test_whole_card(void **state)
{
    static const char text[] = "- {commonWord: Ascend910B3, memoryAllocatable: 65536, "
                               "runtimeClassName: ascend}\n";
    struct yaml yaml;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_limit(&kit, 0, B3, "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, B3 "-memory"), "65536");
    assert_string_equal(kit_request_of(&kit, 0, B3 "-memory"), "65536");
    assert_int_equal(kit.pod.runtime_class.n, 0);
    kit_fini(&kit);

    yaml_load(&yaml, gs_ascend_section.older, text);
    setup(&kit, "Ascend910B3");
    kit.policies = (struct gs_policies){0};
    assert_int_equal(gs_ascend_section.make(&yaml.list, true, &kit.arena, &kit.policies, NULL), 0);
    yaml_unload(&yaml);
    kit.policy = kit.policies.at[0];
    kit_limit(&kit, 0, B3, "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "ascend"));
    kit.pod.runtime_class = GS_STR("mine");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "mine"));
    kit_fini(&kit);
}

/* V-A10, the soft-split pod of the examples: 28672 MiB and 40 percent */
static void test_soft(void **state)
{
    struct kit kit;
    struct gs_request r;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "hami-core");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "28672");
    kit_limit(&kit, 0, B3 "-core", "40");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, B3 "-memory"), "28672");
    assert_string_equal(kit_request_of(&kit, 0, B3 "-memory"), "28672");
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 1);
    assert_int_equal(r.mem_mib, 28672);
    assert_int_equal(r.cores, 40);
    /* on a node in soft mode, whose plugin counts AI cores all the same */
    kit_annotate_node(&kit, "hami-vnpu-core", "true");
    cards(&kit, 1, 65536, 20, 4);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].mem_mib, 28672);
    assert_int_equal(kit.pick[0][0].cores, 40);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC); /* 3 x 28672 > 65536 */
    assert_string_equal(kit_reasons(&kit), "1/1 CardInsufficientMemory");
    kit_fini(&kit);
}

/* A soft split may take parts of several cards (rule 6 of 1.4). */
static void test_soft_many(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "hami-core");
    kit_limit(&kit, 0, B3, "2");
    kit_limit(&kit, 0, B3 "-memory", "16384");
    assert_int_equal(kit_admit(&kit, 0), 1);
    kit_fini(&kit);
}

/* A13: Ascend, memory 128 with factors 10, 100, none */
static void test_factor(void **state)
{
    static const struct {
        const char *text;
        int32_t mib;
    } want[] = {
        {"configs: [{commonWord: X, memoryAllocatable: 65536, memoryFactor: 10}]", 1280},
        {"configs: [{commonWord: X, memoryAllocatable: 65536, memoryFactor: 100}]", 12800},
        {"configs: [{commonWord: X, memoryAllocatable: 65536}]", 128},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(want); i++) {
        struct kit kit;

        yaml_kit(&kit, &gs_ascend_section, want[i].text, "X");
        kit_container(&kit, "c0");
        kit_limit(&kit, 0, "huawei.com/X", "1");
        kit_limit(&kit, 0, "huawei.com/X-memory", "128");
        assert_int_equal(kit_ask(&kit, 0).mem_mib, want[i].mib);
        kit_fini(&kit);
    }
}

/* Rules of 1.4 on super pods, with the fix of HAMi#2004: a slice of a die is not doubled. */
static void test_super_pod(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910C");
    kit_limit(&kit, 0, "huawei.com/Ascend910C", "1");
    kit_request(&kit, 0, "huawei.com/Ascend910C", "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, "huawei.com/Ascend910C"), "2");
    assert_string_equal(kit_request_of(&kit, 0, "huawei.com/Ascend910C"), "2");
    assert_string_equal(kit_limit_of(&kit, 0, "huawei.com/Ascend910C-memory"), "65536");
    kit_fini(&kit);
    setup(&kit, "Ascend910C");
    kit_limit(&kit, 0, "huawei.com/Ascend910C", "1");
    kit_limit(&kit, 0, "huawei.com/Ascend910C-memory", "10000");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, "huawei.com/Ascend910C"), "1");
    assert_string_equal(kit_limit_of(&kit, 0, "huawei.com/Ascend910C-memory"), "16384");
    kit_fini(&kit);
}

/* Rule 1 of 1.4; HAMi adds the variable once per chip, and beside another chip's. */
static void test_overwrite_env(void **state)
{
    static const char text[] = "configs:\n"
                               "- {commonWord: A, memoryAllocatable: 1024, overwriteEnv: true}\n"
                               "- {commonWord: B, memoryAllocatable: 1024, overwriteEnv: true}\n";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_ascend_section, text, "A");
    kit_container(&kit, "without");
    kit_container(&kit, "with");
    kit_limit(&kit, 1, "huawei.com/B", "1");
    for (size_t i = 0; i < kit.policies.n; i++) {
        kit.policy = kit.policies.at[i];
        assert_int_equal(kit_admit(&kit, 0), 0);
        assert_int_equal(kit_admit(&kit, 1), i == 1);
    }
    assert_int_equal(kit.container[0].env.n, 1);
    assert_true(gs_str_eq_c(kit.container[0].env.at[0].key, "ASCEND_VISIBLE_DEVICES"));
    assert_int_equal(kit.container[0].env.at[0].value.n, 0);
    assert_int_equal(kit.container[1].env.n, 0);
    kit_fini(&kit);
}

/* V-A23; keys in any case as in the example of 1.5 */
static void test_register(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_annotate_node(
        &kit, "hami.io/node-register-Ascend910B3",
        "[{\"id\":\"00000001-00000002-00000003-00000004-0000000A\",\"count\":4,\"devmem\":65536,"
        "\"devcore\":20,\"type\":\"Ascend910B3\",\"health\":true,\"custominfo\":{\"NetworkID\":0}},"
        "{\"id\":\"00000001-00000002-00000003-00000004-0000000B\",\"index\":1,\"count\":4,"
        "\"devmem\":65536,\"devcore\":20,\"type\":\"Ascend910B3\",\"custominfo\":{\"NetworkID\":0}}"
        "]");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 2);
    assert_true(gs_str_eq_c(kit.node.dev[0].id, "00000001-00000002-00000003-00000004-0000000A"));
    assert_int_equal(kit.node.dev[0].index, 0);
    assert_int_equal(kit.node.dev[0].count, 4);
    assert_int_equal(kit.node.dev[0].mem_mib, 65536);
    assert_int_equal(kit.node.dev[0].cores, 20);
    assert_true(kit.node.dev[0].is_healthy);
    assert_non_null(kit.node.dev[0].custom);
    assert_int_equal(kit.node.dev[1].index, 1);
    assert_false(kit.node.dev[1].is_healthy);
    kit_annotate_node(&kit, "hami.io/node-register-Ascend910B3",
                      "[{\"ID\":\"GPU-0\",\"Count\":4,\"Devmem\":8738,\"Devcore\":8,\"Type\":"
                      "\"huawei.com/Ascend910\",\"Numa\":0,\"Health\":true}]");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_true(gs_str_eq_c(kit.node.dev[0].id, "GPU-0"));
    assert_int_equal(kit.node.dev[0].mem_mib, 8738);
    assert_null(kit.node.dev[0].custom);
    /* cards taken back; not as A2.7, which keeps them */
    kit_annotate_node(&kit, "hami.io/node-register-Ascend910B3", "[]");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 0);
    kit_annotate_node(&kit, "hami.io/node-register-Ascend910B3", "[{\"id\":");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
}

/* What a plugin may write as its own, and what is no network. */
static void test_networks_of_strangers(void **state)
{
    static const char *const none[] = {
        "null",
        "[]",
        "7",
        "{}",
        "{\"NetworkID\":null}",
        "{\"NetworkID\":\"1\"}",
        "{\"NetworkID\":1e300}",
        "{\"NetworkID\":2147483648}",
        "{\"networkid\":1}",
    };
    static const char *const some[] = {
        "{\"NetworkID\":0}",
        "{\"NetworkID\":-1}",
        "{\"NetworkID\":1.0}",
        "{\"x\":[1],\"NetworkID\":2147483647}",
    };
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    for (size_t i = 0; i < GS_ARRAY_LEN(none) + GS_ARRAY_LEN(some); i++) {
        bool is_known = i >= GS_ARRAY_LEN(none);
        const char *info = is_known ? some[i - GS_ARRAY_LEN(none)] : none[i];

        kit_annotate_node(
            &kit, "hami.io/node-register-Ascend910B3",
            gs_arena_printf(&kit.arena, "[{\"id\":\"u\",\"CustomInfo\":%s}]", info).p);
        assert_int_equal(kit_read_node(&kit), 0);
        assert_int_equal(kit.node.dev[0].custom != NULL, is_known);
    }
    kit_fini(&kit);
}

/* V-A27, A3.13: what the plugin is told of a template. A3.13 has the type "Ascend" in its grant, of
 * a device that HAMi's test makes by hand; grants name the word, here Ascend910A (V-A27). */
static void test_write_template(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    cards(&kit, 1, 65536, 20, 4);
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "28672"); /* as if admission had not seen it */
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].mem_mib, 32768);
    assert_true(gs_str_eq_c(kit.pick[0][0].profile, "vir10_3c_32g"));
    pairs = kit_write(&kit, INT64_C(1700000000123456789));
    assert_int_equal(pairs.n, 2);
    assert_string_equal(kit_written(&kit, &pairs, B3),
                        "[{\"UUID\":\"U0\",\"temp\":\"vir10_3c_32g\",\"memory\":32768}]");
    assert_string_equal(kit_written(&kit, &pairs, "predicate-time"), "1700000000");
    kit_fini(&kit);

    setup(&kit, "Ascend910A");
    cards(&kit, 1, 32768, 30, 0);
    kit.pick[0][0] = (struct gs_pick){.mem_mib = 8738, .cores = 1};
    kit.n_picks[0] = 1;
    pairs = kit_write(&kit, 0);
    assert_string_equal(kit_written(&kit, &pairs, "huawei.com/Ascend910A"),
                        "[{\"UUID\":\"U0\",\"temp\":\"vir08\",\"memory\":8738,\"core\":1}]");
    kit_fini(&kit);
}

/* V-A28, A3.14: two containers, the second one soft; and a whole card, whose template is none */
static void test_write_soft(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_container(&kit, "c1");
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "hami-core");
    kit_annotate_node(&kit, "hami-vnpu-core", "true");
    cards(&kit, 1, 65536, 100, 4);
    kit_limit(&kit, 1, B3, "1");
    kit_limit(&kit, 1, B3 "-memory", "28672");
    kit_limit(&kit, 1, B3 "-core", "40");
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_ask(&kit, 1);
    assert_int_equal(kit_fit(&kit, 1), 1);
    pairs = kit_write(&kit, 0);
    assert_string_equal(kit_written(&kit, &pairs, B3),
                        "[{\"UUID\":\"U0\",\"memory\":28672,\"core\":40}]");
    kit.pick[1][0] = (struct gs_pick){.mem_mib = 8192, .cores = 5};
    pairs = kit_write(&kit, 0);
    assert_string_equal(kit_written(&kit, &pairs, B3),
                        "[{\"UUID\":\"U0\",\"memory\":8192,\"core\":5}]");
    kit_fini(&kit);

    setup(&kit, "Ascend910B3");
    cards(&kit, 2, 65536, 20, 4);
    kit_limit(&kit, 0, B3, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 2);
    pairs = kit_write(&kit, 0);
    assert_string_equal(kit_written(&kit, &pairs, B3),
                        "[{\"UUID\":\"U1\",\"memory\":65536},{\"UUID\":\"U0\",\"memory\":65536}]");
    kit_fini(&kit);
}

/* V-A34, A19.9. The control plane's sheet (3.5) has "1/<devices>" here; V-A34 says how many cards
 * do not suit as all other reasons do, and that is what people read: ours is V-A34. */
static void test_mode(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "hami-core");
    kit_limit(&kit, 0, B3, "1");
    kit_ask(&kit, 0);
    cards(&kit, 3, 65536, 20, 4);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "3/3 ModeNotFit");
    kit_annotate_node(&kit, "hami-vnpu-core", "yes"); /* anything but "true" */
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    kit_annotate_node(&kit, "hami-vnpu-core", "true");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_fini(&kit);
    /* the other way round (1.5, HAMi PR 2035): a whole card may be on a soft node, a template not
     */
    setup(&kit, "Ascend910B3");
    kit_annotate_node(&kit, "hami-vnpu-core", "true");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "65536");
    kit_ask(&kit, 0);
    cards(&kit, 1, 65536, 100, 4);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_unfit(&kit);
    kit_limit(&kit, 0, B3 "-memory", "16384");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 ModeNotFit");
    kit_fini(&kit);
}

/* Configuration says soft, nodes may say otherwise; templates on soft nodes by our own key. */
static void test_mode_of_configuration(void **state)
{
    static const char text[] = "{hamiVnpuCore: true, templatesOnSoftNodes: true}";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_ascend_section, text, "Ascend910B3"); /* chips: the chart's */
    kit_container(&kit, "c0");
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "16384");
    kit_ask(&kit, 0);
    cards(&kit, 1, 65536, 100, 4);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "hami-core");
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_annotate_node(&kit, "hami-vnpu-core", "false");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    kit_fini(&kit);
}

static bool has(struct kit *kit, uint32_t index)
{
    for (size_t i = 0; i < kit->n_picks[0]; i++)
        if (kit->node.dev[kit->pick[0][i].dev].index == index)
            return true;
    return false;
}

/* V-A35 */
static void test_networks(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    cards(&kit, 8, 65536, 20, 4);
    kit.use[1] = (struct gs_use){.slots = 1, .mem_mib = 65536};
    kit_unfit(&kit);
    kit_limit(&kit, 0, B3, "4");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 4);
    for (uint32_t i = 4; i < 8; i++)
        assert_true(has(&kit, i));
    assert_true(kit_score(&kit, false) == 10); /* 3.3: all of one network */
    /* one more than the largest network has */
    kit_unfit(&kit);
    kit.request[0].nums = 5;
    assert_int_equal(kit_fit(&kit, 0), 5);
    assert_true(kit_score(&kit, false) == 8); /* 10 * 4 / 5 */
    kit_fini(&kit);
    /* a card without a network: no grouping, no score */
    setup(&kit, "Ascend910B3");
    cards(&kit, 4, 65536, 20, 0);
    kit_limit(&kit, 0, B3, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_string_equal(kit_chosen(&kit, 0), "3,2");
    assert_true(kit_score(&kit, false) == 0);
    kit_fini(&kit);
}

/* V-A36, A19.8 */
static void test_pairs(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910C");
    cards(&kit, 4, 65536, 20, 4);
    kit.use[2] = (struct gs_use){.slots = 1, .mem_mib = 65536};
    kit_unfit(&kit);
    kit.request[0] = (struct gs_request){.nums = 2, .mem_mib = 65536};
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_string_equal(kit_chosen(&kit, 0), "0,1");
    kit_unfit(&kit);
    kit.request[0].nums = 4;
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit),
                        "1/4 CardInsufficientMemory, 2/4 AllocatedCardsInsufficientRequest");
    /* counted against the request, the others against the cards; and what cards lack is told */
    kit_unfit(&kit);
    cards(&kit, 5, 65536, 20, 5);
    kit.use[2] = kit.use[4] = (struct gs_use){.slots = 1, .mem_mib = 65536};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit),
                        "2/4 AllocatedCardsInsufficientRequest, 2/5 CardInsufficientMemory");
    assert_int_equal(kit.reasons.asked, 4);
    assert_int_equal(kit.reasons.collected, 2);
    cards(&kit, 4, 65536, 20, 4);
    /* 0 and 2 free */
    kit.use[2] = (struct gs_use){0};
    kit.use[1] = kit.use[3] = (struct gs_use){.slots = 1, .mem_mib = 65536};
    kit_unfit(&kit);
    kit.request[0].nums = 2;
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit),
                        "2/4 AllocatedCardsInsufficientRequest, 2/4 CardInsufficientMemory");
    /* all free: the better module first, whole */
    kit.use[1] = kit.use[3] = (struct gs_use){0};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_string_equal(kit_chosen(&kit, 0), "2,3");
    kit_fini(&kit);
}

/* A Ascend310P has no networks to score. */
static void test_score_of_others(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend310P");
    cards(&kit, 2, 21527, 8, 0);
    kit.request[0] = (struct gs_request){.nums = 2, .mem_mib = 21527};
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_true(kit_score(&kit, false) == 0);
    kit_fini(&kit);
}

/* V-A27 whole: admitted, placed, written */
static void test_grant_of_template(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    cards(&kit, 1, 65536, 20, 4);
    kit_limit(&kit, 0, B3, "1");
    kit_limit(&kit, 0, B3 "-memory", "28672");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(whole_place(&kit, NULL, INT64_C(1700000000000000000), &pairs), 0);
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/Ascend910B3-devices-to-allocate"),
                        "U0,Ascend910B3,32768,0:;");
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/Ascend910B3-devices-allocated"),
                        "U0,Ascend910B3,32768,0:;");
    assert_string_equal(kit_written(&kit, &pairs, B3),
                        "[{\"UUID\":\"U0\",\"temp\":\"vir10_3c_32g\",\"memory\":32768}]");
    assert_string_equal(kit_written(&kit, &pairs, "predicate-time"), "1700000000");
    kit_fini(&kit);
}

/* V-A28 whole, with the pod of the examples in its second container */
static void test_grant_of_soft(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    kit_container(&kit, "c1");
    kit_annotate_pod(&kit, "huawei.com/vnpu-mode", "hami-core");
    kit_limit(&kit, 1, B3, "1");
    kit_limit(&kit, 1, B3 "-memory", "28672");
    kit_limit(&kit, 1, B3 "-core", "40");
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_int_equal(kit_admit(&kit, 1), 1);
    cards(&kit, 1, 65536, 100, 4);
    assert_int_equal(whole_place(&kit, NULL, 0, &pairs), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 ModeNotFit");
    kit_annotate_node(&kit, "hami-vnpu-core", "true");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(whole_place(&kit, NULL, 0, &pairs), 0);
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/Ascend910B3-devices-to-allocate"),
                        ";U0,Ascend910B3,28672,40:;");
    assert_string_equal(kit_written(&kit, &pairs, B3),
                        "[{\"UUID\":\"U0\",\"memory\":28672,\"core\":40}]");
    kit_fini(&kit);
}

static void want_cards(struct kit *kit, int64_t mem_limit, int rc, const char *text)
{
    const struct gs_ns_quota_line line = {kit->policy, mem_limit, -1, 0, 0};
    const struct gs_ns_quota quota = {&line, 1};
    struct gs_pairs pairs;

    assert_int_equal(whole_place(kit, &quota, 0, &pairs), rc);
    if (rc < 0)
        assert_string_equal(kit_reasons(kit), text);
    else
        assert_string_equal(
            kit_written(
                kit, &pairs,
                gs_arena_printf(&kit->arena, "hami.io/%s-devices-allocated", kit->policy->word).p),
            text);
}

/* Quota when placing, before memory as in 3.5 (HAMi asks it of NVIDIA and MLU alone): of the cards
 * taken, not of all that were looked at. */
static void test_quota(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    cards(&kit, 8, 65536, 20, 4);
    kit.use[7] = (struct gs_use){.slots = 1, .mem_mib = 65536};
    kit_limit(&kit, 0, B3, "2");
    want_cards(&kit, 131072, 0, "U3,Ascend910B3,65536,0:U2,Ascend910B3,65536,0:;");
    want_cards(&kit, 131071, -ENOSPC,
               "1/8 AllocatedCardsInsufficientRequest, 7/8 ResourceQuotaNotFit");
    kit_limit(&kit, 0, B3, "1");
    want_cards(&kit, 65535, -ENOSPC, "8/8 ResourceQuotaNotFit");
    kit_fini(&kit);
    setup(&kit, "Ascend910C");
    cards(&kit, 4, 65536, 20, 4);
    kit.use[3] = (struct gs_use){.slots = 1, .mem_mib = 65536};
    kit_limit(&kit, 0, "huawei.com/Ascend910C", "2");
    want_cards(&kit, 131072, 0, "U0,Ascend910C,65536,0:U1,Ascend910C,65536,0:;");
    want_cards(&kit, 131071, -ENOSPC,
               "1/4 AllocatedCardsInsufficientRequest, 3/4 ResourceQuotaNotFit");
    kit_fini(&kit);
}

/* A18.14: a quota is in units of the resource */
static void test_quota_factor(void **state)
{
    static const char text[] =
        "configs: [{commonWord: X, memoryAllocatable: 65536, memoryFactor: 4}]";
    int64_t mem, cores;
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_ascend_section, text, "X");
    kit_container(&kit, "c0");
    kit_limit(&kit, 0, "huawei.com/X", "1");
    kit_limit(&kit, 0, "huawei.com/X-memory", "4096");
    {
        const struct gs_ns_quota_line line = {kit.policy, 8192, -1, 0, 0};
        const struct gs_ns_quota quota = {&line, 1};

        gs_ns_quota_of_pod(kit.policy, &kit.pod, &mem, &cores);
        assert_true(gs_ns_quota_fits(&quota, kit.policy, mem, cores));
        kit_limit(&kit, 0, "huawei.com/X-memory", "8193");
        gs_ns_quota_of_pod(kit.policy, &kit.pod, &mem, &cores);
        assert_false(gs_ns_quota_fits(&quota, kit.policy, mem, cores));
    }
    kit_fini(&kit);
}

/* A slice holds what was asked, sizing it again changes nothing, and more never gets less. */
static void test_trim_everywhere(void **state)
{
    const struct gs_vnpu_template *templ;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910A");
    for (size_t i = 0; i < kit.policies.n; i++) {
        const struct gs_vnpu_chip *chip = kit.policies.at[i]->conf;
        int32_t before = 0;

        for (int32_t mib = 0; mib <= chip->capacity; mib++) {
            int32_t got = gs_vnpu_trim(chip, mib, &templ);

            assert_true(got >= mib || got == chip->allocatable);
            assert_true(got >= before);
            assert_int_equal(gs_vnpu_trim(chip, got, &templ), got);
            before = got;
        }
        assert_int_equal(gs_vnpu_trim(chip, chip->capacity + INT64_C(1), &templ), -ERANGE);
    }
    kit_fini(&kit);
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Any set of free dies, any even request: it fits exactly where enough modules are whole, and gets
 * whole ones. Seed 1. */
static void test_pairs_everywhere(void **state)
{
    uint32_t seed = 1;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910C");
    cards(&kit, 16, 65536, 20, 16);
    for (int round = 0; round < 2000; round++) {
        uint32_t used = next(&seed) & next(&seed) & 0xffff, got = 0;
        int nums = 2 + 2 * (int)(next(&seed) % 8), whole = 0;

        for (uint32_t i = 0; i < 16; i++)
            kit.use[i] = (used >> i & 1) != 0 ? (struct gs_use){.slots = 1, .mem_mib = 65536}
                                              : (struct gs_use){0};
        for (uint32_t i = 0; i < 16; i += 2)
            whole += (used >> i & 3) == 0 ? 2 : 0;
        kit_unfit(&kit);
        kit.request[0] = (struct gs_request){.nums = nums, .mem_mib = 65536};
        assert_int_equal(kit_fit(&kit, 0), whole >= nums ? nums : -ENOSPC);
        for (size_t i = 0; i < kit.n_picks[0]; i++)
            got |= 1u << kit.pick[0][i].dev;
        assert_int_equal(got & used, 0);
        assert_int_equal(__builtin_popcount(got), whole >= nums ? nums : 0);
        assert_int_equal((got & 0x5555) << 1, got & 0xaaaa);
    }
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct gs_arena full;
    struct kit kit;

    (void)state;
    setup(&kit, "Ascend910B3");
    gs_arena_init(&full);
    full.failed = true;
    assert_int_equal(gs_ascend_section.make(NULL, false, &full, &kit.policies, NULL), -ENOMEM);
    kit_limit(&kit, 0, B3, "1");
    kit.pod.arena = &full;
    assert_int_equal(kit_admit(&kit, 0), -ENOMEM);
    kit.pod.arena = &kit.arena;
    cards(&kit, 2, 65536, 20, 2);
    kit.arena.failed = true;
    assert_int_equal(kit_read_node(&kit), -ENOMEM);
    kit.arena.failed = false;
    kit_fini(&kit);
}

static void want_bad(const char *text, const char *err)
{
    struct gs_policies out = {0};
    struct gs_arena arena;
    struct gs_err is = {0};
    struct yaml yaml;

    gs_arena_init(&arena);
    yaml_load(&yaml, gs_ascend_section.schema, text);
    assert_int_equal(gs_ascend_section.make(yaml.conf, false, &arena, &out, &is), -EINVAL);
    assert_string_equal(is.text, err);
    yaml_unload(&yaml);
    gs_arena_fini(&arena);
}

static void test_bad_configuration(void **state)
{
    (void)state;
    want_bad("configs: [{chipName: X}]", "vnpus: '' is no commonWord");
    want_bad("configs: [{commonWord: a/b}]", "vnpus: 'a/b' is no commonWord");
    want_bad("configs: [{commonWord: X}]", "vnpus: X has no memoryAllocatable");
    want_bad("configs: [{commonWord: X, memoryAllocatable: -5}]",
             "vnpus: an amount of X is negative or above 2147483647");
    want_bad("configs: [{commonWord: X, memoryAllocatable: 5},"
             " {commonWord: X, memoryAllocatable: 5}]",
             "vnpus: two entries have the commonWord X");
    want_bad("configs: [{commonWord: X, memoryAllocatable: 5, templates: [{memory: 3}]}]",
             "vnpus: template 0 of X lacks a name or an amount");
}

/* "" switches a resource off, a missing key is the chart's; templates may come in any order. */
static void test_configuration(void **state)
{
    static const char text[] =
        "configs:\n"
        "- chipName: 910X\n"
        "  commonWord: AscendX\n"
        "  resourceName: example.com/npu\n"
        "  resourceCoreName: \"\"\n"
        "  memoryAllocatable: 1000\n"
        "  templates: [{name: big, memory: 500, aiCore: 2}, {name: small, memory: 250}]\n";
    const struct gs_vnpu_template *templ;
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_ascend_section, text, "AscendX");
    assert_int_equal(kit.policies.n, 1);
    assert_true(gs_str_eq_c(kit.policy->names.count, "example.com/npu"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, "huawei.com/AscendX-memory"));
    assert_int_equal(kit.policy->names.core.n, 0);
    assert_int_equal(gs_vnpu_trim(kit.policy->conf, 100, &templ), 250);
    assert_true(gs_str_eq_c(templ->name, "small"));
    assert_int_equal(gs_vnpu_trim(kit.policy->conf, 501, &templ), 1000);
    assert_null(templ);
    assert_int_equal(gs_vnpu_trim(kit.policy->conf, 1001, &templ), -ERANGE);
    assert_true(gs_str_eq_c(kit.policy->keys.to_allocate, "hami.io/AscendX-devices-to-allocate"));
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/AscendX-devices-allocated"));
    assert_true(gs_str_eq_c(kit.policy->keys.node_register, "hami.io/node-register-AscendX"));
    assert_true(gs_str_eq_c(kit.policy->keys.handshake, "hami.io/node-handshake-AscendX"));
    assert_true(gs_str_eq_c(kit.policy->keys.use_uuid, "hami.io/use-AscendX-uuid"));
    assert_true(gs_str_eq_c(kit.policy->keys.nouse_uuid, "hami.io/no-use-AscendX-uuid"));
    kit_fini(&kit);
    setup(&kit, "Ascend910B4-1");
    assert_int_equal(kit.policies.n, 7);
    assert_string_equal(gs_ascend_section.opt_in, "ascend");
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trim),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bytes_for_mib),
        cmocka_unit_test(test_whole_card),
        cmocka_unit_test(test_soft),
        cmocka_unit_test(test_soft_many),
        cmocka_unit_test(test_factor),
        cmocka_unit_test(test_super_pod),
        cmocka_unit_test(test_overwrite_env),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_networks_of_strangers),
        cmocka_unit_test(test_write_template),
        cmocka_unit_test(test_write_soft),
        cmocka_unit_test(test_mode),
        cmocka_unit_test(test_mode_of_configuration),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_score_of_others),
        cmocka_unit_test(test_grant_of_template),
        cmocka_unit_test(test_grant_of_soft),
        cmocka_unit_test(test_quota),
        cmocka_unit_test(test_quota_factor),
        cmocka_unit_test(test_trim_everywhere),
        cmocka_unit_test(test_pairs_everywhere),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_bad_configuration),
        cmocka_unit_test(test_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
