#include "apps/gpuslice/debt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/gpuslice/home.h"
#include "base/buf.h"
#include "base/file.h"
#include "contract/ledger.h"

#define DEBT_FILE   ".debt"
#define DEBT_HEADER "gpuslice-debt 1\n"
#define DEBT_MAX    16384
/** A word of the ledger that is older was not written by work that is still out. */
#define OLDEST_NS UINT64_C(3600000000000)

struct debt {
    char uuid[96];
    uint64_t ns;       /**< card time owed at */
    uint64_t at_ns;    /**< CLOCK_MONOTONIC */
    uint32_t core_pct; /**< share at which it is paid off */
};

struct debts {
    struct debt p[GS_LEDGER_DEVICES];
    size_t n;
};

static uint64_t monotonic_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** What is left of it now. A time ahead is of another boot. */
static uint64_t left_of(const struct debt *d, uint64_t now_ns)
{
    uint64_t paid;

    if (d->at_ns > now_ns || d->ns > GS_DEBT_MOST_NS)
        return 0;
    paid = (now_ns - d->at_ns) / 100 * d->core_pct;
    return d->ns > paid && d->ns - paid >= GS_DEBT_LEAST_NS ? d->ns - paid : 0;
}

/* The format is ours and the folder private, yet a file may be cut short by a full disk. */
static void read_debts(int base_fd, uint64_t now_ns, struct debts *ret)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    char *line, *rest = NULL;

    ret->n = 0;
    if (gs_file_read(base_fd, DEBT_FILE, DEBT_MAX, &buf) != 0 ||
        strncmp(gs_buf_text(&buf), DEBT_HEADER, strlen(DEBT_HEADER)) != 0)
        return;
    line = strtok_r(buf.p + strlen(DEBT_HEADER), "\n", &rest);
    for (; line && ret->n < GS_LEDGER_DEVICES; line = strtok_r(NULL, "\n", &rest)) {
        struct debt d = {0};
        int end = -1;

        if (sscanf(line, "%95s %" SCNu64 " %" SCNu64 " %" SCNu32 "%n", d.uuid, &d.ns, &d.at_ns,
                   &d.core_pct, &end) == 4 &&
            end >= 0 && line[end] == '\0' && d.core_pct <= 100 && left_of(&d, now_ns) != 0)
            ret->p[ret->n++] = d;
    }
}

static void write_debts(int base_fd, const struct debts *debts)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};

    if (debts->n == 0) {
        (void)unlinkat(base_fd, DEBT_FILE, 0); /* mostly there is none */
        return;
    }
    gs_buf_adds(&text, DEBT_HEADER);
    for (size_t i = 0; i < debts->n; i++)
        gs_buf_addf(&text, "%s %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", debts->p[i].uuid,
                    debts->p[i].ns, debts->p[i].at_ns, debts->p[i].core_pct);
    if (gs_buf_check(&text) == 0) /* else it is forgiven */
        (void)!gs_file_write(base_fd, DEBT_FILE, text.p, text.n, NULL);
}

static struct debt *find(struct debts *debts, const char *uuid)
{
    for (size_t i = 0; i < debts->n; i++)
        if (strcmp(debts->p[i].uuid, uuid) == 0)
            return &debts->p[i];
    return NULL;
}

/** Two slices that end owing are two that would have paid; the larger share stands for both. */
static void add(struct debts *debts, struct debt d, uint64_t now_ns)
{
    struct debt *before = find(debts, d.uuid);

    if (before) {
        d.ns += left_of(before, now_ns);
        if (before->core_pct > d.core_pct)
            d.core_pct = before->core_pct;
    } else if (debts->n < GS_LEDGER_DEVICES) {
        before = &debts->p[debts->n++];
    }
    if (d.ns > GS_DEBT_MOST_NS)
        d.ns = GS_DEBT_MOST_NS;
    if (before)
        *before = d;
}

/** What processes that are dead now had out and nobody charged. */
struct unsettled {
    uint64_t since_ns; /**< at the earliest; 0 nothing */
    uint64_t most_ns;  /**< sum of the times in which the card may have worked for each */
    uint64_t paid_ns;
};

static void take_unsettled(const struct gs_ledger_use *use, uint64_t now_ns,
                           struct unsettled *unsettled)
{
    uint64_t since = use->unsettled_ns, ns;

    if (since == 0 || since >= now_ns || now_ns - since > OLDEST_NS)
        return;
    ns = now_ns - since;
    if (use->idle_of_ns == since)
        ns = use->idle_ns < ns ? ns - use->idle_ns : 0;
    unsettled->most_ns += ns;
    if (use->inflight_ns <= GS_DEBT_MOST_NS)
        unsettled->paid_ns += use->inflight_ns;
    if (unsettled->since_ns == 0 || since < unsettled->since_ns)
        unsettled->since_ns = since;
}

static int read_unsettled(int fd, uint64_t device_at, uint64_t now_ns, struct unsettled *unsettled)
{
    struct gs_ledger_head head;
    uint64_t slots;
    int rc =
        gs_ledger_pread(fd, &head, offsetof(struct gs_ledger_head, reserved), GS_LEDGER_OFFSET);

    slots = rc == 0 && head.slot_high < GS_LEDGER_SLOTS ? head.slot_high : GS_LEDGER_SLOTS;
    for (uint64_t i = 0; rc == 0 && i < slots; i++) {
        struct gs_ledger_use use;

        rc = gs_ledger_pread(fd, &use, sizeof(use),
                             device_at + offsetof(struct gs_ledger_device, use) + i * sizeof(use));
        if (rc == 0)
            take_unsettled(&use, now_ns, unsettled);
    }
    return rc;
}

