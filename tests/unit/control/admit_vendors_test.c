/* What each vendor's rules make of a whole review: A14 of the collected vectors of HAMi v2.10, and
 * its rules of admission (2.3 there). */

#include "review.h"

#define POD(limits)       REVIEW_POD(limits, "")
#define NOTED(limits, of) REVIEW_POD(limits, of)
#define C0                "/spec/containers/0/resources"

/* A pod of one container with requests too. */
#define BOTH(limits, requests)                                                                     \
    "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','resources':{'limits':{" limits    \
    "},'requests':{" requests "}}}]}}"

struct row {
    const char *pod, *want;
};

static void walk(const char *yaml, const struct row *row, size_t n)
{
    struct review r;

    review_init(&r, yaml);
    for (size_t i = 0; i < n; i++)
        review_want(&r, row[i].pod, row[i].want);
    review_fini(&r);
}

#define NV        "nvidia.com/"
#define OURS      "/spec/schedulerName=hami-scheduler "
#define CORES(of) "ok " OURS C0 "/limits/nvidia.com~1gpucores=" of " "
#define PCT_TEXT  "in container c: must be an integer between 0 and 100"

static void test_nvidia(void **state)
{
    static const struct row row[] = {
        /* A14.1, A14.2 */
        {POD("'nvidia.com/gpumem-percentage':'0','nvidia.com/gpu':'1'"), "ok " OURS},
        {POD("'nvidia.com/gpumem-percentage':'100','nvidia.com/gpu':'1'"), "ok " OURS},
        /* A14.3: in the limits or in the requests */
        {POD("'nvidia.com/gpu':'1','nvidia.com/gpumem-percentage':'100'"), CORES("100")},
        {BOTH("'nvidia.com/gpu':'1'", "'nvidia.com/gpumem-percentage':'100'"), CORES("100")},
        /* A14.4 to A14.7 */
        {POD("'nvidia.com/gpu':'1','nvidia.com/gpumem-percentage':'50'"), CORES("-")},
        {POD("'nvidia.com/gpu':'1'"), CORES("100")},
        {POD("'nvidia.com/gpu':'1','nvidia.com/gpumem':'8192'"), CORES("-")},
        /* A14.9, A14.10 */
        {POD("'nvidia.com/gpucores':'50'"), CORES("50") C0 "/limits/nvidia.com~1gpu=1"},
        {POD("'nvidia.com/gpumem':'1k'"), CORES("-") C0 "/limits/nvidia.com~1gpu=1"},
        {POD("'nvidia.com/gpumem-percentage':'50'"), CORES("-") C0 "/limits/nvidia.com~1gpu=1"},
        /* user needs 31 */
        {POD("'nvidia.com/gpu':'1','nvidia.com/gpumem-percentage':'101'"),
         "no 500 invalid nvidia.com/gpumem-percentage value 101 " PCT_TEXT},
        {POD("'nvidia.com/gpu':'1','nvidia.com/gpumem-percentage':'4294967346'"),
         "no 500 invalid nvidia.com/gpumem-percentage value 4294967346 " PCT_TEXT},
        /* a priority becomes a variable, in place of one of that name wherever it comes from */
        {POD("'nvidia.com/gpu':'1','nvidia.com/priority':'2'"),
         "ok /spec/containers/0/env=[{\"name\":\"CUDA_TASK_PRIORITY\",\"value\":\"2\"}]"},
        {"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','env':[{'name':'A','value':"
         "'1'},{'name':'CUDA_TASK_PRIORITY','valueFrom':{'fieldRef':{'fieldPath':'x'}}},{'name':"
         "'B'}],'resources':{'limits':{'nvidia.com/gpu':'1','nvidia.com/priority':'1'}}}]}}",
         "ok /spec/containers/0/env/1={\"name\":\"CUDA_TASK_PRIORITY\",\"value\":\"1\"} "
         "/spec/containers/0/env/0/value=1 /spec/containers/0/env/2/name=B "
         "/spec/containers/0/env/3=-"},
        /* numbers of JSON are quantities too */
        {POD("'nvidia.com/gpu':1,'nvidia.com/gpumem':3000"), CORES("-")},
        {POD("'nvidia.com/gpu':1.5"),
         "no 500 invalid nvidia.com/gpu value 1.5 in container c: must be an integer "
         "number of devices below 2^31"},
    };

    (void)state;
    walk(NULL, row, sizeof(row) / sizeof(row[0]));
}

