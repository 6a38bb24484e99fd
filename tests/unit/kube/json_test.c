#include "kube/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "kube/base64.h"

static yyjson_doc *doc_of(const char *text)
{
    yyjson_doc *doc = NULL;

    assert_int_equal(gs_kube_json_read(gs_str_of(text), 1 << 20, &doc, NULL), 0);
    return doc;
}

static void missing_null_and_wrong_differ(void **state)
{
    yyjson_doc *doc = doc_of("{\"s\":\"x\",\"n\":null,\"i\":5,\"f\":1.0,\"e\":1e3,\"b\":true,"
                             "\"o\":{},\"a\":[],\"big\":2147483648,\"low\":-2147483649,"
                             "\"huge\":9223372036854775808,\"min\":-9223372036854775808}");
    yyjson_val *root = yyjson_doc_get_root(doc), *val = NULL;
    struct gs_str s = {0};
    int32_t i = 7;
    int64_t l = 7;
    bool b = false;

    (void)state;
    assert_int_equal(gs_kube_json_str(root, "s", &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "x"));
    assert_int_equal(gs_kube_json_str(root, "zz", &s), GS_KUBE_MISSING);
    assert_int_equal(gs_kube_json_str(root, "n", &s), GS_KUBE_NULL);
    assert_int_equal(gs_kube_json_str(root, "i", &s), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_str(NULL, "s", &s), GS_KUBE_MISSING);
    assert_int_equal(gs_kube_json_str(yyjson_obj_get(root, "a"), "s", &s), GS_KUBE_MISSING);
    assert_int_equal(gs_kube_json_i32(root, "f", &i), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_i32(root, "e", &i), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_i32(root, "big", &i), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_i32(root, "low", &i), GS_KUBE_WRONG);
    assert_int_equal(i, 7);
    assert_int_equal(gs_kube_json_i32(root, "i", &i), GS_KUBE_GOT);
    assert_int_equal(i, 5);
    assert_int_equal(gs_kube_json_i64(root, "huge", &l), GS_KUBE_WRONG);
    assert_int_equal(l, 7);
    assert_int_equal(gs_kube_json_i64(root, "min", &l), GS_KUBE_GOT);
    assert_int_equal(l, INT64_MIN);
    assert_int_equal(gs_kube_json_bool(root, "b", &b), GS_KUBE_GOT);
    assert_true(b);
    assert_int_equal(gs_kube_json_bool(root, "i", &b), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_obj(root, "a", &val), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_arr(root, "o", &val), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_obj(root, "o", &val), GS_KUBE_GOT);
    assert_int_equal(gs_kube_json_arr(root, "a", &val), GS_KUBE_GOT);
    gs_kube_json_free(doc);
}

static void quantities_stay_text(void **state)
{
    yyjson_doc *doc = doc_of("[\"16Gi\",4,-3,null,true,{},1.5,1e3,-2e0,1e300]");
    yyjson_val *root = yyjson_doc_get_root(doc);
    struct gs_arena arena;
    struct gs_str s = {0};

    (void)state;
    gs_arena_init(&arena);
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 0), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "16Gi"));
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 1), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "4"));
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 2), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "-3"));
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 3), &arena, &s), GS_KUBE_NULL);
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 4), &arena, &s), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 5), &arena, &s), GS_KUBE_WRONG);
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 6), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "1.5"));
    /* an exponent is no fraction */
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 7), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "1000"));
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 8), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "-2"));
    assert_int_equal(gs_kube_json_quantity(yyjson_arr_get(root, 9), &arena, &s), GS_KUBE_GOT);
    assert_true(gs_str_eq_c(s, "1e300"));
    assert_int_equal(gs_kube_json_quantity(NULL, &arena, &s), GS_KUBE_MISSING);
    gs_arena_fini(&arena);
    gs_kube_json_free(doc);
}

static void bad_text_is_refused(void **state)
{
    static const char *const rows[] = {
        "",    " ",    "{",          "{]",       "{\"a\":1}x",   "nul",
        "'a'", "[1,]", "{\"a\":01}", "\"\xff\"", "[\"\\ud800\"]"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        yyjson_doc *doc = NULL;
        struct gs_err err = {0};

        assert_int_equal(gs_kube_json_read(gs_str_of(rows[i]), 1 << 20, &doc, &err), -EINVAL);
        assert_null(doc);
        assert_true(err.text[0] != '\0');
    }
}

/* A million brackets, and a million ones: the tree of either would be many times the text. */
static void memory_is_bounded(void **state)
{
    const size_t n = 1 << 20;
    char *text = malloc(n);
    yyjson_doc *doc = NULL;

    (void)state;
    assert_non_null(text);
    memset(text, '[', n);
    assert_int_equal(gs_kube_json_read((struct gs_str){text, n}, n, &doc, NULL), -E2BIG);
    for (size_t i = 0; i < n; i++)
        text[i] = i == 0 ? '[' : i == n - 1 ? ']' : i % 2 ? '1' : ',';
    assert_int_equal(gs_kube_json_read((struct gs_str){text, n}, n, &doc, NULL), -E2BIG);
    assert_int_equal(gs_kube_json_read((struct gs_str){text, n}, n - 1, &doc, NULL), -EFBIG);
    free(text);
}

/* A list of node names is the densest that honest callers send. */
static void name_lists_are_taken(void **state)
{
    struct gs_buf text;
    yyjson_doc *doc = NULL;

    (void)state;
    gs_buf_init(&text);
    gs_buf_adds(&text, "[\"n0\"");
    for (int i = 1; i < 100000; i++)
        gs_buf_addf(&text, ",\"n%d\"", i);
    gs_buf_adds(&text, "]");
    assert_int_equal(gs_buf_check(&text), 0);
    assert_int_equal(gs_kube_json_read((struct gs_str){text.p, text.n}, text.n, &doc, NULL), 0);
    assert_int_equal(yyjson_arr_size(yyjson_doc_get_root(doc)), 100000);
    gs_kube_json_free(doc);
    gs_buf_fini(&text);
}

/* RFC 4648, section 10. */
static void base64_vectors(void **state)
{
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    static const char *const bad[] = {"Z",     "Zg",   "Zg=",  "Zg===", "=",
                                      "Zm9v=", "Z=g=", "Zm8*", "Zm-_"};
    char out[64];
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_buf text;

        assert_int_equal(gs_kube_base64_decode(gs_str_of(rows[i][1]), out, &n), 0);
        assert_int_equal(n, strlen(rows[i][0]));
        assert_memory_equal(out, rows[i][0], n);
        gs_buf_init(&text);
        gs_kube_base64_put(&text, gs_str_of(rows[i][0]));
        assert_string_equal(gs_buf_text(&text), rows[i][1]);
        gs_buf_fini(&text);
    }
    assert_int_equal(gs_kube_base64_decode(GS_STR("Zm9v\r\nYmFy\n"), out, &n), 0);
    assert_int_equal(n, 6);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        assert_int_equal(gs_kube_base64_decode(gs_str_of(bad[i]), out, &n), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_null_and_wrong_differ), cmocka_unit_test(quantities_stay_text),
        cmocka_unit_test(bad_text_is_refused),           cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(name_lists_are_taken),          cmocka_unit_test(base64_vectors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
