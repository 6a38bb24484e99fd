#include "vendors/nvidia/node/edits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "contract/env.h"
#include "contract/quota.h"
#include "node/edits.h"
#include "node/grants.h"
#include "node/inventory.h"
#include "node/kit.h"
#include "node/probe.h"
#include "vendors/nvidia/node/driver.h"
#include "vendors/nvidia/node/nodes.h"
#include "vendors/nvidia/node/publish.h"
#include "vendors/nvidia/policy/settings.h"

#define VISIBLE         "NVIDIA_VISIBLE_DEVICES"
#define DISABLE_CONTROL "CUDA_DISABLE_CONTROL"
#define LIST_FOLDER     "/var/run/nvidia-container-devices"
#define CDI_KIND        "k8s.device-plugin.nvidia.com/gpu"
#define MIB             (UINT64_C(1) << 20)

struct gs_kit_conf {
    struct gs_nvidia_settings settings;
};

/* ---- configuration ---- */

static int configure(const struct gs_kit_conf_from *from, struct gs_arena *arena,
                     const struct gs_kit_conf **ret, struct gs_err *err)
{
    struct gs_kit_conf *conf = GS_ARENA_NEW(arena, struct gs_kit_conf);
    int rc;

    if (conf == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    rc = gs_nvidia_settings_read(
        &(struct gs_nvidia_settings_from){
            .device_config = from->device_config,
            .node_config = from->node_config,
            .node = from->node,
        },
        arena, &conf->settings, err);
    if (rc == 0)
        *ret = conf;
    return rc;
}

static struct gs_str resource(const struct gs_kit_conf *conf)
{
    return conf->settings.resource;
}

static bool tells_numa(const struct gs_kit_conf *conf)
{
    return conf->settings.enables_numa;
}

static bool prefers(const struct gs_kit_conf *conf)
{
    return conf->settings.prefers;
}

/* ---- the hook ---- */

/* The value that the container's own spec gives a variable; empty: none. */
static struct gs_str value_of(const struct gs_grants_container *container, const char *name)
{
    const struct gs_str *value =
        container != NULL ? gs_pairs_find(&container->env, gs_str_of(name)) : NULL;

    return value != NULL ? *value : (struct gs_str){0};
}

static void inject(const struct gs_kit_place *place, struct gs_str more, struct gs_edits *edits)
{
    char inside[PATH_MAX];

    (void)snprintf(inside, sizeof(inside), "%s/vgpu/libvgpu.so", place->hook_path);
    gs_edits_mount(edits, place->library, inside, true);
    if ((place->inject & GS_KIT_INJECT_FILE) != 0)
        gs_edits_mount(edits, place->preload, "/etc/ld.so.preload", true);
    if ((place->inject & GS_KIT_INJECT_ENV) != 0)
        gs_edits_env(edits, "LD_PRELOAD", "%s%s%.*s", inside, more.n > 0 ? ":" : "", (int)more.n,
                     more.p);
}

/* Runtimes that know of cards give none to `void`; with one that ignores CDI that is how it stays.
 */
static void edit_early(const struct gs_kit_conf *conf, const struct gs_kit_place *place,
                       struct gs_edits *edits)
{
    (void)conf;
    gs_edits_env(edits, VISIBLE, "void");
    inject(place, (struct gs_str){0}, edits);
}

/* ---- which cards ---- */

/* Devices that programs are to see, by UUID or by index. */
struct seen {
    const struct gs_kit_place *place;
    const struct gs_inventory *inv;
    char name[GS_INVENTORY_CARDS][GS_INVENTORY_UUID];
    size_t n;
};

static int see(struct seen *seen, struct gs_str uuid, struct gs_err *err)
{
    char text[GS_INVENTORY_UUID];
    int part = -1, card = -ENODEV;

    if (gs_str_to_field(uuid, text, sizeof(text)) == 0)
        card = gs_inventory_find(seen->inv, text, &part);
    if (card < 0)
        return gs_err_set(err, -ENODEV, "there is no card '%.*s' on this node", (int)uuid.n,
                          uuid.p);
    if (seen->place->by_index && part < 0)
        (void)snprintf(text, sizeof(text), "%u", seen->inv->card[card].index);
    for (size_t i = 0; i < seen->n; i++)
        if (strcmp(seen->name[i], text) == 0)
            return 0;
    if (seen->n == GS_INVENTORY_CARDS)
        return gs_err_set(err, -E2BIG, "more than %d cards for one container", GS_INVENTORY_CARDS);
    memcpy(seen->name[seen->n++], text, sizeof(text));
    return 0;
}

static void list_by_env(const struct seen *seen, struct gs_edits *edits)
{
    char text[GS_INVENTORY_CARDS * GS_INVENTORY_UUID];
    struct gs_str_out out;

    gs_str_out_init(&out, text, sizeof(text));
    for (size_t i = 0; i < seen->n; i++) {
        if (i > 0)
            gs_str_put_char(&out, ',');
        gs_str_put_c(&out, seen->name[i]);
    }
    gs_edits_env(edits, VISIBLE, "%s", text);
}

static void list_by_mounts(const struct seen *seen, struct gs_edits *edits)
{
    char inside[PATH_MAX];

    gs_edits_env(edits, VISIBLE, "%s", LIST_FOLDER);
    for (size_t i = 0; i < seen->n; i++) {
        (void)snprintf(inside, sizeof(inside), LIST_FOLDER "/%s", seen->name[i]);
        gs_edits_mount(edits, "/dev/null", inside, true);
    }
}

static void list_by_cdi(const struct seen *seen, struct gs_edits *edits)
{
    char key[GS_INVENTORY_UUID + 128], name[GS_INVENTORY_UUID + 64];

    for (size_t i = 0; i < seen->n; i++) {
        (void)snprintf(name, sizeof(name), CDI_KIND "=%s", seen->name[i]);
        (void)snprintf(key, sizeof(key), "%snvidia-device-plugin_%s", seen->place->cdi_prefix,
                       seen->name[i]);
        if ((seen->place->list & GS_KIT_LIST_CDI_ANNOTATIONS) != 0)
            gs_edits_annotation(edits, key, name);
        if ((seen->place->list & GS_KIT_LIST_CDI_CRI) != 0)
            gs_edits_cdi(edits, name);
    }
}

static void list(const struct seen *seen, struct gs_edits *edits)
{
    if ((seen->place->list & GS_KIT_LIST_ENV) != 0)
        list_by_env(seen, edits);
    else if ((seen->place->list & GS_KIT_LIST_MOUNTS) != 0)
        list_by_mounts(seen, edits);
    list_by_cdi(seen, edits);
}

/* ---- files ---- */

static void give_nodes(const struct gs_kit_place *place, const struct gs_inventory *inv,
                       struct gs_str uuid, struct gs_edits *edits)
{
    const struct gs_devnode_roots roots = {.dev = place->dev_root, .proc = ""};
    struct gs_devnode node[GS_DEVNODES];
    char text[GS_INVENTORY_UUID];
    int part = -1, card;
    size_t n;

    if (gs_str_to_field(uuid, text, sizeof(text)) < 0)
        return;
    card = gs_inventory_find(inv, text, &part);
    n = card >= 0 ? gs_nvidia_nodes(&roots, &inv->card[card], part, node) : 0;
    for (size_t i = 0; i < n; i++)
        if (node[i].is_there)
            gs_edits_device(edits, node[i].path, node[i].path);
}

static void give_extras(const struct gs_kit_place *place, struct gs_edits *edits)
{
    if (place->has_gdrcopy)
        gs_edits_env(edits, "NVIDIA_GDRCOPY", "enabled");
    if (place->has_gds)
        gs_edits_env(edits, "NVIDIA_GDS", "enabled");
    if (place->has_mofed)
        gs_edits_env(edits, "NVIDIA_MOFED", "enabled");
    if (place->imex_channels[0] != '\0')
        gs_edits_env(edits, "NVIDIA_IMEX_CHANNELS", "%s", place->imex_channels);
}

/* ---- a slice ---- */

static void limit_by_env(const struct gs_kit_conf *conf, const struct gs_grant_slot *grant,
                         struct gs_edits *edits)
{
    char name[sizeof(GS_ENV_MEM_LIMIT) + 24];

    for (size_t i = 0; i < grant->n; i++) {
        (void)snprintf(name, sizeof(name), GS_ENV_MEM_LIMIT "_%zu", i);
        gs_edits_env(edits, name, "%dm", grant->dev[i].mem_mib);
    }
    gs_edits_env(edits, GS_ENV_SM_LIMIT, "%d", grant->dev[0].cores);
    if (conf->settings.mem_scaling > 1)
        gs_edits_env(edits, GS_ENV_OVERSUBSCRIBE, "true");
    if (conf->settings.log_level.n > 0)
        gs_edits_env(edits, "LIBCUDA_LOG_LEVEL", "%.*s", (int)conf->settings.log_level.n,
                     conf->settings.log_level.p);
    if (conf->settings.disables_core_limit)
        gs_edits_env(edits, GS_ENV_CORE_POLICY, "disable");
}

static void give_folders(const struct gs_kit_place *place, const struct gs_kit_slot *slot,
                         struct gs_edits *edits)
{
    char inside[PATH_MAX], board[PATH_MAX];

    (void)snprintf(board, sizeof(board), "%s/vgpu/board", place->hook_path);
    (void)snprintf(inside, sizeof(inside), "%s/vgpu", place->hook_path);
    gs_edits_mount(edits, slot->ledger, inside, false);
    gs_edits_env(edits, GS_ENV_LEDGER, "%s/%s", inside, slot->ledger_name);
    gs_edits_mount(edits, slot->quota, GS_QUOTA_DIR, true);
    gs_edits_mount(edits, board, GS_BOARD_DIR, true);
}

static int edit(const struct gs_kit_conf *conf, const struct gs_kit_place *place,
                const struct gs_kit_slot *slot, struct gs_edits *edits, struct gs_err *err)
{
    struct seen seen = {.place = place, .inv = slot->inv};
    int rc = slot->grant->n > 0 ? 0 : gs_err_set(err, -EINVAL, "an empty slot");

    for (size_t i = 0; rc == 0 && i < slot->grant->n; i++)
        rc = see(&seen, gs_grant_card(slot->grant->dev[i].uuid), err);
    if (rc < 0)
        return rc;
    gs_edits_env(edits, VISIBLE, "void");
    inject(place, value_of(slot->container, "LD_PRELOAD"), edits);
    list(&seen, edits);
    limit_by_env(conf, slot->grant, edits);
    give_folders(place, slot, edits);
    give_extras(place, edits);
    if (place->passes_nodes || place->gives_driver)
        for (size_t i = 0; i < slot->grant->n; i++)
            give_nodes(place, slot->inv, gs_grant_card(slot->grant->dev[i].uuid), edits);
    if (place->gives_driver)
        gs_nvidia_driver_edit(place, edits);
    return gs_arena_check(edits->arena);
}

/* ---- its limits ---- */

static bool is_true(struct gs_str s)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};

    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        if (gs_str_eq_c(s, yes[i]))
            return true;
    return false;
}

