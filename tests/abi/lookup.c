/* Ask the driver of this process for functions and say what came back. Built and run by
 * test_lookup.py, with and without the hook in LD_PRELOAD; includes nothing of ours.
 *
 * stdin, one question a line:
 *   proc1 NAME VERSION FLAGS    cuGetProcAddress
 *   proc2 NAME VERSION FLAGS    cuGetProcAddress_v2
 *   sym LIBRARY NAME            dlsym on a handle of LIBRARY
 *   call NAME                   a function without a card: its results
 * stdout, one answer a line: what the function returned, the status where there is one, and for an
 * address "<object>+<offset>", which names a symbol once its object's table is read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int (*proc1)(const char *, void **, int, unsigned long long);
typedef int (*proc2)(const char *, void **, int, unsigned long long, int *);

static void say_address(void *address)
{
    Dl_info info;
    if (!address)
        printf(" NULL");
    else if (!dladdr(address, &info))
        printf(" nowhere");
    else
        printf(" %s+%lx", info.dli_fname,
               (unsigned long)((char *)address - (char *)info.dli_fbase));
}

/* Results of functions that answer without a card, outputs included. */
static void say_call(void *cuda, void *nvml, const char *name)
{
    int number = -7;
    const char *text = NULL;
    void *f = dlsym(strncmp(name, "nvml", 4) ? cuda : nvml, name);
    if (!f) {
        printf("absent");
    } else if (!strcmp(name, "cuInit")) {
        printf("%d", ((int (*)(unsigned))f)(0));
    } else if (!strcmp(name, "cuGetErrorName") || !strcmp(name, "cuGetErrorString")) {
        for (int code = -1; code < 1001; code++) {
            int rc = ((int (*)(int, const char **))f)(code, &text);
            printf("%d:%d:%s,", code, rc, text ? text : "NULL");
        }
    } else if (!strcmp(name, "nvmlErrorString")) {
        for (int code = 0; code < 40; code++)
            printf("%s,", ((const char *(*)(int))f)(code));
    } else if (!strcmp(name, "cuMemAlloc_v2") || !strcmp(name, "cuMemGetInfo_v2")) {
        unsigned long long a = 1, b = 2;
        int rc = name[5] == 'A' ? ((int (*)(void *, size_t))f)(&a, 4096)
                                : ((int (*)(void *, void *))f)(&a, &b);
        printf("%d:%llu:%llu", rc, a, b);
    } else if (!strcmp(name, "nvmlInit_v2") || !strcmp(name, "nvmlShutdown")) {
        printf("%d", ((int (*)(void))f)());
    } else {
        printf("%d", ((int (*)(void *))f)(&number));
        printf(":%d", number);
    }
}

int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda || !nvml) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    proc1 get1 = (proc1)dlsym(cuda, "cuGetProcAddress");
    proc2 get2 = (proc2)dlsym(cuda, "cuGetProcAddress_v2");
    char line[512], kind[16], name[256], library[64];
    int version;
    unsigned long long flags;
    while (fgets(line, sizeof line, stdin)) {
        void *address = (void *)0x5a5a;
        if (sscanf(line, "sym %63s %255s", library, name) == 2) {
            say_address(dlsym(strstr(library, "cuda") ? cuda : nvml, name));
        } else if (sscanf(line, "call %255s", name) == 1) {
            say_call(cuda, nvml, name);
        } else if (sscanf(line, "%15s %255s %d %llu", kind, name, &version, &flags) == 4) {
            int status = 77, rc;
            if (!strcmp(kind, "proc1"))
                rc = get1 ? get1(name, &address, version, flags) : -1;
            else
                rc = get2 ? get2(name, &address, version, flags, &status) : -1;
            printf("%d %d", rc, status);
            say_address(address == (void *)0x5a5a ? NULL : address);
        }
        putchar('\n');
    }
    return 0;
}
