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

static size_t write_cards(const void *family, const struct gs_books *books,
                          const struct gs_node *node, struct gs_buf *buf)
{
    const struct card_family *f = family;

    (void)books;
    for (size_t g = 0; g < node->n_groups; g++)
        for (uint32_t i = node->group[g].first; i < node->group[g].first + node->group[g].n; i++)
            write_card(f, node, &(struct card){node->group[g].policy, &node->dev[i], &node->use[i]},
                       buf);
    return node->n_dev;
}

/* ---- series of MIG instances ---- */

/* More than a card has. What pods say of theirs is text of pods: it does not make series. */
#define INSTANCES_MAX 16

struct instance_family {
    const char *name;
    bool is_legacy;
    const char *help;
};

static const struct instance_family instance_families[] = {
    {"hami_node_gpu_mig_instance_info", false, "A MIG instance that a pod holds; 1."},
    {"nodeGPUMigInstance", true, "A MIG instance that a pod holds; 1."},
};

static void write_instance(const struct instance_family *f, const struct gs_node *node,
                           const struct gs_device *dev, const struct gs_books_instance *made,
                           struct gs_buf *buf)
{
    char index[16], gi[16], ci[16], start[16], size[16], name[128];

    (void)snprintf(index, sizeof(index), "%u", dev->index);
    if (f->is_legacy) {
        (void)snprintf(name, sizeof(name), "%.*s-%u", (int)made->profile.n, made->profile.p,
                       made->gpu_instance);
        GS_PROM_LINE(buf, f->name, 1, {"zone", GS_STR(ZONE)}, {"nodeid", node->name},
                     {"deviceuuid", dev->id}, {"deviceidx", gs_str_of(index)},
                     {"migname", gs_str_of(name)});
        return;
    }
    (void)snprintf(gi, sizeof(gi), "%u", made->gpu_instance);
    (void)snprintf(ci, sizeof(ci), "%u", made->compute_instance);
    (void)snprintf(start, sizeof(start), "%d", made->place_start);
    (void)snprintf(size, sizeof(size), "%d", made->place_size);
    GS_PROM_LINE(buf, f->name, 1, {"zone", GS_STR(ZONE)}, {"node", node->name},
                 {"device_uuid", dev->id}, {"device_index", gs_str_of(index)},
                 {"mig_uuid", made->mig_uuid}, {"profile", made->profile},
                 {"gpu_instance_id", gs_str_of(gi)}, {"compute_instance_id", gs_str_of(ci)},
                 {"placement_start", gs_str_of(start)}, {"placement_size", gs_str_of(size)});
}

/* Two of one name on a card (compute instances of one GPU instance) are one series of the old name.
 */
static bool is_told(const struct gs_books_instance *made, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (made[i].gpu_instance == made[at].gpu_instance &&
            gs_str_eq(made[i].profile, made[at].profile))
            return true;
    return false;
}

static size_t write_instances(const void *family, const struct gs_books *books,
                              const struct gs_node *node, struct gs_buf *buf)
{
    const struct instance_family *f = family;
    struct gs_books_instance made[INSTANCES_MAX];
    size_t lines = 0;

    (void)books;
    for (size_t d = 0; d < node->n_dev; d++) {
        size_t n = gs_books_instances(node, d, made, GS_ARRAY_LEN(made));

        for (size_t i = 0; i < n; i++)
            if (!f->is_legacy || !is_told(made, i))
                write_instance(f, node, &node->dev[d], &made[i], buf);
        lines += n;
    }
    return lines;
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

static size_t write_pods(const void *family, const struct gs_books *books,
                         const struct gs_node *node, struct gs_buf *buf)
{
    const struct pod_family *f = family;
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

#define N_CARDS     GS_ARRAY_LEN(card_families)
#define N_INSTANCES GS_ARRAY_LEN(instance_families)
#define N_BY_NODE   (N_CARDS + N_INSTANCES + GS_ARRAY_LEN(pod_families))
#define N_QUOTAS    GS_ARRAY_LEN(quota_families)

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

/** A family whose series are told node by node. Lines written. */
struct node_family {
    const char *name, *help;
    bool is_legacy;
    size_t (*write)(const void *family, const struct gs_books *books, const struct gs_node *node,
                    struct gs_buf *buf);
    const void *family;
};

static bool node_family_of(unsigned stage, struct node_family *ret)
{
    if (stage < N_CARDS) {
        const struct card_family *f = &card_families[stage];

        *ret = (struct node_family){f->name, f->help, (f->flags & IS_LEGACY) != 0, write_cards, f};
    } else if (stage < N_CARDS + N_INSTANCES) {
        const struct instance_family *f = &instance_families[stage - N_CARDS];

        *ret = (struct node_family){f->name, f->help, f->is_legacy, write_instances, f};
    } else if (stage < N_BY_NODE) {
        const struct pod_family *f = &pod_families[stage - N_CARDS - N_INSTANCES];

        *ret = (struct node_family){f->name, f->help, f->is_legacy, write_pods, f};
    } else {
        return false;
    }
    return true;
}

/* Some nodes of a family; the stage ends with them. */
static void step_nodes(struct gs_metrics_page *page, const struct node_family *f)
{
    const struct gs_node *node;
    size_t lines = 0;

    if (f->is_legacy && !page->from.has_legacy) {
        next_stage(page);
        return;
    }
    if (page->pos == 0)
        gs_prom_head(&page->text, f->name, "gauge", f->help);
    while (lines < LINES_A_STEP) {
        node = next_node(page);
        if (node == NULL) {
            next_stage(page);
            return;
        }
        lines += 1 + f->write(f->family, page->from.books, node, &page->text);
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
    struct node_family family;

    if (page->text.failed || page->at.failed)
        return true;
    if (stage == 0) {
        gs_metrics_write(&page->from, &page->text);
        next_stage(page);
        return page->from.books == NULL;
    }
    stage--;
    if (node_family_of(stage, &family)) {
        step_nodes(page, &family);
        return false;
    }
    stage -= (unsigned)N_BY_NODE;
    if (stage < N_QUOTAS)
        step_quota(page, &quota_families[stage]);
    return stage + 1 >= N_QUOTAS;
}

void gs_metrics_page_fini(struct gs_metrics_page *page)
{
    gs_buf_fini(&page->text);
    gs_buf_fini(&page->at);
}
