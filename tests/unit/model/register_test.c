#include "model/register.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <yyjson.h>

#define P4 "GPU-ebe7c3f7-303d-558d-435e-99a160631fe4"

struct reading {
    struct gs_arena arena;
    struct gs_device *dev;
    size_t n;
    struct gs_err err;
};

static int read_text(struct reading *r, struct gs_str text)
{
    memset(r, 0, sizeof(*r));
    r->n = 77;
    return gs_register_read(text, NULL, &r->arena, &r->dev, &r->n, &r->err);
}

static void want_n(const char *text, size_t n)
{
    struct reading r;

    if (read_text(&r, gs_str_of(text)) != 0 || r.n != n)
        fail_msg("%s: %zu devices, '%s'", text, r.n, r.err.text);
    gs_arena_fini(&r.arena);
}

/* HAMi's words, and ours before them: which device. */
static void want_error(const char *text, const char *start)
{
    struct reading r;
    const char *words;
    int n = 0;

    assert_int_equal(read_text(&r, gs_str_of(text)), -EINVAL);
    (void)sscanf(r.err.text, "device %*u: %n", &n);
    words = r.err.text + n;
    if (strncmp(words, start, strlen(start)) != 0)
        fail_msg("%s: '%s'", text, r.err.text);
    assert_int_equal(r.n, 77);
    gs_arena_fini(&r.arena);
}

static void want_device(const struct gs_device *dev, const struct gs_device *want)
{
    assert_true(gs_str_eq(dev->id, want->id));
    assert_true(gs_str_eq(dev->type, want->type));
    assert_true(gs_str_eq(dev->mode, want->mode));
    assert_int_equal(dev->index, want->index);
    assert_int_equal(dev->count, want->count);
    assert_int_equal(dev->mem_mib, want->mem_mib);
    assert_int_equal(dev->cores, want->cores);
    assert_int_equal(dev->numa, want->numa);
    assert_int_equal(dev->is_healthy, want->is_healthy);
}

static void want_one(const char *text, const struct gs_device *want)
{
    struct reading r;

    if (read_text(&r, gs_str_of(text)) != 0)
        fail_msg("%s: %s", text, r.err.text);
    assert_int_equal(r.n, 1);
    want_device(&r.dev[0], want);
    gs_arena_fini(&r.arena);
}

/* A1 */
static void text(void **state)
{
    struct gs_device p4 = {.id = GS_STR(P4),
                           .type = GS_STR("NVIDIA-Tesla P4"),
                           .mode = GS_STR("hami-core"),
                           .count = 10,
                           .mem_mib = 7680,
                           .cores = 100,
                           .is_healthy = true};

    (void)state;
    want_error("", "node annotation missing device separator");               /* A1.1 */
    want_n(":", 0);                                                           /* A1.2 */
    want_n("::", 0);                                                          /* A1.3 */
    want_error(",:", "unexpected field count 2 in node annotation");          /* A1.5 */
    want_error("a", "node annotation missing device separator");              /* A1.6 */
    want_error("garbage:", "malformed node annotation segment: \"garbage\""); /* A1.7 */
    want_one(P4 ",10,7680,100,NVIDIA-Tesla P4,0,true:", &p4);                 /* 1.4 */
    p4.index = 1;
    want_one(P4 ",10,7680,100,NVIDIA-Tesla P4,0,true,1,hami-core:", &p4);  /* A1.9 */
    want_error(P4 ",notanint,7680,100,T,0,true:", "invalid count field:"); /* A1.10 */
    want_error(P4 ",10,notanint,100,T,0,true:", "invalid memory field:");  /* A1.11 */
    want_error(P4 ",10,7680,notanint,T,0,true:", "invalid core field:");
    want_error(P4 ",10,7680,100,T,notanint,true:", "invalid numa field:");   /* A1.13 */
    want_error(P4 ",10,7680,100,T,0,notabool:", "invalid health field:");    /* A1.14 */
    want_error("a,b,c,d,e:", "unexpected field count 5 in node annotation"); /* A1.15 */
    want_error(P4 ",10,7680,100,T,0,true,-1,hami-core:",
               "index field must not be negative: -1"); /* A1.17 */
    want_error(P4 ",10,7680,100,T,0,true,x,hami-core:", "invalid index field:");
    /* the order of checks: count, memory, core, health, numa, index */
    want_error("a,x,x,x,T,x,x,x,m:", "invalid count field:");
    want_error("a,1,1,1,T,x,x,x,m:", "invalid health field:");
    want_error("a,1,1,1,T,x,t,x,m:", "invalid numa field:");
    want_error("a,2147483648,1,1,T,0,t:", "invalid count field:");
    want_error("a,1,1,1,T,-2147483649,t:", "invalid numa field:");
    /* one bad segment refuses all */
    want_error("a,1,1,1,T,0,t:b,1,1,1,T:", "unexpected field count 5");
    want_n("a,1,1,1,T,0,t:b,1,1,1,T,0,T", 2);
}

