#include "vendors/nvidia/hook/bodies.h"

#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#include "hook/gate.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/cubin.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/measure.h"
#include "vendors/nvidia/hook/pool.h"

/* Code and its variables. Before the call what the image tells about itself is reserved; afterwards
 * the card's free memory is compared, and only where it fell by something else than that is NVML
 * asked how much of it was us. With lazy loading a module may take its memory at the first launch:
 * that part is seen by the next module that is measured, or not at all (README.md). */

/* Where NVML does not know us by our pid (a container), others may have taken memory meanwhile:
 * more than this beyond what the image says is taken for theirs. */
#define CREDIBLE_BYTES (256ull << 20)

/* One load, whatever its row. */
struct loading {
    const char *what;
    CUresult (*call)(const struct loading *loading);
    void (*undo)(const struct loading *loading);
    const void *args;
    void *handle; /* where the driver stores it: CUmodule or CUlibrary, both pointers */
    bool library; /* belongs to no context */
};

/* What the card lost to us meanwhile. `known` of it was reserved before. */
static uint64_t lost(const struct gs_device *device, uint64_t before, uint64_t known)
{
    struct gs_measure now;
    uint64_t after = 0;
    uint64_t fell;
    uint64_t booked;

    if (gs_measure_free(&after) < 0)
        return known;
    fell = before > after ? before - after : 0;
    if (fell == 0 || fell == known)
        return fell;
    if (gs_measure_take(device, &now) < 0 || !now.own)
        return fell < known || fell - known <= CREDIBLE_BYTES ? fell : known;
    /* what we hold beyond the books, but no more than went in this call */
    booked = gs_gate_own(device->ledger, GS_CHARGE_HELD) +
             gs_gate_own(device->ledger, GS_CHARGE_EXTRA) - known;
    if (now.bytes <= booked)
        return 0;
    return now.bytes - booked < fell ? now.bytes - booked : fell;
}

static int settle(const struct loading *loading, uint32_t dev, uint64_t reserved, uint64_t actual)
{
    if (actual > reserved)
        return gs_pool_reserve(dev, actual - reserved, GS_CHARGE_EXTRA, loading->what);
    if (actual < reserved)
        gs_gate_release(dev, reserved - actual, GS_CHARGE_EXTRA);
    return 0;
}

static CUresult load(const struct loading *loading, uint64_t image_bytes)
{
    struct gs_device_here here;
    struct gs_obj obj = {.share = -1, .refs = 1};
    uint64_t reserved;
    uint64_t before = 0;
    bool measured;
    CUresult result;

    if (loading->handle == NULL || gs_device_current(&here) < 0)
        return loading->call(loading);
    obj.dev = here.device->ledger;
    obj.aux = loading->library ? 0 : here.serial;
    reserved = gs_device_round(here.device, image_bytes);
    if (reserved != 0 && gs_pool_reserve(obj.dev, reserved, GS_CHARGE_EXTRA, loading->what) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    measured = gs_measure_free(&before) == 0;
    result = loading->call(loading);
    if (result != CUDA_SUCCESS) {
        gs_gate_release(obj.dev, reserved, GS_CHARGE_EXTRA);
        return gs_device_refused(result, obj.dev, reserved, loading->what);
    }
    obj.bytes = measured ? lost(here.device, before, reserved) : reserved;
    /* A library is loaded into a context at its first use there, which may be a launch: what a
     * large image says it takes stays charged until then. */
    if (loading->library && obj.bytes < reserved && image_bytes >= here.device->granularity)
        obj.bytes = reserved;
    if (settle(loading, obj.dev, reserved, obj.bytes) != 0) {
        obj.bytes = reserved;
    } else if (obj.bytes == 0 ||
               gs_track_put(GS_OBJ_MODULE, *(uintptr_t *)loading->handle, &obj) == 0) {
        return CUDA_SUCCESS;
    }
    loading->undo(loading);
    gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_EXTRA);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static uint64_t bytes_in_memory(const void *image)
{
    struct gs_cubin_source source = gs_cubin_in_memory(image);

    return image == NULL ? 0 : gs_cubin_bytes(&source);
}

static uint64_t bytes_in_file(const char *name)
{
    int fd = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct gs_cubin_source source;
    uint64_t bytes;

    if (fd < 0)
        return 0; /* the driver will say so */
    source = gs_cubin_in_file(fd);
    bytes = gs_cubin_bytes(&source);
    (void)close(fd); /* only read from */
    return bytes;
}

static void undo_module(const struct loading *loading)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    if (cuda->cuModuleUnload != NULL)
        (void)cuda->cuModuleUnload(*(CUmodule *)loading->handle);
}

static void undo_library(const struct loading *loading)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    if (cuda->cuLibraryUnload != NULL)
        (void)cuda->cuLibraryUnload(*(CUlibrary *)loading->handle);
}

/* ---- rows ---- */

struct from {
    CUresult (*real)(CUmodule *, const void *);
    CUmodule *module;
    const void *source;
};

static CUresult call_from(const struct loading *loading)
{
    const struct from *args = loading->args;

    return args->real(args->module, args->source);
}

CUresult gs_nv_module_load_data(CUresult (*real)(CUmodule *, const void *), CUmodule *module,
                                const void *image)
{
    struct from args = {real, module, image};

    return load(&(struct loading){"cuModuleLoadData", call_from, undo_module, &args, module, false},
                bytes_in_memory(image));
}

