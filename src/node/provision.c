#include "node/provision.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/map.h"
#include "contract/quota.h"
#include "core/list.h"
#include "net/loop.h"
#include "node/cdi.h"
#include "node/checkpoint.h"
#include "node/edits.h"
#include "node/folders.h"
#include "node/grants.h"

/* Entries of strangers' folders that are removed in one go. */
#define SWEEP_BUDGET 20000u
#define UID_CAP      64u

struct gs_provision_op {
    GS_LINK(struct gs_provision_op) link;
    struct gs_provision *provision;
    struct gs_arena arena; /* of the ids */
    struct gs_kubelet_texts ids;
    char uid[UID_CAP]; /* of the pod that is waited for */
    gs_provision_fn *fn;
    void *arg;
    struct gs_loop_timer timer;
};

struct gs_provision {
    struct gs_provision_opt opt;
    GS_LIST(struct gs_provision_op) waiting;
    struct gs_arena frame; /* of one call */
    struct gs_provision_stats stats;
};

int gs_provision_new(const struct gs_provision_opt *opt, struct gs_provision **ret)
{
    struct gs_provision *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return -ENOMEM;
    p->opt = *opt;
    *ret = p;
    return 0;
}

static void end_op(struct gs_provision_op *op)
{
    struct gs_provision *p = op->provision;

    GS_LIST_REMOVE(&p->waiting, op, link);
    p->stats.waiting--;
    gs_loop_timer_cancel(p->opt.loop, &op->timer);
    gs_arena_fini(&op->arena);
    free(op);
}

void gs_provision_cancel(struct gs_provision_op *op)
{
    end_op(op);
}

static void finish(struct gs_provision_op *op, int rc, const struct gs_err *err)
{
    gs_provision_fn *fn = op->fn;
    void *arg = op->arg;

    op->provision->stats.failed += rc < 0;
    end_op(op);
    fn(arg, rc, err);
}

struct gs_provision *gs_provision_free(struct gs_provision *p)
{
    struct gs_err err = {0};

    if (p == NULL)
        return NULL;
    (void)gs_err_set(&err, -ECANCELED, "the plugin stops");
    while (p->waiting.first != NULL)
        finish(p->waiting.first, -ECANCELED, &err);
    gs_arena_fini(&p->frame);
    free(p);
    return NULL;
}

/* ---- what is promised ---- */

