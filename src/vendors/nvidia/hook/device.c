#include "vendors/nvidia/hook/device.h"

#include <errno.h>
#include <string.h>

#include "hook/engine.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/driver.h"

/* Every card gives memory away in 2 MiB pages, except those that say otherwise. */
#define DEFAULT_GRANULARITY (2ull << 20)
#define UUID_TEXT           37u /* 32 digits, 4 dashes, NUL */

/* `known` is stored last; entries never change after. Racing threads write equal values. */
static struct {
    struct gs_device device;
    uint32_t known;
} ordinals[GS_DEVICE_ORDINALS];

/* The last context this thread worked in. Void when `epoch` is behind. */
static _Thread_local struct {
    CUcontext context;
    const struct gs_device *device;
    uint64_t serial;
    uint64_t epoch;
} last __attribute__((tls_model("initial-exec")));

static uint64_t epoch = 1;
static uint64_t next_serial = 1;

void gs_device_contexts_changed(void)
{
    /* pairs with the acquire in gs_device_current */
    __atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE);
}

/* The child may see other cards: its environment need not be its parent's. */
void gs_device_forget(void)
{
    for (uint32_t i = 0; i < GS_DEVICE_ORDINALS; i++)
        __atomic_store_n(&ordinals[i].known, 0, __ATOMIC_RELEASE);
    gs_device_contexts_changed();
}

uint64_t gs_device_new_serial(void)
{
    return __atomic_fetch_add(&next_serial, 1, __ATOMIC_RELAXED);
}

/* "GPU-" or "MIG-" and the 16 bytes as NVML spells them. */
static void uuid_text(const char *prefix, const CUuuid *uuid, char *ret_text)
{
    static const char digits[] = "0123456789abcdef";
    char *p = ret_text;

    memcpy(p, prefix, 4);
    p += 4;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = digits[(unsigned char)uuid->bytes[i] >> 4];
        *p++ = digits[(unsigned char)uuid->bytes[i] & 15];
    }
    *p = '\0';
}

/* Find the card in the ledger. cuDeviceGetUuid_v2 answers with the MIG instance where there is one;
 * the first version and older drivers always with the whole card. */
static CUresult learn_uuid(const struct gs_driver *cuda, CUdevice ordinal, struct gs_device *device,
                           int *ret_index)
{
    CUuuid uuid = {{0}};
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    bool may_be_mig = cuda->cuDeviceGetUuid_v2 != NULL;

    _Static_assert(sizeof(device->uuid) >= 4 + UUID_TEXT, "room for a UUID");
    if (may_be_mig)
        result = cuda->cuDeviceGetUuid_v2(&uuid, ordinal);
    if (result == CUDA_ERROR_NOT_SUPPORTED && cuda->cuDeviceGetUuid != NULL) {
        may_be_mig = false;
        result = cuda->cuDeviceGetUuid(&uuid, ordinal);
    }
    if (result != CUDA_SUCCESS)
        return result;

    uuid_text("GPU-", &uuid, device->uuid);
    *ret_index = gs_engine_device(device->uuid);
    if (*ret_index == -ENODEV && may_be_mig) {
        char mig[sizeof(device->uuid)];

        uuid_text("MIG-", &uuid, mig);
        *ret_index = gs_engine_device(mig);
        if (*ret_index >= 0)
            memcpy(device->uuid, mig, sizeof(mig));
    }
    return CUDA_SUCCESS;
}

