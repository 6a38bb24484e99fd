#include "node/kubelet_pb.h"

#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "hex.h"
#include "kubelet_vectors.inc.h"

static struct gs_kubelet_texts list(const char *const *p, size_t n)
{
    return (struct gs_kubelet_texts){p, n};
}

static void same(struct gs_kubelet_texts got, const char *const *want, size_t n)
{
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(got.p[i], want[i]);
}

/* ---- what we say ---- */

static void registration(void **state)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    const struct gs_kubelet_register full = {
        .version = "v1beta1",
        .endpoint = "gpuslice.sock",
        .resource = "nvidia.com/gpu",
        .options = {.pre_start = true, .prefer = true},
    };
    const struct gs_kubelet_register plain = {
        .version = "v1beta1", .endpoint = "a.sock", .resource = "x/y"};

    (void)state;
    assert_int_equal(gs_kubelet_pb_put_register(&buf, &full), 0);
    assert_bytes(buf.p, buf.n, VECTOR_REGISTER);
    gs_buf_clear(&buf);
    assert_int_equal(gs_kubelet_pb_put_register(&buf, &plain), 0);
    assert_bytes(buf.p, buf.n, VECTOR_REGISTER_PLAIN);
    gs_buf_clear(&buf);
    assert_int_equal(gs_kubelet_pb_put_options(&buf, &full.options), 0);
    assert_bytes(buf.p, buf.n, "08011001");
    assert_int_equal(gs_kubelet_pb_put_options(&buf, &plain.options), 0); /* of no bytes */
    assert_bytes(buf.p, buf.n, "08011001");
    gs_buf_clear(&buf);
    assert_int_equal(
        gs_kubelet_pb_put_options(&buf, &(struct gs_kubelet_options){.pre_start = true}), 0);
    assert_bytes(buf.p, buf.n, VECTOR_OPTIONS);
}

static void devices(void **state)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    static const int64_t one[] = {1}, zero[] = {0}, far[] = {-1, (int64_t)1 << 40};
    static const struct gs_kubelet_device device[] = {
        {.id = "GPU-1-0", .healthy = true, .numa = one, .n_numa = 1},
        {.id = "GPU-1-1", .healthy = false, .numa = zero, .n_numa = 1},
        {.id = "GPU-2-0", .healthy = true},
        {.id = "GPU-3-0", .healthy = true, .numa = far, .n_numa = 2},
    };

    (void)state;
    assert_int_equal(gs_kubelet_pb_put_devices(&buf, device, 4), 0);
    assert_bytes(buf.p, buf.n, VECTOR_DEVICES);
    gs_buf_clear(&buf);
    assert_int_equal(gs_kubelet_pb_put_devices(&buf, device, 0), 0);
    assert_int_equal(buf.n, 0);
    /* From the fact sheet: D-46 and D-47. */
    assert_int_equal(gs_kubelet_pb_put_devices(&buf, device, 1), 0);
    assert_bytes(buf.p, buf.n, "0a180a074750552d312d3012074865616c7468791a040a020801");
}

static void preferred(void **state)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    const char *const ids[] = {"a", "b"};
    const struct gs_kubelet_texts container[] = {list(ids, 2), list(NULL, 0)};

    (void)state;
    assert_int_equal(gs_kubelet_pb_put_preferred(&buf, container, 2), 0);
    assert_bytes(buf.p, buf.n, VECTOR_PREFERRED);
}

static void edits(void **state)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    static const struct gs_kubelet_pair env[] = {{"NVIDIA_VISIBLE_DEVICES", "void"}};
    static const struct gs_kubelet_pair annotation[] = {{"a/b", "x"}};
    static const struct gs_kubelet_mount mount[] = {{"/c", "/h", true}, {"/d", "/i", false}};
    static const struct gs_kubelet_node node[] = {{"/dev/x", "/dev/y", "rw"}};
    static const char *const cdi[] = {"v/c=n", "v/c=m"};
    const struct gs_kubelet_edits container[] = {
        {.envs = env,
         .n_envs = 1,
         .annotations = annotation,
         .n_annotations = 1,
         .mounts = mount,
         .n_mounts = 2,
         .nodes = node,
         .n_nodes = 1,
         .cdi = list(cdi, 2)},
        {0},
    };
    const struct gs_kubelet_edits only_cdi = {.cdi = list(cdi, 1)};

    (void)state;
    assert_int_equal(gs_kubelet_pb_put_edits(&buf, container, 2), 0);
    assert_bytes(buf.p, buf.n, VECTOR_EDITS);
    gs_buf_clear(&buf);
    assert_int_equal(gs_kubelet_pb_put_edits(&buf, &only_cdi, 1), 0);
    assert_bytes(buf.p, buf.n, "0a092a070a05762f633d6e"); /* D-51 */
}

/* ---- what the kubelet asks ---- */

