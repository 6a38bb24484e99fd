#include "model/grant.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* "uuid|type|mem|cores" of each device, "/" behind each slot. */
static void want_slots(const char *text, const char *expected)
{
    struct gs_arena arena = {0};
    struct gs_buf buf = {0};
    struct gs_grant grant = {0};

    assert_int_equal(gs_grant_read(gs_str_of(text), &arena, &grant, NULL), 0);
    for (size_t s = 0; s < grant.n; s++) {
        for (size_t d = 0; d < grant.slot[s].n; d++) {
            const struct gs_grant_dev *dev = &grant.slot[s].dev[d];

            gs_buf_addf(&buf, "%.*s|%.*s|%d|%d ", (int)dev->uuid.n, dev->uuid.p, (int)dev->type.n,
                        dev->type.p, dev->mem_mib, dev->cores);
        }
        gs_buf_adds(&buf, "/");
    }
    assert_string_equal(gs_buf_text(&buf), expected);
    gs_buf_fini(&buf);
    gs_arena_fini(&arena);
}

static void want_text(const struct gs_grant *grant, const char *expected)
{
    struct gs_buf buf = {0};

    gs_grant_write(grant, &buf);
    assert_string_equal(gs_buf_text(&buf), expected);
    gs_buf_fini(&buf);
}

/* Both ways. */
static void want_same(const char *text, const char *slots)
{
    struct gs_arena arena = {0};
    struct gs_grant grant;

    want_slots(text, slots);
    assert_int_equal(gs_grant_read(gs_str_of(text), &arena, &grant, NULL), 0);
    want_text(&grant, text);
    gs_arena_fini(&arena);
}

/* A3, 1.6; the empty slot behind the last ';' is not in ours */
static void vectors(void **state)
{
    (void)state;
    want_same("", "");                                           /* A3.1 */
    want_same("UUID1,Type1,1000,30:;", "UUID1|Type1|1000|30 /"); /* A3.2 */
    want_same("UUID1,Type1,1000,30:UUID2,Type1,1000,30:;",
              "UUID1|Type1|1000|30 UUID2|Type1|1000|30 /"); /* A3.4 */
    want_same("GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76,NVIDIA,500,3:;"
              "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4,NVIDIA,500,3:;",
              "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76|NVIDIA|500|3 /"
              "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4|NVIDIA|500|3 /");          /* A3.5 */
    want_same(";device-0,MLU,256000,1:;", "/device-0|MLU|256000|1 /");             /* A3.8 */
    want_same("GPU-0fc3eda5-1,NVIDIA,3000,0:;", "GPU-0fc3eda5-1|NVIDIA|3000|0 /"); /* examples.md */
    want_same("g,AMD Instinct MI300X,1,76:;", "g|AMD Instinct MI300X|1|76 /");
    /* read, though we write other text */
    want_slots("a,T,1,2,more,and more:;", "a|T|1|2 /");
    want_slots("a,T,1,2", "a|T|1|2 /");
    want_slots("junk:a,T,1,2::;:;", "a|T|1|2 //");
    want_slots("g[7-9],T,1,2:;", "g[7-9]|T|1|2 /");
}

