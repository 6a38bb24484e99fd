#include "vendors/nvidia/node/cuda.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/aside.h"
#include "base/err.h"
#include "node/probe.h"

/** A driver that takes longer to start is not waited for. */
#define ASK_MS 30000u

int gs_cuda_open(struct gs_cuda *ret_cuda, struct gs_err *err)
{
    struct gs_cuda cuda = {.handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)};
    const char *missing = NULL;

    if (!cuda.handle)
        return gs_err_set(err, -ENODEV, "libcuda.so.1 cannot be loaded");
        /* ISO C has no cast from an object pointer to a function pointer; POSIX defines this one */
#define FIND(name, params)                                                                         \
    *(void **)(void *)&cuda.name = dlsym(cuda.handle, #name);                                      \
    if (!cuda.name)                                                                                \
        missing = #name;
    GS_CUDA_NEEDED(FIND)
#undef FIND
    if (missing)
        return gs_err_set(err, -ELIBBAD, "libcuda.so.1 has no %s; update the NVIDIA driver",
                          missing);
    *ret_cuda = cuda;
    return 0;
}

/** What the child says of one card. */
struct told_card {
    char uuid[sizeof(((struct gs_card *)0)->uuid)];
    char name[sizeof(((struct gs_card *)0)->name)];
    uint64_t total_bytes;
};

/** And of all. */
struct told {
    int32_t rc;
    uint32_t n_cards;
    char why[GS_ERR_TEXT];
    struct told_card card[GS_PROBE_CARDS];
};

/* As NVML writes it: 8-4-4-4-12 digits. */
static void put_uuid(const CUuuid *uuid, char *text, size_t cap)
{
    int n = snprintf(text, cap, "GPU-");

    for (size_t i = 0; i < sizeof(uuid->bytes); i++)
        n += snprintf(text + n, cap - (size_t)n, "%s%02x",
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      (unsigned char)uuid->bytes[i]);
}

static CUresult tell_card(const struct gs_cuda *cuda, int ordinal, struct told_card *card)
{
    CUuuid uuid = {{0}};
    CUdevice device;
    size_t total = 0;
    CUresult r = cuda->cuDeviceGet(&device, ordinal);

    if (r == CUDA_SUCCESS)
        r = cuda->cuDeviceGetUuid(&uuid, device);
    if (r == CUDA_SUCCESS)
        r = cuda->cuDeviceGetName(card->name, (int)sizeof(card->name), device);
    if (r == CUDA_SUCCESS)
        r = cuda->cuDeviceTotalMem_v2(&total, device);
    put_uuid(&uuid, card->uuid, sizeof(card->uuid));
    card->total_bytes = total;
    return r;
}

static int tell_cards(struct told *told, struct gs_err *err)
{
    struct gs_cuda cuda = {0};
    CUresult r;
    int n = 0, rc = gs_cuda_open(&cuda, err);

    if (rc != 0 || !cuda.cuInit || !cuda.cuDeviceGetCount)
        return rc;
    r = cuda.cuInit(0);
    if (r == CUDA_SUCCESS)
        r = cuda.cuDeviceGetCount(&n);
    if (r == CUDA_ERROR_NO_DEVICE || (r == CUDA_SUCCESS && n <= 0))
        return gs_err_set(err, -ENXIO, "libcuda.so.1 finds no card");
    if (n > GS_PROBE_CARDS)
        return gs_err_set(err, -E2BIG, "more than %d cards", GS_PROBE_CARDS);
    for (int i = 0; i < n && r == CUDA_SUCCESS; i++)
        r = tell_card(&cuda, i, &told->card[told->n_cards++]);
    return r == CUDA_SUCCESS
               ? 0
               : gs_err_set(err, -EIO, "libcuda.so.1 does not tell its cards (CUDA error %d)",
                            (int)r);
}

/* In the child. */
static void tell(const void *arg, int out_fd)
{
    static struct told told;
    struct gs_err err = {0};

    (void)arg;
    (void)unsetenv("CUDA_VISIBLE_DEVICES"); /* cannot fail: a valid name */
    told.rc = setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1) == 0 ? tell_cards(&told, &err) : -ENOMEM;
    (void)snprintf(told.why, sizeof(told.why), "%s", err.text);
    if (write(out_fd, &told, sizeof(told)) != (ssize_t)sizeof(told)) /* a pipe holds more */
        _exit(1);
}

static int ask(struct told *ret, struct gs_err *err)
{
    int n = gs_aside_ask(tell, NULL, ASK_MS, ret, sizeof(*ret), err);

    if (n < 0)
        return gs_err_wrap(err, n, "libcuda.so.1");
    if (n != (int)sizeof(*ret) || ret->n_cards > GS_PROBE_CARDS)
        return gs_err_set(err, -EIO, "libcuda.so.1 ends the process that asks it");
    return ret->rc == 0 ? 0 : gs_err_set(err, ret->rc, "%s", ret->why);
}

int gs_cuda_add_cards(const struct gs_probe_vendor *vendor, struct gs_probe *probe,
                      struct gs_err *err)
{
    static struct told told;
    int rc = told.n_cards > 0 ? 0 : ask(&told, err);

    if (rc != 0) {
        told.n_cards = 0;
        return rc;
    }
    if (told.n_cards > GS_PROBE_CARDS - probe->n_cards)
        return gs_err_set(err, -E2BIG, "more than %d cards", GS_PROBE_CARDS);
    for (uint32_t i = 0; i < told.n_cards; i++) {
        struct gs_card *card = &probe->card[probe->n_cards++];

        *card = (struct gs_card){.vendor = vendor,
                                 .index = i,
                                 .total_bytes = told.card[i].total_bytes,
                                 .used_bytes = GS_PROBE_UNKNOWN,
                                 .util_pct = GS_PROBE_UNKNOWN};
        memcpy(card->uuid, told.card[i].uuid, sizeof(card->uuid));
        memcpy(card->name, told.card[i].name, sizeof(card->name));
        card->uuid[sizeof(card->uuid) - 1] = card->name[sizeof(card->name) - 1] = '\0';
    }
    return 0;
}
