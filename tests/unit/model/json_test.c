#include "model/json.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void want_string(struct gs_str text, const char *want)
{
    struct gs_buf buf = {0};

    gs_json_put_str(&buf, text);
    assert_string_equal(gs_buf_text(&buf), want);
    gs_buf_fini(&buf);
}

/* As Go's encoding/json writes strings. */
static void strings(void **state)
{
    (void)state;
    want_string(GS_STR(""), "\"\"");
    want_string(GS_STR("a\"b\\c/\n\r\t"), "\"a\\\"b\\\\c/\\n\\r\\t\"");
    want_string(GS_STR("<a>&"), "\"\\u003ca\\u003e\\u0026\"");
    want_string(GS_STR("\0\x1f\x7f"), "\"\\u0000\\u001f\x7f\"");
    want_string(GS_STR("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
                "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
    /* no UTF-8: a lone continuation, an overlong form, a surrogate, a cut sequence, beyond U+10FFFF
     */
    want_string(GS_STR("\x80"), "\"\\ufffd\"");
    want_string(GS_STR("\xc0\xaf"), "\"\\ufffd\\ufffd\"");
    want_string(GS_STR("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"");
    want_string(GS_STR("\xe2\x82"), "\"\\ufffd\\ufffd\"");
    want_string(GS_STR("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void values(void **state)
{
    struct gs_arena arena = {0}, none = {.failed = true};
    struct gs_str text = {0};
    yyjson_doc *doc = NULL;
    yyjson_val *root;
    int32_t n = 7;
    bool b = true;

    (void)state;
    assert_int_equal(
        gs_json_parse(GS_STR("{\"A\":1,\"a\":2147483647,\"b\":-2147483648,\"c\":2147483648,"
                             "\"d\":1.0,\"e\":null,\"f\":false,\"g\":\"x\",\"a\":null}"),
                      1000, &doc, NULL),
        0);
    root = yyjson_doc_get_root(doc);
    assert_int_equal(gs_json_int32(gs_json_get(root, "a"), &n), 0);
    assert_int_equal(n, INT32_MAX); /* in any case, the last that is not null */
    assert_int_equal(gs_json_int32(gs_json_get(root, "B"), &n), 0);
    assert_int_equal(n, INT32_MIN);
    assert_int_equal(gs_json_int32(gs_json_get(root, "c"), &n), -EINVAL);
    assert_int_equal(gs_json_int32(gs_json_get(root, "d"), &n), -EINVAL);
    assert_int_equal(gs_json_int32(gs_json_get(root, "e"), &n), 0);
    assert_int_equal(gs_json_int32(gs_json_get(root, "none"), &n), 0);
    assert_int_equal(gs_json_int32(gs_json_get(root, "g"), &n), -EINVAL);
    assert_int_equal(n, INT32_MIN);
    assert_int_equal(gs_json_bool(gs_json_get(root, "a"), &b), -EINVAL);
    assert_int_equal(gs_json_bool(gs_json_get(root, "e"), &b), 0);
    assert_true(b);
    assert_int_equal(gs_json_bool(gs_json_get(root, "F"), &b), 0);
    assert_false(b);
    assert_int_equal(gs_json_str(gs_json_get(root, "a"), &arena, &text), -EINVAL);
    assert_int_equal(gs_json_str(gs_json_get(root, "e"), &arena, &text), 0);
    assert_int_equal(gs_json_str(gs_json_get(root, "g"), &none, &text), -ENOMEM);
    assert_null(text.p);
    assert_int_equal(gs_json_str(gs_json_get(root, "g"), &arena, &text), 0);
    assert_string_equal(text.p, "x");
    assert_null(gs_json_get(gs_json_get(root, "a"), "a")); /* of no object */
    yyjson_doc_free(doc);
    gs_arena_fini(&arena);
}

static void documents(void **state)
{
    yyjson_doc *doc = NULL;
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(gs_json_parse(GS_STR(""), 10, &doc, &err), -EINVAL);
    assert_int_equal(gs_json_parse(GS_STR("[1,2,3,4,5]"), 10, &doc, &err), -E2BIG);
    assert_int_equal(gs_json_parse(GS_STR("[1,]"), 10, &doc, &err), -EINVAL);
    assert_memory_equal(err.text, "JSON at byte ", 13);
    assert_int_equal(gs_json_parse(GS_STR("[] []"), 10, &doc, &err), -EINVAL);
    assert_null(doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings),
        cmocka_unit_test(values),
        cmocka_unit_test(documents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