static uint64_t learn_granularity(const struct gs_driver *cuda, CUdevice ordinal)
{
    CUmemAllocationProp prop;
    size_t granularity = 0;

    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = ordinal;
    if (cuda->cuMemGetAllocationGranularity == NULL ||
        cuda->cuMemGetAllocationGranularity(&granularity, &prop,
                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
        granularity == 0)
        return DEFAULT_GRANULARITY;
    return granularity;
}

const struct gs_device *gs_device_known(uint32_t ordinal)
{
    if (ordinal >= GS_DEVICE_ORDINALS ||
        __atomic_load_n(&ordinals[ordinal].known, __ATOMIC_ACQUIRE) == 0)
        return NULL;
    return &ordinals[ordinal].device;
}

/* Failures with which the driver refuses an allocation too. After any other one it might not, and
 * the memory would be nobody's. */
static bool is_refusal(CUresult result)
{
    return result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED ||
           result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_INVALID_DEVICE ||
           result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_CONTEXT ||
           result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* A card that the driver does not identify: like one outside the grant. Asked again next time. */
static const struct gs_device *unidentified(CUdevice ordinal)
{
    static struct gs_device devices[GS_DEVICE_ORDINALS];
    struct gs_device *device = &devices[ordinal];

    /* racing threads store the same values */
    device->granularity = DEFAULT_GRANULARITY;
    device->ledger = GS_DEVICE_NONE;
    device->ordinal = ordinal;
    return device;
}

const struct gs_device *gs_device_by_ordinal(CUdevice ordinal)
{
    const struct gs_driver *cuda;
    struct gs_device device;
    size_t physical = 0;
    int index = -ENODEV;
    CUresult result;

    if (ordinal < 0 || (uint32_t)ordinal >= GS_DEVICE_ORDINALS)
        return NULL;
    if (GS_LIKELY(__atomic_load_n(&ordinals[ordinal].known, __ATOMIC_ACQUIRE) != 0))
        return &ordinals[ordinal].device;

    cuda = gs_driver_cuda();
    memset(&device, 0, sizeof(device));
    device.ordinal = ordinal;
    result = learn_uuid(cuda, ordinal, &device, &index);
    if (result != CUDA_SUCCESS)
        return is_refusal(result) ? NULL : unidentified(ordinal);
    device.ledger = index < 0 ? GS_DEVICE_NONE : (uint32_t)index;
    device.granularity = learn_granularity(cuda, ordinal);
    if (cuda->cuDeviceTotalMem_v2 != NULL &&
        cuda->cuDeviceTotalMem_v2(&physical, ordinal) == CUDA_SUCCESS)
        device.physical_bytes = physical;
    if (device.physical_bytes != 0)
        gs_gate_set_physical_bytes(device.ledger, device.physical_bytes);

    ordinals[ordinal].device = device;
    /* pairs with the acquires above */
    __atomic_store_n(&ordinals[ordinal].known, 1, __ATOMIC_RELEASE);
    return &ordinals[ordinal].device;
}

/* Our entry for a context; made here for contexts that came to be without us. */
static uint64_t serial_of(CUcontext context, uint32_t ledger)
{
    struct gs_obj obj;

    if (gs_track_get(GS_OBJ_CONTEXT, (uintptr_t)context, &obj))
        return obj.aux;
    obj = (struct gs_obj){.aux = gs_device_new_serial(), .dev = ledger, .share = -1, .refs = 1};
    /* Without an entry the objects simply belong to no known context and go when they are freed. */
    (void)!gs_track_put(GS_OBJ_CONTEXT, (uintptr_t)context, &obj);
    return obj.aux;
}

static int not_found(CUresult result, CUcontext context, struct gs_device_here *ret_here)
{
    if (is_refusal(result))
        return -ENXIO;
    *ret_here = (struct gs_device_here){unidentified(0), context, 0};
    return 0;
}

static int look_up(CUcontext context, uint64_t now, struct gs_device_here *ret_here)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    const struct gs_device *device;
    CUdevice ordinal = -1;
    CUresult result =
        cuda->cuCtxGetDevice == NULL ? CUDA_ERROR_NOT_SUPPORTED : cuda->cuCtxGetDevice(&ordinal);

    if (result != CUDA_SUCCESS)
        return not_found(result, context, ret_here);
    device = gs_device_by_ordinal(ordinal);
    if (device == NULL)
        return not_found(CUDA_ERROR_NOT_SUPPORTED, context, ret_here);
    if (device->uuid[0] == '\0') {
        *ret_here = (struct gs_device_here){device, context, 0}; /* not to be remembered */
        return 0;
    }
    last.context = context;
    last.device = device;
    last.serial = serial_of(context, device->ledger);
    last.epoch = now;
    *ret_here = (struct gs_device_here){device, context, last.serial};
    return 0;
}

int gs_device_current(struct gs_device_here *ret_here)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUcontext context = NULL;
    uint64_t now;
    CUresult result =
        cuda->cuCtxGetCurrent == NULL ? CUDA_ERROR_NOT_SUPPORTED : cuda->cuCtxGetCurrent(&context);

    if (GS_UNLIKELY(result != CUDA_SUCCESS))
        return not_found(result, NULL, ret_here);
    if (context == NULL)
        return -ENXIO;
    /* pairs with the release in gs_device_contexts_changed */
    now = __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
    if (GS_LIKELY(last.context == context && last.epoch == now)) {
        *ret_here = (struct gs_device_here){last.device, context, last.serial};
        return 0;
    }
    return look_up(context, now, ret_here);
}

uint32_t gs_device_by_nvml(nvmlDevice_t device)
{
    const struct gs_driver *nvml = gs_driver_nvml();
    char uuid[96] = "";
    int index;

    if (nvml->nvmlDeviceGetUUID == NULL ||
        nvml->nvmlDeviceGetUUID(device, uuid, sizeof(uuid)) != NVML_SUCCESS)
        return GS_DEVICE_NONE;
    uuid[sizeof(uuid) - 1] = '\0';
    index = gs_engine_device(uuid);
    return index < 0 ? GS_DEVICE_NONE : (uint32_t)index;
}

