/* Signed grants. Vectors: docs/protocol/grant.md, made by `openssl dgst -sha256 -hmac`. */
#include "cluster/sign.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KEY  "an example key of 32 bytes, 1234"
#define UID  "6f4b2c1e-0d5a-4f3b-9a77-1c2d3e4f5a6b"
#define NV   "hami.io/vgpu-devices-allocated"
#define AMD  "hami.io/amd-devices-allocated"
#define MIG  "hami.io/vgpu-mig-allocations"
#define SIGN "gpuslice.io/grant-signature"
#define HEX1 "9f363e6a192404049dbe455c36b272f02c9c5be6bfa23075b1efe58247ddecae"
#define HEX2 "c5d5c55501d5102f7fbd2cbcdf41a9b345c864307a161ee42cfac7e15b61eb4b"

struct fixture {
    char folder[64], path[96];
    struct gs_arena arena;
    struct gs_pairs notes;
    struct gs_sign *sign;
};

static void write_keys(struct fixture *f, const char *text)
{
    char new[112];
    FILE *out;

    (void)snprintf(new, sizeof(new), "%s.new", f->path);
    out = fopen(new, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0 && fclose(out) == 0);
    assert_int_equal(rename(new, f->path), 0);
}

static int set_up(void **state)
{
    static struct fixture f;

    memset(&f, 0, sizeof(f));
    strcpy(f.folder, "/tmp/gs-sign-XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    (void)snprintf(f.path, sizeof(f.path), "%s/key", f.folder);
    write_keys(&f, KEY "\n");
    assert_int_equal(gs_sign_new(f.path, false, &f.sign, NULL), 0);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    gs_sign_free(f->sign);
    gs_arena_fini(&f->arena);
    (void)unlink(f->path);
    (void)rmdir(f->folder);
    return 0;
}

static void note(struct fixture *f, const char *key, const char *value)
{
    assert_int_equal(gs_pairs_set(&f->notes, &f->arena, gs_str_of(key), gs_str_of(value)), 0);
}

static const char *sealed(struct fixture *f)
{
    const struct gs_str *s;

    assert_int_equal(gs_sign_seal(f->sign, GS_STR(UID), GS_STR("node-1"), &f->arena, &f->notes), 0);
    s = gs_pairs_find(&f->notes, GS_STR(SIGN));
    return s != NULL ? gs_arena_printf(&f->arena, "%.*s", (int)s->n, s->p).p : "";
}

/* The pod as the API server would have it. */
static struct gs_kube_pod pod_of(struct fixture *f, const char *uid, const char *node)
{
    struct gs_kube_pod pod = {.node_name = gs_str_of(node)};

    pod.meta.uid = gs_str_of(uid);
    pod.meta.annotations.n = f->notes.n;
    pod.meta.annotations.at = GS_ARENA_ARRAY(&f->arena, f->notes.n, struct gs_kube_pair);
    for (size_t i = 0; i < f->notes.n; i++)
        pod.meta.annotations.at[i] =
            (struct gs_kube_pair){f->notes.at[i].key, f->notes.at[i].value};
    return pod;
}

static bool is_trusted(struct fixture *f, const char *uid, const char *node)
{
    struct gs_kube_pod pod = pod_of(f, uid, node);

    return gs_sign_trusts(f->sign, &pod);
}

static bool does_count(struct fixture *f, const char *key)
{
    struct gs_kube_pod pod = pod_of(f, UID, "node-1");

    return gs_sign_counts(f->sign, &pod, gs_str_of(key));
}

static const char plain_mig[] = "[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\","
                                "\"profile\":\"1g.5gb\",\"placement\":{\"start\":6,\"size\":1}}]";
static const char real_mig[] =
    "[ {\"migUUID\":\"MIG-a\", \"gpuInstanceID\":7,\"computeInstanceID\":0,\"containerIndex\":0,"
    "\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":\"1g.5gb\",\"placement\":{\"size\":1,"
    "\"start\":6}}]";

static void vector_1(void **state)
{
    struct fixture *f = *state;

    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    note(f, "hami.io/vgpu-devices-to-allocate", "GPU-0,NVIDIA,3000,30:;");
    note(f, "hami.io/bind-phase", "allocating");
    assert_string_equal(sealed(f), "1:" HEX1 ":" NV);
    assert_true(is_trusted(f, UID, "node-1"));
}

static void vector_2(void **state)
{
    struct fixture *f = *state;

    note(f, NV, ";GPU-a,NVIDIA,4864,15:;");
    note(f, MIG, plain_mig);
    note(f, AMD, "gpu-9,AMD_Instinct_MI300X_VF,8192,38:;");
    assert_string_equal(sealed(f), "1:" HEX2 ":" AMD "," NV "," MIG);
    assert_true(is_trusted(f, UID, "node-1"));
    note(f, MIG, real_mig); /* what the plugin makes of it */
    assert_true(is_trusted(f, UID, "node-1"));
    note(f, MIG, "[]");
    assert_false(is_trusted(f, UID, "node-1"));
}

static void any_change_breaks_it(void **state)
{
    struct fixture *f = *state;

    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    (void)sealed(f);
    assert_false(is_trusted(f, "another", "node-1"));
    assert_false(is_trusted(f, UID, "node-2"));
    note(f, NV, "GPU-0,NVIDIA,3001,30:;");
    assert_false(is_trusted(f, UID, "node-1"));
    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    assert_true(is_trusted(f, UID, "node-1"));
}

static void forged_ones_are_not_believed(void **state)
{
    static const char *const text[] = {
        "",
        "1:" HEX1,
        "1:" HEX1 ":",
        "2:" HEX1 ":" NV,
        "1:" HEX2 ":" NV,
        "1:" HEX1 ":" NV "," NV,
        "1:" HEX1 ":" NV "," AMD,
        "1:" HEX1 ":hami.io/bind-phase",
        "1:" HEX1 "00:" NV,
        "1::" NV,
        ":::::",
    };
    struct fixture *f = *state;

    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    note(f, AMD, "gpu-9,AMD,8192,38:;");
    assert_false(is_trusted(f, UID, "node-1"));
    for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
        note(f, SIGN, text[i]);
        assert_false(is_trusted(f, UID, "node-1"));
    }
    note(f, SIGN, "1:" HEX1 ":" NV);
    assert_true(is_trusted(f, UID, "node-1"));
}

