#include "node/shares.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A message of 4 MiB holds more, but no machine has so many. */
#define SHARES_MAX 65536u

struct gs_str gs_shares_uuid(struct gs_str id)
{
    const char *colons = memmem(id.p, id.n, "::", 2);
    size_t dashes = 0, end = id.n;

    if (colons != NULL)
        return (struct gs_str){id.p, (size_t)(colons - id.p)};
    for (size_t i = 0; i < id.n; i++)
        dashes += id.p[i] == '-';
    while (end > 0 && id.p[end - 1] >= '0' && id.p[end - 1] <= '9')
        end--;
    if (dashes != 6 || end == id.n || end == 0 || id.p[end - 1] != '-')
        return id;
    return (struct gs_str){id.p, end - 1};
}

int gs_shares_list(const struct gs_shares_card *card, size_t n, struct gs_arena *arena,
                   struct gs_kubelet_device **ret, size_t *ret_n)
{
    struct gs_kubelet_device *device;
    int64_t *numa = GS_ARENA_ARRAY(arena, n, int64_t);
    size_t total = 0, at = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t count = card[i].count > 0 ? card[i].count : 1;

        if (count > SHARES_MAX - total)
            return -E2BIG;
        total += count;
    }
    device = GS_ARENA_ARRAY(arena, total, struct gs_kubelet_device);
    if (device == NULL || numa == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct gs_shares_card *c = &card[i];
        uint32_t count = c->count > 0 ? c->count : 1;

        numa[i] = c->numa;
        for (uint32_t s = 0; s < count; s++)
            device[at++] = (struct gs_kubelet_device){
                .id = c->count > 0 ? gs_arena_printf(arena, "%s-%u", c->uuid, s).p
                                   : gs_arena_str(arena, gs_str_of(c->uuid)).p,
                .healthy = c->is_healthy,
                .numa = &numa[i],
                .n_numa = c->numa >= 0,
            };
    }
    *ret = device;
    *ret_n = total;
    return gs_arena_check(arena);
}

/* ---- choosing ---- */

struct choice {
    const struct gs_kubelet_prefer *want;
    const struct gs_str *uuid;
    size_t n;
    bool *is_met;  /* [n]: an id stands for this UUID */
    bool *is_gone; /* [available.n] */
    const char **id;
    size_t n_ids;
};

static bool is_one_of(const struct gs_kubelet_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->n; i++)
        if (strcmp(texts->p[i], text) == 0)
            return true;
    return false;
}

static void take_must(struct choice *c)
{
    for (size_t i = 0; i < c->want->must.n; i++) {
        struct gs_str uuid = gs_shares_uuid(gs_str_of(c->want->must.p[i]));

        c->id[c->n_ids++] = c->want->must.p[i];
        for (size_t k = 0; k < c->n; k++) {
            if (!c->is_met[k] && gs_str_eq(c->uuid[k], uuid)) {
                c->is_met[k] = true;
                break;
            }
        }
    }
}

/* The first share of that card that nobody has. */
static bool take_share(struct choice *c, struct gs_str uuid)
{
    const struct gs_kubelet_texts *available = &c->want->available;

    for (size_t i = 0; i < available->n; i++) {
        if (c->is_gone[i] || !gs_str_eq(gs_shares_uuid(gs_str_of(available->p[i])), uuid) ||
            is_one_of(&c->want->must, available->p[i]))
            continue;
        c->is_gone[i] = true;
        c->id[c->n_ids++] = available->p[i];
        return true;
    }
    return false;
}

int gs_shares_prefer(const struct gs_kubelet_prefer *want, const struct gs_str *uuid, size_t n,
                     struct gs_arena *arena, struct gs_kubelet_texts *ret)
{
    size_t size = want->size > 0 ? (size_t)want->size : 0;
    struct choice c = {.want = want, .uuid = uuid, .n = n};

    if (size == 0 || n < size || size > want->available.n || want->must.n > size)
        return -ENODATA;
    c.is_met = GS_ARENA_ARRAY(arena, n, bool);
    c.is_gone = GS_ARENA_ARRAY(arena, want->available.n, bool);
    c.id = GS_ARENA_ARRAY(arena, size, const char *);
    if (c.is_met == NULL || c.is_gone == NULL || c.id == NULL)
        return -ENOMEM;
    take_must(&c);
    for (size_t k = 0; k < n && c.n_ids < size; k++)
        if (!c.is_met[k] && !take_share(&c, uuid[k]))
            return -ENODATA;
    if (c.n_ids != size)
        return -ENODATA;
    *ret = (struct gs_kubelet_texts){c.id, size};
    return 0;
}
