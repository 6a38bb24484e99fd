/* gpuslice resize: change the terms of a live slice. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/book.h"
#include "apps/gpuslice/control.h"
#include "apps/gpuslice/loose.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/promise.h"
#include "apps/gpuslice/room.h"
#include "apps/gpuslice/slice.h"
#include "apps/gpuslice/terms.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/proc.h"
#include "node/probe.h"
#include "vendors/registry_node.h"

struct resize {
    const struct gs_opt_args *args;
    struct gs_probe probe;
    struct gs_proc_table procs;
    struct gs_slices slices;
    struct gs_slice *slice;
    struct gs_quota quota; /**< the new one */
    struct gs_buf said;    /**< what changes, for standard output */
};

static const char *option(const struct resize *r, int id)
{
    return r->args->value[id];
}

/* What is wrong on any machine is told where there is no driver to ask, too. */
static int check_options(const struct resize *r, struct gs_err *err)
{
    static const int any[] = {GS_OPTION_NEW_MEMORY, GS_OPTION_NEW_CORES, GS_OPTION_NEW_POLICY,
                              GS_OPTION_NEW_PRIORITY};

    const char *memory = option(r, GS_OPTION_NEW_MEMORY), *cores = option(r, GS_OPTION_NEW_CORES);
    size_t sizes = gs_terms_count(memory), shares = gs_terms_count(cores), given = 0;
    int rc;

    for (size_t i = 0; i < GS_ARRAY_LEN(any); i++)
        given += option(r, any[i]) != NULL;
    if (given == 0)
        return gs_err_set(err, -EINVAL,
                          "nothing to change; give --memory, --cores, --policy or --priority");
    rc = gs_terms_check(memory, cores, option(r, GS_OPTION_NEW_POLICY),
                        option(r, GS_OPTION_NEW_PRIORITY), err);
    if (rc == 0) /* both for as many cards as the longer one has words */
        rc = gs_terms_check_count("memory", "sizes", memory, sizes > shares ? sizes : shares, err);
    if (rc == 0)
        rc = gs_terms_check_count("cores", "shares", cores, sizes > shares ? sizes : shares, err);
    return rc;
}

static int find_slice(struct resize *r, struct gs_err *err)
{
    const char *name = r->args->rest[0];
    int rc;

    (void)!gs_proc_list(&r->procs); /* without /proc the locks decide who lives */
    rc = gs_loose_list(&r->procs, &r->slices, err);
    if (rc != 0)
        return rc;
    return gs_slices_find_sound(&r->slices, name, &r->slice, err);
}

/* Will there be anything for a policy to hold, on some card? */
static bool has_share(const struct resize *r)
{
    const char *cores = option(r, GS_OPTION_NEW_CORES);

    if (cores)
        return gs_terms_have_share(cores);
    for (uint32_t i = 0; i < r->slice->quota.n_devices; i++)
        if (r->slice->quota.device[i].core_pct < 100)
            return true;
    return false;
}

/* A share given anew is held; one that is taken away is not; else the policy stays. */
static int choose_policy(const struct resize *r, const struct gs_quota_device *before,
                         struct gs_quota_device *d, struct gs_err *err)
{
    const char *policy = option(r, GS_OPTION_NEW_POLICY);

    if (d->core_pct == 100)
        d->policy = GS_POLICY_OFF;
    else if (before->core_pct == 100)
        d->policy = GS_POLICY_FIXED;
    if (!policy)
        return 0;
    if (gs_terms_policy(policy, &d->policy, err) != 0)
        return -EINVAL;
    if (d->policy != GS_POLICY_OFF && !has_share(r))
        return gs_err_set(err, -EINVAL,
                          "--policy %s has nothing to hold: the slice has no share; give --cores",
                          policy);
    return 0;
}

/* Growing is what may break a promise made to others; a slice that was allowed to may. */
static int check_promises(const struct resize *r, const struct gs_card *card,
                          const struct gs_quota_device *before, const struct gs_quota_device *d,
                          struct gs_err *err)
{
    static const char way[] = ", or start the slice anew with --oversubscribe";
    bool held = before->policy != GS_POLICY_OFF;
    struct gs_promise promise;
    int rc = 0;