/* spec/examples.md, V-S1 and V-S2 of other-vendors.md: one device without a final colon. */
static void examples(void **state)
{
    (void)state;
    want_one("GPU-00552014-1,10,32768,100,NVIDIA-V100,0,true",
             &(struct gs_device){.id = GS_STR("GPU-00552014-1"),
                                 .type = GS_STR("NVIDIA-V100"),
                                 .mode = GS_STR("hami-core"),
                                 .count = 10,
                                 .mem_mib = 32768,
                                 .cores = 100,
                                 .is_healthy = true});
    want_one("MLU-45013011-1,10,23308,0,MLU-370-X4,0,false",
             &(struct gs_device){.id = GS_STR("MLU-45013011-1"),
                                 .type = GS_STR("MLU-370-X4"),
                                 .mode = GS_STR("hami-core"),
                                 .count = 10,
                                 .mem_mib = 23308});
    want_one("a,1,2,3,T,1,1,5,mig", &(struct gs_device){.id = GS_STR("a"),
                                                        .type = GS_STR("T"),
                                                        .mode = GS_STR("mig"),
                                                        .index = 5,
                                                        .count = 1,
                                                        .mem_mib = 2,
                                                        .cores = 3,
                                                        .numa = 1,
                                                        .is_healthy = true});
    want_error("a,1,2,3,T,1,1,5", "node annotation missing device separator");
}

/* A2, and 1.5's examples */
static void json(void **state)
{
    struct gs_device want = {.id = GS_STR("id-1"),
                             .type = GS_STR("type"),
                             .index = 1,
                             .count = 1,
                             .mem_mib = 1024,
                             .cores = 10,
                             .is_healthy = true};

    (void)state;
    want_one("[{\"index\":1,\"id\":\"id-1\",\"count\":1,\"devmem\":1024,\"devcore\":10,"
             "\"type\":\"type\",\"health\":true}]\n",
             &want); /* A2.1 */
    want_one("[{\"ID\":\"GPU-0\",\"Count\":4,\"Devmem\":8738,\"Devcore\":8,"
             "\"Type\":\"huawei.com/Ascend910\",\"Numa\":0,\"Health\":true}]",
             &(struct gs_device){.id = GS_STR("GPU-0"),
                                 .type = GS_STR("huawei.com/Ascend910"),
                                 .count = 4,
                                 .mem_mib = 8738,
                                 .cores = 8,
                                 .is_healthy = true});
    want_one("[{\"id\":\"c\",\"numa\":-1,\"unknown\":[{}],\"mode\":null,\"custominfo\":{\"a\":1},"
             "\"migtemplate\":[{\"Name\":\"x\"}],\"devicepairscore\":{}}]",
             &(struct gs_device){.id = GS_STR("c"), .numa = -1});
    want_one("[{\"id\":\"a\",\"ID\":\"b\"}]", &(struct gs_device){.id = GS_STR("b")});
    want_one(" \t[{\"id\":\"a\"}]", &(struct gs_device){.id = GS_STR("a")});
    want_n("[]", 0);
    want_n("null", 0);
    /* a device without a name can be given to nobody */
    want_one("[{\"count\":1,\"health\":true}]", &(struct gs_device){.count = 1});
    want_n("[null]", 1);
}

