#include "vendors/nvidia/sim/event_share.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/stream_object.h"

#define MAGIC        UINT64_C(0x4753494345564e54)
#define INTERPROCESS 4u
#define DISABLE_TIME 2u

/* What travels. The nonce tells cards apart. */
struct handle {
    uint64_t magic;
    uint64_t nonce;
    uint32_t slot;
    uint32_t serial;
};

static int path_of(char *path, size_t n, uint32_t slot, uint32_t serial)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "event.%u.%u", slot, serial);
    return gs_state_path(path, n, name);
}

static struct gs_event_shared *map(const char *path, int flags)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return NULL;
    struct gs_event_shared *s = MAP_FAILED;
    if (!(flags & O_CREAT) || !ftruncate(fd, sizeof(*s)))
        s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return s == MAP_FAILED ? NULL : s;
}

void gs_event_share_close(struct gs_event_shared *s, uint32_t serial)
{
    char path[PATH_MAX];
    if (!s)
        return;
    if (serial && !path_of(path, sizeof(path), gs_sim_self.slot, serial))
        (void)unlink(path);
    (void)munmap(s, sizeof(*s));
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    GS_SIM_ENTER_READY();
    static uint32_t next = 1;
    char path[PATH_MAX];
    struct gs_event *e = (struct gs_event *)event;
    if (!gs_object_is(e, GS_OBJECT_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pHandle || !(e->flags & INTERPROCESS))
        return CUDA_ERROR_INVALID_VALUE;
    if (!e->shared) {
        uint32_t serial = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
        if (path_of(path, sizeof(path), gs_sim_self.slot, serial))
            return CUDA_ERROR_OPERATING_SYSTEM;
        (void)unlink(path); /* of an earlier process with this slot */
        struct gs_event_shared *s = map(path, O_CREAT | O_EXCL);
        if (!s)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *s = (struct gs_event_shared){.magic = MAGIC, .tag = e->tag, .card = e->card};
        s->slot = gs_sim_self.slot;
        s->generation = gs_state_clock(e->card)->proc[gs_sim_self.slot].generation;
        s->recorded = e->recorded;
        e->serial = serial;
        e->shared = s;
    }
    struct handle h = {.magic = MAGIC,
                       .nonce = gs_sim_state->nonce,
                       .slot = gs_sim_self.slot,
                       .serial = e->serial};
    memset(pHandle, 0, sizeof(*pHandle));
    memcpy(pHandle->reserved, &h, sizeof(h));
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    GS_SIM_ENTER_CTX(ctx);
    char path[PATH_MAX];
    struct handle h;
    memcpy(&h, handle.reserved, sizeof(h));
    if (!phEvent || h.magic != MAGIC || h.nonce != gs_sim_state->nonce)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.slot == gs_sim_self.slot)
        return CUDA_ERROR_INVALID_CONTEXT; /* documented: not in the process that made it */
    struct gs_event_shared *s = path_of(path, sizeof(path), h.slot, h.serial) ? NULL : map(path, 0);
    if (!s || s->magic != MAGIC || s->card >= gs_sim_state->n_cards) {
        gs_event_share_close(s, 0);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct gs_event *e = gs_object_new(GS_OBJECT_EVENT, sizeof(*e));
    if (!e) {
        gs_event_share_close(s, 0);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->ctx = ctx;
    e->card = s->card;
    e->flags = INTERPROCESS | DISABLE_TIME;
    e->shared = s;
    *phEvent = (CUevent)e;
    return CUDA_SUCCESS;
}
