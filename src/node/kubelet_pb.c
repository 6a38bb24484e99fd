#include "node/kubelet_pb.h"

#include <errno.h>

#include <proto/deviceplugin_v1beta1.pb-c.h>
#include <proto/podresources_v1.pb-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "node/pb_check.h"

static const struct gs_pb_limits request_limits = {
    .bytes = GS_KUBELET_REQUEST_BYTES,
    .text = GS_KUBELET_TEXT,
    .elements = GS_KUBELET_ELEMENTS,
};
static const struct gs_pb_limits resources_limits = {
    .bytes = GS_KUBELET_RESOURCES_BYTES,
    .text = GS_KUBELET_TEXT,
    .elements = (size_t)4 * GS_KUBELET_ELEMENTS,
};

/* ---- protobuf-c in an arena ---- */

static void *take(void *user, size_t n)
{
    return gs_arena_take(user, 1, n);
}

static void leave(void *user, void *p)
{
    (void)user; /* all goes with the arena */
    (void)p;
}

static int unpack(struct gs_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                  const struct gs_pb_limits *limits, struct gs_str bytes,
                  ProtobufCMessage **ret_message, struct gs_err *err)
{
    ProtobufCAllocator allocator = {.alloc = take, .free = leave, .allocator_data = arena};
    int rc = gs_pb_check(descriptor, bytes, limits, err);

    if (rc < 0)
        return rc;
    ProtobufCMessage *message =
        protobuf_c_message_unpack(descriptor, &allocator, bytes.n, (const uint8_t *)bytes.p);
    if (gs_arena_check(arena) < 0)
        return gs_err_set(err, -ENOMEM, "%s: out of memory", descriptor->name);
    if (!message)
        return gs_err_set(err, -EBADMSG, "%s: not such a message", descriptor->name);
    *ret_message = message;
    return 0;
}

static int pack(struct gs_buf *buf, const ProtobufCMessage *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    int rc = gs_buf_reserve(buf, n);

    if (rc < 0)
        return rc;
    buf->n += protobuf_c_message_pack(message, (uint8_t *)buf->p + buf->n);
    buf->p[buf->n] = '\0';
    return 0;
}

/** `n` zeroed objects, and pointers to them as protobuf-c wants them. */
static void *take_many(struct gs_arena *arena, size_t n, size_t size, void *ret_pointers)
{
    char *objects = gs_arena_take(arena, n, size);
    void **pointers = gs_arena_take(arena, n, sizeof(*pointers));

    if (!objects || !pointers)
        return NULL;
    for (size_t i = 0; i < n; i++)
        pointers[i] = objects + i * size;
    *(void ***)ret_pointers = pointers;
    return objects;
}

static struct gs_kubelet_texts texts_of(char **p, size_t n)
{
    return (struct gs_kubelet_texts){(const char *const *)p, n};
}

/** protobuf-c's texts are not const, and not written. */
static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static char **texts(struct gs_kubelet_texts s)
{
    return (char **)(uintptr_t)s.p;
}

/* ---- device plugin: what the kubelet asks ---- */

int gs_kubelet_pb_allocate(struct gs_arena *arena, struct gs_str bytes,
                           const struct gs_kubelet_texts **ret_container, size_t *ret_n_container,
                           struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1beta1__allocate_request__descriptor, &request_limits, bytes, &message,
                    err);

    if (rc < 0)
        return rc;
    const V1beta1__AllocateRequest *req = (const V1beta1__AllocateRequest *)message;
    struct gs_kubelet_texts *container =
        GS_ARENA_ARRAY(arena, req->n_container_requests, struct gs_kubelet_texts);
    if (!container)
        return gs_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < req->n_container_requests; i++)
        container[i] = texts_of(req->container_requests[i]->devices_ids,
                                req->container_requests[i]->n_devices_ids);
    *ret_container = container;
    *ret_n_container = req->n_container_requests;
    return 0;
}

int gs_kubelet_pb_prefer(struct gs_arena *arena, struct gs_str bytes,
                         const struct gs_kubelet_prefer **ret_container, size_t *ret_n_container,
                         struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1beta1__preferred_allocation_request__descriptor, &request_limits,
                    bytes, &message, err);

    if (rc < 0)
        return rc;
    const V1beta1__PreferredAllocationRequest *req =
        (const V1beta1__PreferredAllocationRequest *)message;
    struct gs_kubelet_prefer *container =
        GS_ARENA_ARRAY(arena, req->n_container_requests, struct gs_kubelet_prefer);
    if (!container)
        return gs_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < req->n_container_requests; i++) {
        const V1beta1__ContainerPreferredAllocationRequest *one = req->container_requests[i];
        container[i] = (struct gs_kubelet_prefer){
            .available = texts_of(one->available_deviceids, one->n_available_deviceids),
            .must = texts_of(one->must_include_deviceids, one->n_must_include_deviceids),
            .size = one->allocation_size,
        };
    }
    *ret_container = container;
    *ret_n_container = req->n_container_requests;
    return 0;
}