static void test_nvidia_configured(void **state)
{
    static const struct row no_memory[] = {
        {POD("'nvidia.com/gpu':'1'"), CORES("100")}, /* A14.8 */
    };
    static const struct row hiding[] = {
        /* user needs 30: the image's and the user's value are overridden */
        {POD(""), "ok /spec/schedulerName=- /spec/containers/0/env/0/value=none"},
        {"{'metadata':{'name':'p'},'spec':{'initContainers':[{'name':'i','env':[{'name':"
         "'NVIDIA_VISIBLE_DEVICES','value':'all'}]}],'containers':[{'name':'c','resources':{"
         "'limits':{'nvidia.com/gpu':'1'}}}]}}",
         "ok " OURS "/spec/initContainers/0/env/0/value=none /spec/initContainers/0/env/1=- "
         "/spec/containers/0/env=- /spec/runtimeClassName=nvidia"},
    };

    (void)state;
    walk("nvidia: {resourceCountName: nvidia.com/gpu, resourceMemoryName: '', resourceCoreName: "
         "nvidia.com/gpucores}",
         no_memory, 1);
    walk("nvidia: {overwriteEnv: true, runtimeClassName: nvidia}", hiding, 2);
}

static void test_amd(void **state)
{
    static const struct row row[] = {
        {BOTH("", "'amd.com/gpu':'1'"), "same"},          /* A14.11 */
        {POD("'amd.com/gpu':'1','amd.com/gpucores':'0'"), /* A14.12, A14.13 */
         "no 500 amd.com/gpucores must be an integer percentage between 1 and 100"},
        {POD("'amd.com/gpu':'1','amd.com/gpucores':'101'"),
         "no 500 amd.com/gpucores must be an integer percentage between 1 and 100"},
        {POD("'amd.com/gpu':'2','amd.com/gpucores':'33'"), "ok " OURS},
    };

    (void)state;
    walk(NULL, row, sizeof(row) / sizeof(row[0]));
}

#define MT "mthreads.com/"

static void test_mthreads(void **state)
{
    static const struct row row[] = {
        /* A14.13, A14.14 */
        {POD("'mthreads.com/vgpu':'2'"), "ok " OURS C0 "/limits/mthreads.com~1sgpu-core=32 " C0
                                         "/limits/mthreads.com~1sgpu-memory=192 "
                                         "/metadata/annotations/mthreads.com~1request-gpu-num=2"},
        {POD("'mthreads.com/vgpu':'1'"),
         "ok " C0 "/limits/mthreads.com~1sgpu-core=16 " C0 "/limits/mthreads.com~1sgpu-memory=96"},
        /* A14.15 */
        {POD("'mthreads.com/vgpu':'1','mthreads.com/sgpu-memory':'3'"),
         "no 500 sGPU memory request value is invalid, valid values are [2, 4, 8, 16, 32, 64, 96]"},
        {POD("'mthreads.com/vgpu':'0'"), "no 500 mthreads.com/vgpu must be greater than 0"},
        {POD("'mthreads.com/vgpu':'-1'"), "no 500 mthreads.com/vgpu must be greater than 0"},
    };

    (void)state;
    walk(NULL, row, sizeof(row) / sizeof(row[0]));
}

#define A910A "'huawei.com/Ascend910A':"
#define B3    "huawei.com/Ascend910B3"
#define SOFT  "'huawei.com/vnpu-mode':'hami-core'"

static void test_ascend(void **state)
{
    static const struct row row[] = {
        /* A14.16 to A14.18 */
        {POD(A910A "'2','huawei.com/Ascend910A-memory':'8738'"),
         "no 500 vNPU not supported for multiple devices"},
        {POD(A910A "'1','huawei.com/Ascend910A-memory':'40000'"),
         "no 500 huawei.com/Ascend910A-memory 40000 is invalid: a card has 32768 MiB, ask in units "
         "of 1 MiB"},
        {POD(A910A "'1','huawei.com/Ascend910A-memory':'20000'"),
         "ok " OURS C0 "/limits/huawei.com~1Ascend910A-memory=32768 " C0
         "/requests/huawei.com~1Ascend910A-memory=32768"},
        /* A14.19, and the pod of the public description with its refusal */
        {POD("'huawei.com/Ascend910B3':'1','huawei.com/Ascend910B3-core':'10'"),
         "no 500 huawei.com/Ascend910B3-core is only supported in hami-core (soft split) mode"},
        {POD("'huawei.com/Ascend910B3':'1','huawei.com/Ascend910B3-core':'0'"), "ok " OURS},
        {NOTED("'huawei.com/Ascend910B3':'1','huawei.com/Ascend910B3-memory':'28672',"
               "'huawei.com/Ascend910B3-core':'40'",
               SOFT),
         "ok " OURS C0 "/limits/huawei.com~1Ascend910B3-memory=28672 " C0
         "/limits/huawei.com~1Ascend910B3-core=40"},
        /* Ascend910C comes in pairs */
        {POD("'huawei.com/Ascend910C':'1'"), "ok " C0 "/limits/huawei.com~1Ascend910C=2"},
        {POD("'huawei.com/Ascend910C':'3'"),
         "no 500 Ascend910C device request must be 1 or 2*n, got 3"},
    };

    (void)state;
    walk(NULL, row, sizeof(row) / sizeof(row[0]));
}

