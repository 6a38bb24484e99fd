#include "vendors/nvidia/node/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "core/str.h"
#include "model/json.h"
#include "model/register.h"
#include "vendors/nvidia/node/probe.h"

#define MIB 20

/* --- annotations --- */

static int32_t scaled(double value, double factor)
{
    double product = value * factor;

    return product < (double)INT32_MAX ? (int32_t)product : INT32_MAX;
}

/* Of a card, in MiB as registered; 0: nobody knows. */
static int32_t memory_of(const struct gs_inventory_card *card, const struct gs_nvidia_settings *set)
{
    uint64_t mib = card->memory != 0 ? card->memory >> MIB : (uint64_t)set->preset_mem_mib;
    int32_t mem_mib = scaled((double)mib, set->mem_scaling);

    return mem_mib == 0 && mib > 0 ? 1 : mem_mib;
}

static bool is_whole(const struct gs_inventory_card *card, const struct gs_nvidia_settings *set)
{
    return !card->is_split || set->strategy == GS_NVIDIA_MIG_NONE;
}

static bool is_dropped(const struct gs_inventory_card *card, const struct gs_nvidia_settings *set)
{
    const struct gs_inventory_filter filter = {set->drop_uuid, set->n_drop_uuids, set->drop_index,
                                               set->n_drop_indexes};

    return gs_inventory_is_dropped(card, &filter);
}

#define TYPE_MAX 112

static bool make_device(const struct gs_publish_from *from, const struct gs_nvidia_settings *set,
                        size_t at, char type[TYPE_MAX], struct gs_device *ret)
{
    const struct gs_inventory_card *card = &from->inv->card[at];
    int32_t mem_mib = memory_of(card, set);

    if (!is_whole(card, set) || is_dropped(card, set))
        return false;
    if (mem_mib == 0) {
        gs_inventory_say(from->tell,
                         "%s: nobody knows its memory: left out; preConfiguredDeviceMemory (MiB) "
                         "says it",
                         card->uuid);
        return false;
    }
    (void)snprintf(type, TYPE_MAX, "%s%s", strncmp(card->name, "NVIDIA", 6) == 0 ? "" : "NVIDIA-",
                   card->name);
    *ret = (struct gs_device){
        .id = gs_str_of(card->uuid),
        .type = gs_str_of(type),
        .mode = set->mode,
        .index = card->index,
        .count = set->split_count,
        .mem_mib = mem_mib,
        .cores = scaled(100, set->core_scaling),
        .numa = card->numa,
        .is_healthy = from->health == NULL || gs_health_why(from->health, at, -1) == GS_SICK_NOT,
    };
    return true;
}

int gs_nvidia_register(const struct gs_publish_from *from,
                       const struct gs_nvidia_settings *settings, struct gs_buf *ret)
{
    char type[GS_INVENTORY_CARDS][TYPE_MAX];
    struct gs_device dev[GS_INVENTORY_CARDS];
    size_t n = 0;

    for (size_t i = 0; i < from->inv->n; i++)
        n += make_device(from, settings, i, type[n], &dev[n]);
    if (from->as_text)
        gs_register_write_text(dev, n, ret);
    else
        gs_register_write_json(dev, n, NULL, ret);
    return gs_buf_check(ret) == 0 ? (int)n : -ENOMEM;
}

static int32_t score_of(const struct gs_publish_from *from, size_t a, size_t b)
{
    const struct gs_inventory *inv = from->inv;
    const struct gs_link *link = inv->link;
    bool is_odd;
    int32_t score;

    if (link == NULL)
        return 0;
    score = gs_inventory_score(link[a * inv->n + b], link[b * inv->n + a], &is_odd);
    if (is_odd && a < b)
        gs_inventory_say(from->tell,
                         "%s and %s disagree on the links between them (%u and %u): they count as "
                         "far apart",
                         inv->card[a].uuid, inv->card[b].uuid, link[a * inv->n + b].n_lanes,
                         link[b * inv->n + a].n_lanes);
    return score;
}

void gs_nvidia_scores(const struct gs_publish_from *from, const struct gs_nvidia_settings *settings,
                      struct gs_buf *ret)
{
    const struct gs_inventory *inv = from->inv;
    const char *comma = "", *inner;

    gs_buf_adds(ret, "[");
    for (size_t i = 0; i < inv->n; i++) {
        if (is_dropped(&inv->card[i], settings))
            continue;
        gs_buf_addf(ret, "%s{\"uuid\":", comma);
        gs_json_put_str(ret, gs_str_of(inv->card[i].uuid));
        gs_buf_adds(ret, ",\"score\":{");
        inner = "";
        for (size_t k = 0; k < inv->n; k++) {
            if (k == i || is_dropped(&inv->card[k], settings))
                continue;
            gs_buf_adds(ret, inner);
            gs_json_put_str(ret, gs_str_of(inv->card[k].uuid));
            gs_buf_addf(ret, ":%d", score_of(from, i, k));
            inner = ",";
        }
        gs_buf_adds(ret, "}}");
        comma = ",";
    }
    gs_buf_adds(ret, "]");
}

/* --- names for the kubelet --- */

