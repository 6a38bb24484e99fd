/* What kube-scheduler sends with /filter and /bind (ExtenderArgs, ExtenderBindingArgs,
 * extender/v1).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/extender.h"

/** Read a call with a pod's name of `n` letters. */
static int read_named(int n, struct gs_err *err, size_t *ret_n)
{
    struct gs_extender_binding binding;
    char name[512], body[1024];
    struct gs_arena arena;
    int rc;

    memset(name, 'a', sizeof(name));
    (void)snprintf(
        body, sizeof(body),
        "{\"PodName\":\"%.*s\",\"podNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"n1\"}", n, name);
    gs_arena_init(&arena);
    rc = gs_extender_read_binding(gs_str_of(body), &arena, &binding, err);
    *ret_n = rc == 0 ? binding.pod.n : 0;
    gs_arena_fini(&arena);
    return rc;
}

static void test_a_name_has_253_letters_at_most(void **state)
{
    struct gs_err err = {0};
    size_t n;

    (void)state;
    assert_int_equal(read_named(253, &err, &n), 0);
    assert_int_equal(n, 253);
    assert_int_equal(read_named(254, &err, &n), -EINVAL);
    assert_non_null(strstr(err.text, "PodName is too long"));
    assert_int_equal(read_named(0, &err, &n), -EINVAL);
    assert_non_null(strstr(err.text, "missing PodName"));
}

/* Two members of a name mean one thing to one reader and another to the next: none is taken. */
static void test_nothing_is_there_twice(void **state)
{
    static const struct {
        const char *body, *text;
    } args[] = {
        {"{\"Pod\":{},\"Pod\":{}}", "extender args: Pod is there twice"},
        {"{\"pod\":{},\"POD\":{}}", "extender args: Pod is there twice"},
        {"{\"Pod\":{},\"Pod\":null}", "extender args: Pod is there twice"},
        {"{\"Pod\":null,\"Pod\":{}}", "extender args: Pod is there twice"},
        {"{\"Pod\":{},\"NodeNames\":[\"a\"],\"nodenames\":[\"b\"]}",
         "extender args: NodeNames is there twice"},
        {"{\"Pod\":{},\"Nodes\":null,\"Nodes\":{}}", "extender args: Nodes is there twice"},
        {"{\"Pod\":{},\"Nodes\":{\"items\":[],\"Items\":[]}}",
         "extender args: nodes: items is there twice"},
        {"{\"Pod\":null}", "extender args missing pod"},
    };
    static const char *const member[] = {"PodName", "PodNamespace", "PodUID", "Node"};
    char body[512], text[128];

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(args); i++) {
        struct gs_extender_args got;
        struct gs_arena arena = {0};
        struct gs_err err = {0};

        assert_int_equal(gs_extender_read(gs_str_of(args[i].body), &arena, &got, &err), -EINVAL);
        assert_string_equal(err.text, args[i].text);
        gs_extender_args_fini(&got);
        gs_arena_fini(&arena);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(member); i++) {
        struct gs_extender_binding got;
        struct gs_arena arena = {0};
        struct gs_err err = {0};

        (void)snprintf(body, sizeof(body),
                       "{\"PodName\":\"p\",\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"n\","
                       "\"%s\":\"x\"}",
                       member[i]);
        (void)snprintf(text, sizeof(text), "extender binding args: %s is there twice", member[i]);
        assert_int_equal(gs_extender_read_binding(gs_str_of(body), &arena, &got, &err), -EINVAL);
        assert_string_equal(err.text, text);
        gs_arena_fini(&arena);
    }
}

/* Null is as good as absent, what is no text is said to be none. */
static void test_odd_bindings(void **state)
{
    static const struct {
        const char *body, *text;
    } row[] = {
        {"null", "extender binding args missing PodName"},
        {"{}", "extender binding args missing PodName"},
        {"{\"PodName\":null,\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"n\"}",
         "extender binding args missing PodName"},
        {"{\"PodName\":\"\",\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"n\"}",
         "extender binding args missing PodName"},
        {"{\"PodName\":\"p\",\"PodUID\":\"u\",\"Node\":\"n\"}",
         "extender binding args missing PodNamespace"},
        {"{\"PodName\":\"p\",\"PodNamespace\":\"ns\",\"PodUID\":null,\"Node\":\"n\"}",
         "extender binding args missing PodUID"},
        {"{\"PodName\":\"p\",\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":null}",
         "extender binding args missing Node"},
        {"{\"PodName\":1,\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"n\"}",
         "extender binding args: PodName is not a text"},
        {"{\"PodName\":\"p\",\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":[]}",
         "extender binding args: Node is not a text"},
        {"[]", "extender binding args: not an object"},
        {"\"x\"", "extender binding args: not an object"},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(row); i++) {
        struct gs_extender_binding got;
        struct gs_arena arena = {0};
        struct gs_err err = {0};

        assert_int_equal(gs_extender_read_binding(gs_str_of(row[i].body), &arena, &got, &err),
                         -EINVAL);
        assert_string_equal(err.text, row[i].text);
        gs_arena_fini(&arena);
    }
}

/* Inside the pod, which the API server has written, the first counts, whoever asks. */
static void test_members_of_the_pod(void **state)
{
    struct gs_extender_args got;
    struct gs_arena arena = {0};
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(
        gs_extender_read(
            GS_STR("{\"Pod\":{\"metadata\":{\"name\":\"p\",\"uid\":\"a\",\"uid\":\"b\"},"
                   "\"metadata\":{\"uid\":\"c\"}}}"),
            &arena, &got, &err),
        0);
    assert_true(gs_str_eq_c(got.pod.meta.uid, "a"));
    gs_extender_args_fini(&got);
    gs_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_has_253_letters_at_most),
        cmocka_unit_test(test_nothing_is_there_twice),
        cmocka_unit_test(test_odd_bindings),
        cmocka_unit_test(test_members_of_the_pod),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