static uint32_t policy_of(const struct gs_kit_conf *conf, struct gs_str word)
{
    if (conf->settings.disables_core_limit || gs_str_eq_c(word, "disable") ||
        gs_str_eq_c(word, "DISABLE"))
        return GS_POLICY_OFF;
    if (gs_str_eq_c(word, "default") || gs_str_eq_c(word, "DEFAULT"))
        return GS_POLICY_ELASTIC;
    return GS_POLICY_FIXED;
}

/* HAMi leaves the hook out where the pod says CUDA_DISABLE_CONTROL; here it is loaded before that
 * is known, and holds nothing. */
static void limit_device(const struct gs_grant_dev *dev, bool is_free, uint32_t policy,
                         struct gs_quota_device *ret)
{
    bool has_memory = dev->mem_mib > 0 && !is_free;
    bool has_cores = dev->cores > 0 && dev->cores < 100 && !is_free;

    (void)gs_str_to_field(gs_grant_card(dev->uuid), ret->uuid, sizeof(ret->uuid)); /* was found */
    ret->limit_bytes = has_memory ? (uint64_t)dev->mem_mib * MIB : UINT64_MAX;
    ret->core_pct = has_cores ? (uint32_t)dev->cores : 100;
    ret->policy = is_free ? GS_POLICY_OFF : policy;
}

