/* Lines of /proc/<pid>/cgroup as the runtimes' own documents have them. */

#include "monitor/cgroup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define UID  "0f4b8d3a-1c2e-4f5a-9b6c-7d8e9f0a1b2c"
#define UID_ "0f4b8d3a_1c2e_4f5a_9b6c_7d8e9f0a1b2c"
#define ID   "3c5f1e9d7b2a4c6e8f0a1b3d5c7e9f0123456789abcdef0123456789abcdef01"

static void forms(void **state)
{
    static const struct {
        const char *text, *uid, *id;
    } row[] = {
        {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
         ".slice/cri-containerd-" ID ".scope\n",
         UID, ID},
        {"0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope\n", UID, ID},
        {"0::/kubepods/besteffort/pod" UID "/" ID "\n", UID, ID},
        {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
         ".slice/docker-" ID ".scope\n",
         UID, ID},
        {"12:devices:/kubepods/burstable/pod" UID "/" ID
         "\n1:name=systemd:/kubepods/burstable/pod" UID "/" ID "\n0::/\n",
         UID, ID},
        /* containerd's older form, systemd's driver without a scope */
        {"4:memory:/system.slice/containerd.service/kubepods-besteffort-pod" UID_
         ".slice:cri-containerd:" ID "\n",
         UID, ID},
        /* kind: the kubelet has a root of its own; and a name space of cgroups above ours */
        {"0::/../../kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_
         ".slice/cri-containerd-" ID ".scope\n",
         UID, ID},
        /* what the container made below */
        {"0::/kubepods/pod" UID "/" ID "/kubepods/podffffffff-ffff-ffff-ffff-ffffffffffff/"
         "ffffffffffffffff\n",
         UID, ID},
        /* a static pod's UID is a hash */
        {"0::/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" ID "\n",
         "0123456789abcdef0123456789abcdef", ID},
        /* the pause process of a pod without a container's group */
        {"0::/kubepods/burstable/pod" UID "\n", UID, ""},
        {"0::/kubepods/burstable/pod" UID "/init\n", UID, ""},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        struct gs_cgroup got = {0};

        assert_int_equal(gs_cgroup_parse(gs_str_of(row[i].text), &got), 0);
        assert_string_equal(got.pod_uid, row[i].uid);
        assert_string_equal(got.container_id, row[i].id);
    }
}

static void none(void **state)
{
    static const char *const text[] = {
        "",
        "\n",
        "0::/\n",
        "0::/user.slice/user-0.slice/session-1.scope\n",
        "garbage",
        "::::",
        "0::/kubepods.slice/kubepods-burstable.slice\n",
        /* a user's own folder of that name is not below the kubelet's */
        "0::/user.slice/pod" UID "/" ID "\n",
        "0::/kubepods/burstable/podNOT-A-UID/" ID "\n",
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(text); i++) {
        struct gs_cgroup got = {.pod_uid = "kept"};

        assert_int_equal(gs_cgroup_parse(gs_str_of(text[i]), &got), -ENOENT);
        assert_string_equal(got.pod_uid, "kept");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(none)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
