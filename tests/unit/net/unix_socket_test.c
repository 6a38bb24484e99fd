#include "net/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

static char folder[] = "/tmp/gpuslice-unix-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + sizeof(folder) - 7, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/a.sock", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder); /* and so: nothing else was left there */
}

static void listens_and_connects(void **state)
{
    struct gs_unix_file file;
    struct stat st;

    (void)state;
    assert_int_equal(gs_unix_socket_connect(path), -ENOENT);
    int fd = gs_unix_socket_listen(path, 0640, 8, &file, NULL);
    assert_true(fd >= 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_ino, file.ino);
    assert_int_equal(st.st_dev, file.dev);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    int client = gs_unix_socket_connect(path);
    assert_true(client >= 0);
    assert_int_equal(fcntl(client, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    int peer = accept(fd, NULL, NULL);
    assert_true(peer >= 0);
    assert_int_equal(write(client, "x", 1), 1);
    char c;
    assert_int_equal(read(peer, &c, 1), 1);
    close(peer);
    close(client);
    close(fd);
    assert_int_equal(gs_unix_socket_connect(path), -ECONNREFUSED);
    gs_unix_socket_unlink(path, &file);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_newer_socket_is_another(void **state)
{
    struct gs_unix_file old, new, seen;

    (void)state;
    int a = gs_unix_socket_listen(path, 0600, 8, &old, NULL);
    assert_true(a >= 0);
    assert_int_equal(gs_unix_socket_check(path, &old), 0);
    int b = gs_unix_socket_listen(path, 0600, 8, &new, NULL); /* takes its place */
    assert_true(b >= 0);
    assert_int_equal(gs_unix_socket_check(path, &old), -ESTALE);
    assert_int_equal(gs_unix_socket_check(path, &new), 0);
    gs_unix_socket_unlink(path, &old); /* not its own any more */
    assert_int_equal(gs_unix_socket_check(path, &new), 0);
    assert_int_equal(gs_unix_socket_file(path, &seen), 0);
    assert_int_equal(seen.ino, new.ino);
    int client = gs_unix_socket_connect(path);
    assert_true(client >= 0);
    assert_int_equal(accept4(a, NULL, NULL, SOCK_NONBLOCK), -1);
    int peer = accept(b, NULL, NULL);
    assert_true(peer >= 0);
    close(peer);
    close(client);
    gs_unix_socket_unlink(path, &new);
    assert_int_equal(gs_unix_socket_check(path, &new), -ENOENT);
    assert_int_equal(gs_unix_socket_file(path, &seen), -ENOENT);
    close(a);
    close(b);
}

/** While the socket is bound nobody gets its inode, however often the file is made anew. */
static void an_inode_is_not_given_twice(void **state)
{
    struct gs_unix_file mine, other;

    (void)state;
    int fd = gs_unix_socket_listen(path, 0600, 8, &mine, NULL);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < 100; i++) {
        int next = gs_unix_socket_listen(path, 0600, 8, &other, NULL);
        assert_true(next >= 0);
        assert_int_not_equal(other.ino, mine.ino);
        assert_int_equal(gs_unix_socket_check(path, &mine), -ESTALE);
        gs_unix_socket_unlink(path, &other);
        close(next);
    }
    close(fd);
}

static void refuses(void **state)
{
    struct gs_unix_file file;
    struct gs_err err = {0};
    char name[200];

    (void)state;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gs_unix_socket_listen(path, 0600, 8, &file, &err), -EEXIST);
    assert_non_null(strstr(err.text, "something else than a socket"));
    assert_int_equal(gs_unix_socket_connect(path), -ECONNREFUSED);
    (void)unlink(path);

    (void)snprintf(name, sizeof(name), "%s/missing/a.sock", folder);
    assert_int_equal(gs_unix_socket_listen(name, 0600, 8, &file, &err), -ENOENT);
    (void)snprintf(name, sizeof(name), "%s/%0150d", folder, 0);
    assert_int_equal(gs_unix_socket_listen(name, 0600, 8, &file, &err), -ENAMETOOLONG);
    assert_int_equal(gs_unix_socket_connect(name), -ENAMETOOLONG);
    (void)snprintf(name, sizeof(name), "%s/", folder);
    assert_int_equal(gs_unix_socket_listen(name, 0600, 8, &file, &err), -EINVAL);
    assert_int_equal(gs_unix_socket_connect(""), -EINVAL);
    /* 107 bytes are the most an address holds, and no name on the way is longer. */
    (void)snprintf(name, sizeof(name), "%s/%0*d", folder, (int)(107 - strlen(folder) - 1), 0);
    fd = gs_unix_socket_listen(name, 0600, 8, &file, &err);
    assert_true(fd >= 0);
    gs_unix_socket_unlink(name, &file);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(listens_and_connects, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newer_socket_is_another, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_inode_is_not_given_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
