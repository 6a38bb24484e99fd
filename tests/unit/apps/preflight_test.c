#include "apps/gpuslice/preflight.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/gs-preflight-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    return gs_file_remove_dir(AT_FDCWD, dir, NULL);
}

static const char *put(const char *name, const void *bytes, size_t n, mode_t mode)
{
    static char path[128];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), (ssize_t)n);
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
    return path;
}

/* An ELF file as far as anybody looks at it before start. */
static const char *put_elf(const char *name, uint16_t machine, const char *interpreter, mode_t mode)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr ph[2];
        char text[64];
    } file = {0};

    memcpy(file.head.e_ident, ELFMAG, SELFMAG);
    file.head.e_ident[EI_CLASS] = ELFCLASS64;
    file.head.e_ident[EI_DATA] = ELFDATA2LSB;
    file.head.e_machine = machine;
    file.head.e_phoff = offsetof(__typeof__(file), ph);
    file.head.e_phentsize = sizeof(Elf64_Phdr);
    file.head.e_phnum = 2;
    file.ph[0].p_type = PT_DYNAMIC;
    file.ph[1].p_type = interpreter ? PT_INTERP : PT_NULL;
    file.ph[1].p_offset = offsetof(__typeof__(file), text);
    if (interpreter)
        file.ph[1].p_filesz =
            (uint64_t)snprintf(file.text, sizeof(file.text), "%s", interpreter) + 1;
    return put(name, &file, sizeof(file), mode);
}

static uint16_t our_machine(void)
{
    Elf64_Ehdr head;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    assert_int_equal(read(fd, &head, sizeof(head)), (ssize_t)sizeof(head));
    (void)close(fd);
    return head.e_machine;
}

static bool expect(char *const *argv, const char *says)
{
    struct gs_buf why = {0};
    bool breaks;

    assert_int_equal(gs_preflight_check(argv, &why, &breaks), 0);
    if (says) {
        if (!strstr(gs_buf_text(&why), says))
            fail_msg("'%s' is not in '%s'", says, gs_buf_text(&why));
        assert_int_equal(why.p[why.n - 1], '\n');
    } else {
        assert_string_equal(gs_buf_text(&why), "");
    }
    gs_buf_fini(&why);
    return breaks;
}

/* Would it not start with the hook? */
static bool expect1(const char *path, const char *says)
{
    return expect((char *const[]){(char *)(uintptr_t)path, NULL}, says);
}

static void an_ordinary_program_passes(void **state)
{
    (void)state;
    expect1("sh", NULL);
    expect1("/bin/sh", NULL);
    expect1("/proc/self/exe", NULL);
    expect1(put_elf("ld-linux-x86-64.so.2", our_machine(), NULL, 0700),
            NULL); /* it loads the hook itself */
}

static void what_the_loader_cannot_hold(void **state)
{
    (void)state;
    assert_false(expect1(put_elf("static", our_machine(), NULL, 0700), "statically linked"));
    assert_true(expect1(put_elf("musl", our_machine(), "/lib/ld-musl-x86_64.so.1", 0700), "musl"));
    assert_true(expect1(put_elf("bionic", our_machine(), "/system/bin/linker64", 0700),
                        "another C library"));
    assert_false(expect1(put_elf("m68k", EM_68K, "/lib/ld.so.1", 0700), "another architecture"));
}

static void privileges_drop_the_hook(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    (void)put_elf("suid", our_machine(), "/lib64/ld-linux-x86-64.so.2", 0755);
    {
        const char *path = put_elf("suid", our_machine(), "/lib64/ld-linux-x86-64.so.2", 0755);

        expect1(path, NULL);
        assert_int_equal(chown(path, 4711, 4711), 0);
        assert_int_equal(chmod(path, 04755), 0);
        expect1(path, "setuid");
        assert_int_equal(chmod(path, 02755), 0);
        expect1(path, "setgid");
        assert_int_equal(chmod(path, 02745), 0); /* without x for the group it is a lock bit */
        expect1(path, NULL);
        assert_int_equal(chown(path, 0, 0), 0);
        assert_int_equal(chmod(path, 04755), 0); /* we are that user already */
        expect1(path, NULL);
    }
}

static void scripts_are_followed(void **state)
{
    char line[200];
    const char *path;

    (void)state;
    path = put_elf("static", our_machine(), NULL, 0700);
    (void)snprintf(line, sizeof(line), "#! \t%s -x\nbody\n", path);
    path = put("script", line, strlen(line), 0700);
    expect1(path, "statically linked");
    (void)snprintf(line, sizeof(line), "#!%s\n", path);
    path = put("script2", line, strlen(line), 0700);
    expect1(path, "statically linked");
    (void)snprintf(line, sizeof(line), "#!/usr/bin/env %s/static\n", dir);
    path = put("script3", line, strlen(line), 0700);
    expect1(path, "statically linked");
    (void)snprintf(line, sizeof(line), "#!%s/loop\n", dir);
    expect1(put("loop", line, strlen(line), 0700), NULL); /* the kernel refuses it; we end */
    expect1(put("empty", "", 0, 0700), NULL);
    expect1(put("bang", "#!", 2, 0700), NULL);
    expect1(put("blank", "#!   \n", 6, 0700), NULL);
}

static void env_is_looked_through(void **state)
{
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s", put_elf("static", our_machine(), NULL, 0700));
    expect((char *const[]){"env", "A=b", path, NULL}, "statically linked");
    expect((char *const[]){"env", "-i", "sh", NULL}, "clears the environment");
    expect((char *const[]){"env", "-", "sh", NULL}, "clears the environment");
    expect((char *const[]){"env", "-u", "LD_PRELOAD", "sh", NULL}, "removes LD_PRELOAD");
    expect((char *const[]){"env", "--unset=LD_PRELOAD", "sh", NULL}, "removes LD_PRELOAD");
    expect((char *const[]){"env", "LD_PRELOAD=x.so", "sh", NULL}, "replaces LD_PRELOAD");
    expect((char *const[]){"env", "-u", "HOME", "sh", NULL}, NULL);
    expect((char *const[]){"env", NULL}, NULL);
}

static void what_is_not_there_gives_no_reason(void **state)
{
    (void)state;
    expect1("/nowhere/at-all", NULL);
    expect1("no-such-program-gs", NULL);
    expect1("", NULL);
    expect1("/tmp", NULL);
}

/* Cut an ELF file at every length: no reason may be wrong in a way that reads beyond the file. */
static void truncated_files_are_survived(void **state)
{
    char whole[512];
    ssize_t n;
    int fd;

    (void)state;
    fd = open(put_elf("whole", our_machine(), "/lib/ld-musl-x86_64.so.1", 0700),
              O_RDONLY | O_CLOEXEC);
    n = read(fd, whole, sizeof(whole));
    (void)close(fd);
    for (ssize_t i = 0; i < n; i++) {
        struct gs_buf why = {0};
        bool breaks;
        const char *path = put("cut", whole, (size_t)i, 0700);

        assert_int_equal(
            gs_preflight_check((char *const[]){(char *)(uintptr_t)path, NULL}, &why, &breaks), 0);
        gs_buf_fini(&why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_program_passes),
        cmocka_unit_test(what_the_loader_cannot_hold),
        cmocka_unit_test(privileges_drop_the_hook),
        cmocka_unit_test(scripts_are_followed),
        cmocka_unit_test(env_is_looked_through),
        cmocka_unit_test(what_is_not_there_gives_no_reason),
        cmocka_unit_test(truncated_files_are_survived),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
