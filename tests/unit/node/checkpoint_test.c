#include "node/checkpoint.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "node/cdi.h"

/* Answers as Python's protobuf writes them: no CDI device; "vendor.com/x=y" and then
 * "gpuslice.io/slot=slot-GPU-a-0-1f". */
#define NO_SLOT "CgYKAUESAUI="
#define SLOT    "KhAKDnZlbmRvci5jb20veD15KiIKIGdwdXNsaWNlLmlvL3Nsb3Q9c2xvdC1HUFUtYS0wLTFm"

#define ENTRY(uid, container, resource, ids, answer)                                               \
    "{\"PodUID\":\"" uid "\",\"ContainerName\":\"" container "\",\"ResourceName\":\"" resource     \
    "\",\"DeviceIDs\":" ids ",\"AllocResp\":\"" answer "\"}"
#define FILE_OF(entries)                                                                           \
    "{\"Data\":{\"PodDeviceEntries\":[" entries                                                    \
    "],\"RegisteredDevices\":{\"v.com/gpu\":[\"a\"]}},\"Checksum\":42}"

struct fixture {
    struct gs_arena arena;
    struct gs_checkpoint c;
    struct gs_err err;
};

static int setup(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    gs_arena_fini(&((struct fixture *)*state)->arena);
    return 0;
}

static int read_text(struct fixture *f, const char *text)
{
    return gs_checkpoint_read(gs_str_of(text), GS_STR("v.com/gpu"), &f->arena, &f->c, &f->err);
}

static void want_str(struct gs_str got, const char *want)
{
    assert_int_equal(got.n, strlen(want));
    assert_memory_equal(got.p, want, got.n);
}

static void both_forms(void **state)
{
    struct fixture *f = *state;
    const struct gs_str ids[] = {GS_STR("a-0"), GS_STR("a-1"), GS_STR("b-0")};

    assert_int_equal(
        read_text(f, FILE_OF(ENTRY("u1", "main", "v.com/gpu",
                                   "{\"1\":[\"b-0\"],\"-1\":[\"a-1\",\"a-0\"]}",
                                   SLOT) "," ENTRY("u2", "main", "other.com/x", "{\"0\":[\"x\"]}",
                                                   NO_SLOT) "," ENTRY("u3", "init", "v.com/gpu",
                                                                      "[\"a-2\"]", NO_SLOT))),
        0);
    assert_int_equal(f->c.n, 2);
    assert_int_equal(f->c.n_odd, 0);
    want_str(f->c.entry[0].pod_uid, "u1");
    want_str(f->c.entry[0].container, "main");
    want_str(f->c.entry[0].slot, "slot-GPU-a-0-1f");
    assert_true(gs_checkpoint_holds(&f->c.entry[0], ids, 3));
    assert_false(gs_checkpoint_holds(&f->c.entry[0], ids, 2));
    want_str(f->c.entry[1].container, "init");
    assert_int_equal(f->c.entry[1].n_ids, 1);
    assert_int_equal(f->c.entry[1].slot.n, 0);
    assert_false(gs_checkpoint_holds(&f->c.entry[1], ids, 1));
}

static void nobody(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        read_text(f, "{\"Data\":{\"PodDeviceEntries\":null,\"RegisteredDevices\":{}}}"), 0);
    assert_int_equal(f->c.n, 0);
    assert_int_equal(read_text(f, FILE_OF("")), 0);
    assert_int_equal(f->c.n, 0);
}

/* One entry that cannot be read hides no other one. */
static void odd_entries(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(
        read_text(
            f,
            FILE_OF("7,{}," ENTRY("u1", "a", "v.com/gpu", "{\"0\":7}", NO_SLOT) "," ENTRY(
                "u2", "a", "v.com/gpu", "[\"x\",3]",
                NO_SLOT) "," ENTRY("", "a", "v.com/gpu", "[\"x\"]",
                                   NO_SLOT) "," ENTRY("u3", "a", "v.com/gpu", "[\"x\"]",
                                                      "!!!") "," ENTRY("u4", "a", "v.com/gpu",
                                                                       "[\"x\"]",
                                                                       "/////w==") "," ENTRY("u5",
                                                                                             "a",
                                                                                             "v."
                                                                                             "com/"
                                                                                             "gpu",
                                                                                             "[\"x"
                                                                                             "\"]",
                                                                                             NO_SLOT))),
        0);
    assert_int_equal(f->c.n, 1);
    assert_int_equal(f->c.n_odd, 5);
    want_str(f->c.entry[0].pod_uid, "u5");
}

static void not_a_checkpoint(void **state)
{
    static const char *const text[] = {"",
                                       "[]",
                                       "{}",
                                       "{\"Data\":1}",
                                       "{\"Data\":{}}",
                                       "{\"Data\":",
                                       "{\"Data\":{\"PodDeviceEntries\":{}}}"};
    struct fixture *f = *state;

    for (size_t i = 0; i < GS_ARRAY_LEN(text); i++)
        assert_int_equal(read_text(f, text[i]), -EINVAL);
}

static void too_many(void **state)
{
    struct fixture *f = *state;
    struct gs_buf text = {0};

    gs_buf_adds(&text, "{\"Data\":{\"PodDeviceEntries\":[0");
    for (unsigned i = 0; i < GS_CHECKPOINT_ENTRIES; i++)
        gs_buf_adds(&text, ",0");
    gs_buf_adds(&text, "]}}");
    assert_int_equal(read_text(f, gs_buf_text(&text)), -E2BIG);
    gs_buf_clear(&text);
    gs_buf_adds(&text, "{\"Data\":{\"PodDeviceEntries\":[{\"PodUID\":\"u\",\"ContainerName\":\"c\","
                       "\"ResourceName\":\"v.com/gpu\",\"DeviceIDs\":[\"0\"");
    for (unsigned i = 0; i < GS_CHECKPOINT_IDS; i++)
        gs_buf_adds(&text, ",\"0\"");
    gs_buf_adds(&text, "]}]}}");
    assert_int_equal(read_text(f, gs_buf_text(&text)), -E2BIG);
    gs_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(not_a_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
