/* control-plane 4.1 and 4.2: what the device plugin takes of the two files. */
#include "vendors/nvidia/policy/settings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct gs_arena arena;
static struct gs_nvidia_settings set;
static struct gs_err err;
static unsigned told;
static char last[GS_ERR_TEXT];

static int setup(void **state)
{
    (void)state;
    gs_arena_reset(&arena);
    err = (struct gs_err){0};
    told = 0;
    last[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gs_arena_fini(&arena);
    return 0;
}

static void hear(void *user, const char *text)
{
    (void)user;
    told++;
    (void)snprintf(last, sizeof(last), "%s", text);
}

static int read_files(const char *device, const char *node)
{
    const struct gs_nvidia_settings_from from = {
        .device_config = gs_str_of(device),
        .node_config = gs_str_of(node),
        .node = GS_STR("n1"),
        .tell = hear,
    };

    return gs_nvidia_settings_read(&from, &arena, &set, &err);
}

#define assert_text(str, want) assert_true(gs_str_eq_c(str, want))

static void assert_defaults(void)
{
    assert_text(set.resource, "nvidia.com/gpu");
    assert_text(set.mode, "hami-core");
    assert_text(set.log_level, "1");
    assert_int_equal(set.split_count, 10);
    assert_true(set.mem_scaling == 1 && set.core_scaling == 1);
    assert_int_equal(set.preset_mem_mib, 0);
    assert_false(set.enables_numa || set.disables_core_limit || set.prefers);
    assert_int_equal(set.strategy, GS_NVIDIA_MIG_NONE);
    assert_int_equal(set.n_drop_uuids + set.n_drop_indexes, 0);
}

static void without_files_the_charts_values_hold(void **state)
{
    (void)state;
    assert_int_equal(read_files(NULL, NULL), 0);
    assert_defaults();
}

static void the_device_configuration_is_read_like_the_schedulers(void **state)
{
    (void)state;
    assert_int_equal(read_files("hygon:\n  resourceCountName: hygon.com/dcunum\n"
                                "nvidia:\n"
                                "  resourceCountName: example.com/gpu\n"
                                "  deviceSplitCount: 4\n"
                                "  deviceMemoryScaling: 1.5\n"
                                "  deviceCoreScaling: 2\n"
                                "  preConfiguredDeviceMemory: 131072\n"
                                "  libCudaLogLevel: \"3\"\n"
                                "  enableNumaTopology: true\n"
                                "  disableCoreLimit: yes\n"
                                "  keyOfTomorrow: 1\n",
                                NULL),
                     0);
    assert_text(set.resource, "example.com/gpu");
    assert_int_equal(set.split_count, 4);
    assert_true(set.mem_scaling == 1.5 && set.core_scaling == 2);
    assert_int_equal(set.preset_mem_mib, 131072);
    assert_text(set.log_level, "3");
    assert_true(set.enables_numa && set.disables_core_limit);
    /* HAMi's plugin ends where these are missing */
    setup(NULL);
    assert_int_equal(read_files("nvidia:\n  resourceCountName: nvidia.com/gpu\n", NULL), 0);
    assert_defaults();
}

static void a_wrong_device_configuration_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"hygon:\n  memoryFactor: 1\n", "device configuration: it has no section `nvidia`"},
        {"", "device configuration: it has no section `nvidia`"},
        {"nvidia: [1]\n", "device configuration: "},
        {"nvidia:\n  deviceSplitCount: -1\n", "device configuration: "},
        {"nvidia:\n  deviceSplitCount: 40000\n", "deviceSplitCount: 40000 is not from 1 to 32767"},
        {"nvidia:\n  deviceMemoryScaling: -1\n", "deviceMemoryScaling: -1 is not above 0"},
        {"nvidia:\n  deviceCoreScaling: 1e9\n", "deviceCoreScaling: 1e+09 is not"},
        {"nvidia:\n  preConfiguredDeviceMemory: -5\n",
         "preConfiguredDeviceMemory: must not be negative"},
        {"nvidia:\n  libCudaLogLevel: loud\n", "libCudaLogLevel: 'loud' is not 0, 1, 3 or 4"},
        {"nvidia:\n  gpuCorePolicy: maybe\n", "gpuCorePolicy: 'maybe'"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        setup(state);
        assert_int_equal(read_files(rows[i].text, NULL), -EINVAL);
        if (strstr(err.text, rows[i].why) == NULL)
            fail_msg("'%s': %s", rows[i].text, err.text);
    }
}

