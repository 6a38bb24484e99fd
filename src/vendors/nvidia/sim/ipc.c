/* Memory handles of cuIpc*: the importer maps the same place of the card, and keeps it alive. */

#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/import.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/process.h"

#define IPC_MAGIC        UINT32_C(0x49504348)
#define LAZY_PEER_ACCESS 1U

/* The 64 bytes of a CUipcMemHandle. The same allocation always gives the same handle. */
struct handle {
    uint32_t magic;
    uint32_t card;
    uint64_t nonce;
    struct gs_sim_id id;
    uint64_t offset; /* of the allocation in the object */
    uint64_t size;
    uint64_t serial;
    uint32_t slot; /* exporting process */
    uint32_t pid;
    uint64_t zero;
};
_Static_assert(sizeof(struct handle) == sizeof(CUipcMemHandle), "one fits in the other");

/* Objects this process opened. Guard: gs_sim_self.lock. */
struct gs_sim_import {
    struct gs_sim_import *next;
    struct gs_sim_id id;
    uint32_t range;
    uint32_t refs;
};
static struct gs_sim_import *imports;

static struct gs_sim_import *find(struct gs_sim_id id)
{
    struct gs_sim_import *i = imports;
    while (i && (i->id.index != id.index || i->id.generation != id.generation))
        i = i->next;
    return i;
}

/* Enter the whole object into the address table of this process. Process lock held. */
static CUresult enter(struct gs_sim_id id, struct gs_sim_ctx *ctx, CUdevice device)
{
    struct gs_sim_import *i = calloc(1, sizeof(*i));
    if (!i)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = gs_card_hold(id);
    if (rc) {
        free(i);
        return rc;
    }
    const struct gs_sim_object *o = &gs_sim_state->object[id.index];
    struct gs_sim_range range = {.start = gs_memory_address(o->card, o->first_unit),
                                 .size = o->bytes,
                                 .length = o->bytes,
                                 .kind = GS_SIM_RANGE_IMPORT,
                                 .card = o->card,
                                 .device = device,
                                 .ctx = ctx,
                                 .id = id,
                                 .buffer_id = gs_memory_serial()};
    i->id = id;
    /* The exporter itself has it in its table already. */
    int own = range.start && gs_memory_at(range.start, NULL);
    if (range.start && !own)
        i->range = gs_memory_add(&range, o->first_unit, o->units);
    if (!i->range && !own) {
        gs_card_drop(id);
        free(i);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    i->next = imports;
    imports = i;
    return CUDA_SUCCESS;
}

CUresult gs_import_open(struct gs_sim_id id, struct gs_sim_ctx *ctx, CUdevice device,
                        uint64_t offset, CUdeviceptr *ret_ptr)
{
    CUresult rc = CUDA_SUCCESS;
    gs_process_lock();
    struct gs_sim_import *i = find(id);
    if (!i) {
        rc = enter(id, ctx, device);
        i = find(id);
    }
    if (!rc) {
        const struct gs_sim_object *o = &gs_sim_state->object[id.index];
        i->refs++;
        *ret_ptr = gs_memory_address(o->card, o->first_unit) + offset;
    }
    gs_process_unlock();
    return rc;
}

CUresult gs_import_close(CUdeviceptr ptr)
{
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    struct gs_sim_id id = {GS_SIM_NONE, 0};
    gs_process_lock();
    const struct gs_sim_range *r = gs_memory_at(ptr, NULL);
    struct gs_sim_import *i = r ? find(r->id) : NULL;
    if (i) {
        rc = CUDA_SUCCESS;
        if (!--i->refs) {
            struct gs_sim_import **at = &imports;
            while (*at != i)
                at = &(*at)->next;
            *at = i->next;
            if (i->range)
                gs_memory_remove(i->range);
            id = i->id;
            free(i);
        }
    }
    gs_process_unlock();
    if (id.index != GS_SIM_NONE)
        gs_card_drop(id);
    return rc;
}

void gs_import_forget(struct gs_sim_ctx *ctx)
{
    for (struct gs_sim_import **at = &imports; *at;) {
        struct gs_sim_import *i = *at;
        if (!i->range || gs_memory_entry(i->range)->ctx != ctx) {
            at = &i->next;
            continue;
        }
        *at = i->next;
        gs_memory_remove(i->range);
        gs_card_drop(i->id);
        free(i);
    }
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_sim_range r;
    if (!pHandle || gs_memory_find(dptr, &r) || r.kind != GS_SIM_RANGE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    const struct gs_sim_object *o = &gs_sim_state->object[r.id.index];
    struct handle h = {.magic = IPC_MAGIC,
                       .card = r.card,
                       .nonce = gs_sim_state->nonce,
                       .id = r.id,
                       .offset = r.start - gs_memory_address(r.card, o->first_unit),
                       .size = r.size,
                       .serial = r.buffer_id,
                       .slot = gs_sim_self.slot,
                       .pid = gs_sim_self.joined};
    memcpy(pHandle, &h, sizeof(h));
    return CUDA_SUCCESS;
}

static CUresult open_handle(CUdeviceptr *pdptr, const CUipcMemHandle *handle, unsigned int flags)
{
    GS_SIM_ENTER_CTX(ctx);
    struct handle h;
    memcpy(&h, handle, sizeof(h));
    if (!pdptr || flags != LAZY_PEER_ACCESS || h.magic != IPC_MAGIC ||
        h.nonce != gs_sim_state->nonce)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.slot == gs_sim_self.slot && h.pid == gs_sim_self.joined)
        return CUDA_ERROR_INVALID_CONTEXT; /* an exporter cannot open its own handle */
    CUdevice device = -1;
    for (int d = 0; d < gs_process_device_count(); d++)
        if (gs_process_device_card(d) == h.card)
            device = d;
    if (device < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    return gs_import_open(h.id, ctx, device, h.offset, pdptr);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    GS_SIM_ENTRY;
    return open_handle(pdptr, &handle, Flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    GS_SIM_ENTRY;
    return open_handle(pdptr, &handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    GS_SIM_ENTER_CTX(ctx);
    return gs_import_close(dptr);
}