int gs_kubelet_pb_pre_start(struct gs_arena *arena, struct gs_str bytes,
                            struct gs_kubelet_texts *ret_ids, struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1beta1__pre_start_container_request__descriptor, &request_limits,
                    bytes, &message, err);

    if (rc < 0)
        return rc;
    const V1beta1__PreStartContainerRequest *req =
        (const V1beta1__PreStartContainerRequest *)message;
    *ret_ids = texts_of(req->devices_ids, req->n_devices_ids);
    return 0;
}

int gs_kubelet_pb_cdi(struct gs_arena *arena, struct gs_str bytes, struct gs_kubelet_texts *ret_cdi,
                      struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1beta1__container_allocate_response__descriptor, &request_limits,
                    bytes, &message, err);

    if (rc < 0)
        return rc;
    const V1beta1__ContainerAllocateResponse *answer =
        (const V1beta1__ContainerAllocateResponse *)message;
    const char **name = GS_ARENA_ARRAY(arena, answer->n_cdi_devices, const char *);
    if (!name)
        return gs_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < answer->n_cdi_devices; i++)
        name[i] = answer->cdi_devices[i]->name;
    *ret_cdi = (struct gs_kubelet_texts){name, answer->n_cdi_devices};
    return 0;
}

/* ---- device plugin: what we say ---- */

static V1beta1__DevicePluginOptions options_of(const struct gs_kubelet_options *options)
{
    V1beta1__DevicePluginOptions m = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

    m.pre_start_required = options->pre_start;
    m.get_preferred_allocation_available = options->prefer;
    return m;
}

int gs_kubelet_pb_put_register(struct gs_buf *buf, const struct gs_kubelet_register *req)
{
    V1beta1__RegisterRequest m = V1BETA1__REGISTER_REQUEST__INIT;
    V1beta1__DevicePluginOptions options = options_of(&req->options);

    m.version = text(req->version);
    m.endpoint = text(req->endpoint);
    m.resource_name = text(req->resource);
    m.options = &options;
    return pack(buf, &m.base);
}

int gs_kubelet_pb_put_options(struct gs_buf *buf, const struct gs_kubelet_options *options)
{
    V1beta1__DevicePluginOptions m = options_of(options);

    return pack(buf, &m.base);
}

static V1beta1__TopologyInfo *topology_of(struct gs_arena *arena, const int64_t *numa, size_t n)
{
    V1beta1__TopologyInfo *topology = GS_ARENA_NEW(arena, V1beta1__TopologyInfo);
    V1beta1__NUMANode **pointers;
    V1beta1__NUMANode *nodes = take_many(arena, n, sizeof(*nodes), &pointers);

    if (!topology || !nodes)
        return NULL;
    v1beta1__topology_info__init(topology);
    topology->n_nodes = n;
    topology->nodes = pointers;
    for (size_t i = 0; i < n; i++) {
        v1beta1__numanode__init(&nodes[i]);
        nodes[i].id = numa[i];
    }
    return topology;
}

int gs_kubelet_pb_put_devices(struct gs_buf *buf, const struct gs_kubelet_device *device, size_t n)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    V1beta1__ListAndWatchResponse m = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
    V1beta1__Device *devices = take_many(&arena, n, sizeof(*devices), &m.devices);

    if (!devices)
        return -ENOMEM;
    m.n_devices = n;
    for (size_t i = 0; i < n; i++) {
        v1beta1__device__init(&devices[i]);
        devices[i].id = text(device[i].id);
        devices[i].health = text(device[i].healthy ? "Healthy" : "Unhealthy");
        if (device[i].n_numa == 0)
            continue;
        devices[i].topology = topology_of(&arena, device[i].numa, device[i].n_numa);
        if (!devices[i].topology)
            return -ENOMEM;
    }
    return pack(buf, &m.base);
}

