#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

struct fixture {
    char path[64];
    int fd;
};

static int setup(void **state)
{
    static struct fixture f;

    (void)snprintf(f.path, sizeof(f.path), "/tmp/gs-file-test-XXXXXX");
    if (!mkdtemp(f.path))
        return -1;
    f.fd = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &f;
    return f.fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)close(f->fd);
    return gs_file_remove_dir(AT_FDCWD, f->path, NULL);
}

static void writes_and_reads_back(void **state)
{
    struct fixture *f = *state;
    struct gs_buf buf = {0};
    struct stat st;

    gs_buf_adds(&buf, "before ");
    assert_int_equal(gs_file_write(f->fd, "x", "one", 3, NULL), 0);
    assert_int_equal(gs_file_write(f->fd, "x", "second", 6, NULL), 0);
    assert_int_equal(gs_file_read(f->fd, "x", 6, &buf), 0);
    assert_string_equal(gs_buf_text(&buf), "before second");
    assert_int_equal(fstatat(f->fd, "x", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    gs_buf_fini(&buf);
}

static void refuses_what_is_no_small_plain_file(void **state)
{
    struct fixture *f = *state;
    struct gs_buf buf = {0};

    gs_buf_adds(&buf, "kept");
    assert_int_equal(gs_file_write(f->fd, "x", "123456", 6, NULL), 0);
    assert_int_equal(symlinkat("x", f->fd, "link"), 0);
    assert_int_equal(mkfifoat(f->fd, "fifo", 0600), 0);
    assert_int_equal(gs_file_read(f->fd, "x", 5, &buf), -EFBIG);
    assert_int_equal(gs_file_read(f->fd, "link", 100, &buf), -ELOOP);
    assert_int_equal(gs_file_read(f->fd, "fifo", 100, &buf), -EINVAL);
    assert_int_equal(gs_file_read(f->fd, "none", 100, &buf), -ENOENT);
    assert_int_equal(gs_file_read(AT_FDCWD, "/dev/zero", 100, &buf), -EINVAL);
    assert_string_equal(gs_buf_text(&buf), "kept");
    gs_buf_fini(&buf);
}

static void failed_write_names_the_file(void **state)
{
    struct gs_err err = {0};
    char name[300];

    (void)state;
    assert_true(gs_file_write(AT_FDCWD, "/nowhere/x", "a", 1, &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/x"));
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(gs_file_write(AT_FDCWD, name, "a", 1, &err), -ENAMETOOLONG);
}

static void private_folder_must_be_ours_closed_and_real(void **state)
{
    struct fixture *f = *state;
    struct gs_err err = {0};
    int fd = gs_file_make_private(f->fd, "d", &err);

    assert_true(fd >= 0);
    (void)close(fd);
    fd = gs_file_make_private(f->fd, "d", &err); /* once more: it is there */
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(gs_file_open_private(f->fd, "d", geteuid() + 1, &err), -EPERM);
    assert_non_null(strstr(err.text, "belongs to user"));
    assert_int_equal(fchmodat(f->fd, "d", 0750, 0), 0);
    assert_int_equal(gs_file_make_private(f->fd, "d", &err), -EPERM);
    assert_non_null(strstr(err.text, "chmod 700"));
    assert_int_equal(symlinkat("d", f->fd, "l"), 0);
    assert_int_equal(gs_file_make_private(f->fd, "l", &err), -ELOOP);
    assert_int_equal(gs_file_open_private(f->fd, "none", geteuid(), &err), -ENOENT);
    assert_int_equal(unlinkat(f->fd, "d", AT_REMOVEDIR), 0);
}

static void removes_a_folder_but_follows_no_link(void **state)
{
    struct fixture *f = *state;
    int fd = gs_file_make_private(f->fd, "d", NULL);

    assert_true(fd >= 0);
    assert_int_equal(gs_file_write(f->fd, "outside", "a", 1, NULL), 0);
    assert_int_equal(gs_file_write(fd, "inside", "a", 1, NULL), 0);
    assert_int_equal(symlinkat("../outside", fd, "link"), 0);
    (void)close(fd);
    assert_int_equal(gs_file_remove_dir(f->fd, "d", NULL), 0);
    assert_int_equal(faccessat(f->fd, "outside", F_OK, 0), 0);
    assert_int_equal(gs_file_remove_dir(f->fd, "d", NULL), -ENOENT);
}

static void removes_empty_folders_in_a_folder_and_no_full_ones(void **state)
{
    struct fixture *f = *state;
    int fd = gs_file_make_private(f->fd, "d", NULL);

    assert_true(fd >= 0);
    assert_int_equal(mkdirat(fd, "empty", 0700), 0);
    assert_int_equal(gs_file_remove_dir(f->fd, "d", NULL), 0);
    (void)close(fd);
    fd = gs_file_make_private(f->fd, "d", NULL);
    assert_int_equal(mkdirat(fd, "full", 0700), 0);
    assert_int_equal(mkdirat(fd, "full/x", 0700), 0);
    assert_int_equal(gs_file_remove_dir(f->fd, "d", NULL), -ENOTEMPTY);
    assert_int_equal(faccessat(f->fd, "d/full/x", F_OK, 0), 0);
    (void)close(fd);
    assert_int_equal(unlinkat(f->fd, "d/full/x", AT_REMOVEDIR), 0);
    assert_int_equal(gs_file_remove_dir(f->fd, "d", NULL), 0);
}

static void limit_of_descriptors_goes_up_to_the_hard_one(void **state)
{
    struct rlimit limit;
    uint64_t most = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_max > 64);
    limit.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(gs_file_raise_limit(&most), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
    assert_int_equal(most, limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_and_reads_back, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_small_plain_file, setup, teardown),
        cmocka_unit_test(failed_write_names_the_file),
        cmocka_unit_test_setup_teardown(private_folder_must_be_ours_closed_and_real, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(removes_a_folder_but_follows_no_link, setup, teardown),
        cmocka_unit_test_setup_teardown(removes_empty_folders_in_a_folder_and_no_full_ones, setup,
                                        teardown),
        cmocka_unit_test(limit_of_descriptors_goes_up_to_the_hard_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