static bool fill_card(const struct gs_driver *nvml, nvmlDevice_t handle,
                      struct gs_hook_card *ret_card)
{
    nvmlMemory_t memory = {0};

    memset(ret_card, 0, sizeof(*ret_card));
    if (nvml->nvmlDeviceGetUUID(handle, ret_card->uuid, sizeof(ret_card->uuid) - 1) != NVML_SUCCESS)
        return false;
    if (nvml->nvmlDeviceGetMemoryInfo != NULL &&
        nvml->nvmlDeviceGetMemoryInfo(handle, &memory) == NVML_SUCCESS)
        ret_card->physical_bytes = memory.total;
    return true;
}

/* A card divided into MIG instances is seen by CUDA as its instances only. */
static uint32_t list_instances(const struct gs_driver *nvml, nvmlDevice_t card,
                               struct gs_hook_card *ret_cards, uint32_t max)
{
    uint32_t n = 0;

    if (nvml->nvmlDeviceGetMigDeviceHandleByIndex == NULL)
        return 0;
    for (unsigned int i = 0; i < 8 && n < max; i++) {
        nvmlDevice_t instance = NULL;

        if (nvml->nvmlDeviceGetMigDeviceHandleByIndex(card, i, &instance) == NVML_SUCCESS &&
            fill_card(nvml, instance, &ret_cards[n]))
            n++;
    }
    return n;
}

static int enumerate_nvml(struct gs_hook_card *ret_cards, uint32_t max)
{
    const struct gs_driver *nvml = gs_driver_nvml_begin();
    unsigned int count = 0;
    uint32_t n = 0;

    if (nvml == NULL)
        return -ENOENT;
    if (nvml->nvmlDeviceGetCount_v2 == NULL || nvml->nvmlDeviceGetHandleByIndex_v2 == NULL ||
        nvml->nvmlDeviceGetUUID == NULL || nvml->nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS)
        count = 0;
    for (unsigned int i = 0; i < count && n < max; i++) {
        nvmlDevice_t card = NULL;
        uint32_t instances;

        if (nvml->nvmlDeviceGetHandleByIndex_v2(i, &card) != NVML_SUCCESS)
            continue;
        instances = list_instances(nvml, card, ret_cards + n, max - n);
        if (instances != 0)
            n += instances;
        else if (fill_card(nvml, card, &ret_cards[n]))
            n++;
    }
    gs_driver_nvml_end();
    return n == 0 ? -ENODEV : (int)n;
}

/* CUDA counts what CUDA_VISIBLE_DEVICES leaves, in its order: only where there is nothing better.
 * It is not initialised for that: a program that forks before its own cuInit may use CUDA in the
 * child only as long as nobody has in the parent. */
static int enumerate_cuda(struct gs_hook_card *ret_cards, uint32_t max)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUresult result;
    int count = 0;
    uint32_t n = 0;

    if (cuda->cuDeviceGetCount == NULL || cuda->cuDeviceGetUuid == NULL)
        return -ENODEV;
    result = cuda->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS)
        return result == CUDA_ERROR_NOT_INITIALIZED ? -EAGAIN : -ENODEV;
    for (int i = 0; i < count && n < max; i++) {
        CUuuid uuid;
        size_t physical = 0;

        if (cuda->cuDeviceGetUuid(&uuid, i) != CUDA_SUCCESS)
            continue;
        memset(&ret_cards[n], 0, sizeof(ret_cards[n]));
        uuid_text("GPU-", &uuid, ret_cards[n].uuid);
        if (cuda->cuDeviceTotalMem_v2 != NULL &&
            cuda->cuDeviceTotalMem_v2(&physical, i) == CUDA_SUCCESS)
            ret_cards[n].physical_bytes = physical;
        n++;
    }
    return n == 0 ? -ENODEV : (int)n;
}

int gs_device_enumerate(struct gs_hook_card *ret_cards, uint32_t max)
{
    /* Loading NVML in vain searches folders, and a runtime makes hundreds of calls before cuInit.
     */
    static uint32_t no_nvml;
    int n;

    if (__atomic_load_n(&no_nvml, __ATOMIC_RELAXED) != 0 &&
        enumerate_cuda(ret_cards, max) == -EAGAIN)
        return -EAGAIN;
    n = enumerate_nvml(ret_cards, max);
    if (n >= 0)
        return n;
    __atomic_store_n(&no_nvml, 1, __ATOMIC_RELAXED);
    return enumerate_cuda(ret_cards, max);
}