static void want_error(const char *text, const char *start)
{
    struct gs_arena arena = {0};
    struct gs_grant grant = {.n = 77};
    struct gs_err err = {0};

    assert_int_equal(gs_grant_read(gs_str_of(text), &arena, &grant, &err), -EINVAL);
    if (strncmp(err.text, start, strlen(start)) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(grant.n, 77);
    gs_arena_fini(&arena);
}

static void refused(void **state)
{
    static const char missing[] =
        "pod annotation format error, missing fields, do not use nodeName in task spec";
    struct gs_arena arena = {0}, none = {.failed = true};
    struct gs_grant grant = {.n = 77};
    struct gs_buf buf = {0};

    (void)state;
    want_error("uuid,type,100:;", missing); /* A3.6 */
    want_error("a,T,1,2:;,:", missing);
    want_error("a,T,x,1:;", "invalid memory field: ");
    want_error("a,T,1,x:;", "invalid core field: ");
    want_error("a,T,-1,1:;", "invalid memory field: "); /* would give memory back */
    want_error("a,T,1,-1:;", "invalid core field: ");
    want_error("a,T,2147483648,1:;", "invalid memory field: ");
    want_error("a,T,,1:;", "invalid memory field: ");
    gs_buf_addc(&buf, ';', GS_GRANT_SLOTS_MAX + 1);
    assert_int_equal(gs_grant_read((struct gs_str){buf.p, buf.n}, &arena, &grant, NULL), -E2BIG);
    gs_buf_clear(&buf);
    gs_buf_addc(&buf, ':', GS_GRANT_BYTES_MAX);
    assert_int_equal(gs_grant_read((struct gs_str){buf.p, buf.n}, &arena, &grant, NULL), -E2BIG);
    gs_buf_addc(&buf, 'x', 1);
    assert_int_equal(gs_grant_read((struct gs_str){buf.p, buf.n}, &arena, &grant, NULL), -E2BIG);
    assert_int_equal(gs_grant_read(GS_STR("a,T,1,1:;"), &none, &grant, NULL), -ENOMEM);
    assert_int_equal(grant.n, 77);
    gs_buf_fini(&buf);
    gs_arena_fini(&arena);
}

/* A3.9: HAMi's own rewriting adds a ';' each time; ours does not, and reads what HAMi's leaves. */
static void pops(void **state)
{
    struct gs_arena arena = {0};
    struct gs_grant grant;
    size_t slot = 77;

    (void)state;
    assert_int_equal(gs_grant_read(GS_STR("A,NVIDIA,1,1:;B,NVIDIA,1,1:;"), &arena, &grant, NULL),
                     0);
    assert_true(gs_grant_pop(&grant, &slot));
    assert_int_equal(slot, 0);
    want_text(&grant, ";B,NVIDIA,1,1:;");
    assert_int_equal(gs_grant_read(GS_STR(";B,NVIDIA,1,1:;;"), &arena, &grant, NULL), 0);
    assert_true(gs_grant_pop(&grant, &slot));
    assert_int_equal(slot, 1);
    assert_int_equal(gs_grant_read(GS_STR(";;;;"), &arena, &grant, NULL), 0);
    assert_false(gs_grant_pop(&grant, &slot));
    assert_int_equal(slot, 1);
    gs_arena_fini(&arena);
}

/* 1.6's example */
static const char one_mig[] =
    "[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":\"1g.5gb\","
    "\"placement\":{\"start\":6,\"size\":1},\"migUUID\":\"MIG-a\",\"gpuInstanceID\":7,"
    "\"computeInstanceID\":0}]";
#define MIG_A4                                                                                     \
    "{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":\"1g.5gb\","        \
    "\"placement\":{\"start\":6,\"size\":1}"

static void mig(void **state)
{
    struct gs_arena arena = {0};
    struct gs_mig_grant *m = NULL;
    struct gs_buf buf = {0};
    size_t n = 77;

    (void)state;
    assert_int_equal(gs_grant_mig_read(GS_STR("[" MIG_A4 "}]"), &arena, &m, &n, NULL), 0);
    assert_int_equal(n, 1); /* A4.1 */
    assert_int_equal(m[0].container, 0);
    assert_int_equal(m[0].device, 0);
    assert_true(gs_str_eq_c(m[0].gpu_uuid, "GPU-a"));
    assert_true(gs_str_eq_c(m[0].profile, "1g.5gb"));
    assert_int_equal(m[0].start, 6);
    assert_int_equal(m[0].size, 1);
    assert_false(m[0].is_realised);
    gs_grant_mig_write(m, n, &buf);
    assert_string_equal(gs_buf_text(&buf), "[" MIG_A4 "}]");
    gs_buf_clear(&buf);
    assert_int_equal(gs_grant_mig_read(gs_str_of(one_mig), &arena, &m, &n, NULL), 0);
    assert_true(m[0].is_realised);
    assert_true(gs_str_eq_c(m[0].mig_uuid, "MIG-a"));
    assert_int_equal(m[0].gpu_instance, 7);
    gs_grant_mig_write(m, n, &buf);
    assert_string_equal(gs_buf_text(&buf), one_mig);
    /* A4.4: gpuInstanceID 4, computeInstanceID 0 is accepted, 0 kept */
    assert_int_equal(gs_grant_mig_read(GS_STR("[" MIG_A4 ",\"migUUID\":\"M\",\"gpuInstanceID\":4,"
                                              "\"computeInstanceID\":0}]"),
                                       &arena, &m, &n, NULL),
                     0);
    assert_int_equal(m[0].gpu_instance, 4);
    assert_int_equal(m[0].compute_instance, 0);
    assert_int_equal(gs_grant_mig_read(GS_STR(""), &arena, &m, &n, NULL), 0);
    assert_int_equal(n, 0);
    gs_buf_fini(&buf);
    gs_arena_fini(&arena);
}

static void want_mig_error(const char *text, const char *end)
{
    struct gs_arena arena = {0};
    struct gs_mig_grant *m = NULL;
    struct gs_err err = {0};
    size_t n = 77, have;

    assert_int_equal(gs_grant_mig_read(gs_str_of(text), &arena, &m, &n, &err), -EINVAL);
    have = strlen(err.text);
    if (have < strlen(end) || strcmp(err.text + have - strlen(end), end) != 0)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(n, 77);
    gs_arena_fini(&arena);
}

static void mig_refused(void **state)
{
    struct gs_arena none = {.failed = true};
    struct gs_mig_grant *m;
    size_t n;

    (void)state;
    want_mig_error("[" MIG_A4 ",\"migUUID\":\"M\"}]", "has partial runtime identity"); /* A4.3 */
    want_mig_error("[" MIG_A4 ",\"gpuInstanceID\":1,\"computeInstanceID\":0}]",
                   "has partial runtime identity");
    want_mig_error("[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"G\",\"profile\":\"p\","
                   "\"placement\":{\"start\":0,\"size\":0}}]",
                   "MIG allocation 0 is incomplete"); /* A4.5 */
    want_mig_error("[{\"gpuUUID\":\"\",\"profile\":\"p\",\"placement\":{\"size\":1}}]",
                   "MIG allocation 0 is incomplete");
    want_mig_error("[" MIG_A4 "},{\"gpuUUID\":\"G\",\"placement\":{\"size\":1},\"deviceIndex\":1}]",
                   "MIG allocation 1 is incomplete");
    want_mig_error("[{\"containerIndex\":-1}]", "MIG allocation 0 has a bad index");
    want_mig_error("[{\"deviceIndex\":4294967296}]", "MIG allocation 0 has a bad index");
    want_mig_error("[" MIG_A4 "}," MIG_A4 "}]",
                   "MIG allocation of container 0, device 0 is there twice");
    want_mig_error("{}", "MIG allocations are not an array");
    want_mig_error("[7]", "MIG allocation 0 is not an object");
    want_mig_error("[{\"placement\":[]}]", "placement is not an object");
    want_mig_error("[{\"placement\":{\"size\":\"1\"}}]", "placement is not of numbers");
    want_mig_error("[{\"gpuUUID\":7}]", "gpuUUID or profile is no text");
    want_mig_error("[" MIG_A4 ",\"migUUID\":7,\"gpuInstanceID\":1,\"computeInstanceID\":0}]",
                   "bad runtime identity");
    assert_int_equal(gs_grant_mig_read(gs_str_of(one_mig), &none, &m, &n, NULL), -ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors), cmocka_unit_test(refused),     cmocka_unit_test(pops),
        cmocka_unit_test(mig),     cmocka_unit_test(mig_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