CUresult gs_nv_module_load_fat(CUresult (*real)(CUmodule *, const void *), CUmodule *module,
                               const void *fatCubin)
{
    struct from args = {real, module, fatCubin};

    return load(
        &(struct loading){"cuModuleLoadFatBinary", call_from, undo_module, &args, module, false},
        bytes_in_memory(fatCubin));
}

struct from_file {
    CUresult (*real)(CUmodule *, const char *);
    CUmodule *module;
    const char *name;
};

static CUresult call_from_file(const struct loading *loading)
{
    const struct from_file *args = loading->args;

    return args->real(args->module, args->name);
}

CUresult gs_nv_module_load(CUresult (*real)(CUmodule *, const char *), CUmodule *module,
                           const char *fname)
{
    struct from_file args = {real, module, fname};

    return load(
        &(struct loading){"cuModuleLoad", call_from_file, undo_module, &args, module, false},
        bytes_in_file(fname));
}

typedef CUresult load_ex(CUmodule *, const void *, unsigned int, CUjit_option *, void **);

struct from_ex {
    load_ex *real;
    CUmodule *module;
    const void *image;
    unsigned int n;
    CUjit_option *options;
    void **values;
};

static CUresult call_from_ex(const struct loading *loading)
{
    const struct from_ex *args = loading->args;

    return args->real(args->module, args->image, args->n, args->options, args->values);
}

CUresult gs_nv_module_load_data_ex(load_ex *real, CUmodule *module, const void *image,
                                   unsigned int numOptions, CUjit_option *options,
                                   void **optionValues)
{
    struct from_ex args = {real, module, image, numOptions, options, optionValues};

    return load(
        &(struct loading){"cuModuleLoadDataEx", call_from_ex, undo_module, &args, module, false},
        bytes_in_memory(image));
}

typedef CUresult load_library(CUlibrary *, const void *, CUjit_option *, void **, unsigned int,
                              CUlibraryOption *, void **, unsigned int);
typedef CUresult load_library_file(CUlibrary *, const char *, CUjit_option *, void **, unsigned int,
                                   CUlibraryOption *, void **, unsigned int);

struct from_library {
    load_library *real; /* one of the two */
    load_library_file *real_file;
    CUlibrary *library;
    const void *code;
    CUjit_option *jit;
    void **jit_values;
    unsigned int n_jit;
    CUlibraryOption *options;
    void **values;
    unsigned int n;
};

static CUresult call_library(const struct loading *loading)
{
    const struct from_library *a = loading->args;

    if (a->real != NULL)
        return a->real(a->library, a->code, a->jit, a->jit_values, a->n_jit, a->options, a->values,
                       a->n);
    return a->real_file(a->library, a->code, a->jit, a->jit_values, a->n_jit, a->options, a->values,
                        a->n);
}

CUresult gs_nv_library_load_data(load_library *real, CUlibrary *library, const void *code,
                                 CUjit_option *jitOptions, void **jitOptionsValues,
                                 unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                 void **libraryOptionValues, unsigned int numLibraryOptions)
{
    struct from_library args = {real,
                                NULL,
                                library,
                                code,
                                jitOptions,
                                jitOptionsValues,
                                numJitOptions,
                                libraryOptions,
                                libraryOptionValues,
                                numLibraryOptions};

    return load(
        &(struct loading){"cuLibraryLoadData", call_library, undo_library, &args, library, true},
        bytes_in_memory(code));
}

CUresult gs_nv_library_load_file(load_library_file *real, CUlibrary *library, const char *fileName,
                                 CUjit_option *jitOptions, void **jitOptionsValues,
                                 unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                 void **libraryOptionValues, unsigned int numLibraryOptions)
{
    struct from_library args = {NULL,
                                real,
                                library,
                                fileName,
                                jitOptions,
                                jitOptionsValues,
                                numJitOptions,
                                libraryOptions,
                                libraryOptionValues,
                                numLibraryOptions};

    return load(&(struct loading){"cuLibraryLoadFromFile", call_library, undo_library, &args,
                                  library, true},
                bytes_in_file(fileName));
}

/* The entry leaves before the driver is asked, because the handle may be given again at once. */
static CUresult after_unload(bool known, uint64_t key, const struct gs_obj *obj, CUresult result)
{
    if (result == CUDA_SUCCESS)
        gs_launch_code_gone();
    if (!known)
        return result;
    if (result == CUDA_SUCCESS)
        gs_gate_release(obj->dev, obj->bytes, GS_CHARGE_EXTRA);
    else
        (void)!gs_track_put(GS_OBJ_MODULE, key, obj); /* else it stays charged */
    return result;
}

CUresult gs_nv_module_unload(CUresult (*real)(CUmodule), CUmodule hmod)
{
    struct gs_obj obj;
    bool known = gs_track_take(GS_OBJ_MODULE, (uintptr_t)hmod, &obj);

    return after_unload(known, (uintptr_t)hmod, &obj, real(hmod));
}

CUresult gs_nv_library_unload(CUresult (*real)(CUlibrary), CUlibrary library)
{
    struct gs_obj obj;
    bool known = gs_track_take(GS_OBJ_MODULE, (uintptr_t)library, &obj);

    return after_unload(known, (uintptr_t)library, &obj, real(library));
}