    if (r->quota.oversubscribe)
        return 0;
    gs_promise_read(card, &r->slices, r->slice, &promise);
    if (d->limit_bytes > before->limit_bytes || before->limit_bytes == UINT64_MAX)
        rc = gs_promise_check_memory(card, d->limit_bytes, &promise, way, err);
    if (rc == 0 && d->policy != GS_POLICY_OFF && (!held || d->core_pct > before->core_pct))
        rc = gs_promise_check_cores(card, d->core_pct, &promise, way, err);
    return rc;
}

static const char *share_text(const struct gs_quota_device *d, char text[32])
{
    if (d->core_pct == 100 || d->policy == GS_POLICY_OFF)
        (void)snprintf(text, 32, "not held");
    else
        (void)snprintf(text, 32, "%u %% %s", d->core_pct, gs_quota_policy_name(d->policy));
    return text;
}

static void say_device(struct resize *r, const struct gs_card *card,
                       const struct gs_quota_device *before, const struct gs_quota_device *d)
{
    char from[32], to[32], from_size[GS_APP_SIZE], to_size[GS_APP_SIZE];

    if (before->limit_bytes != d->limit_bytes)
        gs_buf_addf(&r->said, "slice '%s', card %u: memory %s -> %s\n", r->slice->name, card->index,
                    gs_app_size(before->limit_bytes, from_size),
                    gs_app_size(d->limit_bytes, to_size));
    if (before->core_pct != d->core_pct || before->policy != d->policy)
        gs_buf_addf(&r->said, "slice '%s', card %u: compute %s -> %s\n", r->slice->name,
                    card->index, share_text(before, from), share_text(d, to));
}

static int change_device(struct resize *r, uint32_t i, struct gs_err *err)
{
    const char *memory = option(r, GS_OPTION_NEW_MEMORY), *cores = option(r, GS_OPTION_NEW_CORES);
    const struct gs_quota_device *before = &r->slice->quota.device[i];
    struct gs_quota_device *d = &r->quota.device[i];
    int at = gs_probe_find_card(&r->probe, d->uuid), rc = 0;
    const struct gs_card *card;

    if (at < 0)
        return gs_err_set(err, -ENODEV, "the driver does not show card %s of the slice any more",
                          d->uuid);
    card = &r->probe.card[at];
    if (memory)
        rc = gs_terms_memory(gs_terms_word(memory, i, ""), card, &d->limit_bytes, err);
    if (rc == 0 && cores)
        rc = gs_terms_cores(gs_terms_word(cores, i, ""), &d->core_pct, err);
    if (rc == 0)
        rc = choose_policy(r, before, d, err);
    if (rc == 0)
        rc = check_promises(r, card, before, d, err);
    if (rc == 0)
        say_device(r, card, before, d);
    return rc;
}

/* That of the slice, where it counts: what is held on any card and was given none is low. */
static uint32_t priority_of(const struct gs_quota *quota)
{
    uint32_t priority = quota->priority;

    for (uint32_t i = 0; i < quota->n_devices && priority == GS_PRIORITY_NONE; i++)
        priority = gs_terms_priority_of(quota, &quota->device[i]);
    return priority;
}

static int change(struct resize *r, struct gs_err *err)
{
    const char *priority = option(r, GS_OPTION_NEW_PRIORITY);
    uint32_t n = r->slice->quota.n_devices;
    int rc = gs_terms_check_count("memory", "sizes", option(r, GS_OPTION_NEW_MEMORY), n, err);

    r->quota = r->slice->quota;
    r->quota.generation++;
    if (rc == 0)
        rc = gs_terms_check_count("cores", "shares", option(r, GS_OPTION_NEW_CORES), n, err);
    if (rc == 0 && priority)
        rc = gs_terms_priority(priority, &r->quota.priority, err);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        rc = change_device(r, i, err);
    if (rc == 0 && r->quota.priority != r->slice->quota.priority)
        gs_buf_addf(&r->said, "slice '%s': priority %s -> %s\n", r->slice->name,
                    gs_quota_priority_name(priority_of(&r->slice->quota)),
                    gs_quota_priority_name(r->quota.priority));
    return rc;
}

