/* The APIs of proto/ that no module speaks yet, as their generated C writes and reads them: bytes
 * of Python's protobuf, the same as in the fact sheet where it has them. */

#include "hex.h"
#include "kubelet_vectors.inc.h"

#include <proto/dra_health_v1.pb-c.h>
#include <proto/dra_health_v1alpha1.pb-c.h>
#include <proto/dra_v1.pb-c.h>
#include <proto/dra_v1beta1.pb-c.h>
#include <proto/pluginregistration_v1.pb-c.h>

/** Read, look, and write: the same bytes. */
static ProtobufCMessage *read_back(const ProtobufCMessageDescriptor *descriptor, const char *hex)
{
    struct gs_str bytes = bytes_of(hex);
    ProtobufCMessage *m =
        protobuf_c_message_unpack(descriptor, NULL, bytes.n, (const uint8_t *)bytes.p);

    assert_non_null(m);
    char *again = malloc(bytes.n);
    assert_non_null(again);
    assert_int_equal(protobuf_c_message_get_packed_size(m), bytes.n);
    (void)protobuf_c_message_pack(m, (uint8_t *)again);
    assert_memory_equal(again, bytes.p, bytes.n);
    free(again);
    free((void *)(uintptr_t)bytes.p);
    return m;
}

static void plugin_registration(void **state)
{
    ProtobufCMessage *m =
        read_back(&pluginregistration__plugin_info__descriptor, VECTOR_PLUGIN_INFO);
    const Pluginregistration__PluginInfo *info = (const Pluginregistration__PluginInfo *)m;

    (void)state;
    assert_string_equal(info->type, "DRAPlugin");
    assert_string_equal(info->endpoint, "/e");
    assert_int_equal(info->n_supported_versions, 2);
    protobuf_c_message_free_unpacked(m, NULL);
    m = read_back(&pluginregistration__registration_status__descriptor, VECTOR_REGISTRATION_STATUS);
    assert_string_equal(((const Pluginregistration__RegistrationStatus *)m)->error, "no");
    protobuf_c_message_free_unpacked(m, NULL);
}

static void prepare(void **state)
{
    ProtobufCMessage *m =
        read_back(&k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_request__descriptor,
                  VECTOR_DRA_PREPARE);
    const K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodePrepareResourcesRequest *req =
        (const K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodePrepareResourcesRequest *)m;

    (void)state;
    assert_string_equal(req->claims[0]->uid, "u-1");
    assert_string_equal(req->claims[0]->namespace_, "default");
    assert_string_equal(req->claims[0]->name, "c1");
    protobuf_c_message_free_unpacked(m, NULL);

    m = read_back(
        &k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_response__descriptor,
        VECTOR_DRA_PREPARED);
    const K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodePrepareResourcesResponse *answer =
        (const K8s__Io__Kubelet__Pkg__Apis__Dra__V1__NodePrepareResourcesResponse *)m;
    const K8s__Io__Kubelet__Pkg__Apis__Dra__V1__Device *device =
        answer->claims[0]->value->devices[0];
    assert_string_equal(device->device_name, "hami-gpu-0");
    assert_int_equal(device->share_case,
                     K8S__IO__KUBELET__PKG__APIS__DRA__V1__DEVICE__SHARE_SHARE_ID);
    assert_string_equal(device->share_id, "s1");
    protobuf_c_message_free_unpacked(m, NULL);

    m = read_back(
        &k8s__io__kubelet__pkg__apis__dra__v1beta1__node_prepare_resources_response__descriptor,
        VECTOR_DRA_BETA_PREPARED);
    protobuf_c_message_free_unpacked(m, NULL);
    m = read_back(
        &k8s__io__kubelet__pkg__apis__dra__v1__node_unprepare_resources_response__descriptor,
        VECTOR_DRA_UNPREPARED);
    protobuf_c_message_free_unpacked(m, NULL);
}

static void health(void **state)
{
    ProtobufCMessage *m = read_back(&v1__node_watch_resources_response__descriptor, VECTOR_HEALTH);
    const V1__DeviceHealth *device = ((const V1__NodeWatchResourcesResponse *)m)->devices[0];

    (void)state;
    assert_string_equal(device->device->device_name, "d0");
    assert_int_equal(device->health, V1__HEALTH_STATUS__HEALTHY);
    assert_int_equal(device->last_updated_time, 1700000000);
    assert_int_equal(device->health_check_timeout_seconds, 30);
    protobuf_c_message_free_unpacked(m, NULL);
    m = read_back(&v1alpha1__node_watch_resources_response__descriptor, VECTOR_HEALTH);
    protobuf_c_message_free_unpacked(m, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plugin_registration),
        cmocka_unit_test(prepare),
        cmocka_unit_test(health),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
