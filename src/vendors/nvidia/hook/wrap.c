#include "vendors/nvidia/hook/bodies.h"

#include <stddef.h>

#include "core/cleanup.h"
#include "hook/engine.h"
#include "hook/xlate.h"
#include "vendors/nvidia/hook/copy.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/init.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/launch_fast.h"

/* The exported wrappers, made from api.def, and the tables that tell the engine about them. */

/* The driver's functions of the effective rows, filled by the engine. */
#define POINTER(symbol, class, body, ret, params, args) ret(*symbol) params;
struct real {
#define CUDA_HOOK POINTER
#define NVML_HOOK POINTER
#include "vendors/nvidia/abi/api.def"
};
static struct real real_of;

/* Answers where there is nothing to forward to. */
#define ABSENT_CUDA(rc) ((rc) == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NO_DEVICE)
#define ABSENT_NVML(rc) ((rc) == 0 ? NVML_ERROR_FUNCTION_NOT_FOUND : NVML_ERROR_LIBRARY_NOT_FOUND)

/* The resolver stores these pointers while other threads run; each value is right by itself. */
#define LOAD_REAL(symbol) __atomic_load_n(&real_of.symbol, __ATOMIC_RELAXED)

/* clang-format off */
#define WRAP(lib, symbol, body, ret, params, args)                                                 \
    WRAP_CALL(lib, symbol, ret, params, args, gs_nv_##body(real, GS_NV_STRIP args))
#define WRAP_CALL(lib, symbol, ret, params, args, call)                                            \
    GS_EXPORT ret symbol params;                                                                   \
    ret symbol params                                                                              \
    {                                                                                              \
        ret (*real) params = LOAD_REAL(symbol);                                                    \
        if (GS_UNLIKELY(real == NULL)) {                                                           \
            int rc = gs_engine_load(GS_DRIVER_LIB_##lib);                                         \
            real = LOAD_REAL(symbol);                                                              \
            if (real == NULL)                                                                      \
                return ABSENT_##lib(rc);                                                       \
        }                                                                                          \
        if (!gs_engine_enter())                                                                    \
            return real args;                                                                      \
        ret answer = call;                                                                         \
        gs_engine_leave();                                                                         \
        return answer;                                                                             \
    }

/* The row of the calling thread's own default stream. */
#define IS_PER_THREAD(symbol)                                                                      \
    (sizeof(#symbol) > 6 && (__builtin_strcmp(&#symbol[sizeof(#symbol) - 6], "_ptsz") == 0 ||      \
                             __builtin_strcmp(&#symbol[sizeof(#symbol) - 6], "_ptds") == 0))

/* Where the pointer of a row starts that has no time to test it for NULL. */
#define FIRST(lib, symbol, ret, params, args)                                                      \
    static ret first_##symbol params                                                               \
    {                                                                                              \
        int rc = gs_engine_load(GS_DRIVER_LIB_##lib);                                             \
        ret (*real) params = LOAD_REAL(symbol);                                                    \
        if (real == first_##symbol)                                                                \
            return ABSENT_##lib(rc);                                                           \
        return real args;                                                                          \
    }
/* A launch of a process that is not held costs one load and a jump. held_<symbol> runs until the
 * engine is ready, and while the process's launches are held. It jumps, too: to the driver when the
 * launch is paid for, else to slow_<symbol>, which asks the body. */
#define LAUNCH(lib, symbol, body, ret, params, args)                                               \
    FIRST(lib, symbol, ret, params, args)                                                          \
    __attribute__((noinline)) static ret slow_##symbol params                                      \
    {                                                                                              \
        if (!gs_engine_enter())                                                                    \
            return LOAD_REAL(symbol) args;                                                         \
        if (__atomic_load_n(&gs_engine.launch_free, __ATOMIC_RELAXED) != 0) {                      \
            gs_engine_leave();                                                                     \
            return LOAD_REAL(symbol) args;                                                         \
        }                                                                                          \
        ret answer = gs_nv_##body(LOAD_REAL(symbol), GS_NV_STRIP args);                            \
        gs_engine_leave();                                                                         \
        return answer;                                                                             \
    }                                                                                              \
    __attribute__((noinline)) static ret held_##symbol params                                      \
    {                                                                                              \
        if (GS_LIKELY(gs_nv_fast_##body(IS_PER_THREAD(symbol), GS_NV_STRIP args)))                    \
            return LOAD_REAL(symbol) args;                                                         \
        return slow_##symbol args;                                                                 \
    }                                                                                              \
    GS_EXPORT ret symbol params;                                                                   \
    ret symbol params                                                                              \
    {                                                                                              \
        if (GS_LIKELY(__atomic_load_n(&gs_engine.launch_free, __ATOMIC_RELAXED) != 0))             \
            return LOAD_REAL(symbol) args;                                                         \
        return held_##symbol args;                                                                 \
    }

/* Copies that come back when they are done, and so is what was in front of them: the program has
 * seen it done, whether copies are held or not. Of most that is so: between two places on the card,
 * and for fills, the driver does not wait, and then it is asked. */
#define WAITS(symbol) (__builtin_strstr(#symbol, "Async") == NULL)
#define IS_SURE(symbol)                                                                            \
    (__builtin_strstr(#symbol, "HtoD") != NULL || __builtin_strstr(#symbol, "DtoH") != NULL)
#define SEEN(symbol, answer)                                                                       \
    do {                                                                                           \
        if ((answer) == 0 && IS_SURE(symbol))                                                      \
            gs_launch_seen(gs_launch_id_of(NULL, IS_PER_THREAD(symbol)));                          \
        else if ((answer) == 0)                                                                    \
            gs_launch_seen_something();                                                            \
    } while (0)

/* The same for copies and fills, by a word of their own: mostly they are not held where launches
 * are. The body only says what is copied. */
#define COPY(lib, symbol, body, ret, params, args)                                                 \
    FIRST(lib, symbol, ret, params, args)                                                          \
    __attribute__((noinline)) static ret slow_##symbol params                                      \
    {                                                                                              \
        struct gs_launch copy;                                                                     \
        if (!gs_engine_enter())                                                                    \
            return LOAD_REAL(symbol) args;                                                         \
        if (gs_copy_is_free() || !gs_nv_##body(&copy, GS_NV_STRIP args)) {                         \
            gs_engine_leave();                                                                     \
            return LOAD_REAL(symbol) args;                                                         \
        }                                                                                          \
        copy.what = #symbol;                                                                       \
        copy.per_thread = IS_PER_THREAD(symbol);                                                   \
        bool paid = gs_copy_begin(&copy);                                                          \
        ret answer = gs_copy_end(&copy, paid, LOAD_REAL(symbol) args);                             \
        if (WAITS(symbol))                                                                         \
            SEEN(symbol, answer);                                                                  \
        gs_engine_leave();                                                                         \
        return answer;                                                                             \
    }                                                                                              \
    __attribute__((noinline)) static ret waiting_##symbol params                                   \
    {                                                                                              \
        if (!gs_engine_enter())                                                                    \
            return LOAD_REAL(symbol) args;                                                         \
        gs_launch_waiting(gs_launch_id_of(NULL, IS_PER_THREAD(symbol)));                           \
        ret answer = LOAD_REAL(symbol) args;                                                       \
        SEEN(symbol, answer);                                                                      \
        gs_engine_leave();                                                                         \
        return answer;                                                                             \
    }                                                                                              \
    GS_EXPORT ret symbol params;                                                                   \
    ret symbol params                                                                              \
    {                                                                                              \
        if (GS_LIKELY(__atomic_load_n(&gs_engine.copies_free, __ATOMIC_RELAXED) != 0)) {           \
            if (!WAITS(symbol) || GS_LIKELY(!gs_launch_is_seeing()))                               \
                return LOAD_REAL(symbol) args;                                                     \
            return waiting_##symbol args;                                                          \
        }                                                                                          \
        return slow_##symbol args;                                                                 \
    }
/* clang-format on */

#define WRAP_ALLOC   WRAP
#define WRAP_ARRAY   WRAP
#define WRAP_COPY    COPY
#define WRAP_CTX     WRAP
#define WRAP_CAPTURE WRAP
#define WRAP_FREE    WRAP
#define WRAP_GRAPH   WRAP
#define WRAP_INIT    WRAP
#define WRAP_IPC     WRAP
#define WRAP_LOOKUP  WRAP
#define WRAP_MODULE  WRAP
#define WRAP_POOL    WRAP
#define WRAP_QUERY   WRAP
#define WRAP_SYNC    WRAP
#define WRAP_SYNC_VOID(lib, symbol, body, ret, params, args)                                       \
    WRAP_CALL(lib, symbol, ret, params, args, gs_nv_##body(real))
#define WRAP_VMM    WRAP
#define WRAP_LAUNCH LAUNCH

#define CUDA_HOOK(symbol, class, body, ret, params, args)                                          \
    WRAP_##class(CUDA, symbol, body, ret, params, args)
#define NVML_HOOK(symbol, class, body, ret, params, args)                                          \
    WRAP_##class(NVML, symbol, body, ret, params, args)
#include "vendors/nvidia/abi/api.def"

/* Only launch and copy rows start at something else than NULL. */
#define FIRST_ALLOC(symbol)
#define FIRST_ARRAY(symbol)
#define FIRST_CAPTURE(symbol)
#define FIRST_COPY(symbol) .symbol = first_##symbol,
#define FIRST_CTX(symbol)
#define FIRST_FREE(symbol)
#define FIRST_GRAPH(symbol)
#define FIRST_INIT(symbol)
#define FIRST_IPC(symbol)
#define FIRST_LAUNCH(symbol) .symbol = first_##symbol,
#define FIRST_LOOKUP(symbol)
#define FIRST_MODULE(symbol)
#define FIRST_POOL(symbol)
#define FIRST_QUERY(symbol)
#define FIRST_SYNC(symbol)
#define FIRST_SYNC_VOID(symbol)
#define FIRST_VMM(symbol)

static struct real real_of = {
#define CUDA_HOOK(symbol, class, body, ret, params, args) FIRST_##class(symbol)
#include "vendors/nvidia/abi/api.def"
};

#define ROW(symbol, class, body, ret, params, args)                                                \
    {#symbol, (void *)(uintptr_t)symbol, (void **)&real_of.symbol},
static const struct gs_hook_row cuda_rows[] = {
#define CUDA_HOOK ROW
#include "vendors/nvidia/abi/api.def"
};
static const struct gs_hook_row nvml_rows[] = {
#define NVML_HOOK ROW
#include "vendors/nvidia/abi/api.def"
};

_Static_assert(GS_ARRAY_LEN(cuda_rows) + GS_ARRAY_LEN(nvml_rows) <= GS_XLATE_SLOTS / 2,
               "every row has room in the address table");

static const struct gs_hook_lib libs[] = {
    [GS_DRIVER_LIB_CUDA] =
        {
            .soname = "libcuda.so.1",
            .prefix = "cu",
            .rows = cuda_rows,
            .n_rows = GS_ARRAY_LEN(cuda_rows),
        },
    [GS_DRIVER_LIB_NVML] =
        {
            .soname = "libnvidia-ml.so.1",
            .prefix = "nvml",
            .rows = nvml_rows,
            .n_rows = GS_ARRAY_LEN(nvml_rows),
        },
};

const struct gs_hook_vendor gs_hook_vendor = {
    .name = "nvidia",
    .libs = libs,
    .n_libs = GS_ARRAY_LEN(libs),
    .enumerate = gs_device_enumerate,
    .forget = gs_init_forget,
    .harvest = gs_launch_harvest,
};
