#include "hook/elf.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* The loader itself is the outside source: we must find what it finds. */

static void check_libc(const char *name, const char *version)
{
    struct gs_elf libc;
    assert_true(gs_elf_find("libc.so.6", &libc));
    void *handle = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(handle);
    void *want = version != NULL ? dlvsym(handle, name, version) : dlsym(handle, name);
    if (gs_elf_symbol(&libc, name, version) != want)
        fail_msg("%s@%s: %p, not %p", name, version != NULL ? version : "default",
                 gs_elf_symbol(&libc, name, version), want);
    (void)dlclose(handle);
}

static void test_agrees_with_the_loader(void **state)
{
    (void)state;
    static const char *const names[] = {"malloc",
                                        "dl_iterate_phdr",
                                        "strlen",
                                        "memcpy",
                                        "qsort",
                                        "open",
                                        "environ",
                                        "realpath",
                                        "fork",
                                        "regexec",
                                        "no_such_function",
                                        ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_libc(names[i], NULL);
}

static void test_versions(void **state)
{
    (void)state;
    check_libc("no_such_function", "GLIBC_2.2.5");
    check_libc("malloc", "GLIBC_9.9");
#ifdef __x86_64__
    check_libc("memcpy", "GLIBC_2.2.5"); /* two definitions; this one is not the default */
    check_libc("memcpy", "GLIBC_2.14");
    check_libc("realpath", "GLIBC_2.2.5");
    check_libc("realpath", "GLIBC_2.3");
#endif
}

static void check_sample(const char *file)
{
    struct gs_elf obj;
    void *handle = dlopen(file, RTLD_NOW);
    if (handle == NULL)
        fail_msg("%s", dlerror());
    assert_true(gs_elf_find(strrchr(file, '/') + 1, &obj));
    assert_non_null(dlsym(handle, "sample_function"));
    assert_ptr_equal(gs_elf_symbol(&obj, "sample_function", NULL),
                     dlsym(handle, "sample_function"));
    assert_ptr_equal(gs_elf_symbol(&obj, "sample_data", NULL), dlsym(handle, "sample_data"));
    assert_null(gs_elf_symbol(&obj, "sample_tls", NULL));
    assert_null(gs_elf_symbol(&obj, "sample_undefined", NULL));
    assert_null(gs_elf_symbol(&obj, "printf", NULL)); /* a dependency's */

    struct gs_elf at;
    assert_true(gs_elf_at(dlsym(handle, "sample_function"), &at));
    assert_int_equal(at.base, obj.base);
    assert_true(gs_elf_at(dlsym(handle, "sample_data"), &at));
    assert_int_equal(at.base, obj.base);
    (void)dlclose(handle);
    assert_false(gs_elf_find(strrchr(file, '/') + 1, &obj));
}

static void test_both_hash_tables(void **state)
{
    (void)state;
    check_sample(SAMPLE_GNU);
    check_sample(SAMPLE_SYSV);
}

static void test_finds_objects(void **state)
{
    (void)state;
    struct gs_elf obj;
    int here = 0;
    assert_false(gs_elf_find("libno-such.so.1", &obj));
    assert_false(gs_elf_at(&here, &obj)); /* the stack belongs to no object */
    assert_true(gs_elf_at((const void *)(uintptr_t)test_finds_objects, &obj));
    assert_string_equal(obj.path, ""); /* the program itself */
}

static int count_to_two(const struct gs_elf *obj, void *arg)
{
    (void)obj;
    return ++*(int *)arg == 2 ? 99 : 0;
}

static void test_each_stops(void **state)
{
    (void)state;
    int n = 0;
    assert_int_equal(gs_elf_each(count_to_two, &n), 99);
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_the_loader),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_both_hash_tables),
        cmocka_unit_test(test_finds_objects),
        cmocka_unit_test(test_each_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