int gs_kubelet_pb_put_preferred(struct gs_buf *buf, const struct gs_kubelet_texts *container,
                                size_t n)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    V1beta1__PreferredAllocationResponse m = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
    V1beta1__ContainerPreferredAllocationResponse *one =
        take_many(&arena, n, sizeof(*one), &m.container_responses);

    if (!one)
        return -ENOMEM;
    m.n_container_responses = n;
    for (size_t i = 0; i < n; i++) {
        v1beta1__container_preferred_allocation_response__init(&one[i]);
        one[i].n_deviceids = container[i].n;
        one[i].deviceids = texts(container[i]);
    }
    return pack(buf, &m.base);
}

typedef V1beta1__ContainerAllocateResponse answer_message;
typedef V1beta1__ContainerAllocateResponse__EnvsEntry env_message;
typedef V1beta1__ContainerAllocateResponse__AnnotationsEntry annotation_message;

static int put_envs(struct gs_arena *arena, const struct gs_kubelet_edits *edits, answer_message *m)
{
    env_message *env = take_many(arena, edits->n_envs, sizeof(*env), &m->envs);

    if (!env)
        return -ENOMEM;
    m->n_envs = edits->n_envs;
    for (size_t i = 0; i < edits->n_envs; i++) {
        v1beta1__container_allocate_response__envs_entry__init(&env[i]);
        env[i].key = text(edits->envs[i].key);
        env[i].value = text(edits->envs[i].value);
    }
    return 0;
}

static int put_annotations(struct gs_arena *arena, const struct gs_kubelet_edits *edits,
                           answer_message *m)
{
    annotation_message *annotation =
        take_many(arena, edits->n_annotations, sizeof(*annotation), &m->annotations);

    if (!annotation)
        return -ENOMEM;
    m->n_annotations = edits->n_annotations;
    for (size_t i = 0; i < edits->n_annotations; i++) {
        v1beta1__container_allocate_response__annotations_entry__init(&annotation[i]);
        annotation[i].key = text(edits->annotations[i].key);
        annotation[i].value = text(edits->annotations[i].value);
    }
    return 0;
}

static int put_mounts(struct gs_arena *arena, const struct gs_kubelet_edits *edits,
                      answer_message *m)
{
    V1beta1__Mount *mount = take_many(arena, edits->n_mounts, sizeof(*mount), &m->mounts);

    if (!mount)
        return -ENOMEM;
    m->n_mounts = edits->n_mounts;
    for (size_t i = 0; i < edits->n_mounts; i++) {
        v1beta1__mount__init(&mount[i]);
        mount[i].container_path = text(edits->mounts[i].container_path);
        mount[i].host_path = text(edits->mounts[i].host_path);
        mount[i].read_only = edits->mounts[i].read_only;
    }
    return 0;
}

static int put_nodes(struct gs_arena *arena, const struct gs_kubelet_edits *edits,
                     answer_message *m)
{
    V1beta1__DeviceSpec *node = take_many(arena, edits->n_nodes, sizeof(*node), &m->devices);

    if (!node)
        return -ENOMEM;
    m->n_devices = edits->n_nodes;
    for (size_t i = 0; i < edits->n_nodes; i++) {
        v1beta1__device_spec__init(&node[i]);
        node[i].container_path = text(edits->nodes[i].container_path);
        node[i].host_path = text(edits->nodes[i].host_path);
        node[i].permissions = text(edits->nodes[i].permissions);
    }
    return 0;
}

static int put_cdi(struct gs_arena *arena, const struct gs_kubelet_edits *edits, answer_message *m)
{
    V1beta1__CDIDevice *cdi = take_many(arena, edits->cdi.n, sizeof(*cdi), &m->cdi_devices);

    if (!cdi)
        return -ENOMEM;
    m->n_cdi_devices = edits->cdi.n;
    for (size_t i = 0; i < edits->cdi.n; i++) {
        v1beta1__cdidevice__init(&cdi[i]);
        cdi[i].name = text(edits->cdi.p[i]);
    }
    return 0;
}

int gs_kubelet_pb_put_edits(struct gs_buf *buf, const struct gs_kubelet_edits *container, size_t n)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    V1beta1__AllocateResponse m = V1BETA1__ALLOCATE_RESPONSE__INIT;
    answer_message *one = take_many(&arena, n, sizeof(*one), &m.container_responses);

    if (!one)
        return -ENOMEM;
    m.n_container_responses = n;
    for (size_t i = 0; i < n; i++) {
        v1beta1__container_allocate_response__init(&one[i]);
        int rc = put_envs(&arena, &container[i], &one[i]);
        rc = rc < 0 ? rc : put_mounts(&arena, &container[i], &one[i]);
        rc = rc < 0 ? rc : put_nodes(&arena, &container[i], &one[i]);
        rc = rc < 0 ? rc : put_annotations(&arena, &container[i], &one[i]);
        rc = rc < 0 ? rc : put_cdi(&arena, &container[i], &one[i]);
        if (rc < 0)
            return rc;
    }
    return pack(buf, &m.base);
}

