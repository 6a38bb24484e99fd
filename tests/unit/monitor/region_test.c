/* HAMi's region in both layouts, made byte by byte at the places that the sheet of HAMi's wire
 * formats names (6.3), not by our headers. */

#include "monitor/region.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_ledger.h"

#define OLD_BYTES 1197896
#define NEW_BYTES 2008952

static int make(int dir, off_t bytes)
{
    int fd;

    (void)unlinkat(dir, "r.cache", 0); /* of the test before */
    fd = openat(dir, "r.cache", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    return fd;
}

static void put(int fd, off_t at, const void *bytes, size_t n)
{
    assert_int_equal(pwrite(fd, bytes, n, at), (ssize_t)n);
}

static void put32(int fd, off_t at, int32_t v)
{
    put(fd, at, &v, sizeof(v));
}

static void put64(int fd, off_t at, uint64_t v)
{
    put(fd, at, &v, sizeof(v));
}

static int32_t get32(int fd, off_t at)
{
    int32_t v;

    assert_int_equal(pread(fd, &v, sizeof(v), at), sizeof(v));
    return v;
}

static int make_new(int dir, off_t bytes)
{
    int fd = make(dir, bytes);

    put32(fd, 0, 19920718);
    put32(fd, 4, 1);
    put32(fd, 8, 2);
    put64(fd, 56, 2); /* devices */
    put(fd, 64, "GPU-a", 5);
    put(fd, 64 + 96, "GPU-b", 5);
    put64(fd, 1600, 1ull << 30);    /* limits */
    put64(fd, 1728, 30);            /* shares */
    put32(fd, 2008896, 3);          /* slots */
    put32(fd, 2008900, 1);          /* switch */
    put32(fd, 2008904, 2);          /* recent kernel */
    put32(fd, 2008908, 0);          /* priority */
    put64(fd, 2008912, 1790000000); /* last kernel */
    for (int slot = 0; slot < 3; slot++) {
        off_t at = 1856 + slot * 1960;

        put32(fd, at, 100 + slot);
        put32(fd, at + 4, 5000 + slot);
        put32(fd, at + 1928, slot == 1 ? 0 : 1); /* the middle one is dead */
        for (int word = 0; word < 5; word++)
            put64(fd, at + 8 + 64 * 1 + word * 8, (uint64_t)(word + 1) * 1000); /* device 1 */
        put64(fd, at + 1160 + 48 * 1 + 16, 20);
    }
    return fd;
}

static void newer_layout(void **state)
{
    static struct gs_region r;
    int dir = fake_folder(), fd = make_new(dir, NEW_BYTES + 1); /* a NUL behind, as HAMi has it */

    (void)state;
    assert_int_equal(gs_region_read(fd, &r), 0);
    assert_int_equal(r.layout, GS_REGION_NEW);
    assert_int_equal(r.n_devices, 2);
    assert_string_equal(r.device[0].uuid, "GPU-a");
    assert_string_equal(r.device[1].uuid, "GPU-b");
    assert_int_equal(r.device[0].limit_bytes, 1ull << 30);
    assert_true(r.device[1].limit_bytes == UINT64_MAX); /* 0: none */
    assert_int_equal(r.device[0].core_pct, 30);
    assert_int_equal(r.device[1].context_bytes, 2000);
    assert_int_equal(r.device[1].module_bytes, 4000);
    assert_int_equal(r.device[1].buffer_bytes, 6000);
    assert_int_equal(r.device[1].offset_bytes, 8000);
    assert_int_equal(r.device[1].used_bytes, 10000);
    assert_int_equal(r.device[1].sm_pct, 40);
    assert_int_equal(r.device[0].used_bytes, 0);
    assert_int_equal(r.n_processes, 2);
    assert_int_equal(r.host_pid[0], 5000);
    assert_int_equal(r.host_pid[1], 5002);
    assert_int_equal(r.words.utilization_switch, 1);
    assert_int_equal(r.words.recent_kernel, 2);
    assert_int_equal(r.words.priority, 0);
    assert_int_equal(r.words.last_kernel_unix_s, 1790000000);
    (void)close(fd);
    fake_folder_remove(dir);
}

static void older_layout(void **state)
{
    static struct gs_region r;
    int dir = fake_folder(), fd = make(dir, OLD_BYTES);

    (void)state;
    put32(fd, 0, 19920718);
    put64(fd, 48, 1);
    put(fd, 56, "GPU-old", 7);
    put64(fd, 1592, 4096);
    put64(fd, 1720, 50);
    put32(fd, 1197880, 1);
    put32(fd, 1197884, 0);
    put32(fd, 1197888, -1);
    put32(fd, 1197892, 1);
    put32(fd, 1848 + 4, 77);
    put32(fd, 1848 + 1160, 1);
    put64(fd, 1848 + 8 + 32, 12345); /* total of device 0 */
    put64(fd, 1848 + 776 + 16, 9);
    assert_int_equal(gs_region_read(fd, &r), 0);
    assert_int_equal(r.layout, GS_REGION_OLD);
    assert_string_equal(r.device[0].uuid, "GPU-old");
    assert_int_equal(r.device[0].limit_bytes, 4096);
    assert_int_equal(r.device[0].core_pct, 50);
    assert_int_equal(r.device[0].used_bytes, 12345);
    assert_int_equal(r.device[0].sm_pct, 9);
    assert_int_equal(r.host_pid[0], 77);
    assert_int_equal(r.words.recent_kernel, -1);
    assert_int_equal(r.words.priority, 1);
    assert_int_equal(r.words.last_kernel_unix_s, 0);
    (void)close(fd);
    fake_folder_remove(dir);
}

/* A20, number 12. */
static void which_layout(void **state)
{
    static const struct {
        off_t bytes;
        int32_t magic, major;
        int rc;
        enum gs_region_layout layout;
    } row[] = {
        {NEW_BYTES, 19920718, 1, 0, GS_REGION_NEW},
        {OLD_BYTES, 19920718, 0, 0, GS_REGION_OLD},
        {NEW_BYTES - 1, 19920718, 7, 0, GS_REGION_OLD},
        {OLD_BYTES - 1, 19920718, 1, -EPROTO, 0},
        {NEW_BYTES, 19920718, 2, -EPROTO, 0},
        {NEW_BYTES, 0, 1, -EPROTO, 0},
        {0, 0, 0, -ENODATA, 0},
    };
    int dir = fake_folder();

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        enum gs_region_layout layout = GS_REGION_OLD;
        int fd = make(dir, row[i].bytes);

        if (row[i].bytes > 0) {
            put32(fd, 0, row[i].magic);
            put32(fd, 4, row[i].major);
        }
        assert_int_equal(gs_region_check(fd, &layout), row[i].rc);
        if (row[i].rc == 0)
            assert_int_equal(layout, row[i].layout);
        (void)close(fd);
    }
    fake_folder_remove(dir);
}

