#include "node/folders.h"

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

#include "base/err.h"
#include "base/file.h"
#include "contract/quota.h"

struct fixture {
    char root[64], path[256];
    struct gs_folders *folders;
    struct gs_quota quota;
};

static const struct gs_folder_key key = {GS_STR_INIT("8d0c-11"), GS_STR_INIT("main")};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    (void)snprintf(f->root, sizeof(f->root), "/tmp/gpuslice-folders-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    assert_int_equal(chmod(f->root, 0755), 0);
    assert_int_equal(gs_folders_open(f->root, &f->folders, NULL), 0);
    f->quota.fail = GS_FAIL_CLOSED;
    f->quota.n_devices = 1;
    (void)snprintf(f->quota.device[0].uuid, sizeof(f->quota.device[0].uuid), "GPU-1");
    f->quota.device[0].limit_bytes = 1 << 30;
    f->quota.device[0].core_pct = 30;
    *state = f;
    return 0;
}

static bool keeps(void *arg, struct gs_str name)
{
    return arg != NULL && gs_str_eq_c(name, arg);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    while (gs_folders_sweep(f->folders, keeps, NULL, 1000) > 0)
        ;
    gs_folders_close(f->folders);
    for (const char *const *name = (const char *const[]){"containers", "quota", NULL}; *name;
         name++) {
        (void)snprintf(f->path, sizeof(f->path), "%s/%s", f->root, *name);
        assert_int_equal(rmdir(f->path), 0);
    }
    assert_int_equal(rmdir(f->root), 0);
    free(f);
    return 0;
}

static const char *at(struct fixture *f, const char *path)
{
    (void)snprintf(f->path, sizeof(f->path), "%s/%s", f->root, path);
    return f->path;
}

static unsigned mode_of(struct fixture *f, const char *path)
{
    struct stat st;

    assert_int_equal(lstat(at(f, path), &st), 0);
    return st.st_mode & 07777;
}

static uint64_t generation(struct fixture *f)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_quota quota;
    uint32_t line;

    assert_int_equal(gs_file_read(AT_FDCWD, at(f, "quota/8d0c-11_main/quota"), 16384, &text), 0);
    assert_int_equal(gs_quota_parse((struct gs_str){text.p, text.n}, &quota, &line), 0);
    return quota.generation;
}

static void who_may(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(gs_folders_make(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(mode_of(f, "containers"), 0700);
    assert_int_equal(mode_of(f, "quota"), 0700);
    assert_int_equal(mode_of(f, "containers/8d0c-11_main"), 0777);
    assert_int_equal(mode_of(f, "quota/8d0c-11_main"), 0755);
    assert_int_equal(mode_of(f, "quota/8d0c-11_main/quota"), 0644);
}

static void generations(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(gs_folders_make(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(generation(f), 1);
    assert_int_equal(gs_folders_make(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(generation(f), 1); /* the same limits */
    f->quota.device[0].core_pct = 40;
    assert_int_equal(gs_folders_limit(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(generation(f), 2);
}

static void new_ledger(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(gs_folders_again(f->folders, &key, NULL), -ENOENT);
    assert_int_equal(gs_folders_make(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(mkdir(at(f, "containers/8d0c-11_main/d"), 0755), 0);
    assert_int_equal(mkdir(at(f, "containers/8d0c-11_main/d/e"), 0755), 0);
    assert_int_equal(symlink("/etc", at(f, "containers/8d0c-11_main/d/l")), 0);
    assert_int_equal(gs_folders_again(f->folders, &key, NULL), 0);
    assert_int_equal(access(at(f, "containers/8d0c-11_main/d"), F_OK), -1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

/* A link in the place of a folder is a stranger's work. */
static void not_followed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(symlink("/tmp", at(f, "containers/8d0c-11_main")), 0);
    assert_int_equal(symlink("/tmp", at(f, "quota/8d0c-11_main")), 0);
    assert_int_not_equal(gs_folders_make(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(access("/tmp/quota", F_OK), -1);
}

static void keys(void **state)
{
    static const struct {
        const char *uid, *container;
        bool is_key;
    } is[] = {
        {"a", "b", true},    {"", "b", false},     {"a", "", false},   {"..", "b", false},
        {"a/b", "c", false}, {"a", "../c", false}, {"a", ".b", false}, {"a\n", "b", false},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(is); i++) {
        struct gs_folder_key k = {gs_str_of(is[i].uid), gs_str_of(is[i].container)};

        assert_int_equal(gs_folders_is_key(&k), is[i].is_key);
    }
}

static void collected(void **state)
{
    const struct gs_folder_key other = {GS_STR("8d0c-12"), GS_STR("main")};
    struct fixture *f = *state;

    assert_int_equal(gs_folders_make(f->folders, &key, &f->quota, NULL), 0);
    assert_int_equal(gs_folders_make(f->folders, &other, &f->quota, NULL), 0);
    assert_int_equal(gs_folders_sweep(f->folders, keeps, (void *)(uintptr_t) "8d0c-12_main", 100),
                     2);
    assert_int_equal(access(at(f, "containers/8d0c-11_main"), F_OK), -1);
    assert_int_equal(access(at(f, "containers/8d0c-12_main"), F_OK), 0);
    /* with little to spend it goes on the next time */
    for (int i = 0; i < 20; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "containers/8d0c-12_main/f%d", i);
        assert_int_equal(mkdir(at(f, name), 0755), 0);
    }
    assert_int_equal(gs_folders_sweep(f->folders, keeps, NULL, 5), 0);
    assert_int_equal(access(at(f, "containers/8d0c-12_main"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_may, setup, teardown),
        cmocka_unit_test_setup_teardown(generations, setup, teardown),
        cmocka_unit_test_setup_teardown(new_ledger, setup, teardown),
        cmocka_unit_test_setup_teardown(not_followed, setup, teardown),
        cmocka_unit_test(keys),
        cmocka_unit_test_setup_teardown(collected, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