/* ---- pod resources ---- */

int gs_kubelet_pb_put_pod_get(struct gs_buf *buf, const char *namespace, const char *name)
{
    V1__GetPodResourcesRequest m = V1__GET_POD_RESOURCES_REQUEST__INIT;

    m.pod_namespace = text(namespace);
    m.pod_name = text(name);
    return pack(buf, &m.base);
}

static int held_of(struct gs_arena *arena, V1__ContainerDevices **devices, size_t n,
                   const struct gs_kubelet_held **ret_held, size_t *ret_n)
{
    struct gs_kubelet_held *held = GS_ARENA_ARRAY(arena, n, struct gs_kubelet_held);

    if (!held)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        held[i] = (struct gs_kubelet_held){
            .resource = devices[i]->resource_name,
            .ids = texts_of(devices[i]->device_ids, devices[i]->n_device_ids),
        };
    *ret_held = held;
    *ret_n = n;
    return 0;
}

static int pod_of(struct gs_arena *arena, const V1__PodResources *m, struct gs_kubelet_pod *ret_pod)
{
    struct gs_kubelet_container *container =
        GS_ARENA_ARRAY(arena, m->n_containers, struct gs_kubelet_container);

    if (!container)
        return -ENOMEM;
    for (size_t i = 0; i < m->n_containers; i++) {
        const V1__ContainerResources *one = m->containers[i];
        container[i].name = one->name;
        int rc =
            held_of(arena, one->devices, one->n_devices, &container[i].held, &container[i].n_held);
        if (rc < 0)
            return rc;
    }
    *ret_pod = (struct gs_kubelet_pod){
        .name = m->name,
        .namespace = m->namespace_,
        .container = container,
        .n_container = m->n_containers,
    };
    return 0;
}

int gs_kubelet_pb_pods(struct gs_arena *arena, struct gs_str bytes,
                       const struct gs_kubelet_pod **ret_pod, size_t *ret_n, struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1__list_pod_resources_response__descriptor, &resources_limits, bytes,
                    &message, err);

    if (rc < 0)
        return rc;
    const V1__ListPodResourcesResponse *list = (const V1__ListPodResourcesResponse *)message;
    struct gs_kubelet_pod *pod =
        GS_ARENA_ARRAY(arena, list->n_pod_resources, struct gs_kubelet_pod);
    if (!pod)
        return gs_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < list->n_pod_resources; i++) {
        rc = pod_of(arena, list->pod_resources[i], &pod[i]);
        if (rc < 0)
            return gs_err_set(err, rc, "out of memory");
    }
    *ret_pod = pod;
    *ret_n = list->n_pod_resources;
    return 0;
}

int gs_kubelet_pb_pod(struct gs_arena *arena, struct gs_str bytes, struct gs_kubelet_pod *ret_pod,
                      struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1__get_pod_resources_response__descriptor, &resources_limits, bytes,
                    &message, err);

    if (rc < 0)
        return rc;
    const V1__GetPodResourcesResponse *answer = (const V1__GetPodResourcesResponse *)message;
    if (!answer->pod_resources)
        return gs_err_set(err, -ENOENT, "no pod in the answer");
    rc = pod_of(arena, answer->pod_resources, ret_pod);
    return rc < 0 ? gs_err_set(err, rc, "out of memory") : 0;
}

int gs_kubelet_pb_allocatable(struct gs_arena *arena, struct gs_str bytes,
                              const struct gs_kubelet_held **ret_held, size_t *ret_n,
                              struct gs_err *err)
{
    ProtobufCMessage *message = NULL;
    int rc = unpack(arena, &v1__allocatable_resources_response__descriptor, &resources_limits,
                    bytes, &message, err);

    if (rc < 0)
        return rc;
    const V1__AllocatableResourcesResponse *answer =
        (const V1__AllocatableResourcesResponse *)message;
    rc = held_of(arena, answer->devices, answer->n_devices, ret_held, ret_n);
    return rc < 0 ? gs_err_set(err, rc, "out of memory") : 0;
}
