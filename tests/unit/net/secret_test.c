#include "net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[2][128];
    static int turn;

    turn = !turn;
    (void)snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static void put(const char *name, const char *text, size_t n)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/gs-secret-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

/** As the kubelet publishes a secret: tls.crt -> ..data/tls.crt, ..data -> ..2026_1, swapped by
 *  renaming a new link over ..data (kubernetes/pkg/volume/util/atomic_writer.go). */
static void notices_a_swapped_folder(void **state)
{
    struct gs_secret_stamp stamp = {0};
    struct gs_buf text = {0};

    (void)state;
    assert_int_equal(mkdir(path_of("..1"), 0700), 0);
    assert_int_equal(mkdir(path_of("..2"), 0700), 0);
    put("..1/tls.crt", "one", 3);
    put("..2/tls.crt", "two", 3);
    assert_int_equal(symlink("..1", path_of("..data")), 0);
    assert_int_equal(symlink("..data/tls.crt", path_of("tls.crt")), 0);
    assert_true(gs_secret_is_changed(path_of("tls.crt"), &stamp));
    assert_int_equal(gs_secret_read(path_of("tls.crt"), &text, &stamp), 0);
    assert_string_equal(text.p, "one");
    assert_false(gs_secret_is_changed(path_of("tls.crt"), &stamp));
    assert_int_equal(symlink("..2", path_of("..tmp")), 0);
    assert_int_equal(rename(path_of("..tmp"), path_of("..data")), 0);
    assert_true(gs_secret_is_changed(path_of("tls.crt"), &stamp));
    gs_secret_wipe(&text);
    assert_int_equal(gs_secret_read(path_of("tls.crt"), &text, &stamp), 0);
    assert_string_equal(text.p, "two");
    gs_secret_wipe(&text);
    assert_null(text.p);
}

static void notices_writing_in_place_and_absence(void **state)
{
    struct gs_secret_stamp stamp = {0};
    struct gs_buf text = {0};

    (void)state;
    put("token", "a", 1);
    assert_int_equal(gs_secret_read(path_of("token"), &text, &stamp), 0);
    put("token", "bb", 2);
    assert_true(gs_secret_is_changed(path_of("token"), &stamp));
    assert_int_equal(unlink(path_of("token")), 0);
    assert_true(gs_secret_is_changed(path_of("token"), &stamp));
    gs_secret_wipe(&text);
    assert_int_equal(gs_secret_read(path_of("token"), &text, &stamp), -ENOENT);
    assert_null(text.p);
}

static void refuses_what_is_no_small_file(void **state)
{
    struct gs_secret_stamp stamp = {.ino = 7};
    struct gs_buf text = {0};
    char *big = calloc(1, GS_SECRET_MAX + 1);

    (void)state;
    assert_non_null(big);
    put("full", big, GS_SECRET_MAX);
    assert_int_equal(gs_secret_read(path_of("full"), &text, &stamp), 0);
    assert_int_equal(text.n, GS_SECRET_MAX);
    gs_secret_wipe(&text);
    stamp = (struct gs_secret_stamp){.ino = 7};
    put("big", big, GS_SECRET_MAX + 1);
    assert_int_equal(gs_secret_read(path_of("big"), &text, &stamp), -EFBIG);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(gs_secret_read(path_of("fifo"), &text, &stamp), -EINVAL);
    assert_int_equal(gs_secret_read(folder, &text, &stamp), -EINVAL);
    assert_int_equal(stamp.ino, 7); /* untouched on failure */
    assert_null(text.p);
    free(big);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notices_a_swapped_folder),
        cmocka_unit_test(notices_writing_in_place_and_absence),
        cmocka_unit_test(refuses_what_is_no_small_file),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
