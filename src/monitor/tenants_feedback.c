#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "contract/quota.h"
#include "monitor/feedback.h"
#include "monitor/tenants_internal.h"

/* A word that is set to 2 at a launch and counted down each step is above 0 for so long at most. */
#define ACTIVE_S 10
#define CARDS    64u

/** UUIDs met so far: a bit of a mask each. */
struct names {
    const char *name[CARDS];
    uint32_t n;
};

static uint64_t bit_of(struct names *names, const char *uuid)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->name[i], uuid) == 0)
            return UINT64_C(1) << i;
    if (names->n == CARDS || uuid[0] == '\0')
        return 0;
    names->name[names->n] = uuid;
    return UINT64_C(1) << names->n++;
}

/* The file's own word, but nobody makes himself first by it where his pod says otherwise. */
static int32_t priority_of(const struct gs_tenants *t, const struct gs_tenant *tenant, int32_t word)
{
    struct gs_tenants_who who;

    if (t->opt.pods == NULL || !gs_tenants_who(t, tenant, &who))
        return word;
    if (who.granted->priority == GS_PRIORITY_HIGH)
        return 0;
    return word > 0 ? word : 1;
}

/** The very kind of file that was looked at: it may have been replaced since. Descriptor or -1. */
static int open_region(const struct gs_tenants *t, const struct gs_tenant *tenant)
{
    GS_CLEANUP(gs_file_close) int dir = gs_folder_open(t->folder_fd, tenant->name);
    enum gs_region_layout layout;
    int fd = dir < 0 ? -1
                     : openat(dir, tenant->file,
                              O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);

    if (fd >= 0 && (gs_region_check(fd, &layout) != 0 || layout != tenant->reading.layout))
        gs_file_close(&fd);
    return fd;
}

/** The words now, of a region that can be written to. */
static bool read_words(const struct gs_tenants *t, const struct gs_tenant *tenant,
                       struct gs_region_words *ret)
{
    GS_CLEANUP(gs_file_close) int fd = -1;

    if (tenant->reading.kind != GS_READING_REGION)
        return false;
    fd = open_region(t, tenant);
    return fd >= 0 && gs_region_read_words(fd, tenant->reading.layout, ret) == 0;
}

static void write_words(const struct gs_tenants *t, const struct gs_tenant *tenant,
                        const struct gs_region_words *before, const struct gs_region_words *now)
{
    GS_CLEANUP(gs_file_close) int fd = -1;
    int rc;

    if (before->recent_kernel == now->recent_kernel &&
        before->utilization_switch == now->utilization_switch)
        return;
    fd = open_region(t, tenant);
    rc = fd < 0 ? -EACCES : gs_region_write_words(fd, tenant->reading.layout, before, now);
    if (rc < 0)
        GS_LOG_WARN("a container cannot be told of its priority",
                    GS_LOG_CSTR("folder", tenant->name), GS_LOG_RC(rc));
}

static struct gs_feedback_container look(const struct gs_tenants *t, const struct gs_tenant *tenant,
                                         struct names *names, int64_t unix_s,
                                         struct gs_region_words *ret_words)
{
    struct gs_feedback_container c = {0};
    int64_t last;

    *ret_words = tenant->reading.words;
    c.is_steered = read_words(t, tenant, ret_words);
    last = ret_words->last_kernel_unix_s;
    c.priority = priority_of(t, tenant, ret_words->priority);
    c.is_active = last > unix_s - ACTIVE_S && last <= unix_s;
    c.recent_kernel = ret_words->recent_kernel;
    c.utilization_switch = ret_words->utilization_switch;
    for (size_t i = 0; i < tenant->n_devices; i++)
        c.cards |= bit_of(names, tenant->device[i].uuid);
    return c;
}

void gs_tenants_feedback(struct gs_tenants *t, const struct gs_tenants_now *now)
{
    struct gs_feedback_container *c = calloc(t->n + 1, sizeof(*c));
    struct gs_region_words *words = calloc(t->n + 1, sizeof(*words));
    struct names names = {.n = 0};

    for (size_t i = 0; c != NULL && words != NULL && i < t->n; i++)
        c[i] = look(t, t->at[i], &names, now->unix_s, &words[i]);
    if (c != NULL && words != NULL)
        gs_feedback_step(c, t->n);
    for (size_t i = 0; c != NULL && words != NULL && i < t->n; i++) {
        struct gs_region_words after = words[i];

        if (!c[i].is_steered)
            continue;
        after.recent_kernel = c[i].recent_kernel;
        after.utilization_switch = c[i].utilization_switch;
        write_words(t, t->at[i], &words[i], &after);
    }
    free(c);
    free(words);
}