/** What a slice owes by its ledger. Each word may be anything. */
static uint64_t owed_by(int fd, uint64_t device_at, bool is_made, uint32_t core_pct,
                        uint64_t now_ns)
{
    struct gs_ledger_bucket bucket;
    struct unsettled out = {0};
    int64_t tokens;

    if (gs_ledger_pread(fd, &bucket, sizeof(bucket),
                        device_at + offsetof(struct gs_ledger_device, bucket)) != 0 ||
        bucket.tokens_ns > (int64_t)GS_DEBT_MOST_NS || bucket.tokens_ns < -(int64_t)GS_DEBT_MOST_NS)
        return 0;
    tokens = bucket.tokens_ns;
    if (is_made && read_unsettled(fd, device_at, now_ns, &out) != 0)
        return 0;
    if (out.since_ns != 0) {
        uint64_t used = now_ns - out.since_ns;

        used = used < out.most_ns ? used : out.most_ns;
        used = used < GS_LEDGER_CHARGE_NS ? used : GS_LEDGER_CHARGE_NS;
        tokens += (int64_t)(out.paid_ns < used ? out.paid_ns : used);
        tokens -= (int64_t)used;
    }
    if (bucket.refill_ns != 0 && bucket.refill_ns < now_ns &&
        now_ns - bucket.refill_ns <= OLDEST_NS)
        tokens += (int64_t)((now_ns - bucket.refill_ns) / 100 * core_pct);
    if (tokens > -(int64_t)GS_DEBT_LEAST_NS)
        return 0;
    return tokens < -(int64_t)GS_DEBT_MOST_NS ? GS_DEBT_MOST_NS : (uint64_t)-tokens;
}

/** Place of a card in the ledger; -1 none. Before it is made it is that of the quota. */
static int find_in_ledger(int fd, const char *uuid, uint32_t n_devices)
{
    char at[96];

    for (uint32_t i = 0; i < n_devices; i++)
        if (gs_ledger_pread(fd, at, sizeof(at), gs_ledger_file_bytes(i)) == 0 &&
            strncmp(at, uuid, sizeof(at)) == 0)
            return (int)i;
    return -1;
}

static bool is_held(const struct gs_quota_device *d)
{
    return d->core_pct < 100 && d->policy != GS_POLICY_OFF;
}

void gs_debt_keep(const struct gs_slice *slice, int base_fd)
{
    GS_CLEANUP(gs_file_close)
    int fd = openat(slice->dir_fd, GS_SLICE_LEDGER, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    uint64_t now = monotonic_ns();
    struct debts debts;
    bool changed = false;
    uint32_t n_devices;
    int check;

    check = fd < 0 ? -errno : gs_ledger_check(fd, &n_devices);
    if (check != 0 && check != -ENODATA)
        return;
    read_debts(base_fd, now, &debts);
    for (uint32_t i = 0; i < slice->quota.n_devices; i++) {
        const struct gs_quota_device *q = &slice->quota.device[i];
        int dev = check == 0 ? find_in_ledger(fd, q->uuid, n_devices) : (int)i;
        struct debt d = {.at_ns = now, .core_pct = q->core_pct};

        if (!is_held(q) || dev < 0)
            continue;
        d.ns = owed_by(fd, gs_ledger_file_bytes((uint32_t)dev), check == 0, q->core_pct, now);
        (void)memcpy(d.uuid, q->uuid, sizeof(d.uuid));
        if (d.ns != 0)
            add(&debts, d, now);
        changed |= d.ns != 0;
    }
    if (changed)
        write_debts(base_fd, &debts);
}

/** Write what is owed on a card to where the maker of the ledger will look for it. */
static bool hand_one(int ledger_fd, uint32_t dev, uint64_t ns, uint64_t now_ns)
{
    const uint64_t at = gs_ledger_file_bytes(dev) + offsetof(struct gs_ledger_device, bucket);
    const struct gs_ledger_bucket bucket = {.tokens_ns = -(int64_t)ns, .refill_ns = now_ns};

    return pwrite(ledger_fd, &bucket, sizeof(bucket), (off_t)at) == (ssize_t)sizeof(bucket);
}

void gs_debt_hand(const struct gs_slice *slice)
{
    GS_CLEANUP(gs_file_close)
    int ledger = openat(slice->dir_fd, GS_SLICE_LEDGER, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    uint64_t owed[GS_LEDGER_DEVICES] = {0}, now = monotonic_ns();
    struct gs_home_bases bases;

    if (ledger < 0)
        return;
    gs_home_own_bases(&bases);
    for (size_t b = 0; b < bases.n; b++) {
        GS_CLEANUP(gs_file_close)
        int base = gs_file_open_private(AT_FDCWD, bases.path[b], slice->uid, NULL);
        struct debts debts;
        bool changed = false;

        if (base < 0)
            continue;
        read_debts(base, now, &debts);
        for (uint32_t i = 0; i < slice->quota.n_devices; i++) {
            const struct gs_quota_device *q = &slice->quota.device[i];
            struct debt *d = is_held(q) ? find(&debts, q->uuid) : NULL;

            if (!d || !hand_one(ledger, i, owed[i] + left_of(d, now), now))
                continue;
            owed[i] += left_of(d, now);
            *d = debts.p[--debts.n];
            changed = true;
        }
        if (changed)
            write_debts(base, &debts);
    }
}
