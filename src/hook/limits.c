#include "hook/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contract/env.h"
#include "core/size.h"
#include "hook/engine.h"
#include "hook/self.h"
#include "hook/sys.h"

/** What tells one quota file from the next: each is a new file, renamed into place. */
static void identify(const struct stat *st, uint64_t ret[4])
{
    ret[0] = st->st_dev;
    ret[1] = st->st_ino;
    ret[2] = (uint64_t)st->st_ctim.tv_sec * 1000000000u + (uint64_t)st->st_ctim.tv_nsec;
    ret[3] = (uint64_t)st->st_size;
}

static void forget_file(void)
{
    memset(gs_self.quota.file, 0, sizeof(gs_self.quota.file));
}

/** The file's text into buf. Returns its length or -errno. */
static long read_quota(int dir, char *buf, size_t cap)
{
    struct stat st;
    size_t n = 0;
    long rc;
    int fd = gs_sys_openat(dir, GS_QUOTA_FILE, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0);

    if (fd < 0) {
        /* known by its name, or as gone, so that it is not tried, and told of, every time anew */
        if (GS_SYS(SYS_newfstatat, dir, GS_QUOTA_FILE, &st, 0) == 0)
            identify(&st, gs_self.quota.file);
        else
            forget_file();
        return fd;
    }
    rc = gs_sys_fstat(fd, &st);
    if (rc == 0)
        identify(&st, gs_self.quota.file);
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = -EINVAL;
    while (rc == 0 && n < cap) {
        long part = gs_sys_read(fd, buf + n, cap - n);

        if (part < 0 && part != -EINTR)
            rc = part;
        if (part == 0)
            break;
        if (part > 0)
            n += (size_t)part;
    }
    gs_sys_close(fd);
    return rc < 0 ? rc : (long)n;
}

/** Read and parse `quota` in the open folder `dir`. 0; -EBADMSG bad, at *ret_line; -errno. */
static int load(int dir, struct gs_quota *ret_quota, uint32_t *ret_line)
{
    /* Not on the stack, which may be a small thread's; attaching is one at a time, and so is
     * looking again, later. One more byte shows a file that is too long. */
    static char text[GS_QUOTA_MAX_BYTES + 1];
    long n = read_quota(dir, text, sizeof(text));

    *ret_line = 0;
    if (n < 0)
        return (int)n;
    return gs_quota_parse((struct gs_str){text, (size_t)n}, ret_quota, ret_line) < 0 ? -EBADMSG : 0;
}

static int from_folder(int dir, const char *name, struct gs_quota *ret_quota)
{
    uint32_t line;
    int rc = load(dir, ret_quota, &line);

    if (rc == -EBADMSG) {
        if (line <= 3)
            ret_quota->fail = GS_FAIL_CLOSED;
        return gs_self_fail(GS_REASON_QUOTA_BAD, name, line, 0);
    }
    return rc < 0 ? gs_self_fail(GS_REASON_QUOTA_UNREADABLE, name, (uint64_t)-rc, 0) : 0;
}

/** A limit as HAMi's variables have it; `none` and a zero with a unit mean no limit. */
static int parse_limit(struct gs_str value, uint64_t *ret)
{
    int rc;

    if (gs_str_eq(value, GS_STR("none"))) {
        *ret = UINT64_MAX;
        return 0;
    }
    rc = gs_size_parse_hami(value, ret);
    if (rc < 0)
        return rc;
    if (*ret == UINT64_MAX)
        return -ERANGE; /* our own word for no limit; it has to be said as `none` */
    if (*ret == 0) {
        if (value.n < 2)
            return -EINVAL; /* a bare 0 may mean nothing or everything */
        *ret = UINT64_MAX;
    }
    return 0;
}

static int parse_pct(struct gs_str value, uint64_t *ret)
{
    int rc = gs_size_parse_u64(value, ret);

    if (rc < 0)
        return rc;
    if (*ret > 100)
        return -ERANGE;
    if (*ret == 0)
        *ret = 100; /* HAMi: 0 is no limit */
    return 0;
}

/** HAMi's word for how compute is shared; it takes capitals too. */
static int parse_policy(struct gs_str value, uint64_t *ret)
{
    if (gs_str_eq(value, GS_STR("force")) || gs_str_eq(value, GS_STR("FORCE")))
        *ret = GS_POLICY_FIXED;
    else if (gs_str_eq(value, GS_STR("default")) || gs_str_eq(value, GS_STR("DEFAULT")))
        *ret = GS_POLICY_ELASTIC;
    else if (gs_str_eq(value, GS_STR("disable")) || gs_str_eq(value, GS_STR("DISABLE")))
        *ret = GS_POLICY_OFF;
    else
        return -EINVAL;
    return 0;
}

