#include "apps/gpuslice/preflight.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "name this architecture's ELF machine"
#endif

/** The kernel follows five levels of #!; one more is `env`. */
#define CHAIN_MAX   6
#define HEADERS_MAX 128
#define SCRIPT_LINE 256 /* BINPRM_BUF_SIZE */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/** Programs whose purpose is to start another one where the environment does not reach. */
static const struct {
    const char *name;
    const char *why;
} breakers[] = {
    {"sudo", "starts its command with a clean environment"},
    {"doas", "starts its command with a clean environment"},
    {"pkexec", "starts its command with a clean environment"},
    {"su", "starts its command as a user who has no access to this slice"},
    {"runuser", "starts its command as a user who has no access to this slice"},
    {"docker", "has a daemon start its command"},
    {"podman", "starts its command in a container that does not have this slice"},
    {"nerdctl", "has a daemon start its command"},
    {"systemd-run", "has a daemon start its command"},
    {"ssh", "starts its command on another machine"},
};

static void check_breaker(const char *path, struct gs_buf *why)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(breakers); i++)
        if (strcmp(base_name(path), breakers[i].name) == 0)
            gs_buf_addf(why, "%s %s: write gpuslice run after %s, not in front of it\n", path,
                        breakers[i].why, breakers[i].name);
}

/* As execvp: a name with a slash is a path. */
static bool find_program(const char *name, char ret_path[PATH_MAX])
{
    const char *path = getenv("PATH");

    if (strchr(name, '/'))
        return snprintf(ret_path, PATH_MAX, "%s", name) < PATH_MAX;
    if (!path)
        path = "/bin:/usr/bin";
    for (;;) {
        size_t n = strcspn(path, ":");
        struct stat st;

        if (snprintf(ret_path, PATH_MAX, "%.*s%s%s", (int)(n & 0x7fff), path, n ? "/" : "./",
                     name) < PATH_MAX &&
            access(ret_path, X_OK) == 0 && stat(ret_path, &st) == 0 && S_ISREG(st.st_mode))
            return true;
        if (path[n] == '\0')
            return false;
        path += n + 1;
    }
}

/* Secure-execution mode: the loader ignores a preload whose name has a slash. */
static void check_privileges(const char *path, int fd, struct gs_buf *why)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return;
    if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
        gs_buf_addf(
            why,
            "%s is setuid and drops the hook: what it starts is not held; become that user first "
            "and call gpuslice run there\n",
            path);
    else if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
        gs_buf_addf(why, "%s is setgid and drops the hook: use a copy without the bit\n", path);
    else if (geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
        gs_buf_addf(why, "%s has file capabilities and drops the hook: use a copy without them\n",
                    path);
}

static bool read_at(int fd, void *p, size_t n, uint64_t offset)
{
    return offset <= INT64_MAX && pread(fd, p, n, (off_t)offset) == (ssize_t)n;
}

/* Text of PT_INTERP; false where there is none. */
static bool find_interpreter(int fd, const Elf64_Ehdr *head, char ret_text[PATH_MAX],
                             bool *ret_dynamic)
{
    Elf64_Phdr ph;
    bool found = false;

    *ret_dynamic = false;
    for (uint64_t i = 0; i < head->e_phnum && i < HEADERS_MAX; i++) {
        if (!read_at(fd, &ph, sizeof(ph), head->e_phoff + i * head->e_phentsize))
            break;
        if (ph.p_type == PT_DYNAMIC)
            *ret_dynamic = true;
        if (ph.p_type != PT_INTERP || ph.p_filesz == 0 || ph.p_filesz >= PATH_MAX)
            continue;
        found = read_at(fd, ret_text, ph.p_filesz, ph.p_offset);
        ret_text[ph.p_filesz] = '\0';
    }
    return found;
}

static void check_elf(const char *path, int fd, struct gs_buf *why, bool *breaks)
{
    char interpreter[PATH_MAX];
    Elf64_Ehdr head;
    bool dynamic;

    if (!read_at(fd, &head, sizeof(head), 0))
        return;
    if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != OUR_MACHINE) {
        gs_buf_addf(
            why,
            "%s is built for another architecture (ELF machine %u): the hook cannot be loaded into "
            "it; use a build for this machine\n",
            path, head.e_machine);
        return;
    }
    if (!find_interpreter(fd, &head, interpreter, &dynamic)) {
        /* the loader itself, started by hand, has no interpreter and does load the hook */
        if (dynamic && strncmp(base_name(path), "ld-", 3) == 0)
            return;
        gs_buf_addf(why,
                    "%s is statically linked: the hook cannot be loaded into it; use a dynamically "
                    "linked build\n",
                    path);
        return;
    }
    *breaks = strncmp(base_name(interpreter), "ld-linux", 8) != 0;
    if (strstr(interpreter, "ld-musl"))
        gs_buf_addf(why,
                    "%s is built for musl libc (%s): the hook needs glibc; use a glibc build\n",
                    path, interpreter);
    else if (*breaks)
        gs_buf_addf(
            why,
            "%s is built for another C library (%s): the hook needs glibc; use a glibc build\n",
            path, interpreter);
}

