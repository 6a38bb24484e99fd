/* One process of the hooked crash matrix: a plain CUDA program under the hook that takes and gives
 * back device memory in every way, close to the limit, until it is killed.
 *
 *     worker ARENA INDEX SEED EXPORTS|visit
 *
 * EXPORTS 1: offers descriptors to others; only for workers that die by the driver's hand alone.
 * `visit`: attaches, asks one question and leaves. */

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "crash/hooked/arena.h"
#include "vendors/nvidia/abi/cuda_types.h"

#define CUDA_HOOK(symbol, class, body, ret, params, args) ret symbol params;
#define CUDA_CALL(symbol, ret, params, reason)            ret symbol params;
#include "vendors/nvidia/abi/api.def"

#define MIB      ((size_t)1 << 20)
#define GRANULE  (2 * MIB)
#define HELD_MAX 20u

enum kind { LINEAR, ASYNC, POOL, VMM, IMPORT, OPENED, CONTEXT, KINDS };

struct thing {
    enum kind kind;
    bool offered;
    CUdeviceptr ptr;
    size_t bytes; /* of a mapping; 0 not mapped */
    CUmemGenericAllocationHandle handle;
    CUmemoryPool pool;
    CUcontext context;
    int fd;
};

static struct arena *arena;
static struct arena_offer *mine;
static uint32_t own_index;
static bool exports_fds;
static CUcontext primary;
static struct thing held[HELD_MAX];
static uint32_t n_held;
static uint64_t rng;
static int schedstat = -1;
static uint64_t cpu0, wall0, delay0;

static uint64_t rnd(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % n;
}

static void add(uint64_t *counter)
{
    (void)__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- time of a call ---- */

static uint64_t clock_ns(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds this thread was ready to run and had no processor; 0 where the kernel does not say.
 */
static uint64_t run_delay(void)
{
    char text[96] = "";
    char *end;

    if (schedstat < 0 || pread(schedstat, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    (void)strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

static void raise_worst(struct arena_worst *worst, uint64_t ns, const char *call)
{
    uint64_t old = __atomic_load_n(&worst->ns, __ATOMIC_RELAXED);

    while (ns > old)
        if (__atomic_compare_exchange_n(&worst->ns, &old, ns, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            (void)snprintf(worst->call, sizeof(worst->call), "%.40s", call);
            return;
        }
}

static void begin(void)
{
    cpu0 = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    delay0 = run_delay();
    wall0 = clock_ns(CLOCK_MONOTONIC);
}

static CUresult end(const char *call, CUresult result)
{
    uint64_t wall = clock_ns(CLOCK_MONOTONIC) - wall0;
    uint64_t delay = run_delay() - delay0;

    raise_worst(&arena->cpu, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu0, call);
    raise_worst(&arena->wall, wall, call);
    raise_worst(&arena->delay, delay, call);
    raise_worst(&arena->waited, wall > delay ? wall - delay : 0, call);
    add(&arena->calls);
    return result;
}

/* One timed driver call. */
#define CALL(expr) (begin(), end(#expr, (expr)))

/* True: granted. An answer other than yes or out of memory ends the run. */
static bool granted(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) {
        add(&arena->granted);
        return true;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        add(&arena->refused);
    else
        arena_fail(arena, what, (int64_t)result, getpid());
    return false;
}

static void must(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        arena_fail(arena, what, (int64_t)result, getpid());
}
#define MUST(expr) must(CALL(expr), #expr)

/* ---- taking ---- */

/* The card gives managed memory away when it is used, the books charge it when it is allocated:
 * brought to the card at once, both agree. */
static bool take_managed(struct thing *t, size_t bytes)
{
    CUdevice device = 0;

    if (!granted(CALL(cuMemAllocManaged(&t->ptr, bytes, CU_MEM_ATTACH_GLOBAL)), "managed"))
        return false;
    MUST(cuCtxGetDevice(&device));
    MUST(cuMemPrefetchAsync(t->ptr, bytes, device, NULL));
    return true;
}

static bool take_linear(struct thing *t)
{
    size_t bytes = rnd(2) ? 1 + rnd(MIB) : MIB + rnd(24 * MIB);
    size_t pitch;

    if (rnd(8) == 0)
        return granted(CALL(cuMemAllocPitch_v2(&t->ptr, &pitch, 1 + rnd(40000), 64, 4)), "pitch");
    if (rnd(8) == 0)
        return take_managed(t, bytes);
    return granted(CALL(cuMemAlloc_v2(&t->ptr, bytes)), "cuMemAlloc");
}

static bool take_async(struct thing *t)
{
    size_t bytes = rnd(4) ? 1 + rnd(4 * MIB) : 33 * MIB + rnd(20 * MIB);

    return granted(CALL(cuMemAllocAsync(&t->ptr, bytes, NULL)), "cuMemAllocAsync");
}

static bool take_pool(struct thing *t)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(own_index % ARENA_CARDS)}};

    if (!granted(CALL(cuMemPoolCreate(&t->pool, &props)), "cuMemPoolCreate"))
        return false;
    if (granted(CALL(cuMemAllocFromPoolAsync(&t->ptr, 1 + rnd(8 * MIB), t->pool, NULL)), "pooled"))
        return true;
    MUST(cuMemPoolDestroy(t->pool));
    return false;
}

static void map_handle(struct thing *t, size_t bytes)
{
    if (rnd(2) == 0)
        return;
    MUST(cuMemAddressReserve(&t->ptr, bytes, 0, 0, 0));
    MUST(cuMemMap(t->ptr, bytes, 0, t->handle, 0));
    t->bytes = bytes;
}

static void offer_fd(struct thing *t)
{
    MUST(cuMemExportToShareableHandle(&t->fd, t->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      0));
    if (t->fd < 0)
        return;
    arena_lock(mine);
    mine->fd = t->fd;
    arena_unlock(mine);
    t->offered = true;
}

static bool take_vmm(struct thing *t)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)(own_index % ARENA_CARDS)}};
    size_t bytes = GRANULE * (1 + rnd(8));

    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!granted(CALL(cuMemCreate(&t->handle, bytes, &prop, 0)), "cuMemCreate"))
        return false;
    map_handle(t, bytes);
    if (exports_fds && mine->fd < 0)
        offer_fd(t);
    return true;
}

