/* HAMi's device configuration, as its chart makes it (4.1 of the collected facts, v2.10): every
 * section and key is read as it is, slips are told with their line. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/policies.h"
#include "vendors/registry_policy.h"

static const char all_sections[] = "nvidia:\n"
                                   "  resourceCountName: nvidia.com/gpu\n"
                                   "  resourceMemoryName: nvidia.com/gpumem\n"
                                   "  resourceMemoryPercentageName: nvidia.com/gpumem-percentage\n"
                                   "  resourceCoreName: nvidia.com/gpucores\n"
                                   "  resourcePriorityName: nvidia.com/priority\n"
                                   "  overwriteEnv: false\n"
                                   "  defaultMemory: 0\n"
                                   "  defaultCores: 0\n"
                                   "  defaultGPUNum: 1\n"
                                   "  memoryFactor: 1\n"
                                   "  deviceSplitCount: 10\n"
                                   "  deviceMemoryScaling: 1\n"
                                   "  deviceCoreScaling: 1\n"
                                   "  gpuCorePolicy: default\n"
                                   "  libCudaLogLevel: 1\n"
                                   "  enableNumaTopology: false\n"
                                   "  preConfiguredDeviceMemory: 0\n"
                                   "  runtimeClassName: \"\"\n"
                                   "  migProfileAllowlist:\n"
                                   "    - models: [ \"A30\" ]\n"
                                   "      profiles: [ \"1g.6gb\", \"2g.12gb\", \"4g.24gb\" ]\n"
                                   "cambricon:\n"
                                   "  resourceCountName: cambricon.com/vmlu\n"
                                   "  resourceMemoryName: cambricon.com/mlu.smlu.vmemory\n"
                                   "  resourceCoreName: cambricon.com/mlu.smlu.vcore\n"
                                   "hygon:\n"
                                   "  resourceCountName: hygon.com/dcunum\n"
                                   "  resourceMemoryName: hygon.com/dcumem\n"
                                   "  resourceCoreName: hygon.com/dcucores\n"
                                   "  memoryFactor: 1\n"
                                   "metax:\n"
                                   "  resourceCountName: \"metax-tech.com/gpu\"\n"
                                   "  resourceVCountName: metax-tech.com/sgpu\n"
                                   "  resourceVMemoryName: metax-tech.com/vmemory\n"
                                   "  resourceVCoreName: metax-tech.com/vcore\n"
                                   "  sgpuTopologyAware: false\n"
                                   "enflame:\n"
                                   "  resourceNameGCU: \"enflame.com/gcu\"\n"
                                   "  resourceNameDRSGCU: enflame.com/drs-gcu\n"
                                   "  resourceNameGCUMemory: enflame.com/gcu-memory\n"
                                   "  resourceNameGCUCore: enflame.com/gcu-core\n"
                                   "mthreads:\n"
                                   "  resourceCountName: \"mthreads.com/vgpu\"\n"
                                   "  resourceMemoryName: \"mthreads.com/sgpu-memory\"\n"
                                   "  resourceCoreName: \"mthreads.com/sgpu-core\"\n"
                                   "kunlun:\n"
                                   "  resourceCountName: kunlunxin.com/xpu\n"
                                   "  resourceVCountName: kunlunxin.com/vxpu\n"
                                   "  resourceVMemoryName: kunlunxin.com/vxpu-memory\n"
                                   "awsneuron:\n"
                                   "  resourceCountName: \"aws.amazon.com/neuron\"\n"
                                   "  resourceCoreName: \"aws.amazon.com/neuroncore\"\n"
                                   "amd:\n"
                                   "  resourceCountName: \"amd.com/gpu\"\n"
                                   "  resourceCoreName: \"amd.com/gpucores\"\n"
                                   "  resourceMemoryName: \"amd.com/gpumem\"\n"
                                   "vastai:\n"
                                   "  resourceCountName: vastaitech.com/va\n"
                                   "biren:\n"
                                   "  resourceCountName: birentech.com/gpu\n"
                                   "iluvatars:\n"
                                   "  - chipName: MR-V100\n"
                                   "    commonWord: MR-V100\n"
                                   "    resourceCountName: iluvatar.ai/MR-V100-vgpu\n"
                                   "    resourceMemoryName: iluvatar.ai/MR-V100.vMem\n"
                                   "    resourceCoreName: iluvatar.ai/MR-V100.vCore\n"
                                   "vnpus:\n"
                                   "  hamiVnpuCore: false\n"
                                   "  configs:\n"
                                   "    - chipName: 910A\n"
                                   "      commonWord: Ascend910A\n"
                                   "      resourceName: huawei.com/Ascend910A\n"
                                   "      resourceMemoryName: huawei.com/Ascend910A-memory\n"
                                   "      resourceCoreName: huawei.com/Ascend910A-core\n"
                                   "      memoryAllocatable: 32768\n"
                                   "      memoryCapacity: 32768\n"
                                   "      memoryFactor: 1\n"
                                   "      aiCore: 30\n"
                                   "      templates:\n"
                                   "        - name: vir02\n"
                                   "          memory: 2184\n"
                                   "          aiCore: 2\n"
                                   "    - chipName: 310P3\n"
                                   "      commonWord: Ascend310P\n"
                                   "      resourceName: huawei.com/Ascend310P\n"
                                   "      resourceMemoryName: huawei.com/Ascend310P-memory\n"
                                   "      resourceCoreName: huawei.com/Ascend310P-core\n"
                                   "      memoryAllocatable: 21527\n"
                                   "      memoryCapacity: 24576\n"
                                   "      memoryFactor: 1\n"
                                   "      aiCore: 8\n"
                                   "      aiCPU: 7\n"
                                   "      templates:\n"
                                   "        - name: vir01\n"
                                   "          memory: 3072\n"
                                   "          aiCore: 1\n"
                                   "          aiCPU: 1\n";

struct read {
    struct gs_arena arena;
    struct gs_policies policies;
    struct gs_err err;
    char slip[8][400];
    size_t n_slips;
};

static void on_slip(void *user, const char *what)
{
    struct read *r = user;

    assert_true(r->n_slips < 8);
    (void)snprintf(r->slip[r->n_slips++], sizeof(r->slip[0]), "%s", what);
}

static int read_text(struct read *r, const char *text, bool has_opt_in)
{
    static const char *const both[] = {"ascend", "iluvatar", NULL}, *const none[] = {NULL};

    memset(r, 0, sizeof(*r));
    return gs_policies_read(
        &(struct gs_policies_conf){.section = gs_registry_policy,
                                   .n_sections = gs_registry_policy_n,
                                   .enabled = has_opt_in ? both : none,
                                   .text = gs_str_of(text),
                                   .unknown = &(struct gs_yaml_unknown){on_slip, r}},
        &r->arena, &r->policies, &r->err);
}

static void test_all(void **state)
{
    static const char *const word[] = {
        "NVIDIA",    "MLU",        "DCU",        "GCU",        "Enflame",   "Mthreads",
        "Metax-GPU", "Metax-SGPU", "kunlun",     "XPU",        "AWSNeuron", "AMD",
        "Vastai",    "Biren",      "Ascend910A", "Ascend310P", "MR-V100"};
    struct read r;

    (void)state;
    if (read_text(&r, all_sections, true) != 0)
        fail_msg("%s", r.err.text);
    if (r.n_slips > 0)
        fail_msg("%s", r.slip[0]);
    for (size_t i = 0; i < GS_ARRAY_LEN(word); i++)
        if (gs_policies_find(&r.policies, gs_str_of(word[i])) == NULL)
            fail_msg("no policy %s", word[i]);
    assert_int_equal(r.policies.n, GS_ARRAY_LEN(word));
    gs_arena_fini(&r.arena);
    /* without their flags Ascend and Iluvatar are not served, as with HAMi */
    assert_int_equal(read_text(&r, all_sections, false), 0);
    assert_null(gs_policies_find(&r.policies, GS_STR("Ascend910A")));
    assert_null(gs_policies_find(&r.policies, GS_STR("MR-V100")));
    gs_arena_fini(&r.arena);
}

