/* What kube-scheduler sends with /bind (ExtenderBindingArgs, extender/v1). */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_has_253_letters_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