static int parse_priority(struct gs_str value, uint64_t *ret)
{
    int rc = gs_size_parse_u64(value, ret);

    if (rc < 0)
        return rc;
    if (*ret > 1)
        return -ERANGE;
    *ret = *ret == 0 ? GS_PRIORITY_HIGH : GS_PRIORITY_LOW;
    return 0;
}

static int parse_switch(struct gs_str value, uint64_t *ret)
{
    if (gs_str_eq(value, GS_STR("true")) || gs_str_eq(value, GS_STR("1")))
        *ret = 1;
    else if (gs_str_eq(value, GS_STR("false")) || gs_str_eq(value, GS_STR("0")))
        *ret = 0;
    else
        return -EINVAL;
    return 0;
}

/** A variable that speaks of all cards; *ret keeps its value where it is not set. */
static int from_word(const char *name, int (*parse)(struct gs_str value, uint64_t *ret),
                     uint64_t *ret)
{
    const char *value = getenv(name);

    if (value != NULL && parse(gs_str_of(value), ret) < 0)
        return gs_self_fail(GS_REASON_ENV_WORD, name, 0, 0);
    return 0;
}

/** Value of NAME_<i>, or else NAME, through `parse`. 1 set; 0 neither is; -ESHUTDOWN bad, for
 * `reason`. */
static int from_variable(const char *name, uint32_t i, enum gs_reason reason,
                         int (*parse)(struct gs_str value, uint64_t *ret), uint64_t *ret)
{
    char full[64];
    struct gs_str_out out;
    const char *value;

    gs_str_out_init(&out, full, sizeof(full));
    gs_str_put_c(&out, name);
    gs_str_put_char(&out, '_');
    gs_str_put_u64(&out, i);
    value = getenv(full);
    if (value == NULL) {
        gs_str_out_init(&out, full, sizeof(full));
        gs_str_put_c(&out, name);
        value = getenv(full);
    }
    if (value == NULL)
        return 0;
    if (parse(gs_str_of(value), ret) < 0)
        return gs_self_fail(reason, full, 0, 0);
    return 1;
}

/** Memory of card i. 1 a variable speaks of it; 0 none does; -ESHUTDOWN a bad value. */
static int card_memory(uint32_t i, uint64_t *ret)
{
    const char *value;
    int rc = from_variable(GS_ENV_MEM_LIMIT, i, GS_REASON_ENV_BAD, parse_limit, ret);

    if (rc != 0)
        return rc;
    value = getenv(GS_ENV_CONTAINER_MEM);
    if (value != NULL && parse_limit(gs_str_of(value), ret) < 0)
        return gs_self_fail(GS_REASON_ENV_BAD, GS_ENV_CONTAINER_MEM, 0, 0);
    return value != NULL;
}

/** Limits of card i. 1 granted; 0 no variable grants it; -ESHUTDOWN a bad value.
 *  @needs_memory  a variable limits memory of some card: then it takes one to grant this card. A
 * share alone grants only where memory is not spoken of at all; HAMi has it so. */
static int card_limits(uint32_t i, bool needs_memory, struct gs_quota_device *dev)
{
    uint64_t pct = 100;
    int memory, share;

    dev->limit_bytes = UINT64_MAX;
    memory = card_memory(i, &dev->limit_bytes);
    if (memory < 0 || (memory == 0 && needs_memory))
        return memory;
    share = from_variable(GS_ENV_SM_LIMIT, i, GS_REASON_ENV_WORD, parse_pct, &pct);
    if (share < 0)
        return share;
    dev->core_pct = (uint32_t)pct;
    dev->policy = GS_POLICY_FIXED;
    return memory > 0 || share > 0;
}

/** Does a variable, good or bad, speak of some card's memory? */
static bool is_memory_set(void)
{
    uint64_t bytes;

    for (uint32_t i = 0; i < GS_LEDGER_DEVICES; i++) {
        if (card_memory(i, &bytes) != 0)
            return true;
    }
    return false;
}

static bool is_share_set(void)
{
    struct gs_quota_device dev;

    for (uint32_t i = 0; i < GS_LEDGER_DEVICES; i++) {
        if (card_limits(i, false, &dev) != 0)
            return true;
    }
    return false;
}

