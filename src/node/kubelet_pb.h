#pragma once
/* Messages of the kubelet's device plugin and pod resources APIs, to and from structs of ours.
 *
 * Decoding: bytes are hostile; results lie in the caller's arena, texts are whole and UTF-8, an
 * absent text is "". Encoding: appends to a buffer; texts are ours, and UTF-8.
 * Numbers and names of fields: proto/, which says no more than is on the wire.
 * Threads  pure; any thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_arena;
struct gs_buf;
struct gs_err;

/* Paths of methods, for net/grpc_server.h and net/grpc_client.h. */
#define GS_KUBELET_REGISTER    "/v1beta1.Registration/Register"
#define GS_KUBELET_OPTIONS     "/v1beta1.DevicePlugin/GetDevicePluginOptions"
#define GS_KUBELET_WATCH       "/v1beta1.DevicePlugin/ListAndWatch"
#define GS_KUBELET_PREFER      "/v1beta1.DevicePlugin/GetPreferredAllocation"
#define GS_KUBELET_ALLOCATE    "/v1beta1.DevicePlugin/Allocate"
#define GS_KUBELET_PRE_START   "/v1beta1.DevicePlugin/PreStartContainer"
#define GS_KUBELET_POD_LIST    "/v1.PodResourcesLister/List"
#define GS_KUBELET_POD_GET     "/v1.PodResourcesLister/Get"
#define GS_KUBELET_ALLOCATABLE "/v1.PodResourcesLister/GetAllocatableResources"

/** What we refuse of the kubelet's requests, and of its pod resources. */
#define GS_KUBELET_REQUEST_BYTES   ((size_t)4 << 20)
#define GS_KUBELET_RESOURCES_BYTES ((size_t)16 << 20)
#define GS_KUBELET_ELEMENTS        100000
#define GS_KUBELET_TEXT            4096

/** Texts; may be empty. */
struct gs_kubelet_texts {
    const char *const *p;
    size_t n;
};

/* ---- device plugin: what the kubelet asks ---- */

/** One container of a GetPreferredAllocation. */
struct gs_kubelet_prefer {
    struct gs_kubelet_texts available, must;
    int32_t size; /**< as sent: may be negative */
};

/** Allocate: the device ids of each container. @ret_container  n_container entries.
 *  Returns  0; -EMSGSIZE beyond a limit; -EBADMSG not such a message; -ENOMEM. */
GS_WUR int gs_kubelet_pb_allocate(struct gs_arena *arena, struct gs_str bytes,
                                  const struct gs_kubelet_texts **ret_container,
                                  size_t *ret_n_container, struct gs_err *err);
/** GetPreferredAllocation; as above. */
GS_WUR int gs_kubelet_pb_prefer(struct gs_arena *arena, struct gs_str bytes,
                                const struct gs_kubelet_prefer **ret_container,
                                size_t *ret_n_container, struct gs_err *err);
/** PreStartContainer: its device ids; as above. */
GS_WUR int gs_kubelet_pb_pre_start(struct gs_arena *arena, struct gs_str bytes,
                                   struct gs_kubelet_texts *ret_ids, struct gs_err *err);

/** Qualified names of the CDI devices in a ContainerAllocateResponse, which the kubelet keeps in
 * its checkpoint; as above. */
GS_WUR int gs_kubelet_pb_cdi(struct gs_arena *arena, struct gs_str bytes,
                             struct gs_kubelet_texts *ret_cdi, struct gs_err *err);

/* ---- device plugin: what we say ---- */

struct gs_kubelet_options {
    bool pre_start; /**< call PreStartContainer */
    bool prefer;    /**< call GetPreferredAllocation */
};

struct gs_kubelet_register {
    const char *version;  /**< "v1beta1" */
    const char *endpoint; /**< file name of the socket, without its folder */
    const char *resource; /**< "nvidia.com/gpu" in the style of Kubernetes */
    struct gs_kubelet_options options;
};

struct gs_kubelet_device {
    const char *id;
    bool healthy;
    const int64_t *numa; /**< n_numa nodes; none: no topology is sent */
    size_t n_numa;
};

struct gs_kubelet_pair {
    const char *key, *value;
};

struct gs_kubelet_mount {
    const char *container_path, *host_path;
    bool read_only;
};

struct gs_kubelet_node {
    const char *container_path, *host_path, *permissions; /**< of "rwm" */
};

/** What Allocate answers for one container. */
struct gs_kubelet_edits {
    const struct gs_kubelet_pair *envs, *annotations;
    const struct gs_kubelet_mount *mounts;
    const struct gs_kubelet_node *nodes;
    struct gs_kubelet_texts cdi; /**< "vendor/class=name" */
    size_t n_envs, n_annotations, n_mounts, n_nodes;
};

/** Each appends one message; several of no bytes are none: the answers Empty and
 *  PreStartContainerResponse need no function.
 *  Returns  0; -ENOMEM. */
GS_WUR int gs_kubelet_pb_put_register(struct gs_buf *buf, const struct gs_kubelet_register *req);
GS_WUR int gs_kubelet_pb_put_options(struct gs_buf *buf, const struct gs_kubelet_options *options);
GS_WUR int gs_kubelet_pb_put_devices(struct gs_buf *buf, const struct gs_kubelet_device *device,
                                     size_t n);
GS_WUR int gs_kubelet_pb_put_preferred(struct gs_buf *buf, const struct gs_kubelet_texts *container,
                                       size_t n);
GS_WUR int gs_kubelet_pb_put_edits(struct gs_buf *buf, const struct gs_kubelet_edits *container,
                                   size_t n);

/* ---- pod resources ---- */

/** Devices of one resource. */
struct gs_kubelet_held {
    const char *resource;
    struct gs_kubelet_texts ids;
};

struct gs_kubelet_container {
    const char *name;
    const struct gs_kubelet_held *held; /**< n_held; one resource may come several times */
    size_t n_held;
};

struct gs_kubelet_pod {
    const char *name, *namespace;
    const struct gs_kubelet_container *container; /**< n_container */
    size_t n_container;
};

/** The request of Get; those of List and GetAllocatableResources have no bytes. */
GS_WUR int gs_kubelet_pb_put_pod_get(struct gs_buf *buf, const char *namespace, const char *name);
/** The answer of List.
 *  Returns  as gs_kubelet_pb_allocate(). */
GS_WUR int gs_kubelet_pb_pods(struct gs_arena *arena, struct gs_str bytes,
                              const struct gs_kubelet_pod **ret_pod, size_t *ret_n,
                              struct gs_err *err);
/** The answer of Get; -ENOENT it names no pod. */
GS_WUR int gs_kubelet_pb_pod(struct gs_arena *arena, struct gs_str bytes,
                             struct gs_kubelet_pod *ret_pod, struct gs_err *err);
/** The answer of GetAllocatableResources. */
GS_WUR int gs_kubelet_pb_allocatable(struct gs_arena *arena, struct gs_str bytes,
                                     const struct gs_kubelet_held **ret_held, size_t *ret_n,
                                     struct gs_err *err);
