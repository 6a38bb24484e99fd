#include "control/metrics_page.h"

#include <math.h>
#include <stdio.h>

#include "base/prom.h"
#include "model/policy.h"

#define LINES_A_STEP 1000
#define MIB          1048576.0
#define ZONE         "vGPU" /* HAMi's, on every series of a card or pod */

/* ---- series of cards ---- */

/** A card with what is given of it. */
struct card {
    const struct gs_policy *policy;
    const struct gs_device *dev;
    const struct gs_use *use;
};

static double core_pct(const struct card *c, int32_t cores)
{
    if (!c->policy->has_core_units)
        return cores;
    return c->dev->cores > 0 ? ceil(100.0 * cores / c->dev->cores) : 0;
}

static double mem_limit(const struct card *c)
{
    return c->dev->mem_mib * MIB;
}

static double core_limit(const struct card *c)
{
    return c->policy->has_core_units ? 100 : c->dev->cores;
}

static double core_limit_raw(const struct card *c)
{
    return c->dev->cores;
}

static double mem_used(const struct card *c)
{
    return c->use->mem_mib * MIB;
}

static double shares(const struct card *c)
{
    return c->use->slots;
}

static double core_used(const struct card *c)
{
    return core_pct(c, c->use->cores);
}

static double core_used_raw(const struct card *c)
{
    return c->use->cores;
}

static double mem_ratio(const struct card *c)
{
    return c->dev->mem_mib > 0 ? (double)c->use->mem_mib / c->dev->mem_mib : NAN; /* NAN: no line */
}

enum { HAS_TYPE = 1, HAS_CORES = 2, HAS_MEM = 4, IS_LEGACY = 8 };

struct card_family {
    const char *name;
    unsigned flags;
    double (*value)(const struct card *c);
    const char *help;
};

static const struct card_family card_families[] = {
    {"hami_gpu_memory_limit_bytes", HAS_TYPE, mem_limit, "Memory of a card."},
    {"hami_gpu_core_limit_ratio", HAS_TYPE, core_limit, "Compute of a card."},
    {"hami_gpu_memory_allocated_bytes", HAS_TYPE | HAS_CORES, mem_used,
     "Memory of a card that is given away."},
    {"hami_gpu_shared_count", HAS_TYPE, shares, "Containers that share a card."},
    {"hami_gpu_core_allocated_ratio", HAS_TYPE, core_used, "Compute of a card that is given away."},
    {"hami_node_gpu_overview", HAS_TYPE | HAS_CORES | HAS_MEM, mem_used,
     "Memory of a card that is given away, with what the card has."},
    {"hami_node_gpu_memory_allocated_ratio", HAS_TYPE, mem_ratio,
     "Part of a card's memory that is given away."},
    {"GPUDeviceMemoryLimit", IS_LEGACY | HAS_TYPE, mem_limit, "Memory of a card."},
    {"GPUDeviceCoreLimit", IS_LEGACY | HAS_TYPE, core_limit_raw, "Compute of a card."},
    {"GPUDeviceMemoryAllocated", IS_LEGACY | HAS_TYPE | HAS_CORES, mem_used,
     "Memory of a card that is given away."},
    {"GPUDeviceSharedNum", IS_LEGACY | HAS_TYPE, shares, "Containers that share a card."},
    {"GPUDeviceCoreAllocated", IS_LEGACY | HAS_TYPE, core_used_raw,
     "Compute of a card that is given away."},
    {"nodeGPUOverview", IS_LEGACY | HAS_TYPE | HAS_CORES | HAS_MEM, mem_used,
     "Memory of a card that is given away, with what the card has."},
    {"nodeGPUMemoryPercentage", IS_LEGACY, mem_ratio,
     "Part of a card's memory that is given away."},
};

static void write_card(const struct card_family *f, const struct gs_node *node,
                       const struct card *c, struct gs_buf *buf)
{
    bool is_old = (f->flags & IS_LEGACY) != 0;
    const struct gs_device *dev = c->dev;
    char index[16], cores[16], mem[16];
    double value = f->value(c);

    if (isnan(value))
        return;
    (void)snprintf(index, sizeof(index), "%u", dev->index);
    (void)snprintf(cores, sizeof(cores), "%d", dev->cores);
    (void)snprintf(mem, sizeof(mem), "%d", dev->mem_mib);
    GS_PROM_LINE(buf, f->name, value, {"zone", GS_STR(ZONE)},
                 {is_old ? "nodeid" : "node", node->name},
                 {is_old ? "deviceuuid" : "device_uuid", dev->id},
                 {is_old ? "deviceidx" : "device_index", gs_str_of(index)},
                 {(f->flags & HAS_CORES) == 0 ? NULL
                  : is_old                    ? "devicecores"
                                              : "device_cores",
                  gs_str_of(cores)},
                 {(f->flags & HAS_MEM) == 0 ? NULL
                  : is_old                  ? "devicememorylimit"
                                            : "device_memory_limit",
                  gs_str_of(mem)},
                 {(f->flags & HAS_TYPE) == 0 ? NULL
                  : is_old                   ? "devicetype"
                                             : "device_type",
                  dev->type});
}