/* "nvidia.com/gpu" and "1g.10gb+me" make "nvidia.com/mig-1g.10gb.me". */
static void name_profile(struct gs_str resource, const char *profile, char *ret, size_t n)
{
    struct gs_str rest = resource, domain;

    (void)gs_str_cut(&rest, '/', &domain);
    (void)snprintf(ret, n, "%.*s/mig-%s", (int)domain.n, domain.p, profile);
    for (char *c = ret; *c != '\0'; c++)
        if (*c == '+')
            *c = '.';
}

/* `single` wants one kind of thing under one name. */
static int check_single(const struct gs_inventory *inv, const struct gs_nvidia_settings *set,
                        struct gs_err *err)
{
    const struct gs_part *first = NULL;
    const struct gs_inventory_card *whole = NULL, *split = NULL;

    for (size_t i = 0; i < inv->n; i++) {
        const struct gs_inventory_card *card = &inv->card[i];

        if (is_dropped(card, set))
            continue;
        if (card->is_split)
            split = card;
        else
            whole = card;
        if (card->is_split && card->n_parts == 0)
            return gs_err_set(err, -EINVAL, "MIG strategy single: %s has no MIG device",
                              card->uuid);
        for (size_t k = 0; k < card->n_parts; k++) {
            if (first == NULL)
                first = &card->part[k];
            if (strcmp(first->profile, card->part[k].profile) != 0)
                return gs_err_set(err, -EINVAL, "MIG strategy single: %s is %s, but %s is %s",
                                  first->uuid, first->profile, card->part[k].uuid,
                                  card->part[k].profile);
        }
    }
    if (whole != NULL && split != NULL)
        return gs_err_set(err, -EINVAL, "MIG strategy single: %s is in MIG mode, but %s is not",
                          split->uuid, whole->uuid);
    return 0;
}

static void offer(struct gs_offer *ret, int *n, const struct gs_nvidia_settings *set, size_t card,
                  int part)
{
    struct gs_offer *at = &ret[(*n)++];

    *at =
        (struct gs_offer){.card = card, .part = part, .n_shares = part < 0 ? set->split_count : 1};
    (void)snprintf(at->resource, sizeof(at->resource), "%.*s", (int)set->resource.n,
                   set->resource.p);
}

int gs_nvidia_offers(const struct gs_publish_from *from, const struct gs_nvidia_settings *settings,
                     struct gs_offer *ret, struct gs_err *err)
{
    const struct gs_nvidia_settings *set = settings;
    int n = 0, rc = set->strategy == GS_NVIDIA_MIG_SINGLE ? check_single(from->inv, set, err) : 0;

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < from->inv->n; i++) {
        const struct gs_inventory_card *card = &from->inv->card[i];

        if (is_dropped(card, set))
            continue;
        if (is_whole(card, set)) {
            offer(ret, &n, set, i, -1);
            continue;
        }
        for (size_t k = 0; k < card->n_parts; k++) {
            offer(ret, &n, set, i, (int)k);
            if (set->strategy == GS_NVIDIA_MIG_MIXED)
                name_profile(set->resource, card->part[k].profile, ret[n - 1].resource,
                             sizeof(ret[0].resource));
        }
    }
    return n;
}

/* --- the row --- */

static void tell_settings(void *user, const char *text)
{
    gs_inventory_say(user, "%s", text);
}

static int fill(const struct gs_publish_from *from, const struct gs_nvidia_settings *set,
                struct gs_published *ret, struct gs_err *err)
{
    int n;

    ret->offer = calloc(GS_OFFERS, sizeof(ret->offer[0]));
    if (ret->offer == NULL)
        return -ENOMEM;
    n = gs_nvidia_offers(from, set, ret->offer, err);
    if (n < 0)
        return n;
    ret->n_offers = (size_t)n;
    n = gs_nvidia_register(from, set, &ret->registered);
    if (n < 0)
        return n;
    ret->n_registered = (size_t)n;
    gs_nvidia_scores(from, set, &ret->scores);
    return gs_buf_check(&ret->scores);
}

static int publish(const struct gs_publish_from *from, struct gs_published *ret, struct gs_err *err)
{
    GS_CLEANUP(gs_arena_fini) struct gs_arena arena = {0};
    const struct gs_nvidia_settings_from files = {
        .device_config = from->device_config,
        .node_config = from->node_config,
        .node = from->node,
        .tell = from->tell != NULL ? tell_settings : NULL,
        .user = (void *)(uintptr_t)from->tell, /* given back as it is */
    };
    struct gs_nvidia_settings set;
    int rc;

    *ret = (struct gs_published){0};
    rc = gs_nvidia_settings_read(&files, &arena, &set, err);
    if (rc == 0)
        rc = fill(from, &set, ret, err);
    if (rc < 0)
        gs_published_fini(ret);
    return rc == -ENOMEM ? gs_err_set(err, rc, "out of memory") : rc;
}

const struct gs_publish_vendor gs_nvidia_publish_vendor = {
    .probe = &gs_nvidia_probe_vendor,
    .register_key = "hami.io/node-nvidia-register",
    .score_key = "hami.io/node-nvidia-score",
    .publish = publish,
};