static uint64_t nonce(void)
{
    uint64_t n = 0;

    while (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
        ; /* interrupted: it never fails once it was seeded */
    return n;
}

int gs_provision_promise(struct gs_provision *p, const struct gs_kubelet_texts *ids,
                         struct gs_edits *edits, struct gs_err *err)
{
    const struct gs_kit *kit = p->opt.kit;
    char name[GS_CDI_NAME], qualified[sizeof(GS_CDI_KIND) + 1 + GS_CDI_NAME];
    const char *lowest;
    struct gs_str_out out;

    if (ids->n == 0)
        return gs_err_set(err, -EINVAL, "a container with no device ids");
    lowest = ids->p[0];
    for (size_t i = 1; i < ids->n; i++)
        if (strcmp(ids->p[i], lowest) < 0)
            lowest = ids->p[i];
    gs_cdi_make_name(gs_str_of(lowest), nonce(), name);
    gs_str_out_init(&out, qualified, sizeof(qualified));
    gs_str_put_c(&out, GS_CDI_KIND "=");
    gs_str_put_c(&out, name);
    kit->vendor->edit_early(kit->conf, kit->place, edits);
    gs_edits_cdi(edits, qualified);
    p->stats.promised++;
    return gs_arena_check(edits->arena);
}

/* ---- one container ---- */

static const struct gs_grants_container *container_of(const struct gs_grants_pod *pod,
                                                      struct gs_str name)
{
    for (size_t i = 0; i < pod->n_containers; i++)
        if (gs_str_eq(pod->container[i].name, name))
            return &pod->container[i];
    return NULL; /* gs_grants_slot() has found it */
}

int gs_provision_container(const struct gs_provision_for *what, struct gs_edits *edits,
                           struct gs_err *err)
{
    const struct gs_kit *kit = what->kit;
    const struct gs_folder_key key = {what->pod->uid, what->container};
    GS_CLEANUP(gs_buf_fini) struct gs_buf ledger = {0}, quota_dir = {0}, file = {0};
    struct gs_quota *quota = calloc(1, sizeof(*quota)); /* 7 KiB */
    struct gs_kit_slot slot = {.inv = kit->inv};
    int rc = quota != NULL ? gs_grants_slot(what->pod, what->container, &slot.grant, err) : -ENOMEM;

    gs_folders_ledger_path(what->folders, &key, &ledger);
    gs_folders_quota_path(what->folders, &key, &quota_dir);
    gs_buf_addf(&file, "%.*s.cache", (int)key.container.n, key.container.p);
    if (rc == 0 &&
        (gs_buf_check(&ledger) < 0 || gs_buf_check(&quota_dir) < 0 || gs_buf_check(&file) < 0))
        rc = -ENOMEM;
    slot.ledger = gs_buf_text(&ledger);
    slot.quota = gs_buf_text(&quota_dir);
    slot.ledger_name = gs_buf_text(&file);
    if (rc == 0 && kit->inv == NULL)
        rc = gs_err_set(err, -ENODEV, "the cards of this node are not known yet");
    if (rc == 0) {
        slot.container = container_of(what->pod, what->container);
        rc = kit->vendor->limit(kit->conf, &slot, quota, err);
    }
    if (rc == 0)
        rc = kit->vendor->edit(kit->conf, kit->place, &slot, edits, err);
    if (rc == 0)
        rc = what->begins ? gs_folders_make(what->folders, &key, quota, err)
                          : gs_folders_limit(what->folders, &key, quota, err);
    free(quota);
    return rc;
}

/* Both may be of any pod's; an entry of one that is not known yet is -ENODATA. */
static int provide(struct gs_provision *p, const struct gs_checkpoint_entry *entry, bool begins,
                   struct gs_err *err)
{
    const struct gs_grants_pod *pod = gs_grants_find(p->opt.grants, entry->pod_uid);
    const struct gs_grant_slot *slot;
    char name[GS_CDI_NAME];
    struct gs_edits edits;
    int rc;

    if (pod == NULL)
        return gs_err_set(err, -ENODATA, "pod %.*s is not known here", (int)entry->pod_uid.n,
                          entry->pod_uid.p);
    rc = gs_grants_slot(pod, entry->container, &slot, err);
    if (rc < 0)
        return rc;
    if (slot->n != entry->n_ids)
        return gs_err_set(err, -EINVAL,
                          "device number not matched: %zu granted to %.*s of pod %.*s/%.*s, %zu "
                          "given by the kubelet",
                          slot->n, (int)entry->container.n, entry->container.p, (int)pod->ns.n,
                          pod->ns.p, (int)pod->name.n, pod->name.p, entry->n_ids);
    gs_edits_init(&edits, &p->frame);
    rc = gs_provision_container(&(struct gs_provision_for){.kit = p->opt.kit,
                                                           .folders = p->opt.folders,
                                                           .pod = pod,
                                                           .container = entry->container,
                                                           .begins = begins},
                                &edits, err);
    if (rc == 0)
        rc = gs_str_to_field(entry->slot, name, sizeof(name));
    if (rc == 0 && (begins || !gs_cdi_is_there(p->opt.cdi_dir, name)))
        rc = gs_cdi_write(p->opt.cdi_dir, name, &edits, err);
    return rc;
}

/* The API server was never heard: what was made before, and cannot have changed, will do. */
static int provide_again(struct gs_provision *p, const struct gs_checkpoint_entry *entry,
                         struct gs_err *err)
{
    const struct gs_folder_key key = {entry->pod_uid, entry->container};
    char name[GS_CDI_NAME];

    if (gs_str_to_field(entry->slot, name, sizeof(name)) < 0 ||
        !gs_cdi_is_there(p->opt.cdi_dir, name))
        return -ENODATA;
    return gs_folders_again(p->opt.folders, &key, err) == 0 ? 0 : -ENODATA;
}

/* ---- PreStartContainer ---- */

static const struct gs_str *sort_ids(struct gs_arena *arena, const struct gs_kubelet_texts *ids)
{
    struct gs_str *id = GS_ARENA_ARRAY(arena, ids->n, struct gs_str);

    for (size_t i = 0; id != NULL && i < ids->n; i++)
        id[i] = gs_str_of(ids->p[i]);
    if (id != NULL && ids->n > 1)
        qsort(id, ids->n, sizeof(*id), gs_str_order);
    return id;
}

/* Provide for each container that holds these ids. -ENODATA: *ret_uid names the pod that has to be
 * waited for. Containers whose answer is none of ours (an older plugin's, or one made without CDI)
 * got all they need with it. */
static int attempt(struct gs_provision *p, const struct gs_kubelet_texts *ids,
                   struct gs_str *ret_uid, struct gs_err *err)
{
    struct gs_checkpoint checkpoint;
    const struct gs_str *id;
    size_t n_found = 0;
    int rc;

    gs_arena_reset(&p->frame);
    id = sort_ids(&p->frame, ids);
    if (id == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    rc = gs_checkpoint_load(p->opt.checkpoint_dir, p->opt.resource, &p->frame, &checkpoint, err);
    for (size_t i = 0; rc == 0 && i < checkpoint.n; i++) {
        const struct gs_checkpoint_entry *entry = &checkpoint.entry[i];

        if (!gs_checkpoint_holds(entry, id, ids->n))
            continue;
        n_found++;
        if (entry->slot.n == 0)
            continue;
        rc = provide(p, entry, true, err);
        if (rc == -ENODATA && !gs_grants_is_synced(p->opt.grants))
            rc = provide_again(p, entry, err);
        if (rc == -ENODATA)
            *ret_uid = entry->pod_uid;
        else if (rc == 0 && p->opt.ready != NULL) {
            const struct gs_grants_pod *pod = gs_grants_find(p->opt.grants, entry->pod_uid);

            if (pod != NULL)
                p->opt.ready(p->opt.arg, pod);
        }
    }
    if (rc == 0 && n_found == 0)
        return gs_err_set(err, -ENOENT,
                          "the kubelet's checkpoint has no container with these ids (%s, ...)",
                          ids->n > 0 ? ids->p[0] : "none");
    return rc;
}

static void on_late(void *user)
{
    struct gs_provision_op *op = user;
    struct gs_err err = {0};
    struct gs_str uid = {0};
    int rc = attempt(op->provision, &op->ids, &uid, &err);

    finish(op, rc, &err);
}

static int keep_ids(struct gs_provision_op *op, const struct gs_kubelet_texts *ids)
{
    const char **id = GS_ARENA_ARRAY(&op->arena, ids->n, const char *);

    for (size_t i = 0; id != NULL && i < ids->n; i++)
        id[i] = gs_arena_str(&op->arena, gs_str_of(ids->p[i])).p;
    op->ids = (struct gs_kubelet_texts){id, ids->n};
    return gs_arena_check(&op->arena);
}

int gs_provision_begin(struct gs_provision *p, const struct gs_kubelet_texts *ids,
                       gs_provision_fn *fn, void *arg, struct gs_provision_op **ret_op,
                       struct gs_err *err)
{
    struct gs_str uid = {0};
    struct gs_provision_op *op;
    int rc = attempt(p, ids, &uid, err);

    p->stats.begun++;
    if (rc != -ENODATA) {
        p->stats.failed += rc < 0;
        return rc;
    }
    op = calloc(1, sizeof(*op));
    if (op == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    op->provision = p;
    op->fn = fn;
    op->arg = arg;
    GS_LIST_APPEND(&p->waiting, op, link);
    p->stats.waiting++;
    if (keep_ids(op, ids) < 0 || gs_str_to_field(uid, op->uid, sizeof(op->uid)) < 0) {
        end_op(op);
        return gs_err_set(err, -ENOMEM, "no memory");
    }
    p->stats.waited++;
    gs_loop_timer_in(p->opt.loop, &op->timer, p->opt.wait_ms, on_late, op);
    *ret_op = op;
    return GS_PROVISION_LATER;
}

void gs_provision_saw(struct gs_provision *p, const struct gs_grants_pod *pod)
{
    for (struct gs_provision_op *op = p->waiting.first, *next; op != NULL; op = next) {
        struct gs_str uid = {0};
        struct gs_err err = {0};
        int rc;

        next = op->link.next;
        if (!gs_str_eq_c(pod->uid, op->uid))
            continue;
        rc = attempt(p, &op->ids, &uid, &err);
        if (rc != -ENODATA)
            finish(op, rc, &err);
        else
            (void)gs_str_to_field(uid, op->uid, sizeof(op->uid)); /* fits: as before */
    }
}

/* ---- tidying ---- */

struct keep {
    const struct gs_provision *p;
    struct gs_map slots, uids; /* of the checkpoint */
};

static bool keeps_slot(void *arg, struct gs_str name)
{
    return gs_map_find(&((struct keep *)arg)->slots, name) != NULL;
}

/* "<podUID>_<container>" */
static bool keeps_folder(void *arg, struct gs_str name)
{
    struct keep *keep = arg;
    struct gs_str uid;

    return gs_str_cut(&name, '_', &uid) && (gs_map_find(&keep->uids, uid) != NULL ||
                                            gs_grants_find(keep->p->opt.grants, uid) != NULL);
}

static void restore(struct gs_provision *p, const struct gs_checkpoint_entry *entry)
{
    struct gs_err err = {0};
    char name[GS_CDI_NAME];
    int rc;

    if (entry->slot.n == 0 || gs_str_to_field(entry->slot, name, sizeof(name)) < 0 ||
        gs_cdi_is_there(p->opt.cdi_dir, name))
        return;
    rc = provide(p, entry, false, &err);
    if (rc == 0)
        p->stats.restored++;
    else if (rc != -ENODATA)
        GS_LOG_WARN("a slot cannot be made again", GS_LOG_STR("pod_uid", entry->pod_uid),
                    GS_LOG_STR("container", entry->container), GS_LOG_ERR(&err));
}

static void sweep(struct gs_provision *p, struct keep *keep)
{
    int specs = p->opt.cdi_dir >= 0 ? gs_cdi_sweep(p->opt.cdi_dir, keeps_slot, keep) : 0;
    int folders = gs_folders_sweep(p->opt.folders, keeps_folder, keep, SWEEP_BUDGET);

    if (specs < 0 || folders < 0)
        GS_LOG_WARN("what belongs to no container cannot be removed",
                    GS_LOG_RC(specs < 0 ? specs : folders));
    else if (specs > 0 || folders > 0)
        GS_LOG_INFO("slots of containers that are gone were removed", GS_LOG_INT("specs", specs),
                    GS_LOG_INT("folders", folders));
}

void gs_provision_tidy(struct gs_provision *p)
{
    struct keep keep = {.p = p};
    struct gs_checkpoint checkpoint = {0};
    struct gs_err err = {0};
    int rc;

    if (!gs_grants_is_synced(p->opt.grants) || p->opt.kit->inv == NULL)
        return; /* it comes again with them */
    gs_arena_reset(&p->frame);
    rc = gs_checkpoint_load(p->opt.checkpoint_dir, p->opt.resource, &p->frame, &checkpoint, &err);
    for (size_t i = 0; (rc == 0 || rc == -ENOENT) && i < checkpoint.n; i++) {
        const struct gs_checkpoint_entry *entry = &checkpoint.entry[i];

        rc = entry->slot.n > 0 ? gs_map_set(&keep.slots, entry->slot, p) : 0;
        if (rc == 0)
            rc = gs_map_set(&keep.uids, entry->pod_uid, p);
        if (rc == 0 && p->opt.cdi_dir >= 0)
            restore(p, entry);
    }
    if (rc == 0 || rc == -ENOENT)
        sweep(p, &keep);
    else
        GS_LOG_WARN("the kubelet's checkpoint cannot be read", GS_LOG_ERR(&err));
    gs_map_fini(&keep.slots);
    gs_map_fini(&keep.uids);
}

void gs_provision_stats(const struct gs_provision *p, struct gs_provision_stats *ret)
{
    *ret = p->stats;
}