static size_t write_cards(const struct card_family *f, const struct gs_node *node,
                          struct gs_buf *buf)
{
    for (size_t g = 0; g < node->n_groups; g++)
        for (uint32_t i = node->group[g].first; i < node->group[g].first + node->group[g].n; i++)
            write_card(f, node, &(struct card){node->group[g].policy, &node->dev[i], &node->use[i]},
                       buf);
    return node->n_dev;
}

/* ---- series of pods ---- */

struct pod_family {
    const char *name;
    bool is_legacy, is_memory;
    const char *help;
};

static const struct pod_family pod_families[] = {
    {"hami_vgpu_memory_allocated_bytes", false, true, "Memory of a card that a pod was given."},
    {"hami_vgpu_core_allocated_ratio", false, false, "Compute of a card that a pod was given."},
    {"vGPUMemoryAllocated", true, true, "Memory of a card that a pod was given."},
    {"vGPUCoreAllocated", true, false, "Compute of a card that a pod was given."},
};

/* What a pod holds of a card: several MIG instances are one figure. False: told already. */
static bool sum_of(const struct gs_use *use, size_t at, int32_t *ret_mem, int32_t *ret_cores)
{
    struct gs_str uid = use->tenant[at].uid;

    for (size_t i = 0; i < at; i++)
        if (gs_str_eq(use->tenant[i].uid, uid))
            return false;
    *ret_mem = *ret_cores = 0;
    for (size_t i = at; i < use->n_tenants; i++)
        if (gs_str_eq(use->tenant[i].uid, uid)) {
            *ret_mem += use->tenant[i].mem_mib;
            *ret_cores += use->tenant[i].cores;
        }
    return true;
}

/* Of one card: number of lines. */
static size_t write_holders(const struct pod_family *f, const struct gs_books *books,
                            struct gs_str node, const struct card *c, struct gs_buf *buf)
{
    bool is_old = f->is_legacy;
    size_t lines = 0;

    for (size_t t = 0; t < c->use->n_tenants; t++) {
        struct gs_books_holder who;
        int32_t mem, cores;

        if (!gs_books_holder(books, c->use->tenant[t].uid, &who) || who.is_reservation ||
            who.is_leftover || !sum_of(c->use, t, &mem, &cores))
            continue;
        GS_PROM_LINE(buf, f->name,
                     f->is_memory ? mem * MIB
                     : is_old     ? cores
                                  : core_pct(c, cores),
                     {"zone", GS_STR(ZONE)}, {is_old ? "podnamespace" : "namespace", who.ns},
                     {is_old ? "nodename" : "node", node}, {is_old ? "podname" : "pod", who.name},
                     {is_old ? "containeridx" : "container_index", GS_STR("0")},
                     {is_old ? "deviceuuid" : "device_uuid", c->dev->id});
        lines++;
    }
    return lines;
}

static size_t write_pods(const struct pod_family *f, const struct gs_books *books,
                         const struct gs_node *node, struct gs_buf *buf)
{
    size_t lines = 0;

    for (size_t g = 0; g < node->n_groups; g++)
        for (uint32_t i = node->group[g].first; i < node->group[g].first + node->group[g].n; i++)
            lines += write_holders(
                f, books, node->name,
                &(struct card){node->group[g].policy, &node->dev[i], &node->use[i]}, buf);
    return lines;
}

/* ---- series of quotas ---- */

struct quota_family {
    const char *name;
    bool is_legacy, is_used;
    const char *help;
};

static const struct quota_family quota_families[] = {
    {"hami_resource_quota_used", false, true, "Of a namespace's quota on slices, what is used."},
    {"hami_resource_quota_limit", false, false, "A namespace's quota on slices."},
    {"QuotaUsed", true, true, "Of a namespace's quota on slices, what is used."},
};

