#include "kube/patch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include <cmocka.h>

#include "base/buf.h"

static void expect_merge(struct gs_kube_merge *m, const char *want)
{
    struct gs_buf buf;

    gs_buf_init(&buf);
    assert_int_equal(gs_kube_merge_text(m, &buf), 0);
    assert_string_equal(gs_buf_text(&buf), want);
    gs_buf_fini(&buf);
    gs_kube_merge_fini(m);
}

static void expect_patch(struct gs_kube_patch *p, const char *want)
{
    struct gs_buf buf;

    gs_buf_init(&buf);
    assert_int_equal(gs_kube_patch_text(p, &buf), 0);
    assert_string_equal(gs_buf_text(&buf), want);
    gs_buf_fini(&buf);
    gs_kube_patch_fini(p);
}

static void merges_are_built(void **state)
{
    struct gs_kube_merge m;

    (void)state;
    gs_kube_merge_init(&m);
    expect_merge(&m, "{}");
    gs_kube_merge_init(&m);
    gs_kube_merge_annotation(&m, GS_STR("hami.io/a"), GS_STR("GPU-1,NVIDIA,8192,50:;"));
    gs_kube_merge_annotation_null(&m, GS_STR("hami.io/b"));
    gs_kube_merge_label(&m, GS_STR("l"), GS_STR("first"));
    gs_kube_merge_label(&m, GS_STR("l"), GS_STR("second"));
    gs_kube_merge_version(&m, GS_STR("77"));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("spec", "x"), INT64_MIN);
    gs_kube_merge_bool(&m, GS_KUBE_PATH("spec", "y"), true);
    gs_kube_merge_null(&m, GS_KUBE_PATH("status"));
    expect_merge(&m, "{\"metadata\":{\"annotations\":{\"hami.io/a\":\"GPU-1,NVIDIA,8192,50:;\","
                     "\"hami.io/b\":null},\"labels\":{\"l\":\"second\"},\"resourceVersion\":"
                     "\"77\"},\"spec\":{\"x\":-9223372036854775808,\"y\":true},\"status\":null}");
}

static void text_cannot_leave_its_quotes(void **state)
{
    struct gs_kube_merge m;

    (void)state;
    gs_kube_merge_init(&m);
    gs_kube_merge_annotation(&m, GS_STR("a\"b"), GS_STR("\"},\"x\":{\"\\\n\x01"));
    gs_kube_merge_annotation(&m, GS_STR(""), (struct gs_str){0});
    expect_merge(&m, "{\"metadata\":{\"annotations\":{\"a\\\"b\":"
                     "\"\\\"},\\\"x\\\":{\\\"\\\\\\n\\u0001\",\"\":\"\"}}}");
    gs_kube_merge_init(&m);
    gs_kube_merge_label(&m, GS_STR("k"), GS_STR("\xff\xfe"));
    struct gs_buf buf;
    gs_buf_init(&buf);
    assert_int_equal(gs_kube_merge_text(&m, &buf), -EILSEQ);
    assert_int_equal(buf.n, 0);
    gs_kube_merge_fini(&m);
    gs_buf_fini(&buf);
}

static void values_are_copied(void **state)
{
    yyjson_doc *doc = yyjson_read("{\"k\":[1,{\"z\":null}]}", 20, 0);
    struct gs_kube_merge m;

    (void)state;
    gs_kube_merge_init(&m);
    gs_kube_merge_val(&m, GS_KUBE_PATH("spec", "v"), yyjson_obj_get(yyjson_doc_get_root(doc), "k"));
    yyjson_doc_free(doc);
    expect_merge(&m, "{\"spec\":{\"v\":[1,{\"z\":null}]}}");
}

static void an_object_takes_the_place_of_a_value(void **state)
{
    struct gs_kube_merge m;

    (void)state;
    gs_kube_merge_init(&m);
    gs_kube_merge_str(&m, GS_KUBE_PATH("a"), GS_STR("x"));
    gs_kube_merge_str(&m, GS_KUBE_PATH("a", "b"), GS_STR("y"));
    expect_merge(&m, "{\"a\":{\"b\":\"y\"}}");
}

/* RFC 6901, section 5: "/a~1b", "/m~0n", "/", "/c%d", "/ ". RFC 6902, A.1 to A.3, A.8 (forms). */
static void patches_are_built(void **state)
{
    struct gs_kube_patch p;

    (void)state;
    gs_kube_patch_init(&p);
    expect_patch(&p, "[]");
    gs_kube_patch_init(&p);
    gs_kube_patch_add_str(&p, GS_KUBE_POINTER(GS_STR("baz")), GS_STR("qux"));
    gs_kube_patch_replace_str(&p, GS_KUBE_POINTER(GS_STR("foo"), GS_STR("1")), GS_STR("boo"));
    gs_kube_patch_remove(&p, GS_KUBE_POINTER(GS_STR("a/b"), GS_STR("m~n"), GS_STR("")));
    gs_kube_patch_test_str(&p, GS_KUBE_POINTER(GS_STR("c%d"), GS_STR(" "), GS_STR("~1")),
                           GS_STR("v"));
    gs_kube_patch_add(&p, GS_KUBE_POINTER(GS_STR("list"), GS_STR("-")), yyjson_mut_obj(p.doc));
    gs_kube_patch_replace(&p, GS_KUBE_POINTER(GS_STR("n")), yyjson_mut_sint(p.doc, -4));
    assert_int_equal(p.n, 6);
    expect_patch(&p, "[{\"op\":\"add\",\"path\":\"/baz\",\"value\":\"qux\"},"
                     "{\"op\":\"replace\",\"path\":\"/foo/1\",\"value\":\"boo\"},"
                     "{\"op\":\"remove\",\"path\":\"/a~1b/m~0n/\"},"
                     "{\"op\":\"test\",\"path\":\"/c%d/ /~01\",\"value\":\"v\"},"
                     "{\"op\":\"add\",\"path\":\"/list/-\",\"value\":{}},"
                     "{\"op\":\"replace\",\"path\":\"/n\",\"value\":-4}]");
}

static void failure_is_sticky(void **state)
{
    struct gs_kube_merge m = {0}; /* as after a failed init */
    struct gs_kube_patch p = {0};
    struct gs_buf buf;

    (void)state;
    gs_buf_init(&buf);
    gs_kube_merge_annotation(&m, GS_STR("a"), GS_STR("b"));
    gs_kube_merge_i64(&m, GS_KUBE_PATH("a"), 1);
    gs_kube_merge_val(&m, GS_KUBE_PATH("a"), NULL);
    assert_int_equal(gs_kube_merge_text(&m, &buf), -ENOMEM);
    gs_kube_patch_add_str(&p, GS_KUBE_POINTER(GS_STR("a")), GS_STR("b"));
    gs_kube_patch_remove(&p, GS_KUBE_POINTER(GS_STR("a")));
    assert_int_equal(gs_kube_patch_text(&p, &buf), -ENOMEM);
    gs_kube_patch_init(&p);
    gs_kube_patch_add(&p, GS_KUBE_POINTER(GS_STR("a")), NULL); /* its value could not be made */
    assert_int_equal(gs_kube_patch_text(&p, &buf), -ENOMEM);
    gs_kube_merge_fini(&m);
    gs_kube_patch_fini(&p);
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_are_built),  cmocka_unit_test(text_cannot_leave_its_quotes),
        cmocka_unit_test(values_are_copied), cmocka_unit_test(an_object_takes_the_place_of_a_value),
        cmocka_unit_test(patches_are_built), cmocka_unit_test(failure_is_sticky),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
