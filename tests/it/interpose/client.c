/* A program that reaches the driver in the way its first argument names. Built several times:
 * linked to the driver or not (LINKED), with and without a procedure linkage table, dynamic or
 * static. */

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ask.h"

extern char **environ;
typedef void *lookup_fn(void *handle, const char *name);

static int ask_through(lookup_fn *sym, void *handle)
{
    struct driver cu = {
        (fn_init *)sym(handle, "cuInit"),
        (fn_device_get *)sym(handle, "cuDeviceGet"),
        (fn_retain *)sym(handle, "cuDevicePrimaryCtxRetain"),
        (fn_set_current *)sym(handle, "cuCtxSetCurrent"),
        (fn_alloc *)sym(handle, "cuMemAlloc_v2"),
    };
    return ask(&cu);
}

static void *sym(void *handle, const char *name)
{
    return dlsym(handle, name);
}

static void *driver(int flags)
{
    void *handle = dlopen("libcuda.so.1", flags);
    if (handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    return handle;
}

#ifdef LINKED
/* relocations in data: the loader fills them before anything runs */
static struct driver table = {cuInit, cuDeviceGet, cuDevicePrimaryCtxRetain, cuCtxSetCurrent,
                              cuMemAlloc_v2};

static int mode_linked(void)
{
    int device, rc;
    void *ctx;
    unsigned long long ptr;
    if (cuInit(0) != 0 || cuDeviceGet(&device, 0) != 0 ||
        cuDevicePrimaryCtxRetain(&ctx, device) != 0 || cuCtxSetCurrent(ctx) != 0 ||
        cuMemAlloc_v2(&ptr, (size_t)16 << 20) != 0)
        return say("setup", 1);
    rc = cuMemAlloc_v2(&ptr, (size_t)256 << 20);
    return say(rc == OUT_OF_MEMORY ? "held" : rc == 0 ? "escaped" : "failed", rc);
}

static int mode_pointers(void)
{
    return ask(&table);
}
#endif

static int mode_dlsym(void)
{
    return ask_through(sym, driver(RTLD_NOW | RTLD_LOCAL));
}

static int mode_default(void)
{
    return driver(RTLD_NOW | RTLD_GLOBAL) == NULL || ask_through(sym, RTLD_DEFAULT);
}

static int mode_main_handle(void)
{
    void *self = dlopen(NULL, RTLD_NOW);
    return driver(RTLD_NOW | RTLD_GLOBAL) == NULL || ask_through(sym, self);
}

/* the program asks the C library for its look-up function */
static int mode_dlsym_of_libc(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    lookup_fn *theirs = (lookup_fn *)dlsym(libc, "dlsym");
    return ask_through(theirs, driver(RTLD_NOW));
}

static int mode_dlsym_next(void)
{
    lookup_fn *theirs = (lookup_fn *)dlsym(RTLD_NEXT, "dlsym");
    return ask_through(theirs, driver(RTLD_NOW));
}

static int mode_dlvsym_dlsym(void)
{
#ifdef __aarch64__
    const char *version = "GLIBC_2.17";
#else
    const char *version = "GLIBC_2.2.5";
#endif
    lookup_fn *theirs = (lookup_fn *)dlvsym(RTLD_DEFAULT, "dlsym", version);
    lookup_fn *next = (lookup_fn *)dlvsym(RTLD_NEXT, "dlsym", version);
    if (theirs == NULL || theirs != next)
        return say("unresolved", 1);
    return ask_through(theirs, driver(RTLD_NOW));
}

static void *vsym(void *handle, const char *name)
{
    return dlvsym(handle, name, "FAKE_1.0");
}

/* only against a driver whose functions carry versions */
static int mode_dlvsym(void)
{
    return ask_through(vsym, driver(RTLD_NOW));
}

static int mode_dlvsym_default(void)
{
    return driver(RTLD_NOW | RTLD_GLOBAL) == NULL || ask_through(vsym, RTLD_DEFAULT);
}

typedef int get_proc_fn(const char *name, void **pfn, int version, uint64_t flags);
typedef int get_proc_v2_fn(const char *name, void **pfn, int version, uint64_t flags, int *status);
static get_proc_fn *get_proc;
static get_proc_v2_fn *get_proc_v2;

static void *by_proc_address(void *handle, const char *name)
{
    void *pfn = NULL;
    int status = 0;
    (void)handle;
    if (strcmp(name, "cuMemAlloc_v2") == 0)
        name = "cuMemAlloc"; /* the interface takes base names and a version */
    if (get_proc_v2 != NULL)
        return get_proc_v2(name, &pfn, 12000, 0, &status) == 0 ? pfn : NULL;
    return get_proc(name, &pfn, 11030, 0) == 0 ? pfn : NULL;
}

static int mode_proc_address(void)
{
    get_proc = (get_proc_fn *)dlsym(driver(RTLD_NOW), "cuGetProcAddress");
    return get_proc == NULL ? say("unresolved", 1) : ask_through(by_proc_address, NULL);
}

static int mode_proc_address_v2(void)
{
    get_proc_v2 = (get_proc_v2_fn *)dlsym(driver(RTLD_NOW), "cuGetProcAddress_v2");
    return get_proc_v2 == NULL ? say("unresolved", 1) : ask_through(by_proc_address, NULL);
}

/* cuGetProcAddress asked for itself must not lead round the hook */
static int mode_proc_address_self(void)
{
    void *pfn = NULL;
    get_proc = (get_proc_fn *)dlsym(driver(RTLD_NOW), "cuGetProcAddress");
    if (get_proc == NULL || get_proc("cuGetProcAddress", &pfn, 11030, 0) != 0)
        return say("unresolved", 1);
    get_proc = (get_proc_fn *)pfn;
    return ask_through(by_proc_address, NULL);
}

static int run_plugin(const char *file, int flags, const char *function)
{
    void *plugin = dlopen(file, flags);
    if (plugin == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    int (*fn)(void) = (int (*)(void))dlsym(plugin, function);
    return fn == NULL ? say("unresolved", 1) : fn();
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int mode_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(mode_dlsym());
    return wait_for(pid);
}

/* the hook has started in the parent already, and knows the driver's addresses */
static int mode_fork_started(void)
{
    int (*count)(int *) = (int (*)(int *))dlsym(driver(RTLD_NOW), "cuDeviceGetCount");
    size_t (*total)(void *, int) =
        (size_t(*)(void *, int))dlsym(driver(RTLD_NOW), "cuDeviceTotalMem_v2");
    size_t bytes;
    int n;
    (void)count(&n);
    (void)total(&bytes, 0); /* fails before cuInit; what matters is that it went through the hook */
    return mode_fork();
}

static int mode_vfork(char *self)
{
    char *argv[] = {self, "dlsym", NULL};
    pid_t pid = vfork();
    if (pid == 0) {
        execv(self, argv);
        _exit(127);
    }
    return wait_for(pid);
}

static int mode_spawn(char *self)
{
    char *argv[] = {self, "dlsym", NULL};
    pid_t pid;
    return posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0 ? 1 : wait_for(pid);
}

static int mode_dlmopen(void)
{
    void *handle = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    if (handle == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    return ask_through(sym, handle);
}

/* a driver that is not loaded has no functions, hook or not */
static int mode_absent(void)
{
    void *self = dlopen(NULL, RTLD_NOW);
    (void)dlerror();
    void *found[] = {dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"), dlsym(RTLD_NEXT, "cuMemAlloc_v2"),
                     dlsym(self, "cuMemAlloc_v2"), dlvsym(RTLD_DEFAULT, "cuMemAlloc_v2", "X_1")};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (found[i] != NULL)
            return printf("found %zu\n", i), 1;
    const char *error = dlerror();
    if (error == NULL || strstr(error, "cuMemAlloc_v2") == NULL)
        return printf("dlerror: %s\n", error != NULL ? error : "none"), 1;
    return puts("absent"), 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
#ifdef LINKED
        {"linked", mode_linked},
        {"pointers", mode_pointers},
#endif
        {"dlsym", mode_dlsym},
        {"default", mode_default},
        {"main-handle", mode_main_handle},
        {"dlsym-of-libc", mode_dlsym_of_libc},
        {"dlsym-next", mode_dlsym_next},
        {"dlvsym-dlsym", mode_dlvsym_dlsym},
        {"dlvsym", mode_dlvsym},
        {"dlvsym-default", mode_dlvsym_default},
        {"proc-address", mode_proc_address},
        {"proc-address-v2", mode_proc_address_v2},
        {"proc-address-self", mode_proc_address_self},
        {"fork", mode_fork},
        {"fork-started", mode_fork_started},
        {"dlmopen", mode_dlmopen},
        {"absent", mode_absent},
    };
    if (argc < 2)
        return 64;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run();
    if (strcmp(argv[1], "vfork") == 0)
        return mode_vfork(argv[0]);
    if (strcmp(argv[1], "spawn") == 0)
        return mode_spawn(argv[0]);
    if (strcmp(argv[1], "plugin") == 0 && argc == 5)
        return run_plugin(argv[2], (int)strtol(argv[3], NULL, 0), argv[4]);
    return 64;
}