static void write_quota(const struct quota_family *f, struct gs_str ns, struct gs_str resource,
                        const int64_t limit_and_used[2], struct gs_buf *buf)
{
    char limit[24];

    if (limit_and_used[0] < 0 || resource.n == 0)
        return;
    (void)snprintf(limit, sizeof(limit), "%lld", (long long)limit_and_used[0]);
    GS_PROM_LINE(buf, f->name, limit_and_used[f->is_used ? 1 : 0], {"zone", GS_STR(ZONE)},
                 {f->is_legacy ? "quotanamespace" : "namespace", ns},
                 {f->is_legacy ? "quotaName" : "quota_name", resource},
                 {f->is_used ? "limit" : NULL, gs_str_of(limit)});
}

static void write_quotas(const struct quota_family *f, struct gs_books *books, struct gs_buf *buf)
{
    const struct gs_ns_quota *quota;
    struct gs_arena arena;
    struct gs_str ns;
    size_t pos = 0;

    gs_arena_init(&arena);
    while (gs_books_next_quota(books, &pos, &ns)) {
        gs_arena_reset(&arena);
        if (gs_books_quota(books, ns, (struct gs_str){0}, &arena, &quota) < 0 || quota == NULL)
            continue;
        for (size_t i = 0; i < quota->n; i++) {
            const struct gs_ns_quota_line *line = &quota->line[i];

            write_quota(f, ns, line->policy->names.mem,
                        (const int64_t[]){line->mem_limit, line->mem_used}, buf);
            write_quota(f, ns, line->policy->names.core,
                        (const int64_t[]){line->core_limit, line->core_used}, buf);
        }
    }
    gs_arena_fini(&arena);
}

/* ---- the page ---- */

#define N_CARDS  GS_ARRAY_LEN(card_families)
#define N_PODS   GS_ARRAY_LEN(pod_families)
#define N_QUOTAS GS_ARRAY_LEN(quota_families)

/* Nodes come by name, so that one which is not after the last was told before a change. */
static const struct gs_node *next_node(struct gs_metrics_page *page)
{
    const struct gs_node *node;

    while ((node = gs_books_next(page->from.books, &page->pos)) != NULL) {
        if (page->at.n > 0 && gs_str_cmp(node->name, gs_buf_str(&page->at)) <= 0)
            continue;
        gs_buf_clear(&page->at);
        gs_buf_put(&page->at, node->name);
        return node;
    }
    return NULL;
}

static void next_stage(struct gs_metrics_page *page)
{
    page->stage++;
    page->pos = 0;
    gs_buf_clear(&page->at);
}

/* Some nodes of a family; the stage ends with them. */
static void step_nodes(struct gs_metrics_page *page, const struct card_family *cards,
                       const struct pod_family *pods)
{
    const struct gs_node *node;
    size_t lines = 0;

    if (cards != NULL ? (cards->flags & IS_LEGACY) != 0 && !page->from.has_legacy
                      : pods->is_legacy && !page->from.has_legacy) {
        next_stage(page);
        return;
    }
    if (page->pos == 0)
        gs_prom_head(&page->text, cards != NULL ? cards->name : pods->name, "gauge",
                     cards != NULL ? cards->help : pods->help);
    while (lines < LINES_A_STEP) {
        node = next_node(page);
        if (node == NULL) {
            next_stage(page);
            return;
        }
        lines += 1 + (cards != NULL ? write_cards(cards, node, &page->text)
                                    : write_pods(pods, page->from.books, node, &page->text));
    }
}

static void step_quota(struct gs_metrics_page *page, const struct quota_family *f)
{
    if (!f->is_legacy || page->from.has_legacy) {
        gs_prom_head(&page->text, f->name, "gauge", f->help);
        write_quotas(f, page->from.books, &page->text);
    }
    next_stage(page);
}

bool gs_metrics_page_step(struct gs_metrics_page *page)
{
    unsigned stage = page->stage;

    if (page->text.failed || page->at.failed)
        return true;
    if (stage == 0) {
        gs_metrics_write(&page->from, &page->text);
        next_stage(page);
        return page->from.books == NULL;
    }
    stage--;
    if (stage < N_CARDS) {
        step_nodes(page, &card_families[stage], NULL);
        return false;
    }
    stage -= (unsigned)N_CARDS;
    if (stage < N_PODS) {
        step_nodes(page, NULL, &pod_families[stage]);
        return false;
    }
    stage -= (unsigned)N_PODS;
    if (stage < N_QUOTAS)
        step_quota(page, &quota_families[stage]);
    return stage + 1 >= N_QUOTAS;
}

void gs_metrics_page_fini(struct gs_metrics_page *page)
{
    gs_buf_fini(&page->text);
    gs_buf_fini(&page->at);
}