/* `env` hides the program behind options and assignments. Returns its index in argv, 0 where none
 * is found. */
static size_t behind_env(char *const *argv, struct gs_buf *why)
{
    size_t i = 1;

    for (; argv[i]; i++) {
        const char *word = argv[i];

        if (strcmp(word, "-i") == 0 || strcmp(word, "-") == 0 ||
            strcmp(word, "--ignore-environment") == 0) {
            gs_buf_adds(why, "env clears the environment and with it the hook: leave out -i, or "
                             "write gpuslice run "
                             "after env, not in front of it\n");
            continue;
        }
        if ((strcmp(word, "-u") == 0 || strcmp(word, "--unset") == 0 || strcmp(word, "-C") == 0) &&
            argv[i + 1]) {
            if (strcmp(argv[i + 1], "LD_PRELOAD") == 0)
                gs_buf_adds(why,
                            "env removes LD_PRELOAD and with it the hook: keep the variable\n");
            i++;
            continue;
        }
        if (strcmp(word, "--unset=LD_PRELOAD") == 0 || strcmp(word, "-uLD_PRELOAD") == 0)
            gs_buf_adds(why, "env removes LD_PRELOAD and with it the hook: keep the variable\n");
        if (strncmp(word, "LD_PRELOAD=", 11) == 0)
            gs_buf_adds(
                why, "env replaces LD_PRELOAD and with it the hook: set the variable in front of "
                     "gpuslice run instead; it is kept there\n");
        if (strcmp(word, "-S") == 0 || strncmp(word, "--split-string", 14) == 0)
            return 0; /* a command line in one word: not looked into */
        if (word[0] != '-' && !strchr(word, '='))
            return i;
    }
    return 0;
}

/* Split "#! interpreter [argument]". Returns false where it is no script. */
static bool read_script(int fd, char line[SCRIPT_LINE], char **ret_interpreter, char **ret_argument)
{
    ssize_t n = pread(fd, line, SCRIPT_LINE - 1, 0);
    char *p, *end;

    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    p = line + 2 + strspn(line + 2, " \t");
    end = p + strcspn(p, " \t");
    *ret_interpreter = p;
    *ret_argument = NULL;
    if (*end) {
        *end++ = '\0';
        end += strspn(end, " \t");
        if (*end)
            *ret_argument = end;
    }
    return *p != '\0';
}

/** One program of the chain: the words it would be started with, as far as they matter. */
struct step {
    char line[SCRIPT_LINE];
    char *word[3];
    char *const *argv;
};

/* Returns true where `next` holds another program to look at. */
static bool look_at(const struct step *now, struct step *next, struct gs_buf *why, bool *breaks)
{
    char path[PATH_MAX], magic[4], *interpreter, *argument;
    GS_CLEANUP(gs_file_close) int fd = -1;
    size_t at, before;

    if (!find_program(now->argv[0], path))
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || !read_at(fd, magic, sizeof(magic), 0))
        return false;
    if (memcmp(magic, ELFMAG, SELFMAG) == 0) {
        before = why->n;
        check_breaker(path, why);
        if (why->n == before)
            check_privileges(path, fd, why);
        check_elf(path, fd, why, breaks);
        at = strcmp(base_name(path), "env") == 0 ? behind_env(now->argv, why) : 0;
        next->argv = now->argv + at;
        return at > 0;
    }
    if (!read_script(fd, next->line, &interpreter, &argument))
        return false; /* execvp gives it to the shell */
    next->word[0] = interpreter;
    next->word[1] = argument;
    next->word[2] = NULL;
    next->argv = next->word;
    return true;
}

int gs_preflight_check(char *const *argv, struct gs_buf *ret_why, bool *ret_breaks)
{
    struct step steps[2] = {{.argv = argv}};

    *ret_breaks = false;
    for (int i = 0; i < CHAIN_MAX; i++)
        if (!look_at(&steps[i % 2], &steps[(i + 1) % 2], ret_why, ret_breaks))
            break;
    return gs_buf_check(ret_why);
}
