/* Folders that strangers write in. */

#include "monitor/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "fake_ledger.h"

static void touch(int dir, const char *name)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
}

static void names(void **state)
{
    static const char *const bad[] = {"",    "_",      "uid_",  "_c",      "uid", "uid_a_b",
                                      "._c", "uid_.c", "u/x_c", "uid_a b", "..",  "uid_\xff"};
    struct gs_str uid, container;

    (void)state;
    assert_int_equal(gs_folder_parse(GS_STR("0f4b-1_main"), &uid, &container), 0);
    assert_true(gs_str_eq_c(uid, "0f4b-1") && gs_str_eq_c(container, "main"));
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        assert_int_equal(gs_folder_parse(gs_str_of(bad[i]), &uid, &container), -EINVAL);
}

static void finds_the_one_file(void **state)
{
    int dir = fake_folder();
    char name[GS_FOLDER_NAME];

    (void)state;
    assert_int_equal(gs_folder_find(dir, name), -ENOENT);
    touch(dir, "libvgpu.so");
    touch(dir, ".cache"); /* a name alone is none */
    touch(dir, "cache");
    assert_int_equal(gs_folder_find(dir, name), -ENOENT);
    touch(dir, "a.cache");
    assert_int_equal(gs_folder_find(dir, name), 0);
    assert_string_equal(name, "a.cache");
    assert_int_equal(gs_folder_find(dir, name), 0); /* from the start again */
    touch(dir, "b.cache");
    assert_int_equal(gs_folder_find(dir, name), -EEXIST);
    assert_int_equal(unlinkat(dir, "b.cache", 0), 0);
    for (int i = 0; i < 70; i++) {
        (void)snprintf(name, sizeof(name), "file-%d", i);
        touch(dir, name);
    }
    assert_int_equal(gs_folder_find(dir, name), -E2BIG);
    fake_folder_remove(dir);
}

static int remove_all(int dir, const char *name, int *ret_calls)
{
    struct gs_err err = {0};
    int rc;

    for (*ret_calls = 1; (rc = gs_folder_remove(dir, name, &err)) == -EAGAIN; ++*ret_calls)
        assert_true(*ret_calls < 10000);
    return rc;
}

/* As deep as a path can be named from inside, which is far deeper than one from outside can. */
static void removes_what_is_deep(void **state)
{
    int dir = fake_folder(), at, calls;

    (void)state;
    assert_int_equal(mkdirat(dir, "u_c", 0700), 0);
    at = openat(dir, "u_c", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 300; i++) {
        int next;

        touch(at, "file");
        assert_int_equal(mkdirat(at, "a-folder-with-a-long-name-in-it", 0700), 0);
        next = openat(at, "a-folder-with-a-long-name-in-it", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    assert_int_equal(remove_all(dir, "u_c", &calls), 0);
    assert_int_equal(faccessat(dir, "u_c", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(remove_all(dir, "u_c", &calls), 0); /* gone is gone */
    fake_folder_remove(dir);
}

static void removes_many_in_pieces(void **state)
{
    int dir = fake_folder(), at, calls;

    (void)state;
    assert_int_equal(mkdirat(dir, "u_c", 0700), 0);
    at = openat(dir, "u_c", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 1500; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "%d", i);
        touch(at, name);
    }
    (void)close(at);
    assert_int_equal(remove_all(dir, "u_c", &calls), 0);
    assert_true(calls >= 3);
    fake_folder_remove(dir);
}

/* What links point to stays; a link in place of the folder is refused. */
static void follows_nothing(void **state)
{
    int dir = fake_folder(), calls;
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(mkdirat(dir, "keep", 0700), 0);
    assert_int_equal(mkdirat(dir, "keep/inner", 0700), 0);
    touch(dir, "keep/file");
    assert_int_equal(mkdirat(dir, "u_c", 0700), 0);
    assert_int_equal(symlinkat("../keep", dir, "u_c/link"), 0);
    assert_int_equal(symlinkat("/nowhere", dir, "u_c/broken"), 0);
    assert_int_equal(mkfifoat(dir, "u_c/fifo.cache", 0600), 0);
    assert_int_equal(remove_all(dir, "u_c", &calls), 0);
    assert_int_equal(faccessat(dir, "keep/file", F_OK, 0), 0);
    assert_int_equal(faccessat(dir, "keep/inner", F_OK, 0), 0);
    assert_int_equal(symlinkat("keep", dir, "u_l"), 0);
    assert_true(gs_folder_remove(dir, "u_l", &err) < 0);
    assert_true(gs_folder_open(dir, "u_l") < 0);
    assert_int_equal(faccessat(dir, "keep/file", F_OK, 0), 0);
    fake_folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(finds_the_one_file),
        cmocka_unit_test(removes_what_is_deep),
        cmocka_unit_test(removes_many_in_pieces),
        cmocka_unit_test(follows_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