static void test_metax(void **state)
{
    static const struct row row[] = {
        /* A14.20 */
        {NOTED("'metax-tech.com/sgpu':'1'", "'metax-tech.com/sgpu-app-class':'oNLine'"),
         "no 500 metax-tech.com/sgpu-app-class must be set one of [online, offline]"},
        {NOTED("'metax-tech.com/sgpu':'1'", "'metax-tech.com/sgpu-app-class':'offline',"
                                            "'metax-tech.com/sgpu-qos-policy':'best-effortx'"),
         "no 500 metax-tech.com/sgpu-qos-policy must be set one of [best-effort, fixed-share, "
         "burst-share]"},
        {NOTED("'metax-tech.com/sgpu':'1'", "'metax-tech.com/sgpu-app-class':'online',"
                                            "'metax-tech.com/sgpu-qos-policy':'best-effortx'"),
         "ok " OURS},
        {NOTED("'metax-tech.com/sgpu':'2'", "'metax-tech.com/sgpu-app-class':'online'"),
         "no 500 app-class pod must request single device"},
        {POD("'metax-tech.com/sgpu':'1'"),
         "ok " OURS "/metadata/annotations/metax-tech.com~1sgpu-qos-policy=best-effort"},
    };

    (void)state;
    walk(NULL, row, sizeof(row) / sizeof(row[0]));
}

/* The rest of 2.3. */
static void test_others(void **state)
{
    static const struct row row[] = {
        {POD("'cambricon.com/vmlu':'1'"), "ok " OURS},
        {POD("'hygon.com/dcunum':'1','hygon.com/dcumem':'2000'"), "ok " OURS},
        {POD("'metax-tech.com/gpu':'1'"), "ok " OURS},
        {POD("'enflame.com/gcu':'1'"), "ok " OURS},
        {POD("'kunlunxin.com/xpu':'1'"), "ok " OURS},
        {POD("'vastaitech.com/va':'1'"), "ok " OURS},
        {POD("'birentech.com/gpu':'1'"), "ok " OURS},
        /* counts that no request can be made of, where the vendor's rule looks at the name alone */
        {POD("'vastaitech.com/va':'4294967297'"),
         "no 500 invalid vastaitech.com/va value 4294967297 in container c: must be an integer "
         "below 2^31"},
        {POD("'birentech.com/gpu':'-1'"),
         "no 500 invalid birentech.com/gpu value -1 in container c: must be an integer below 2^31"},
        {POD("'enflame.com/gcu':'1.5'"),
         "no 500 invalid enflame.com/gcu value 1.5 in container c: must be an integer below 2^31"},
        {POD("'metax-tech.com/gpu':'9223372036854775808'"),
         "no 500 invalid metax-tech.com/gpu value 9223372036854775808 in container c: must be an "
         "integer below 2^31"},
        {POD("'nvidia.com/gpu':'1','kunlunxin.com/xpu':'2147483648'"),
         "no 500 invalid kunlunxin.com/xpu value 2147483648 in container c: must be an integer "
         "below 2^31"},
        {POD("'enflame.com/drs-gcu':'0'"), "no 500 enflame.com/drs-gcu must be greater than 0"},
        {POD("'enflame.com/drs-gcu':'3'"), "ok " OURS C0 "/requests/enflame.com~1drs-gcu=3"},
        {POD("'enflame.com/gcu-core':'101'"),
         "no 500 enflame.com/gcu-core must be in range (0,100]"},
        {POD("'kunlunxin.com/vxpu':'1','kunlunxin.com/vxpu-memory':'24577'"),
         "ok " OURS C0 "/limits/kunlunxin.com~1vxpu-memory=49152 " C0
         "/requests/kunlunxin.com~1vxpu-memory=49152"},
        {POD("'iluvatar.ai/BI-V100-vgpu':'2'"),
         "ok " OURS C0 "/limits/iluvatar.ai~1BI-V100.vCore=200 "
         "/spec/containers/0/env/0={\"name\":\"SOL_CONTINER_NAME\",\"value\":\"c\"}"},
        {POD("'aws.amazon.com/neuroncore':'3'"),
         "no 500 aws.amazon.com/neuroncore must be 1 or a multiple of 2, got 3"},
        {POD("'aws.amazon.com/neuron':'0'"), "no 500 aws.amazon.com/neuron must be greater than 0"},
        {POD("'aws.amazon.com/neuroncore':'1'"), "ok " OURS},
        /* found by two vendors */
        {POD("'nvidia.com/gpu':'1','mthreads.com/vgpu':'1'"),
         CORES("100") C0 "/limits/mthreads.com~1sgpu-memory=96"},
    };

    (void)state;
    walk(NULL, row, sizeof(row) / sizeof(row[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvidia), cmocka_unit_test(test_nvidia_configured),
        cmocka_unit_test(test_amd),    cmocka_unit_test(test_mthreads),
        cmocka_unit_test(test_ascend), cmocka_unit_test(test_metax),
        cmocka_unit_test(test_others),
    };

    return cmocka_run_group_tests_name("control_admit_vendors", tests, NULL, NULL);
}