/* A limit that has grown may be more than the card has now. */
static void say_no_room(const struct resize *r)
{
    for (uint32_t i = 0; i < r->quota.n_devices && !r->quota.oversubscribe; i++) {
        const struct gs_quota_device *d = &r->quota.device[i];
        int at = gs_probe_find_card(&r->probe, d->uuid);

        if (at >= 0 && d->limit_bytes > r->slice->quota.device[i].limit_bytes)
            gs_room_tell(&r->probe, (size_t)at, &r->slices, r->slice, d->limit_bytes);
    }
}

/* A limit below what is in use is taken as it is; the user should know what that means. */
static void say_below_use(const struct resize *r)
{
    GS_CLEANUP(gs_book_fini) struct gs_book book = {0};

    if (gs_book_read(r->slice->dir_fd, &book, NULL) != 0)
        return; /* nothing is in use yet */
    for (uint32_t i = 0; i < r->quota.n_devices; i++) {
        const struct gs_quota_device *d = &r->quota.device[i];
        const struct gs_book_device *used = gs_book_find_device(&book, d->uuid);
        int at = gs_probe_find_card(&r->probe, d->uuid);
        char use[GS_APP_SIZE], limit[GS_APP_SIZE];

        if (used && at >= 0 && used->used_bytes > d->limit_bytes)
            gs_app_say("slice '%s', card %u: %s are in use, above the limit of %s: nothing is "
                       "freed, and new allocations are refused until use falls below it",
                       r->slice->name, r->probe.card[at].index, gs_app_size(used->used_bytes, use),
                       gs_app_size(d->limit_bytes, limit));
    }
}

static void say_deaf(const struct resize *r, const struct gs_control_reach *reach)
{
    if (reach->deaf > 0)
        gs_app_say(
            "slice '%s': %u of %u processes use SIGUSR1 or SIGUSR2 themselves; their launches "
            "are held from their next allocation on",
            r->slice->name, reach->deaf, reach->processes);
}

static int resize(struct resize *r, struct gs_err *err)
{
    GS_CLEANUP(gs_slice_unlock_home) struct gs_slice_home_lock lock = {0};
    bool was_straight;
    struct gs_control_reach reach;
    int rc = check_options(r, err);

    if (rc == 0)
        rc = gs_slices_check(r->args->rest[0], err);
    if (rc == 0)
        rc = gs_probe_read(gs_registry_node, gs_registry_node_n, &r->probe, err);
    if (rc == 0)
        rc = gs_slice_lock_home(&lock, err);
    if (rc == 0)
        rc = find_slice(r, err);
    if (rc == 0)
        rc = change(r, err);
    if (rc != 0)
        return rc;
    if (r->said.n == 0) {
        gs_buf_addf(&r->said, "slice '%s': nothing changes\n", r->slice->name);
        return 0;
    }
    was_straight = gs_control_is_straight(&r->slice->quota) && !gs_control_is_straight(&r->quota);
    rc = gs_slice_write_quota(r->slice, &r->quota, err);
    if (rc == 0)
        rc = gs_control_announce(r->slice->dir_fd, r->quota.generation, was_straight, &reach, err);
    if (rc != 0)
        return gs_err_wrap(err, rc, "resize slice '%s'", r->slice->name);
    say_below_use(r);
    say_no_room(r);
    say_deaf(r, &reach);
    return 0;
}

int gs_resize_main(const struct gs_opt_args *args)
{
    /* large: the probe and quota of 64 cards */
    static struct resize r;
    struct gs_err err = {0};
    int rc, status;

    r.args = args;
    rc = resize(&r, &err);
    if (rc == 0) {
        status = gs_app_finish(&r.said);
    } else {
        gs_app_say("%s", err.text);
        status = rc == -EINVAL ? GS_EXIT_USAGE : GS_EXIT_FAILED;
    }
    gs_buf_fini(&r.said);
    gs_slices_fini(&r.slices);
    gs_proc_fini(&r.procs);
    gs_probe_fini(&r.probe);
    return status;
}