static void hostile_words(void **state)
{
    static struct gs_region r;
    int dir = fake_folder(), fd = make_new(dir, NEW_BYTES);

    (void)state;
    put64(fd, 56, UINT64_MAX);
    put32(fd, 2008896, INT32_MAX);
    put64(fd, 1856 + 8 + 64 + 32, UINT64_MAX);
    put(fd, 64, "\xff\xfe", 2);
    put64(fd, 1728, UINT64_MAX);
    put64(fd, 2008912, UINT64_MAX); /* before 1970 */
    assert_int_equal(gs_region_read(fd, &r), 0);
    assert_int_equal(r.n_devices, GS_HAMI_DEVICES);
    assert_int_equal(r.n_processes, 2); /* all others have status 0 */
    assert_true(r.device[1].used_bytes == UINT64_MAX);
    assert_string_equal(r.device[0].uuid, "");
    assert_int_equal(r.device[0].core_pct, 100);
    assert_int_equal(r.words.last_kernel_unix_s, 0);
    put32(fd, 2008896, -5);
    assert_int_equal(gs_region_read(fd, &r), 0);
    assert_int_equal(r.n_processes, 0);
    assert_int_equal(ftruncate(fd, 5000), 0);
    assert_int_equal(gs_region_read(fd, &r), -EPROTO);
    (void)close(fd);
    fake_folder_remove(dir);
}

/* Two words, and of these only what changed: the program may have written the other meanwhile. */
static void writes_two_words(void **state)
{
    struct gs_region_words before, now;
    int dir = fake_folder(), fd = make_new(dir, NEW_BYTES);

    (void)state;
    assert_int_equal(gs_region_read_words(fd, GS_REGION_NEW, &before), 0);
    now = before;
    now.recent_kernel = -1;
    put32(fd, 2008900, 5);
    assert_int_equal(gs_region_write_words(fd, GS_REGION_NEW, &before, &now), 0);
    assert_int_equal(get32(fd, 2008904), -1);
    assert_int_equal(get32(fd, 2008900), 5);
    now.utilization_switch = 0;
    assert_int_equal(gs_region_write_words(fd, GS_REGION_NEW, &before, &now), 0);
    assert_int_equal(get32(fd, 2008900), 0);
    assert_int_equal(get32(fd, 2008908), 0);
    (void)close(fd);
    fake_folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_layout),     cmocka_unit_test(older_layout),
        cmocka_unit_test(which_layout),     cmocka_unit_test(hostile_words),
        cmocka_unit_test(writes_two_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
