/* A message of the kubelet of any content: the first byte says which one it is taken for. What is
 * decoded is read to its end. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "node/kubelet_pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sum;

static void read_texts(struct gs_kubelet_texts texts)
{
    for (size_t i = 0; i < texts.n; i++)
        sum += strlen(texts.p[i]);
}

static void read_held(const struct gs_kubelet_held *held, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sum += strlen(held[i].resource);
        read_texts(held[i].ids);
    }
}

static void read_pod(const struct gs_kubelet_pod *pod)
{
    sum += strlen(pod->name) + strlen(pod->namespace);
    for (size_t i = 0; i < pod->n_container; i++) {
        sum += strlen(pod->container[i].name);
        read_held(pod->container[i].held, pod->container[i].n_held);
    }
}

static void read_request(unsigned which, struct gs_arena *arena, struct gs_str bytes)
{
    const struct gs_kubelet_texts *container;
    const struct gs_kubelet_prefer *prefer;
    struct gs_kubelet_texts ids;
    size_t n;

    if (which == 0 && gs_kubelet_pb_allocate(arena, bytes, &container, &n, NULL) == 0) {
        for (size_t i = 0; i < n; i++)
            read_texts(container[i]);
    } else if (which == 1 && gs_kubelet_pb_prefer(arena, bytes, &prefer, &n, NULL) == 0) {
        for (size_t i = 0; i < n; i++) {
            read_texts(prefer[i].available);
            read_texts(prefer[i].must);
        }
    } else if (which == 2 && gs_kubelet_pb_pre_start(arena, bytes, &ids, NULL) == 0) {
        read_texts(ids);
    }
}

static void read_resources(unsigned which, struct gs_arena *arena, struct gs_str bytes)
{
    const struct gs_kubelet_held *held;
    const struct gs_kubelet_pod *pod;
    struct gs_kubelet_pod one;
    size_t n;

    if (which == 3 && gs_kubelet_pb_pods(arena, bytes, &pod, &n, NULL) == 0) {
        for (size_t i = 0; i < n; i++)
            read_pod(&pod[i]);
    } else if (which == 4 && gs_kubelet_pb_pod(arena, bytes, &one, NULL) == 0) {
        read_pod(&one);
    } else if (which == 5 && gs_kubelet_pb_allocatable(arena, bytes, &held, &n, NULL) == 0) {
        read_held(held, n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {0};

    if (size == 0)
        return 0;
    const struct gs_str bytes = {(const char *)data + 1, size - 1};
    read_request(data[0] % 6, &arena, bytes);
    read_resources(data[0] % 6, &arena, bytes);
    gs_arena_fini(&arena);
    return 0;
}