/* One card may be there twice: a container that was given two shares of it has both. */
static struct gs_quota_device *find_device(struct gs_quota *quota, struct gs_str uuid)
{
    for (uint32_t i = 0; i < quota->n_devices; i++)
        if (gs_str_eq(gs_str_of_field(quota->device[i].uuid, sizeof(quota->device[i].uuid)), uuid))
            return &quota->device[i];
    return NULL;
}

static void add_device(struct gs_quota *quota, const struct gs_quota_device *dev)
{
    struct gs_quota_device *old = find_device(quota, gs_str_of_field(dev->uuid, sizeof(dev->uuid)));

    if (old == NULL) {
        quota->device[quota->n_devices++] = *dev;
        return;
    }
    if (old->limit_bytes != UINT64_MAX)
        old->limit_bytes =
            dev->limit_bytes == UINT64_MAX ? UINT64_MAX : old->limit_bytes + dev->limit_bytes;
    old->core_pct = old->core_pct + dev->core_pct > 100 ? 100 : old->core_pct + dev->core_pct;
}

static int limit(const struct gs_kit_conf *conf, const struct gs_kit_slot *slot,
                 struct gs_quota *ret, struct gs_err *err)
{
    struct gs_str priority = value_of(slot->container, GS_ENV_PRIORITY);
    uint32_t policy = policy_of(conf, value_of(slot->container, GS_ENV_CORE_POLICY));
    bool is_free = is_true(value_of(slot->container, DISABLE_CONTROL));

