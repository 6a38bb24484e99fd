#include "monitor/boards.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "contract/quota.h"

#define CARDS_MAX 64u
#define REST_MS   1000u /* where no slice needs a board */
/* Where none on the card has asked for it for so long, its board is written less often: in time for
 * it not to be stale. */
#define IDLE_NS      1000000000u
#define IDLE_TICK_NS 200000000u
_Static_assert(IDLE_TICK_NS < GS_BOARD_STALE_NS, "it is not stale");

struct gs_boards {
    const char *folder;
    int dir_fd;
    struct card {
        struct gs_board_writer *writer;
        bool is_needed, is_told;
        bool is_idle; /**< at the last tick */
        uint64_t next_ns;
    } card[CARDS_MAX];
    size_t n;
};

int gs_boards_new(const char *folder, struct gs_boards **ret)
{
    struct gs_boards *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return -ENOMEM;
    b->folder = folder;
    b->dir_fd = -1;
    *ret = b;
    return 0;
}

struct gs_boards *gs_boards_free(struct gs_boards *b)
{
    if (b == NULL)
        return NULL;
    for (size_t i = 0; i < b->n; i++)
        gs_board_free(b->card[i].writer);
    gs_file_close(&b->dir_fd);
    free(b);
    return NULL;
}

/** A folder of ours in which nobody else writes; containers see it read-only. */
static int open_folder(struct gs_boards *b)
{
    struct stat st;
    int fd;

    if (mkdir(b->folder, 0755) != 0 && errno != EEXIST)
        return -errno;
    fd = open(b->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 022) != 0) {
        gs_file_close(&fd);
        return -EPERM;
    }
    b->dir_fd = fd;
    return 0;
}

static struct card *find(struct gs_boards *b, const char *uuid)
{
    for (size_t i = 0; i < b->n; i++)
        if (strcmp(b->card[i].writer->ledgers.uuid, uuid) == 0)
            return &b->card[i];
    return NULL;
}

/** The card's writer, made where it is the first slice on a card of this machine. */
static struct card *need(struct gs_boards *b, const char *uuid,
                         const struct gs_tenants_driver *driver)
{
    struct card *c = find(b, uuid);

    if (c != NULL || driver == NULL || b->n == CARDS_MAX)
        return c;
    for (size_t i = 0; i < driver->n_cards; i++) {
        struct gs_board_writer *writer;

        if (strcmp(driver->card[i].uuid, uuid) != 0)
            continue;
        if (b->dir_fd < 0 && open_folder(b) < 0)
            return NULL; /* looked for again with the next look */
        if (gs_board_new(b->dir_fd, uuid, 0644, driver->card[i].total_bytes, &writer) < 0)
            return NULL;
        b->card[b->n] = (struct card){.writer = writer};
        return &b->card[b->n++];
    }
    return NULL;
}

/** Does it ask for something that takes a board? Beside one that does all others are on it, too. */
static bool is_ranked(const struct gs_tenants_device *d, const struct gs_pods_container *granted)
{
    return (d->core_pct > 0 && d->core_pct < 100) || granted->priority != GS_PRIORITY_NONE ||
           granted->is_oversubscribed;
}

static void offer(struct gs_boards *b, const struct gs_tenant *tenant, int folder_fd,
                  const struct gs_pods_container *granted, const struct gs_tenants_driver *driver)
{
    GS_CLEANUP(gs_file_close) int dir = gs_folder_open(folder_fd, tenant->name);

    for (size_t i = 0; dir >= 0 && i < tenant->n_devices; i++) {
        const struct gs_tenants_device *d = &tenant->device[i];
        struct card *c = d->read == NULL         ? NULL
                         : is_ranked(d, granted) ? need(b, d->uuid, driver)
                                                 : find(b, d->uuid);
        const struct gs_ledgers_grant grant = {.core_pct = d->core_pct,
                                               .policy = granted->policy,
                                               .priority = granted->priority,
                                               .takes_turns = granted->is_oversubscribed};

        if (c != NULL) /* one that cannot be read is looked at again next time */
            (void)!gs_ledgers_offer(&c->writer->ledgers, dir, tenant->file, &grant);
    }
}

