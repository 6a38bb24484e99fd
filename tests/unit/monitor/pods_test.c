#include "monitor/pods.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "contract/quota.h"
#include "fake_pod.h"

#define META(uid, annotations)                                                                     \
    "{'metadata':{'namespace':'n','name':'p','uid':'" uid "','annotations':{" annotations "}},"
#define GRANT(text) "'hami.io/vgpu-devices-allocated':'" text "'"
#define MAIN        "'spec':{'containers':[{'name':'main'}]}}"

/* One that ended, one without a card, one with two. */
static const char three[] =
    META("u-1", GRANT("GPU-a,NVIDIA,1000,0:;;GPU-a,NVIDIA,3000,30:GPU-b,NVIDIA,0,100:;")) //
    "'spec':{'initContainers':[{'name':'first'}],"
    "'containers':[{'name':'side'},{'name':'main','env':["
    "{'name':'GPU_CORE_UTILIZATION_POLICY','value':'force'},"
    "{'name':'GPU_CORE_UTILIZATION_POLICY','value':'default'},"
    "{'name':'CUDA_TASK_PRIORITY','value':'0'},"
    "{'name':'CUDA_OVERSUBSCRIBE','value':'true'},"
    "{'name':'CUDA_DISABLE_CONTROL','value':'true'}]}]},"
    "'status':{'phase':'Running',"
    "'initContainerStatuses':[{'name':'first','state':{'terminated':{'exitCode':0}}}],"
    "'containerStatuses':[{'name':'main','containerID':'containerd://abc',"
    "'state':{'running':{}}}]}}";

static const char over[] = META("u-1", "") //
    "'spec':{'containers':[{'name':'main'}]},'status':{'phase':'Succeeded'}}";

static const char part[] =
    META("u-2", GRANT("GPU-a,NVIDIA,4864,14:GPU-b,NVIDIA,1000,0:;") //
         ",'hami.io/vgpu-mig-allocations':'[{`containerIndex`:0,`deviceIndex`:0,`gpuUUID`:`GPU-a`,"
         "`profile`:`1g.5gb`,`placement`:{`start`:2,`size`:1},`migUUID`:`MIG-1`,"
         "`gpuInstanceID`:9,`computeInstanceID`:0}]'") MAIN;

static const char bad[] = META("u-3", GRANT("GPU-a,NVIDIA,-5,0:;")) MAIN;

static void containers(void **state)
{
    struct gs_pods pods;
    const struct gs_pods_pod *pod;
    const struct gs_pods_container *c;

    (void)state;
    gs_pods_init(&pods, fake_keys, 1);
    assert_int_equal(fake_pod(&pods, three), 0);
    pod = gs_pods_find(&pods, GS_STR("u-1"));
    assert_non_null(pod);
    assert_true(gs_str_eq_c(pod->ns, "n") && gs_str_eq_c(pod->name, "p") && !pod->is_over);
    assert_int_equal(pod->n_containers, 3);
    c = gs_pods_find_container(pod, GS_STR("first"));
    assert_int_equal(c->state, GS_PODS_ENDED);
    assert_int_equal(c->n_devices, 1);
    assert_int_equal(c->device[0].mem_bytes, 1000ull << 20);
    assert_int_equal(c->priority, GS_PRIORITY_NONE);
    assert_int_equal(c->policy, GS_POLICY_FIXED);
    c = gs_pods_find_container(pod, GS_STR("side"));
    assert_int_equal(c->state, GS_PODS_WAITING);
    assert_int_equal(c->n_devices, 0);
    c = gs_pods_find_id(pod, GS_STR("abc"));
    assert_ptr_equal(c, gs_pods_find_container(pod, GS_STR("main")));
    assert_int_equal(c->state, GS_PODS_RUNNING);
    assert_int_equal(c->n_devices, 2);
    assert_true(gs_str_eq_c(c->device[1].uuid, "GPU-b"));
    assert_int_equal(c->device[0].core_pct, 30);
    assert_int_equal(c->device[1].mem_bytes, 0);
    assert_false(c->device[0].is_part);
    assert_int_equal(c->policy, GS_POLICY_ELASTIC); /* the last one of a name counts */
    assert_int_equal(c->priority, GS_PRIORITY_HIGH);
    assert_true(c->is_oversubscribed && c->is_uncontrolled);
    assert_null(gs_pods_find_id(pod, GS_STR("")));
    assert_null(gs_pods_find_container(pod, GS_STR("none")));
    gs_pods_fini(&pods);
}

static void changes(void **state)
{
    struct gs_pods pods;

    (void)state;
    gs_pods_init(&pods, fake_keys, 1);
    assert_int_equal(fake_pod(&pods, three), 0);
    assert_int_equal(fake_pod(&pods, over), 0);
    assert_true(gs_pods_find(&pods, GS_STR("u-1"))->is_over);
    assert_int_equal(gs_pods_find(&pods, GS_STR("u-1"))->container[0].n_devices, 0);
    gs_pods_gone(&pods, GS_STR("u-1"));
    gs_pods_gone(&pods, GS_STR("u-1"));
    assert_null(gs_pods_find(&pods, GS_STR("u-1")));
    gs_pods_fini(&pods);
}

static void partitions(void **state)
{
    struct gs_pods pods;
    const struct gs_pods_pod *pod;

    (void)state;
    gs_pods_init(&pods, fake_keys, 1);
    assert_int_equal(fake_pod(&pods, part), 0);
    pod = gs_pods_find(&pods, GS_STR("u-2"));
    assert_true(pod->container[0].device[0].is_part);
    assert_false(pod->container[0].device[1].is_part);
    assert_int_equal(pod->n_parts, 1);
    assert_true(gs_str_eq_c(pod->part[0].uuid, "MIG-1") &&
                gs_str_eq_c(pod->part[0].profile, "1g.5gb"));
    assert_int_equal(pod->part[0].gpu_instance, 9);
    gs_pods_fini(&pods);
}

/* Who it is stays known: its folder is not a stranger's. */
static void grant_not_understood(void **state)
{
    struct gs_pods pods;

    (void)state;
    gs_pods_init(&pods, fake_keys, 1);
    assert_int_equal(fake_pod(&pods, bad), -EINVAL);
    assert_non_null(gs_pods_find(&pods, GS_STR("u-3")));
    assert_int_equal(gs_pods_find(&pods, GS_STR("u-3"))->container[0].n_devices, 0);
    gs_pods_fini(&pods);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(containers),
        cmocka_unit_test(changes),
        cmocka_unit_test(partitions),
        cmocka_unit_test(grant_not_understood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