/* Beside a true grant another one, written by the pod's owner. */
static void unsigned_beside_signed(void **state)
{
    struct fixture *f = *state;

    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    (void)sealed(f);
    note(f, AMD, "gpu-9,AMD,8192,38:;");
    assert_true(is_trusted(f, UID, "node-1")); /* or he could free his card by that */
    assert_true(does_count(f, NV));
    assert_false(does_count(f, AMD));
    assert_false(does_count(f, MIG));
}

static void interop_takes_unsigned_not_wrong(void **state)
{
    struct fixture *f = *state;

    gs_sign_free(f->sign);
    assert_int_equal(gs_sign_new(f->path, true, &f->sign, NULL), 0);
    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    assert_true(is_trusted(f, UID, "node-1"));
    assert_true(does_count(f, NV));
    note(f, SIGN, "1:" HEX2 ":" NV);
    assert_false(is_trusted(f, UID, "node-1"));
}

static void nothing_to_sign(void **state)
{
    struct fixture *f = *state;

    note(f, "hami.io/vgpu-node", "node-1");
    note(f, NV, "");
    assert_string_equal(sealed(f), "");
}

static void keys_are_changed_without_a_gap(void **state)
{
    struct fixture *f = *state;

    note(f, NV, "GPU-0,NVIDIA,3000,30:;");
    (void)sealed(f);
    assert_false(gs_sign_look(f->sign));
    write_keys(f, "\n  another key, long enough \r\n" KEY "\n");
    assert_true(gs_sign_look(f->sign));
    assert_true(is_trusted(f, UID, "node-1")); /* by the second */
    (void)sealed(f);
    assert_true(is_trusted(f, UID, "node-1")); /* by the first */
    write_keys(f, KEY);
    assert_true(gs_sign_look(f->sign));
    assert_false(is_trusted(f, UID, "node-1"));
    write_keys(f, "short\n"); /* not taken: the old ones stay */
    assert_false(gs_sign_look(f->sign));
    assert_string_equal(sealed(f), "1:" HEX1 ":" NV);
}

static void bad_files(void **state)
{
    struct fixture *f = *state;
    struct gs_sign *sign = NULL;
    struct gs_err err = {0};

    assert_int_equal(gs_sign_new("/nonexistent/key", false, &sign, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/key"));
    write_keys(f, "");
    assert_int_equal(gs_sign_new(f->path, false, &sign, &err), -EINVAL);
    write_keys(f, "fifteen bytes..");
    assert_int_equal(gs_sign_new(f->path, false, &sign, &err), -EINVAL);
    write_keys(f, KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY);
    assert_int_equal(gs_sign_new(f->path, false, &sign, &err), -E2BIG);
    assert_null(sign);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(vector_1),
        T(vector_2),
        T(any_change_breaks_it),
        T(forged_ones_are_not_believed),
        T(unsigned_beside_signed),
        T(interop_takes_unsigned_not_wrong),
        T(nothing_to_sign),
        T(keys_are_changed_without_a_gap),
        T(bad_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