static void offer_all(struct gs_boards *b, const struct gs_tenants *tenants,
                      const struct gs_tenants_driver *driver)
{
    for (size_t i = 0; i < b->n; i++)
        gs_ledgers_begin(&b->card[i].writer->ledgers);
    for (size_t i = 0; i < gs_tenants_count(tenants); i++) {
        const struct gs_tenant *tenant = gs_tenants_at(tenants, i);
        struct gs_tenants_who who;

        if (tenant->reading.kind == GS_READING_LEDGER && gs_tenants_who(tenants, tenant, &who) &&
            who.granted != NULL)
            offer(b, tenant, gs_tenants_folder(tenants), who.granted, driver);
    }
    for (size_t i = 0; i < b->n; i++) {
        gs_ledgers_end(&b->card[i].writer->ledgers);
        b->card[i].is_needed = gs_ledgers_is_needed(&b->card[i].writer->ledgers);
    }
}

/** Somebody took the folder away: the boards begin anew in another one. */
static void mend_folder(struct gs_boards *b)
{
    struct stat st;

    if (b->dir_fd < 0 || (fstat(b->dir_fd, &st) == 0 && st.st_nlink > 0))
        return;
    gs_file_close(&b->dir_fd);
    (void)!open_folder(b); /* told of where a board cannot be written */
    for (size_t i = 0; i < b->n; i++) {
        gs_board_resign(b->card[i].writer);
        b->card[i].writer->dir_fd = b->dir_fd;
    }
}

void gs_boards_scan(struct gs_boards *b, const struct gs_tenants *tenants,
                    const struct gs_tenants_driver *driver, uint64_t now_ns)
{
    bool is_new = false;

    mend_folder(b);
    offer_all(b, tenants, driver);
    for (size_t i = 0; i < b->n; i++) {
        struct card *c = &b->card[i];

        if (!c->is_needed)
            gs_board_resign(c->writer);
        else if (c->writer->lock_fd < 0)
            is_new |= gs_board_elect(c->writer, now_ns) == 2;
    }
    if (is_new) /* who is elected begins without slices */
        offer_all(b, tenants, driver);
}

/** Said once, until it can be written again. */
static void tell(struct card *c, int rc)
{
    if (rc < 0 && !c->is_told)
        GS_LOG_WARN("a card's board cannot be written: slices keep to their own shares",
                    GS_LOG_CSTR("device", c->writer->ledgers.uuid), GS_LOG_RC(rc));
    c->is_told = rc < 0;
}

static bool rests(const struct card *c, uint64_t now_ns)
{
    for (uint32_t i = 0; i < c->writer->ledgers.n; i++)
        if (c->writer->ledgers.slice[i]->arbiter.demand_ns + IDLE_NS > now_ns)
            return false;
    return true;
}

uint64_t gs_boards_tick(struct gs_boards *b, uint64_t now_ns)
{
    uint64_t next_ns = now_ns + (uint64_t)REST_MS * 1000000;

    for (size_t i = 0; i < b->n; i++) {
        struct card *c = &b->card[i];
        int rc;

        if (!c->is_needed)
            continue;
        if (now_ns >= c->next_ns) {
            rc = gs_board_elect(c->writer, now_ns);
            /* elected just now it has no slices: they come with the next look */
            if (rc == 1)
                rc = gs_board_tick(c->writer, now_ns);
            tell(c, rc);
            c->is_idle = rests(c, now_ns);
            if (c->is_idle) /* the driver is not asked any more: what it said is past */
                gs_board_take_used(c->writer, NULL, -1, now_ns);
            c->next_ns = now_ns + (c->is_idle ? IDLE_TICK_NS : GS_BOARD_TICK_NS);
        }
        if (c->next_ns < next_ns)
            next_ns = c->next_ns;
    }
    return (next_ns - now_ns + 999999) / 1000000;
}

void gs_boards_take_used(struct gs_boards *b, const char *uuid, const struct gs_ledgers_used *used,
                         int n, uint64_t now_ns)
{
    struct card *c = find(b, uuid);

    if (c != NULL && c->writer->lock_fd >= 0)
        gs_board_take_used(c->writer, used, n, now_ns);
}

typedef bool pick_fn(const struct card *c);

static size_t list(const struct gs_boards *b, pick_fn *pick, const char **ret, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n && n < max; i++)
        if (b->card[i].is_needed && pick(&b->card[i]))
            ret[n++] = b->card[i].writer->ledgers.uuid;
    return n;
}

static bool is_written(const struct card *c)
{
    return c->writer->lock_fd >= 0;
}

static bool is_busy(const struct card *c)
{
    return !c->is_idle;
}

size_t gs_boards_written(const struct gs_boards *b, const char **ret, size_t max)
{
    return list(b, is_written, ret, max);
}

size_t gs_boards_busy(const struct gs_boards *b, const char **ret, size_t max)
{
    return list(b, is_busy, ret, max);
}