static void want_slip(const char *text, const char *what)
{
    struct read r;

    if (read_text(&r, text, true) != 0)
        fail_msg("%s", r.err.text);
    assert_int_equal(r.n_slips, 1); /* the first of them */
    assert_string_equal(r.slip[0], what);
    gs_arena_fini(&r.arena);
}

/* Unknown keys are told with their line and ignored: HAMi reads leniently. */
static void test_unknown(void **state)
{
    (void)state;
    want_slip("nvidia:\n  resourceCountName: nvidia.com/gpu\n  resorceMem: x\nnewvendor:\n  a: b\n",
              "newvendor (line: 4)");
    want_slip("nvidia:\n  resourceCountName: nvidia.com/gpu\n  resorceMem: x\n",
              "resorceMem (line: 3)");
    want_slip("hygon:\n  resourceCountName: a/b\nvnpus:\n  configs:\n    - chipName: 910A\n"
              "      commonWord: Ascend910A\n      memoryAllocatable: 32768\n      aiCores: 30\n",
              "aiCores (line: 8)");
}

static void test_bad(void **state)
{
    static const struct {
        const char *text, *section, *place;
    } row[] = {
        {"nvidia:\n  resourceCountName: nvidia.com/gpu\n  deviceSplitCount: -x\n", "nvidia",
         "line: 3"},
        {"nvidia: [1]\n", "nvidia", "line: 1"},
        {"hygon:\n  memoryFactor: many\n", "hygon", "line: 2"},
        {"nvidia: {\n", "", "line"},
        /* the list that vnpus was: what is wrong in it, not that it is one */
        {"vnpus:\n  - commonWord: A\n    memoryAllocatable: many\n", "vnpus", "line: 3"},
        {"vnpus:\n  - commonWord: A\n", "vnpus", "A has no memoryAllocatable"},
        {"vnpus:\n  configs:\n    - commonWord: A\n", "vnpus", "A has no memoryAllocatable"},
        {"vnpus: 5\n", "vnpus", "line: 1"},
        /* names that no pod could ask by: the API server takes DOMAIN/NAME alone */
        {"nvidia:\n  resourceCountName: gpu\n", "nvidia: 'gpu'", "DOMAIN/NAME"},
        {"nvidia:\n  resourceMemoryName: nvidia.com/gpu mem\n", "nvidia: 'nvidia.com/gpu mem'", ""},
        {"nvidia:\n  resourceCoreName: /cores\n", "nvidia: '/cores'", ""},
        {"nvidia:\n  resourceCoreName: nvidia.com/\n", "nvidia: 'nvidia.com/'", ""},
        {"nvidia:\n  resourcePriorityName: nvidia.com/a/b\n", "nvidia: 'nvidia.com/a/b'", ""},
    };
    struct read r;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        assert_true(read_text(&r, row[i].text, false) < 0);
        if (strstr(r.err.text, row[i].section) == NULL || strstr(r.err.text, row[i].place) == NULL)
            fail_msg("%zu: %s", i, r.err.text);
        gs_arena_fini(&r.arena);
    }
    assert_true(read_text(&r, "{}\n", false) < 0);
    assert_string_equal(r.err.text, "all configurations are empty");
    gs_arena_fini(&r.arena);
    assert_true(read_text(&r, "- a\n", false) < 0);
    gs_arena_fini(&r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_bad)};

    return cmocka_run_group_tests_name("control_policies", tests, NULL, NULL);
}