static void this_nodes_entry_overrides(void **state)
{
    (void)state;
    assert_int_equal(
        read_files(
            "nvidia:\n  deviceSplitCount: 4\n  deviceMemoryScaling: 3\n  enableNumaTopology: "
            "true\n",
            "{\"NodeConfig\":[{\"name\":\"n2\",\"deviceSplitCount\":99},"
            "{\"Name\":\"n1\",\"operatingmode\":\"mps\",\"DeviceMemoryScaling\":1.8,"
            "\"devicecorescaling\":1.25,\"devicesplitcount\":0,\"preconfigureddevicememory\":1024,"
            "\"libcudaloglevel\":\"4\",\"enablenumatopology\":false,\"migstrategy\":\"mixed\","
            "\"FilterDevices\":{\"UUID\":[\"GPU-a\",\"GPU-b\"],\"index\":[0,3]},"
            "\"enablegetpreferredallocation\":true,\"later\":{}}]}"),
        0);
    assert_int_equal(told, 0);
    assert_text(set.mode, "mps");
    assert_true(set.mem_scaling == 1.8 && set.core_scaling == 1.25);
    assert_int_equal(set.split_count, 4); /* zero overrides nothing */
    assert_int_equal(set.preset_mem_mib, 1024);
    assert_text(set.log_level, "4");
    assert_true(set.enables_numa && set.prefers); /* nor does false */
    assert_int_equal(set.strategy, GS_NVIDIA_MIG_MIXED);
    assert_int_equal(set.n_drop_uuids, 2);
    assert_string_equal(set.drop_uuid[1], "GPU-b");
    assert_int_equal(set.n_drop_indexes, 2);
    assert_int_equal(set.drop_index[1], 3);
}

static void a_later_entry_of_the_node_comes_last(void **state)
{
    (void)state;
    assert_int_equal(read_files(NULL, "{\"nodeconfig\":[{\"name\":\"n1\",\"devicesplitcount\":3,"
                                      "\"devicememoryscaling\":2},"
                                      "{\"name\":\"n1\",\"devicesplitcount\":7}]}"),
                     0);
    assert_int_equal(set.split_count, 7);
    assert_true(set.mem_scaling == 2);
}

static void a_broken_node_configuration_is_told_and_holds_nothing(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "node configuration: "},
        {"{\"nodeconfig\":", "node configuration: "},
        {"[]", "it is no object with a list `nodeconfig`"},
        {"{\"nodeconfig\":{}}", "it is no object with a list `nodeconfig`"},
        {"{\"nodeconfig\":[7]}", "entry 0: it is no object"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"devicesplitcount\":3},{\"name\":\"n2\","
         "\"devicesplitcount\":\"3\"}]}",
         "entry 1 of n2: devicesplitcount is not a whole number"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"devicesplitcount\":-3}]}",
         "devicesplitcount: -3 is not"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"devicesplitcount\":3.5}]}",
         "devicesplitcount is not"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"devicememoryscaling\":\"2\"}]}",
         "devicememoryscaling is not a number"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"devicememoryscaling\":1e9}]}",
         "devicememoryscaling: 1e+09"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"operatingmode\":\"mig\"}]}",
         "operatingmode: 'mig' is not served"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"migstrategy\":\"both\"}]}", "migstrategy: 'both'"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"enablenumatopology\":1}]}",
         "enablenumatopology is not"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"filterdevices\":[]}]}",
         "filterdevices is not an object"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"filterdevices\":{\"uuid\":[1]}}]}",
         "filterdevices.uuid is not"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"filterdevices\":{\"index\":[-1]}}]}",
         "filterdevices.index is"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"filterdevices\":{\"index\":\"0\"}}]}",
         "filterdevices.index is"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"libcudaloglevel\":\"9\"}]}", "libcudaloglevel: '9'"},
        {"{\"nodeconfig\":[{\"name\":\"n1\",\"libcudaloglevel\":4}]}",
         "libcudaloglevel is not text"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        setup(state);
        assert_int_equal(read_files(NULL, rows[i].text), 0);
        assert_defaults();
        assert_int_equal(told, 1);
        if (strstr(last, rows[i].why) == NULL)
            fail_msg("'%s': %s", rows[i].text, last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_files_the_charts_values_hold, setup),
        cmocka_unit_test_setup(the_device_configuration_is_read_like_the_schedulers, setup),
        cmocka_unit_test_setup(a_wrong_device_configuration_is_refused, setup),
        cmocka_unit_test_setup(this_nodes_entry_overrides, setup),
        cmocka_unit_test_setup(a_later_entry_of_the_node_comes_last, setup),
        cmocka_unit_test_setup(a_broken_node_configuration_is_told_and_holds_nothing, setup),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
