#include "control/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "control/metrics_own.h"

#define LINES_A_STEP 1000
#define MIB          1048576.0
#define ZONE         "vGPU" /* HAMi's, on every series of a card or pod */

int gs_metrics_new(struct gs_metrics **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret != NULL ? 0 : -ENOMEM;
}

struct gs_metrics *gs_metrics_free(struct gs_metrics *m)
{
    free(m);
    return NULL;
}

/* ---- text ---- */

void gs_metrics_head(struct gs_buf *buf, const char *name, const char *type, const char *help)
{
    gs_buf_addf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_escaped(struct gs_buf *buf, struct gs_str s)
{
    size_t from = 0;

    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (c != '\\' && c != '"' && c != '\n')
            continue;
        gs_buf_add(buf, s.p + from, i - from);
        gs_buf_add(buf, c == '\n' ? "\\n" : c == '"' ? "\\\"" : "\\\\", 2);
        from = i + 1;
    }
    gs_buf_add(buf, s.p + from, s.n - from);
}

void gs_metrics_line(struct gs_buf *buf, const char *name, const struct gs_metrics_label *label,
                     size_t n, double value)
{
    char before = '{';

    gs_buf_adds(buf, name);
    for (size_t i = 0; i < n; i++) {
        if (label[i].key == NULL || label[i].value.p == NULL)
            continue;
        gs_buf_addc(buf, before, 1);
        gs_buf_adds(buf, label[i].key);
        gs_buf_add(buf, "=\"", 2);
        add_escaped(buf, label[i].value);
        gs_buf_addc(buf, '"', 1);
        before = ',';
    }
    if (before == ',')
        gs_buf_addc(buf, '}', 1);
    if (value >= 0 && value < 9e15 && value == floor(value))
        gs_buf_addf(buf, " %llu\n", (unsigned long long)value);
    else
        gs_buf_addf(buf, " %.9g\n", value);
}

/* ---- series of cards ---- */

static bool is_amd(const struct gs_device *dev)
{
    return dev->type.n >= 3 && strncasecmp(dev->type.p, "AMD", 3) == 0;
}

/* AMD counts compute units; the others, percent. */
static double core_pct(const struct gs_device *dev, int32_t cores)
{
    if (!is_amd(dev))
        return cores;
    return dev->cores > 0 ? ceil(100.0 * cores / dev->cores) : 0;
}

static double mem_limit(const struct gs_device *dev, const struct gs_use *use)
{
    (void)use;
    return dev->mem_mib * MIB;
}

static double core_limit(const struct gs_device *dev, const struct gs_use *use)
{
    (void)use;
    return is_amd(dev) ? 100 : dev->cores;
}

static double core_limit_raw(const struct gs_device *dev, const struct gs_use *use)
{
    (void)use;
    return dev->cores;
}

static double mem_used(const struct gs_device *dev, const struct gs_use *use)
{
    (void)dev;
    return use->mem_mib * MIB;
}

static double shares(const struct gs_device *dev, const struct gs_use *use)
{
    (void)dev;
    return use->slots;
}

static double core_used(const struct gs_device *dev, const struct gs_use *use)
{
    return core_pct(dev, use->cores);
}

static double core_used_raw(const struct gs_device *dev, const struct gs_use *use)
{
    (void)dev;
    return use->cores;
}

static double mem_ratio(const struct gs_device *dev, const struct gs_use *use)
{
    return dev->mem_mib > 0 ? (double)use->mem_mib / dev->mem_mib : NAN; /* NAN: no line */
}

enum { HAS_TYPE = 1, HAS_CORES = 2, HAS_MEM = 4, IS_LEGACY = 8 };

struct card_family {
    const char *name;
    unsigned flags;
    double (*value)(const struct gs_device *dev, const struct gs_use *use);
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

static size_t write_cards(const struct card_family *f, const struct gs_node *node,
                          struct gs_buf *buf)
{
    bool is_old = (f->flags & IS_LEGACY) != 0;
    char index[16], cores[16], mem[16];

    for (size_t i = 0; i < node->n_dev; i++) {
        const struct gs_device *dev = &node->dev[i];
        double value = f->value(dev, &node->use[i]);

        if (isnan(value))
            continue;
        (void)snprintf(index, sizeof(index), "%u", dev->index);
        (void)snprintf(cores, sizeof(cores), "%d", dev->cores);
        (void)snprintf(mem, sizeof(mem), "%d", dev->mem_mib);
        GS_METRICS_LINE(buf, f->name, value, {"zone", GS_STR(ZONE)},
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

static size_t write_holders(const struct pod_family *f, const struct gs_books *books,
                            const struct gs_node *node, struct gs_buf *buf)
{
    bool is_old = f->is_legacy;
    size_t lines = 0;

    for (size_t i = 0; i < node->n_dev; i++)
        for (size_t t = 0; t < node->use[i].n_tenants; t++) {
            const struct gs_device *dev = &node->dev[i];
            struct gs_books_holder who;
            int32_t mem, cores;

            if (!gs_books_holder(books, node->use[i].tenant[t].uid, &who) || who.is_reservation ||
                who.is_leftover || !sum_of(&node->use[i], t, &mem, &cores))
                continue;
            GS_METRICS_LINE(buf, f->name,
                            f->is_memory ? mem * MIB
                            : is_old     ? cores
                                         : core_pct(dev, cores),
                            {"zone", GS_STR(ZONE)}, {is_old ? "podnamespace" : "namespace", who.ns},
                            {is_old ? "nodename" : "node", node->name},
                            {is_old ? "podname" : "pod", who.name},
                            {is_old ? "containeridx" : "container_index", GS_STR("0")},
                            {is_old ? "deviceuuid" : "device_uuid", dev->id});
            lines++;
        }
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
    GS_METRICS_LINE(buf, f->name, limit_and_used[f->is_used ? 1 : 0], {"zone", GS_STR(ZONE)},
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
        gs_metrics_head(&page->text, cards != NULL ? cards->name : pods->name, "gauge",
                        cards != NULL ? cards->help : pods->help);
    while (lines < LINES_A_STEP) {
        node = next_node(page);
        if (node == NULL) {
            next_stage(page);
            return;
        }
        lines += 1 + (cards != NULL ? write_cards(cards, node, &page->text)
                                    : write_holders(pods, page->from.books, node, &page->text));
    }
}

static void step_quota(struct gs_metrics_page *page, const struct quota_family *f)
{
    if (!f->is_legacy || page->from.has_legacy) {
        gs_metrics_head(&page->text, f->name, "gauge", f->help);
        write_quotas(f, page->from.books, &page->text);
    }
    next_stage(page);
}

bool gs_metrics_step(struct gs_metrics_page *page)
{
    unsigned stage = page->stage;

    if (page->text.failed || page->at.failed)
        return true;
    if (stage == 0) {
        gs_metrics_write_own(&page->from, &page->text);
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