    if (slot->grant->n > GS_LEDGER_DEVICES)
        return gs_err_set(err, -E2BIG, "more than %u cards for one container", GS_LEDGER_DEVICES);
    memset(ret, 0, sizeof(*ret));
    ret->fail = GS_FAIL_CLOSED;
    ret->priority = gs_str_eq_c(priority, "0")   ? GS_PRIORITY_HIGH
                    : gs_str_eq_c(priority, "1") ? GS_PRIORITY_LOW
                                                 : GS_PRIORITY_NONE;
    ret->oversubscribe = conf->settings.mem_scaling > 1;
    for (size_t i = 0; i < slot->grant->n; i++) {
        struct gs_quota_device dev = {0};

        limit_device(&slot->grant->dev[i], is_free, policy, &dev);
        add_device(ret, &dev);
    }
    return 0;
}

/* ---- MIG devices that somebody made ---- */

static int edit_parts(const struct gs_kit_place *place, const struct gs_kit_parts *parts,
                      struct gs_edits *edits, struct gs_err *err)
{
    struct seen seen = {.place = place, .inv = parts->inv};
    int rc = parts->n > 0 ? 0 : gs_err_set(err, -EINVAL, "a container with no device ids");

    for (size_t i = 0; rc == 0 && i < parts->n; i++)
        rc = see(&seen, parts->id[i], err);
    if (rc < 0)
        return rc;
    gs_edits_env(edits, VISIBLE, "void");
    list(&seen, edits);
    give_extras(place, edits);
    if (place->passes_nodes || place->gives_driver)
        for (size_t i = 0; i < parts->n; i++)
            give_nodes(place, parts->inv, parts->id[i], edits);
    if (place->gives_driver)
        gs_nvidia_driver_edit(place, edits);
    return gs_arena_check(edits->arena);
}

static const char *const container_env[] = {"LD_PRELOAD", DISABLE_CONTROL, GS_ENV_CORE_POLICY,
                                            GS_ENV_PRIORITY, NULL};

const struct gs_kit_vendor gs_nvidia_kit_vendor = {
    .publish = &gs_nvidia_publish_vendor,
    .to_allocate = GS_STR_INIT("hami.io/vgpu-devices-to-allocate"),
    .allocated = GS_STR_INIT("hami.io/vgpu-devices-allocated"),
    .endpoint = "gpuslice-nvidia",
    .rival = "nvidia-gpu.sock",
    .env = container_env,
    .configure = configure,
    .resource = resource,
    .tells_numa = tells_numa,
    .prefers = prefers,
    .edit_early = edit_early,
    .edit = edit,
    .limit = limit,
    .edit_parts = edit_parts,
};