static void bad_json(void **state)
{
    static const char *const bad[] = {
        "[",
        "[{}",
        "{}",
        "[1]",
        "[[]]",
        "[{\"id\":1}]",
        "[{\"type\":[]}]",
        "[{\"mode\":false}]",
        "[{\"count\":\"1\"}]",
        "[{\"count\":1.5}]",
        "[{\"count\":1e3}]",
        "[{\"devmem\":2147483648}]",
        "[{\"devcore\":-2147483649}]",
        "[{\"devmem\":9223372036854775808}]",
        "[{\"devmem\":18446744073709551616}]",
        "[{\"index\":-1}]",
        "[{\"health\":\"true\"}]",
        "[{\"health\":1}]",
        "[{\"id\":\"a,b\"}]",
        "[{\"id\":\"a:b\"}]",
        "[{\"id\":\"a;b\"}]",
        "[{\"id\":\"a\\u0000b\"}]",
        "[{\"id\":\"a\"}] x",
        "[{\"id\":\"\\xff\"}]",
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        struct reading r;

        if (read_text(&r, gs_str_of(bad[i])) != -EINVAL || r.err.text[0] == '\0' || r.n != 77)
            fail_msg("%s", bad[i]);
        gs_arena_fini(&r.arena);
    }
}

/* HAMi's shared region, and ours, keep an id in 96 bytes (char uuid[16][96]). */
static void long_texts(void **state)
{
    char word[GS_REGISTER_WORD_MAX + 2], text[1024];
    static char large[200001];
    struct gs_buf buf = {0};
    struct reading r;

    (void)state;
    memset(word, 'x', sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    (void)snprintf(text, sizeof(text), "%.95s,1,1,1,%.253s,0,t,0,%.253s:", word, word, word);
    assert_int_equal(read_text(&r, gs_str_of(text)), 0);
    assert_int_equal(r.dev[0].id.n, 95);
    gs_arena_fini(&r.arena);
    (void)snprintf(text, sizeof(text), "%.96s,1,1,1,T,0,t:", word);
    want_error(text, "device id of 96 bytes, more than 95");
    (void)snprintf(text, sizeof(text), "a,1,1,1,%.254s,0,t:", word);
    want_error(text, "device type or mode of more than 253 bytes");
    (void)snprintf(text, sizeof(text), "[{\"id\":\"a\",\"mode\":\"%.254s\"}]", word);
    want_error(text, "device type or mode of more than 253 bytes");
    memset(large, 'y', sizeof(large) - 1);
    gs_buf_addf(&buf, "[{\"id\":\"%s\",\"health\":true}]", large);
    want_error(gs_buf_text(&buf), "device id of 200000 bytes, more than 95");
    gs_buf_fini(&buf);
}

/* gs_node_read() says of them what is to be said. */
static void an_id_may_be_there_twice(void **state)
{
    struct reading r;

    (void)state;
    assert_int_equal(read_text(&r, GS_STR("a,1,1,1,T,0,t:a,1,1,1,T,0,t:")), 0);
    assert_int_equal(r.n, 2);
    gs_arena_fini(&r.arena);
}

static void limits(void **state)
{
    struct gs_buf buf = {0};
    struct reading r;

    (void)state;
    gs_buf_addc(&buf, ':', GS_REGISTER_BYTES_MAX + 1);
    assert_int_equal(read_text(&r, (struct gs_str){buf.p, buf.n}), -E2BIG);
    gs_buf_clear(&buf);
    gs_buf_adds(&buf, "[null");
    for (int i = 0; i < GS_REGISTER_DEVICES_MAX; i++)
        gs_buf_adds(&buf, ",null");
    gs_buf_adds(&buf, "]");
    assert_int_equal(read_text(&r, (struct gs_str){buf.p, buf.n}), -E2BIG);
    gs_buf_clear(&buf);
    for (int i = 0; i <= GS_REGISTER_DEVICES_MAX + 1; i++)
        gs_buf_addf(&buf, "%d,1,1,1,T,0,t:", i);
    assert_int_equal(read_text(&r, (struct gs_str){buf.p, buf.n}), -E2BIG);
    gs_buf_clear(&buf);
    gs_buf_addc(&buf, '[', 100000); /* deep nesting */
    assert_int_equal(read_text(&r, (struct gs_str){buf.p, buf.n}), -EINVAL);
    gs_arena_fini(&r.arena);
    memset(&r, 0, sizeof(r));
    r.arena.failed = true;
    assert_int_equal(gs_register_read(GS_STR("a,1,1,1,T,0,t:"), NULL, &r.arena, &r.dev, &r.n, NULL),
                     -ENOMEM);
    assert_int_equal(gs_register_read(GS_STR("[{}]"), NULL, &r.arena, &r.dev, &r.n, NULL), -ENOMEM);
    gs_buf_fini(&buf);
}

/* Whoever has less than nothing of something is given to nobody; 0 is no fault. */
static void less_than_nothing(void **state)
{
    static const char *const text[] = {"a,-1,10,100,T,0,true:", "a,1,-10,100,T,0,true:",
                                       "a,1,10,-100,T,0,true:", "a,0,0,0,T,-1,true:"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(text); i++) {
        struct reading r;

        assert_int_equal(read_text(&r, gs_str_of(text[i])), 0);
        assert_int_equal(r.n, 1);
        assert_int_equal(r.dev[0].is_healthy, i == 3);
        gs_arena_fini(&r.arena);
    }
}

static int own_number(void *user, yyjson_val *element, struct gs_arena *arena,
                      struct gs_device *dev, struct gs_err *err)
{
    yyjson_val *v = yyjson_obj_get(element, "own");
    int *kept = GS_ARENA_NEW(arena, int);

    assert_non_null(kept);
    assert_string_equal(user, "user");
    if (!yyjson_is_int(v))
        return gs_err_set(err, -EINVAL, "own is no number");
    *kept = (int)yyjson_get_int(v);
    dev->custom = kept;
    return 0;
}

/* What a vendor adds is its own to read, and to refuse. */
static void own(void **state)
{
    const struct gs_register_own vendor = {own_number, (void *)(uintptr_t) "user"};
    struct reading r = {0};

    (void)state;
    assert_int_equal(gs_register_read(GS_STR("[{\"id\":\"a\",\"own\":7},{\"id\":\"b\",\"own\":8}]"),
                                      &vendor, &r.arena, &r.dev, &r.n, &r.err),
                     0);
    assert_int_equal(*(const int *)r.dev[1].custom, 8);
    assert_int_equal(
        gs_register_read(GS_STR("[{\"id\":\"a\"}]"), &vendor, &r.arena, &r.dev, &r.n, &r.err),
        -EINVAL);
    assert_string_equal(r.err.text, "device 0: own is no number");
    gs_arena_fini(&r.arena);
}

static void put_own(const struct gs_device *dev, struct gs_buf *buf)
{
    (void)dev;
    gs_buf_adds(buf, ",\"migProfiles\":[]");
}

static void writes(void **state)
{
    const struct gs_device p4 = {.id = GS_STR(P4),
                                 .type = GS_STR("NVIDIA-Tesla P4"),
                                 .mode = GS_STR("hami-core"),
                                 .count = 10,
                                 .mem_mib = 7680,
                                 .cores = 100,
                                 .is_healthy = true};
    const struct gs_device g = {.id = GS_STR("g"),
                                .type = GS_STR("NVIDIA A100"),
                                .mode = GS_STR("hami-core"),
                                .count = 10,
                                .mem_mib = 8192,
                                .cores = 100,
                                .is_healthy = true};
    const struct gs_device odd = {.id = GS_STR("a<b>&\"\\\n"), .index = 3, .numa = -1};
    struct gs_buf buf = {0};

    (void)state;
    gs_register_write_text(&p4, 1, &buf);
    assert_string_equal(gs_buf_text(&buf),
                        P4 ",10,7680,100,NVIDIA-Tesla P4,0,true,0,hami-core:"); /* A1.18 */
    gs_buf_clear(&buf);
    gs_register_write_json(NULL, 0, NULL, &buf);
    assert_string_equal(gs_buf_text(&buf), "[]"); /* A2.3 */
    gs_buf_clear(&buf);
    gs_register_write_json(&g, 1, NULL, &buf);
    assert_string_equal(
        gs_buf_text(&buf),
        "[{\"id\":\"g\",\"count\":10,\"devmem\":8192,\"devcore\":100,"
        "\"type\":\"NVIDIA A100\",\"mode\":\"hami-core\",\"health\":true}]"); /* A2.5
                                                                               */
    gs_buf_clear(&buf);
    gs_register_write_json(&odd, 1, put_own, &buf);
    assert_string_equal(gs_buf_text(&buf),
                        "[{\"id\":\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\",\"index\":3,\"numa\":-1,"
                        "\"migProfiles\":[]}]");
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text),
        cmocka_unit_test(examples),
        cmocka_unit_test(json),
        cmocka_unit_test(bad_json),
        cmocka_unit_test(limits),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(an_id_may_be_there_twice),
        cmocka_unit_test(own),
        cmocka_unit_test(writes),
        cmocka_unit_test(less_than_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
