#include "vendors/nvidia/sim/card.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vendors/nvidia/sim/holders.h"
#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/residency.h"

#define EXPORT_MAGIC UINT64_C(0x54524f505845)

/* What the file behind an exported descriptor says. */
struct export_head {
    uint64_t magic;
    uint64_t nonce;
    struct gs_sim_id id;
    uint64_t payload_bytes;
};

static int has_room(const struct gs_sim_card_state *c, uint64_t bytes)
{
    return c->used_bytes <= c->memory_bytes && bytes <= c->memory_bytes - c->used_bytes;
}

/* The dead are freed before a no, and before they could raise the witness' peak. Lock held. */
static int make_room(const struct gs_sim_take *t, uint64_t bytes)
{
    struct gs_sim_card_state *c = &gs_sim_state->card[t->card];
    if (!has_room(c, bytes)) {
        (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
        if (!has_room(c, bytes) && !gs_residency_make_room(t->card, bytes, GS_SIM_NONE))
            return -ENOSPC;
    }
    struct gs_sim_group_use *u = &gs_sim_state->group[gs_sim_self.group].card[t->card];
    if (u->used_bytes + bytes > u->peak_bytes)
        (void)gs_process_reap(gs_sim_self.group, t->card, 1);
    return 0;
}

static void raise_peak(uint32_t card)
{
    struct gs_sim_card_state *c = &gs_sim_state->card[card];
    struct gs_sim_group_use *u = &gs_sim_state->group[gs_sim_self.group].card[card];
    if (c->used_bytes > c->peak_bytes)
        __atomic_store_n(&c->peak_bytes, c->used_bytes, __ATOMIC_RELAXED);
    if (u->used_bytes > u->peak_bytes)
        __atomic_store_n(&u->peak_bytes, u->used_bytes, __ATOMIC_RELAXED);
}

static int take_locked(const struct gs_sim_take *t, struct gs_sim_id *ret_id)
{
    struct gs_sim_card_state *c = &gs_sim_state->card[t->card];
    uint64_t units = 0, bytes = t->bytes;
    /* Managed memory is as large as the host allows; the span of the card stands for that. */
    if (bytes > (t->kind == GS_SIM_MANAGED ? c->span_units << c->shift : c->memory_bytes))
        return -ENOSPC;
    if (t->placed) {
        units = (bytes + c->granularity - 1) >> c->shift;
        bytes = units << c->shift;
    }
    if (t->kind == GS_SIM_MANAGED)
        bytes = 0; /* nothing lies on the card before it is used */
    int rc = make_room(t, bytes);
    if (rc)
        return rc;
    int64_t index = gs_holders_new();
    if (index < 0)
        return (int)index;
    int64_t first = units ? gs_holders_place(t->card, units) : 0;
    struct gs_sim_object *o = &gs_sim_state->object[index];
    if (first < 0) {
        o->next_free = gs_sim_state->object_free;
        gs_sim_state->object_free = (uint32_t)index;
        return (int)first;
    }
    o->card = t->card;
    o->owner = gs_sim_self.slot;
    o->owner_refs = 1;
    o->holds = 0;
    o->group = gs_sim_self.group;
    o->context = t->context;
    o->exported = 0;
    o->first_unit = (uint64_t)first;
    o->units = units;
    o->bytes = bytes;
    o->size = t->size;
    o->used_seq = 0;
    __atomic_store_n(&o->kind, t->kind, __ATOMIC_RELEASE);
    gs_holders_charge(o);
    raise_peak(t->card);
    *ret_id = (struct gs_sim_id){(uint32_t)index, o->generation};
    return 0;
}

CUresult gs_card_take(const struct gs_sim_take *take, struct gs_sim_id *ret_id)
{
    gs_state_lock();
    int rc = take_locked(take, ret_id);
    gs_state_unlock();
    return rc ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* Object of an identity, or NULL if it is gone. Lock held, or the caller holds a reference. */
static struct gs_sim_object *object_of(struct gs_sim_id id)
{
    if (id.index >= GS_SIM_OBJECTS_MAX)
        return NULL;
    struct gs_sim_object *o = &gs_sim_state->object[id.index];
    return o->kind != GS_SIM_FREE && o->generation == id.generation ? o : NULL;
}

/* A charge that moved to another group counts for that group's peak, less its dead. Lock held. */
static void settle_group(const struct gs_sim_object *o, uint32_t generation, uint32_t group)
{
    if (o->kind == GS_SIM_FREE || o->generation != generation || o->group == group)
        return;
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
    gs_holders_raise_peaks(o->card);
}

void gs_card_drop(struct gs_sim_id id)
{
    struct gs_sim_object *o = object_of(id);
    if (!o)
        return;
    /* Sole owner: the pages go while the place is still ours and nobody waits for the lock. */
    if (o->owner == gs_sim_self.slot && o->owner_refs == 1 && !o->holds && !o->exported)
        gs_holders_punch(o->card, o->first_unit, o->units);
    gs_state_lock();
    if (object_of(id)) {
        uint32_t group = o->group;
        gs_holders_drop(id.index, gs_sim_self.slot, 0);
        settle_group(o, id.generation, group);
    }
    gs_state_unlock();
}

CUresult gs_card_hold(struct gs_sim_id id)
{
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_state_lock();
    struct gs_sim_object *o = object_of(id);
    /* An owner that died may be the only reason the object still exists. */
    if (o && o->owner != GS_SIM_NONE && !gs_process_is_alive(o->owner))
        (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
    o = object_of(id);
    if (o) {
        uint32_t group = o->group;
        rc = gs_holders_add(id.index, gs_sim_self.slot) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        settle_group(o, id.generation, group);
    }
    gs_state_unlock();
    return rc;
}

void gs_card_drop_context(uint32_t context)
{
    struct gs_sim_state *s = gs_sim_state;
    gs_state_lock();
    for (uint32_t i = 0; i < s->object_top; i++) {
        const struct gs_sim_object *o = &s->object[i];
        if (o->kind == GS_SIM_FREE || o->owner != gs_sim_self.slot || o->context != context)
            continue;
        if (!o->holds && !o->exported)
            gs_holders_punch(o->card, o->first_unit, o->units);
        gs_holders_drop(i, gs_sim_self.slot, 1);
    }
    gs_state_unlock();
}

static int write_export(int fd, struct gs_sim_id id, const void *payload, size_t n)
{
    struct export_head head = {EXPORT_MAGIC, gs_sim_state->nonce, id, n};
    if (pwrite(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
        pwrite(fd, payload, n, (off_t)sizeof(head)) != (ssize_t)n)
        return -EIO;
    return flock(fd, LOCK_SH | LOCK_NB) ? -errno : 0;
}

int gs_card_export_fd(struct gs_sim_id id, const void *payload, size_t n)
{
    char name[64], path[PATH_MAX];
    gs_holders_export_name(name, sizeof(name), id.index, id.generation);
    int rc = gs_state_path(path, sizeof(path), name);
    if (rc)
        return rc;
    gs_state_lock();
    struct gs_sim_object *o = object_of(id);
    int fd = o ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    rc = !o ? -ENOENT : fd < 0 ? -errno : write_export(fd, id, payload, n);
    if (!rc && !o->exported) {
        o->exported = 1;
        gs_sim_state->n_exported++;
    }
    gs_state_unlock();
    if (!rc)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

int gs_card_import_fd(int fd, void *ret_payload, size_t n)
{
    struct export_head head;
    if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.magic != EXPORT_MAGIC ||
        head.nonce != gs_sim_state->nonce || head.payload_bytes != n ||
        pread(fd, ret_payload, n, (off_t)sizeof(head)) != (ssize_t)n)
        return -EINVAL;
    return 0;
}

char *gs_card_base(uint32_t card)
{
    static char *bases[GS_SIM_CARDS_MAX];
    char *base = __atomic_load_n(&bases[card], __ATOMIC_ACQUIRE);
    if (base)
        return base;
    int fd = gs_holders_card_fd(card);
    if (fd < 0)
        return NULL;
    const struct gs_sim_card_state *c = &gs_sim_state->card[card];
    size_t n = c->span_units * c->granularity;
    /* Aligned to the granularity: clients look at address bits. */
    size_t room = n + c->granularity;
    char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *at = (char *)gs_sim_align((uint64_t)(uintptr_t)p, c->granularity);
    if (mmap(at, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd, 0) ==
        MAP_FAILED) {
        (void)munmap(p, room);
        return NULL;
    }
    char *none = NULL;
    if (__atomic_compare_exchange_n(&bases[card], &none, at, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return at;
    (void)munmap(p, room);
    return none;
}

int gs_card_fd(uint32_t card)
{
    return gs_holders_card_fd(card);
}

void gs_card_info(uint32_t card, uint64_t *ret_free, uint64_t *ret_total)
{
    struct gs_sim_state *s = gs_sim_state;
    struct gs_sim_card_state *c = &s->card[card];
    if (!gs_sim_self.zero_cost) {
        gs_state_lock();
        (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 0);
        gs_state_unlock();
    }
    uint64_t used = __atomic_load_n(&c->used_bytes, __ATOMIC_RELAXED);
    *ret_total = c->memory_bytes;
    *ret_free = used < c->memory_bytes ? c->memory_bytes - used : 0;
}
