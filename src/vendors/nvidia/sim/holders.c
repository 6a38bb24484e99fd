#include "vendors/nvidia/sim/holders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "vendors/nvidia/sim/process.h"

int gs_holders_card_fd(uint32_t card)
{
    static int fds[GS_SIM_CARDS_MAX]; /* 0 = not yet; else descriptor + 1 */
    int known = __atomic_load_n(&fds[card], __ATOMIC_ACQUIRE);
    if (known)
        return known - 1;
    char name[32], path[PATH_MAX];
    (void)snprintf(name, sizeof(name), "memory.%u", card);
    int rc = gs_state_path(path, sizeof(path), name);
    if (rc)
        return rc;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    const struct gs_sim_card_state *c = &gs_sim_state->card[card];
    if (ftruncate(fd, (off_t)(c->span_units * c->granularity))) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    int none = 0;
    if (__atomic_compare_exchange_n(&fds[card], &none, fd + 1, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return fd;
    (void)close(fd);
    return none - 1;
}

void gs_holders_punch(uint32_t card, uint64_t first, uint64_t units)
{
    if (gs_sim_state->zero_cost || !units)
        return;
    int fd = gs_holders_card_fd(card);
    uint64_t g = gs_sim_state->card[card].granularity;
    if (fd >= 0) /* a failure costs only pages of this machine */
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(first * g),
                        (off_t)(units * g));
}

int64_t gs_holders_new(void)
{
    struct gs_sim_state *s = gs_sim_state;
    uint32_t i = s->object_free;
    if (i != GS_SIM_NONE)
        s->object_free = s->object[i].next_free;
    else if (s->object_top < GS_SIM_OBJECTS_MAX)
        i = s->object_top++;
    else
        return -ENOSPC;
    s->object[i].generation++;
    return i;
}

/* First granule at or after `from` that is free (want = 0) or in use (want = ~0). */
static uint64_t next_bit(const uint64_t *bits, uint64_t from, uint64_t n, uint64_t want)
{
    while (from < n) {
        uint64_t word = (bits[from / 64] ^ ~want) >> (from % 64);
        if (word)
            return from + (uint64_t)__builtin_ctzll(word);
        from = (from / 64 + 1) * 64;
    }
    return n;
}

static void write_bits(uint64_t *bits, uint64_t first, uint64_t n, int set)
{
    while (n) {
        uint64_t shift = first % 64;
        uint64_t k = 64 - shift < n ? 64 - shift : n;
        uint64_t mask = (k == 64 ? ~UINT64_C(0) : (UINT64_C(1) << k) - 1) << shift;
        if (set)
            bits[first / 64] |= mask;
        else
            bits[first / 64] &= ~mask;
        first += k;
        n -= k;
    }
}

int64_t gs_holders_place(uint32_t card, uint64_t units)
{
    struct gs_sim_card_state *c = &gs_sim_state->card[card];
    uint64_t *bits = gs_state_bitmap(card);
    uint64_t at = next_bit(bits, c->first_free, c->span_units, 0);
    c->first_free = at;
    while (at + units <= c->span_units) {
        /* Long requests are looked at word by word from their first used granule on. */
        uint64_t end = units == 1 ? at + 1 : next_bit(bits, at, at + units, ~UINT64_C(0));
        if (end >= at + units) {
            write_bits(bits, at, units, 1);
            if (at == c->first_free)
                c->first_free = at + units;
            return (int64_t)at;
        }
        at = next_bit(bits, end, c->span_units, 0);
    }
    return -ENOSPC;
}

static void unplace(uint32_t card, uint64_t first, uint64_t units)
{
    struct gs_sim_card_state *c = &gs_sim_state->card[card];
    write_bits(gs_state_bitmap(card), first, units, 0);
    if (units && first < c->first_free)
        c->first_free = first;
}

/* Readers of used_bytes (memory information, NVML) do not take the lock. */
static void add(uint64_t *sum, uint64_t bytes)
{
    __atomic_store_n(sum, *sum + bytes, __ATOMIC_RELAXED);
}

void gs_holders_charge(const struct gs_sim_object *o)
{
    struct gs_sim_state *s = gs_sim_state;
    add(&s->card[o->card].used_bytes, o->bytes);
    add(&s->group[o->group].card[o->card].used_bytes, o->bytes);
    if (o->owner != GS_SIM_NONE)
        add(&s->proc[o->owner].used_bytes[o->card], o->bytes);
}

static void uncharge(const struct gs_sim_object *o)
{
    struct gs_sim_state *s = gs_sim_state;
    add(&s->card[o->card].used_bytes, -o->bytes);
    add(&s->group[o->group].card[o->card].used_bytes, -o->bytes);
    if (o->owner != GS_SIM_NONE)
        add(&s->proc[o->owner].used_bytes[o->card], -o->bytes);
}

void gs_holders_resize(uint32_t index, uint64_t bytes)
{
    struct gs_sim_state *s = gs_sim_state;
    struct gs_sim_object *o = &s->object[index];
    uint64_t more = bytes - o->bytes; /* modulo 2^64 where it is less */
    o->bytes = bytes;
    add(&s->card[o->card].used_bytes, more);
    add(&s->group[o->group].card[o->card].used_bytes, more);
    if (o->owner != GS_SIM_NONE)
        add(&s->proc[o->owner].used_bytes[o->card], more);
}

void gs_holders_raise_peaks(uint32_t card)
{
    struct gs_sim_state *s = gs_sim_state;
    struct gs_sim_card_state *c = &s->card[card];
    if (c->used_bytes > c->peak_bytes)
        __atomic_store_n(&c->peak_bytes, c->used_bytes, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < s->n_groups; i++) {
        struct gs_sim_group_use *u = &s->group[i].card[card];
        if (u->used_bytes > u->peak_bytes)
            __atomic_store_n(&u->peak_bytes, u->used_bytes, __ATOMIC_RELAXED);
    }
}

void gs_holders_export_name(char *buf, size_t n, uint32_t index, uint32_t generation)
{
    (void)snprintf(buf, n, "export.%u.%u", index, generation);
}

static void destroy(uint32_t index)
{
    struct gs_sim_state *s = gs_sim_state;
    struct gs_sim_object *o = &s->object[index];
    uncharge(o);
    __atomic_store_n(&o->kind, GS_SIM_FREE, __ATOMIC_RELEASE);
    if (o->units)
        unplace(o->card, o->first_unit, o->units);
    o->next_free = s->object_free;
    s->object_free = index;
}

static struct gs_sim_hold *find_hold(uint32_t index, uint32_t slot)
{
    struct gs_sim_state *s = gs_sim_state;
    if (!s->object[index].holds)
        return NULL;
    for (uint32_t i = 0; i < s->hold_top; i++) {
        struct gs_sim_hold *h = &s->hold[i];
        if (h->process != GS_SIM_NONE && h->object == index &&
            h->generation == s->object[index].generation &&
            (slot == GS_SIM_NONE || h->process == slot))
            return h;
    }
    return NULL;
}

/* The owner left: the charge goes to a process that still holds the memory. The entry of the heir
 * goes last; repair takes an entry whose process owns the object for this step half done. */
static void inherit(uint32_t index)
{
    struct gs_sim_object *o = &gs_sim_state->object[index];
    struct gs_sim_hold *h = find_hold(index, GS_SIM_NONE);
    uncharge(o);
    o->owner = GS_SIM_NONE;
    o->owner_refs = 0;
    if (h) {
        o->owner_refs = h->refs;
        o->group = gs_sim_state->proc[h->process].group;
        o->owner = h->process;
        o->context = 0;
        h->process = GS_SIM_NONE;
        o->holds--;
    }
    gs_holders_charge(o);
}

void gs_holders_drop(uint32_t index, uint32_t slot, int all)
{
    struct gs_sim_object *o = &gs_sim_state->object[index];
    if (o->owner == slot) {
        o->owner_refs = all || !o->owner_refs ? 0 : o->owner_refs - 1;
        if (o->owner_refs)
            return;
        if (o->holds || o->exported) {
            inherit(index);
        } else {
            destroy(index);
            return;
        }
    } else {
        struct gs_sim_hold *h = find_hold(index, slot);
        if (!h)
            return;
        h->refs = all ? 0 : h->refs - 1;
        if (h->refs)
            return;
        h->process = GS_SIM_NONE;
        o->holds--;
    }
    if (o->owner == GS_SIM_NONE && !o->holds && !o->exported) {
        gs_holders_punch(o->card, o->first_unit, o->units);
        destroy(index);
    }
}

int gs_holders_add(uint32_t index, uint32_t slot)
{
    struct gs_sim_state *s = gs_sim_state;
    struct gs_sim_object *o = &s->object[index];
    if (o->owner == slot) {
        o->owner_refs++;
        return 0;
    }
    if (o->owner == GS_SIM_NONE) { /* only a descriptor kept it: the importer is charged */
        uncharge(o);
        o->owner = slot;
        o->owner_refs = 1;
        o->group = s->proc[slot].group;
        gs_holders_charge(o);
        return 0;
    }
    struct gs_sim_hold *h = find_hold(index, slot);
    if (h) {
        h->refs++;
        return 0;
    }
    uint32_t i = 0;
    while (i < s->hold_top && s->hold[i].process != GS_SIM_NONE)
        i++;
    if (i == GS_SIM_HOLDS_MAX)
        return -ENOSPC;
    h = &s->hold[i];
    *h = (struct gs_sim_hold){GS_SIM_NONE, index, o->generation, 1};
    if (i == s->hold_top)
        s->hold_top++;
    __atomic_store_n(&h->process, slot, __ATOMIC_RELEASE);
    o->holds++;
    return 0;
}

void gs_holders_forget(uint32_t slot)
{
    struct gs_sim_state *s = gs_sim_state;
    for (uint32_t i = 0; i < s->hold_top; i++)
        if (s->hold[i].process == slot)
            gs_holders_drop(s->hold[i].object, slot, 1);
    for (uint32_t i = 0; i < s->object_top; i++) {
        struct gs_sim_object *o = &s->object[i];
        if (o->kind == GS_SIM_FREE || o->owner != slot)
            continue;
        if (!o->holds && !o->exported)
            gs_holders_punch(o->card, o->first_unit, o->units);
        gs_holders_drop(i, slot, 1);
    }
}

/* Every copy of the descriptor shares one open file with a lock on it; nobody else opens it. */
static int is_open_somewhere(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int taken = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    (void)close(fd);
    return taken;
}

void gs_holders_sweep(void)
{
    struct gs_sim_state *s = gs_sim_state;
    char name[64], path[PATH_MAX];
    for (uint32_t i = 0; i < s->object_top && s->n_exported; i++) {
        struct gs_sim_object *o = &s->object[i];
        if (o->kind == GS_SIM_FREE || !o->exported)
            continue;
        gs_holders_export_name(name, sizeof(name), i, o->generation);
        if (gs_state_path(path, sizeof(path), name) || is_open_somewhere(path))
            continue;
        (void)unlink(path);
        o->exported = 0;
        s->n_exported--;
        if (o->owner == GS_SIM_NONE && !o->holds) {
            gs_holders_punch(o->card, o->first_unit, o->units);
            destroy(i);
        }
    }
}