/* The descriptor of another worker's memory, taken out of its table. -1 it has none. */
static int take_fd(const struct arena_offer *offer)
{
    int pidfd, fd;

    if (offer->fd < 0)
        return -1;
    pidfd = (int)syscall(SYS_pidfd_open, offer->pid, 0);
    if (pidfd < 0)
        return -1;
    fd = (int)syscall(SYS_pidfd_getfd, pidfd, offer->fd, 0);
    if (fd < 0)
        add(&arena->no_import);
    (void)close(pidfd);
    return fd;
}

static bool take_import(struct thing *t)
{
    struct arena_offer *offer = &arena->offer[rnd(ARENA_WORKERS)];
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    int fd;

    if (offer == mine)
        return false;
    arena_lock(offer);
    fd = take_fd(offer);
    if (fd >= 0) {
        result = CALL(cuMemImportFromShareableHandle(&t->handle, (void *)(intptr_t)fd,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        (void)close(fd);
    }
    arena_unlock(offer);
    if (fd >= 0)
        must(result, "import of a live exporter's descriptor");
    if (result == CUDA_SUCCESS)
        add(&arena->imported);
    return result == CUDA_SUCCESS;
}

/* Here the exporter may die at any moment: then the handle opens nothing. */
static bool take_opened(struct thing *t)
{
    struct arena_offer *offer = &arena->offer[rnd(ARENA_WORKERS)];
    CUipcMemHandle handle;
    uint32_t has;

    if (offer == mine)
        return false;
    arena_lock(offer);
    has = offer->has_handle;
    memcpy(&handle, offer->handle, sizeof(handle));
    arena_unlock(offer);
    if (!has)
        return false;
    if (CALL(cuIpcOpenMemHandle_v2(&t->ptr, handle, 1 /* lazy peer access */)) != CUDA_SUCCESS) {
        add(&arena->came_late);
        return false;
    }
    add(&arena->opened);
    return true;
}

/* A context of its own, with memory in it that goes with it. */
static bool take_context(struct thing *t)
{
    CUdevice card = (CUdevice)rnd(ARENA_CARDS);
    CUdeviceptr ptr;

    if (!granted(CALL(cuCtxCreate_v2(&t->context, 0, card)), "cuCtxCreate"))
        return false;
    add(&arena->contexts);
    (void)granted(CALL(cuMemAlloc_v2(&ptr, 1 + rnd(3 * MIB))), "cuMemAlloc");
    MUST(cuCtxSetCurrent(primary));
    return true;
}

static void take(void)
{
    static bool (*const how[])(struct thing *) = {
        take_linear, take_linear, take_linear, take_linear, take_async,   take_async,  take_pool,
        take_vmm,    take_vmm,    take_vmm,    take_import, take_context, take_opened, take_opened};
    static const enum kind kind[] = {LINEAR, LINEAR, LINEAR, LINEAR, ASYNC,   ASYNC,  POOL,
                                     VMM,    VMM,    VMM,    IMPORT, CONTEXT, OPENED, OPENED};
    struct thing *t = &held[n_held];
    size_t at = rnd(sizeof(how) / sizeof(how[0]));

    if (n_held == HELD_MAX)
        return;
    *t = (struct thing){.kind = kind[at], .fd = -1};
    if (how[at](t))
        n_held++;
}

/* ---- sharing and giving back ---- */

static void offer_handle(void)
{
    struct thing *t = n_held == 0 ? NULL : &held[rnd(n_held)];
    CUipcMemHandle handle;

    if (t == NULL || t->kind != LINEAR || mine->has_handle != 0)
        return;
    if (CALL(cuIpcGetMemHandle(&handle, t->ptr)) != CUDA_SUCCESS)
        return; /* managed memory cannot be shared */
    arena_lock(mine);
    memcpy(mine->handle, &handle, sizeof(handle));
    mine->has_handle = 1;
    arena_unlock(mine);
    t->offered = true;
}

static void withdraw_offer(const struct thing *t)
{
    arena_lock(mine);
    if (t->kind == VMM)
        mine->fd = -1;
    else
        mine->has_handle = 0;
    if (t->fd >= 0)
        (void)close(t->fd);
    arena_unlock(mine);
}

static void give_vmm(const struct thing *t)
{
    if (t->bytes != 0 && rnd(2) == 0) { /* the mapping carries it for a while */
        MUST(cuMemRelease(t->handle));
        MUST(cuMemUnmap(t->ptr, t->bytes));
    } else {
        if (t->bytes != 0)
            MUST(cuMemUnmap(t->ptr, t->bytes));
        MUST(cuMemRelease(t->handle));
    }
    if (t->bytes != 0)
        MUST(cuMemAddressFree(t->ptr, t->bytes));
}

static void give(uint32_t at)
{
    struct thing t = held[at];

    held[at] = held[--n_held];
    if (t.offered)
        withdraw_offer(&t);
    switch (t.kind) {
    case LINEAR:
        MUST(cuMemFree_v2(t.ptr));
        break;
    case POOL:
    case ASYNC:
        MUST(cuMemFreeAsync(t.ptr, NULL));
        if (rnd(2))
            MUST(cuStreamSynchronize(NULL));
        if (t.kind == POOL)
            MUST(cuMemPoolDestroy(t.pool));
        break;
    case OPENED:
        MUST(cuIpcCloseMemHandle(t.ptr));
        break;
    case CONTEXT:
        MUST(cuCtxDestroy_v2(t.context));
        break;
    default:
        give_vmm(&t);
    }
}

static void ask(void)
{
    size_t free_bytes = 0, total = 0;

    MUST(cuMemGetInfo_v2(&free_bytes, &total));
    if (total != ARENA_LIMIT || free_bytes > total)
        arena_fail(arena, "cuMemGetInfo", (int64_t)free_bytes, (int64_t)total);
}

/* ---- life ---- */

static enum arena_phase phase(void)
{
    return (enum arena_phase)__atomic_load_n(&arena->phase, __ATOMIC_ACQUIRE);
}

static void stand_still(enum arena_phase until)
{
    (void)__atomic_fetch_add(&arena->parked, 1, __ATOMIC_SEQ_CST);
    while (phase() == until)
        (void)usleep(1000);
    (void)__atomic_fetch_sub(&arena->parked, 1, __ATOMIC_SEQ_CST);
}

static void give_all(void)
{
    CUmemoryPool pool;

    while (n_held > 0)
        give(n_held - 1);
    if (primary == NULL)
        return;
    MUST(cuCtxSynchronize());
    MUST(cuDeviceGetDefaultMemPool(&pool, (CUdevice)(own_index % ARENA_CARDS)));
    MUST(cuMemPoolTrimTo(pool, 0));
    MUST(cuDevicePrimaryCtxRelease_v2((CUdevice)(own_index % ARENA_CARDS)));
    primary = NULL;
}

/* False: go home. */
static bool obey(void)
{
    enum arena_phase now = phase();

    if (now == ARENA_REST) {
        if (primary != NULL)
            MUST(cuCtxSynchronize());
        stand_still(now);
    } else if (now == ARENA_EMPTY) {
        give_all();
        stand_still(now);
    }
    return phase() != ARENA_LEAVE;
}

/* A context costs memory too, and there may be none left for it now. */
static bool start(void)
{
    CUdevice card = (CUdevice)(own_index % ARENA_CARDS);

    MUST(cuInit(0));
    while (arena->errors == 0 && obey()) {
        if (phase() == ARENA_RUN &&
            granted(CALL(cuDevicePrimaryCtxRetain(&primary, card)), "retain")) {
            MUST(cuCtxSetCurrent(primary));
            return true;
        }
        primary = NULL;
        (void)usleep(2000);
    }
    return false;
}

static void churn(void)
{
    while (arena->errors == 0 && obey()) {
        uint64_t dice = rnd(100);

        if (primary == NULL) /* was told to empty, then to go on */
            return;
        if (dice < 50)
            take();
        else if (dice < 85 && n_held > 0)
            give((uint32_t)rnd(n_held));
        else if (dice < 97)
            offer_handle();
        else
            ask();
    }
}

static int map_arena(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return -1;
    arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return arena == MAP_FAILED ? -1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 5 || map_arena(argv[1]) != 0)
        return 2;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* others take descriptors out of our table */
    schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    own_index = (uint32_t)strtoul(argv[2], NULL, 10) % ARENA_WORKERS;
    rng = strtoull(argv[3], NULL, 10) | 1;
    if (strcmp(argv[4], "visit") == 0) {
        MUST(cuInit(0));
        return 0;
    }
    exports_fds = argv[4][0] == '1';
    mine = &arena->offer[own_index];
    arena_lock(mine);
    mine->has_handle = 0;
    mine->fd = -1;
    mine->pid = getpid();
    arena_unlock(mine);
    if (start())
        churn();
    return 0;
}