static void allocate(void **state)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_texts *container;
    struct gs_str bytes = bytes_of(VECTOR_ALLOCATE);
    size_t n;

    (void)state;
    assert_int_equal(gs_kubelet_pb_allocate(&arena, bytes, &container, &n, NULL), 0);
    assert_int_equal(n, 3);
    same(container[0], (const char *const[]){"GPU-1-0", "GPU-1-1"}, 2);
    same(container[1], NULL, 0);
    same(container[2], (const char *const[]){"Ger\xc3\xa4t", ""}, 2);
    assert_int_equal(gs_kubelet_pb_allocate(&arena, (struct gs_str){0}, &container, &n, NULL), 0);
    assert_int_equal(n, 0);
    free((void *)(uintptr_t)bytes.p);
}

static void prefer(void **state)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_prefer *container;
    struct gs_str bytes = bytes_of(VECTOR_PREFER);
    size_t n;

    (void)state;
    assert_int_equal(gs_kubelet_pb_prefer(&arena, bytes, &container, &n, NULL), 0);
    assert_int_equal(n, 2);
    same(container[0].available, (const char *const[]){"b", "a", "c"}, 3);
    same(container[0].must, (const char *const[]){"a"}, 1);
    assert_int_equal(container[0].size, 2);
    same(container[1].available, NULL, 0);
    assert_int_equal(container[1].size, -1);
    free((void *)(uintptr_t)bytes.p);
}

static void pre_start(void **state)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    struct gs_kubelet_texts ids;
    struct gs_str bytes = bytes_of(VECTOR_PRE_START);

    (void)state;
    assert_int_equal(gs_kubelet_pb_pre_start(&arena, bytes, &ids, NULL), 0);
    same(ids, (const char *const[]){"dev-3", "dev-2"}, 2);
    free((void *)(uintptr_t)bytes.p);
}

/* ---- pod resources ---- */

static void check_pod(const struct gs_kubelet_pod *pod)
{
    const struct gs_kubelet_container *c = pod->container;

    assert_string_equal(pod->name, "p");
    assert_string_equal(pod->namespace, "ns");
    assert_int_equal(pod->n_container, 2);
    assert_string_equal(c[0].name, "c");
    assert_int_equal(c[0].n_held, 2);
    assert_string_equal(c[0].held[0].resource, "r/x");
    same(c[0].held[0].ids, (const char *const[]){"id0"}, 1);
    same(c[0].held[1].ids, (const char *const[]){"id1", "id2"}, 2);
    assert_string_equal(c[1].name, "plain");
    assert_int_equal(c[1].n_held, 0);
}

static void pods(void **state)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    const struct gs_kubelet_pod *pod;
    struct gs_kubelet_pod one;
    struct gs_str all = bytes_of(VECTOR_PODS), single = bytes_of(VECTOR_POD);
    size_t n;

    (void)state;
    assert_int_equal(gs_kubelet_pb_pods(&arena, all, &pod, &n, NULL), 0);
    assert_int_equal(n, 2);
    check_pod(&pod[0]);
    assert_string_equal(pod[1].name, "q");
    assert_int_equal(pod[1].n_container, 0);
    assert_int_equal(gs_kubelet_pb_pod(&arena, single, &one, NULL), 0);
    check_pod(&one);
    assert_int_equal(gs_kubelet_pb_pod(&arena, (struct gs_str){0}, &one, NULL), -ENOENT);
    assert_int_equal(gs_kubelet_pb_put_pod_get(&buf, "ns", "p"), 0);
    assert_bytes(buf.p, buf.n, VECTOR_POD_GET);
    free((void *)(uintptr_t)all.p);
    free((void *)(uintptr_t)single.p);
}

/** Repeated numbers one by one, as proto2 wrote them, say the same. */
static void unpacked_numbers(void **state)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_held *held;
    struct gs_str bytes = bytes_of("10001001" VECTOR_ALLOCATABLE);
    size_t n;

    (void)state;
    assert_int_equal(gs_kubelet_pb_allocatable(&arena, bytes, &held, &n, NULL), 0);
    assert_int_equal(n, 1);
    same(held[0].ids, (const char *const[]){"id0", "id1"}, 2);
    free((void *)(uintptr_t)bytes.p);
}

/* ---- hostile ---- */

