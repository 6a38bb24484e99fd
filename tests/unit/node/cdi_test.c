#include "node/cdi.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "node/edits.h"

static void names(void **state)
{
    char name[GS_CDI_NAME], long_id[300];

    (void)state;
    gs_cdi_make_name(GS_STR("GPU-a/b c-0"), 0xabc, name);
    assert_string_equal(name, "slot-GPU-a-b-c-0-abc");
    memset(long_id, 'x', sizeof(long_id));
    gs_cdi_make_name((struct gs_str){long_id, sizeof(long_id)}, UINT64_MAX, name);
    assert_true(strlen(name) < GS_CDI_NAME - 1);
    assert_string_equal(name + strlen(name) - 17, "-ffffffffffffffff");
}

static void names_from_outside(void **state)
{
    static const struct {
        const char *text;
        size_t n;
    } is[] = {
        {"gpuslice.io/slot=slot-a-1", 8},
        {"gpuslice.io/slot=slot-", 0},
        {"gpuslice.io/slot=", 0},
        {"other.io/slot=slot-a-1", 0},
        {"gpuslice.io/slot=slot-../x", 0},
        {"gpuslice.io/slot=slot-a/../../etc", 0},
        {"gpuslice.io/slot=x", 0},
        {"gpuslice.io/slot=slot-a-", 0},
        {"gpuslice.io/slot=slot-GPU:0-f", 12},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(is); i++)
        assert_int_equal(gs_cdi_name_of(gs_str_of(is[i].text)).n, is[i].n);
}

/* By the specification's own words; python3's json agrees (tests/it/node). */
static void text(void **state)
{
    struct gs_arena arena = {0};
    struct gs_buf buf = {0};
    struct gs_edits edits;

    (void)state;
    gs_edits_init(&edits, &arena);
    gs_edits_env(&edits, "A", "%d", 1);
    gs_edits_env(&edits, "A", "two \"%s\"", "words");
    gs_edits_mount(&edits, "/h/a", "/c/a", true);
    gs_edits_mount(&edits, "/h/x", "/c/b", true);
    gs_edits_mount(&edits, "/h/b", "/c/b", false);
    gs_edits_device(&edits, "/dev/h", "/dev/c");
    assert_int_equal(gs_cdi_text("slot-x-1", &edits, &buf), 0);
    assert_string_equal(
        gs_buf_text(&buf),
        "{\"cdiVersion\":\"0.5.0\",\"kind\":\"gpuslice.io/"
        "slot\",\"devices\":[{\"name\":\"slot-x-1\","
        "\"containerEdits\":{\"env\":[\"A=two "
        "\\\"words\\\"\"],\"deviceNodes\":[{\"path\":\"/dev/c\","
        "\"hostPath\":\"/dev/h\",\"permissions\":\"rw\"}],\"mounts\":[{\"hostPath\":\"/h/a\","
        "\"containerPath\":\"/c/a\",\"options\":[\"ro\",\"nosuid\",\"nodev\",\"bind\"]},"
        "{\"hostPath\":\"/h/b\",\"containerPath\":\"/c/b\",\"options\":[\"rw\",\"nosuid\","
        "\"nodev\",\"bind\"]}]}}]}");
    gs_buf_fini(&buf);
    gs_arena_fini(&arena);
}

static bool keeps(void *arg, struct gs_str name)
{
    return gs_str_eq_c(name, arg);
}

static void files(void **state)
{
    char folder[] = "/tmp/gpuslice-cdi-XXXXXX", path[64];
    struct gs_arena arena = {0};
    struct gs_edits edits;
    struct stat st;
    int dir, fd;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/new", folder);
    dir = gs_cdi_open(path, NULL);
    assert_true(dir >= 0);
    gs_edits_init(&edits, &arena);
    assert_int_equal(gs_cdi_write(dir, "slot-a-1", &edits, NULL), 0);
    assert_int_equal(gs_cdi_write(dir, "slot-a-2", &edits, NULL), 0);
    assert_int_equal(fstatat(dir, "gpuslice.io-slot_slot-a-1.json", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    fd = openat(dir, "vendor.json", O_CREAT | O_WRONLY, 0644); /* of somebody else */
    assert_true(fd >= 0 && close(fd) == 0);
    assert_true(gs_cdi_is_there(dir, "slot-a-1"));
    assert_int_equal(gs_cdi_sweep(dir, keeps, (void *)(uintptr_t) "slot-a-2"), 1);
    assert_false(gs_cdi_is_there(dir, "slot-a-1"));
    assert_true(gs_cdi_is_there(dir, "slot-a-2"));
    assert_int_equal(gs_cdi_remove(dir, "slot-a-2"), 0);
    assert_int_equal(gs_cdi_remove(dir, "slot-a-2"), 0);
    assert_int_equal(fstatat(dir, "vendor.json", &st, 0), 0);
    assert_int_equal(unlinkat(dir, "vendor.json", 0), 0);
    assert_int_equal(close(dir), 0);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(folder), 0);
    gs_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(names_from_outside),
        cmocka_unit_test(text),
        cmocka_unit_test(files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