static int from_env(struct gs_quota *ret_quota)
{
    static struct gs_hook_card cards[GS_LEDGER_DEVICES]; /* 6 KiB; attach runs once at a time */
    uint64_t policy = GS_POLICY_FIXED, priority = GS_PRIORITY_NONE, oversubscribe = 0;
    bool needs_memory = is_memory_set();
    int n;

    if (!needs_memory && !is_share_set())
        return gs_self_fail(GS_REASON_NO_QUOTA, "", 0, 0);
    if (from_word(GS_ENV_CORE_POLICY, parse_policy, &policy) < 0 ||
        from_word(GS_ENV_PRIORITY, parse_priority, &priority) < 0 ||
        from_word(GS_ENV_OVERSUBSCRIBE, parse_switch, &oversubscribe) < 0)
        return -ESHUTDOWN;
    ret_quota->priority = (uint32_t)priority;
    ret_quota->oversubscribe = (uint32_t)oversubscribe;
    n = gs_hook_vendor.enumerate(cards, GS_LEDGER_DEVICES);
    if (n <= 0)
        return gs_self_fail(GS_REASON_NO_CARDS, gs_hook_vendor.name, (uint64_t)(n < 0 ? -n : 0), 0);
    for (int i = 0; i < n && i < (int)GS_LEDGER_DEVICES; i++) {
        struct gs_quota_device *dev = &ret_quota->device[ret_quota->n_devices];
        int rc = card_limits((uint32_t)i, needs_memory, dev);

        if (rc < 0)
            return rc;
        if (rc == 0)
            continue;
        memcpy(dev->uuid, cards[i].uuid, sizeof(dev->uuid));
        dev->uuid[sizeof(dev->uuid) - 1] = '\0';
        dev->policy = (uint32_t)policy;
        ret_quota->n_devices++;
    }
    if (ret_quota->n_devices == 0)
        return gs_self_fail(GS_REASON_NO_QUOTA, "", 0, 0);
    return 0;
}

/** Are copies held, too? The owner's wish, wherever the limits come from. */
static int read_copies(void)
{
    uint64_t copies = 0;
    int rc = from_word(GS_ENV_LIMIT_COPIES, parse_switch, &copies);

    gs_self.limit_copies = (uint32_t)copies;
    return rc;
}

int gs_limits_read(struct gs_quota *ret_quota, bool *ret_from_env)
{
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const char *name = GS_QUOTA_DIR;
    int rc, dir = gs_sys_openat(AT_FDCWD, name, flags, 0);

    memset(ret_quota, 0, sizeof(*ret_quota));
    *ret_from_env = false;
    gs_self.quota.dir[0] = '\0';
    if (dir == -ENOENT || dir == -ENOTDIR) {
        name = getenv(GS_ENV_QUOTA_DIR);
        if (name == NULL) {
            *ret_from_env = true;
            rc = from_env(ret_quota);
            return rc < 0 ? rc : read_copies();
        }
        dir = gs_sys_openat(AT_FDCWD, name, flags, 0);
    }
    if (dir < 0)
        return gs_self_fail(GS_REASON_QUOTA_UNREADABLE, name, (uint64_t)-dir, 0);
    /* kept, because the program may change its environment; too long: limits cannot change */
    (void)gs_str_to_field(gs_str_of(name), gs_self.quota.dir, sizeof(gs_self.quota.dir));
    rc = from_folder(dir, name, ret_quota);
    gs_sys_close(dir);
    return rc < 0 ? rc : read_copies();
}

bool gs_limits_changed(void)
{
    char path[sizeof(gs_self.quota.dir) + sizeof(GS_QUOTA_FILE) + 1];
    struct gs_str_out out;
    struct stat st;
    uint64_t now[4] = {0}; /* gone: told once, and what is in force stays */

    if (gs_self.quota.dir[0] == '\0')
        return false;
    gs_str_out_init(&out, path, sizeof(path));
    gs_str_put_c(&out, gs_self.quota.dir);
    gs_str_put_c(&out, "/" GS_QUOTA_FILE);
    if (GS_SYS(SYS_newfstatat, AT_FDCWD, path, &st, 0) == 0)
        identify(&st, now);
    return memcmp(now, gs_self.quota.file, sizeof(now)) != 0;
}

int gs_limits_reread(struct gs_quota *ret_quota, uint32_t *ret_line)
{
    int rc, dir;

    if (gs_self.quota.dir[0] == '\0')
        return -ENOENT;
    dir = gs_sys_openat(AT_FDCWD, gs_self.quota.dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (dir < 0) {
        forget_file();
        return dir;
    }
    rc = load(dir, ret_quota, ret_line);
    gs_sys_close(dir);
    return rc;
}