static void hostile(void **state)
{
    static const struct {
        const char *hex;
        int rc;
        const char *says;
    } cases[] = {
        {"0a", -EBADMSG, "broken value"},
        {"0a05", -EBADMSG, "broken value"},
        {"0a030a0161ff", -EBADMSG, "broken"},
        {"0aff80808080808080808001", -EBADMSG, "broken value"}, /* length of 2^63 */
        {"0affffffffffffffffff7f", -EBADMSG, "broken value"},   /* number of 70 bits */
        {"0800", -EBADMSG, "container_requests: of another type"},
        {"0b0c", -EBADMSG, "broken value"}, /* groups are gone */
        {"0000", -EBADMSG, "broken tag"},
        {"0a040a02ff41", -EBADMSG, "devices_ids: no text"},
        {"0a040a026100", -EBADMSG, "devices_ids: no text"},     /* NUL */
        {"0a050a03eda080", -EBADMSG, "devices_ids: no text"},   /* a surrogate */
        {"0a040a02c080", -EBADMSG, "devices_ids: no text"},     /* overlong */
        {"0a060a04f4908080", -EBADMSG, "devices_ids: no text"}, /* beyond Unicode */
        {"0a050a03e28282", 0, NULL},
        {"7a03616263a006ffffffffffffffffff01", 0, NULL}, /* unknown fields 15 and 100 */
        {"a5060102030499060102030405060708", 0, NULL},   /* of 32 and 64 bits */
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
        const struct gs_kubelet_texts *container;
        struct gs_err err = {0};
        struct gs_str bytes = bytes_of(cases[i].hex);
        size_t n;

        int rc = gs_kubelet_pb_allocate(&arena, bytes, &container, &n, &err);
        if (rc != cases[i].rc || (rc < 0 && !strstr(err.text, cases[i].says)))
            fail_msg("%s: %d %s", cases[i].hex, rc, err.text);
        free((void *)(uintptr_t)bytes.p);
    }
}

static int allocate_of(struct gs_str bytes, struct gs_err *err)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_kubelet_texts *container;
    size_t n;

    int rc = gs_kubelet_pb_allocate(&arena, bytes, &container, &n, err);
    assert_true(arena.total < (size_t)32 << 20);
    return rc;
}

static void limits(void **state)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    struct gs_err err = {0};

    (void)state;
    for (size_t i = 0; i < GS_KUBELET_ELEMENTS; i++)
        gs_buf_add(&buf, "\x0a", 2); /* a container of no bytes */
    assert_int_equal(allocate_of(gs_buf_str(&buf), &err), 0);
    gs_buf_add(&buf, "\x0a", 2);
    assert_int_equal(allocate_of(gs_buf_str(&buf), &err), -EMSGSIZE);
    assert_string_equal(err.text, "v1beta1.AllocateRequest.container_requests: too many elements");
    gs_buf_clear(&buf);
    for (size_t i = 0; i <= GS_KUBELET_ELEMENTS; i++)
        gs_buf_add(&buf, "\x7a", 2); /* an unknown field is kept, too */
    assert_int_equal(allocate_of(gs_buf_str(&buf), &err), -EMSGSIZE);

    gs_buf_clear(&buf);
    gs_buf_add(&buf, "\x0a\x83\x20\x0a\x80\x20", 6);
    gs_buf_addc(&buf, 'x', GS_KUBELET_TEXT);
    assert_int_equal(allocate_of(gs_buf_str(&buf), &err), 0);
    gs_buf_clear(&buf);
    gs_buf_add(&buf, "\x0a\x84\x20\x0a\x81\x20", 6);
    gs_buf_addc(&buf, 'x', GS_KUBELET_TEXT + 1);
    assert_int_equal(allocate_of(gs_buf_str(&buf), &err), -EMSGSIZE);
    assert_non_null(strstr(err.text, "ContainerAllocateRequest.devices_ids: too long"));

    gs_buf_clear(&buf);
    gs_buf_addc(&buf, '\0', GS_KUBELET_REQUEST_BYTES + 1);
    assert_int_equal(allocate_of(gs_buf_str(&buf), &err), -EMSGSIZE);
}

/** Whatever is cut off, and wherever a byte differs: an answer or an error, never a fault. */
static void every_cut_and_every_byte(void **state)
{
    struct gs_str bytes = bytes_of(VECTOR_PODS);

    (void)state;
    for (size_t at = 0; at < bytes.n; at++) {
        char *copy = malloc(bytes.n);
        assert_non_null(copy);
        for (unsigned change = 0; change < 256; change++) {
            GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
            const struct gs_kubelet_pod *pod;
            size_t n, length = change == 0 ? at : bytes.n;

            memcpy(copy, bytes.p, bytes.n);
            copy[at] = (char)(copy[at] ^ (char)change);
            int rc = gs_kubelet_pb_pods(&arena, (struct gs_str){copy, length}, &pod, &n, NULL);
            assert_true(rc == 0 || rc == -EBADMSG || rc == -EMSGSIZE);
        }
        free(copy);
    }
    free((void *)(uintptr_t)bytes.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registration), cmocka_unit_test(devices),
        cmocka_unit_test(preferred),    cmocka_unit_test(edits),
        cmocka_unit_test(allocate),     cmocka_unit_test(prefer),
        cmocka_unit_test(pre_start),    cmocka_unit_test(pods),
        cmocka_unit_test(hostile),      cmocka_unit_test(unpacked_numbers),
        cmocka_unit_test(limits),       cmocka_unit_test(every_cut_and_every_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
