#include "contract/quota.h"

#include <errno.h>
#include <string.h>

#include "core/size.h"

static const char *const policy_names[GS_POLICY_COUNT] = {"fixed", "elastic", "off"};

const char *gs_quota_policy_name(uint32_t policy)
{
    return policy < GS_POLICY_COUNT ? policy_names[policy] : "?";
}

const char *gs_quota_priority_name(uint32_t priority)
{
    switch (priority) {
    case GS_PRIORITY_NONE:
        return "none";
    case GS_PRIORITY_LOW:
        return "low";
    case GS_PRIORITY_HIGH:
        return "high";
    default:
        return "?";
    }
}

/** `*line` is exactly `key`, one blank, and a value that replaces it. */
static int cut_key(struct gs_str *line, struct gs_str key)
{
    if (!gs_str_skip(line, key) || !gs_str_skip(line, GS_STR(" ")))
        return -EINVAL;
    return 0;
}

static int parse_policy(struct gs_str word, uint32_t *ret)
{
    for (uint32_t i = 0; i < GS_POLICY_COUNT; i++) {
        if (gs_str_eq_c(word, policy_names[i])) {
            *ret = i;
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_memory(struct gs_str word, uint64_t *ret)
{
    if (gs_str_eq(word, GS_STR("none"))) {
        *ret = UINT64_MAX;
        return 0;
    }
    if (gs_size_parse_u64(word, ret) < 0 || *ret == 0 || *ret == UINT64_MAX)
        return -EINVAL;
    return 0;
}

static int parse_cores(struct gs_str word, uint32_t *ret)
{
    uint64_t pct = 100;

    if (!gs_str_eq(word, GS_STR("none")) &&
        (gs_size_parse_u64(word, &pct) < 0 || pct == 0 || pct > 100))
        return -EINVAL;
    *ret = (uint32_t)pct;
    return 0;
}

/** The four words after "device ". */
static int parse_device(struct gs_str line, struct gs_quota_device *ret)
{
    struct gs_str uuid, memory, cores;

    if (!gs_str_cut(&line, ' ', &uuid) || !gs_str_cut(&line, ' ', &memory) ||
        !gs_str_cut(&line, ' ', &cores))
        return -EINVAL;
    if (!gs_str_is_word(uuid) || gs_str_to_field(uuid, ret->uuid, sizeof(ret->uuid)) < 0)
        return -EINVAL;
    if (!gs_str_skip(&memory, GS_STR("memory=")) || parse_memory(memory, &ret->limit_bytes) < 0)
        return -EINVAL;
    if (!gs_str_skip(&cores, GS_STR("cores=")) || parse_cores(cores, &ret->core_pct) < 0)
        return -EINVAL;
    if (!gs_str_skip(&line, GS_STR("policy=")) || parse_policy(line, &ret->policy) < 0)
        return -EINVAL;
    return 0;
}

static int add_device(struct gs_str line, struct gs_quota *quota)
{
    struct gs_quota_device *dev;

    if (quota->n_devices == GS_LEDGER_DEVICES)
        return -E2BIG;
    dev = &quota->device[quota->n_devices];
    if (cut_key(&line, GS_STR("device")) < 0 || parse_device(line, dev) < 0)
        return -EINVAL;
    for (uint32_t i = 0; i < quota->n_devices; i++) {
        if (memcmp(quota->device[i].uuid, dev->uuid, sizeof(dev->uuid)) == 0)
            return -EEXIST;
    }
    quota->n_devices++;
    return 0;
}

/** The lines that may be left out, each once. 1 it was one of them; 0 it is something else; -EINVAL
 * a bad one. */
static int parse_option(struct gs_str line, struct gs_quota *quota)
{
    if (gs_str_skip(&line, GS_STR("priority "))) {
        if (quota->priority != GS_PRIORITY_NONE)
            return -EINVAL;
        quota->priority = gs_str_eq(line, GS_STR("0")) ? GS_PRIORITY_HIGH : GS_PRIORITY_LOW;
        return quota->priority == GS_PRIORITY_HIGH || gs_str_eq(line, GS_STR("1")) ? 1 : -EINVAL;
    }
    if (gs_str_eq(line, GS_STR("oversubscribe on"))) {
        if (quota->oversubscribe != 0)
            return -EINVAL;
        quota->oversubscribe = 1;
        return 1;
    }
    return 0;
}

static int parse_line(uint32_t number, struct gs_str line, struct gs_quota *quota)
{
    switch (number) {
    case 1:
        return gs_str_eq(line, GS_STR("gpuslice-quota 1")) ? 0 : -EINVAL;
    case 2:
        if (cut_key(&line, GS_STR("generation")) < 0)
            return -EINVAL;
        return gs_size_parse_u64(line, &quota->generation) < 0 ? -EINVAL : 0;
    case 3:
        if (cut_key(&line, GS_STR("fail")) < 0)
            return -EINVAL;
        quota->fail = gs_str_eq(line, GS_STR("open")) ? GS_FAIL_OPEN : GS_FAIL_CLOSED;
        return gs_str_eq(line, GS_STR("open")) || gs_str_eq(line, GS_STR("closed")) ? 0 : -EINVAL;
    default: {
        int rc = quota->n_devices == 0 ? parse_option(line, quota) : 0;

        return rc == 0 ? add_device(line, quota) : rc < 0 ? rc : 0;
    }
    }
}

int gs_quota_parse(struct gs_str text, struct gs_quota *ret_quota, uint32_t *ret_line)
{
    struct gs_str line;
    uint32_t number = 0;
    int rc;

    *ret_line = 0;
    if (text.n > GS_QUOTA_MAX_BYTES)
        return -EFBIG;
    memset(ret_quota, 0, sizeof(*ret_quota));
    if (text.n > 0 && text.p[text.n - 1] != '\n') {
        *ret_line = 1;
        return -EINVAL; /* cut short: the last line may be half a number */
    }
    while (gs_str_cut(&text, '\n', &line)) {
        number++;
        rc = parse_line(number, line, ret_quota);
        if (rc < 0) {
            *ret_line = number;
            return rc;
        }
    }
    if (number < 3) {
        *ret_line = number + 1;
        return -EINVAL;
    }
    return 0;
}

static int format_device(struct gs_str_out *out, const struct gs_quota_device *dev)
{
    struct gs_str uuid = gs_str_of_field(dev->uuid, sizeof(dev->uuid));

    if (!gs_str_is_word(uuid) || uuid.n == sizeof(dev->uuid) || dev->limit_bytes == 0 ||
        dev->core_pct == 0 || dev->core_pct > 100 || dev->policy >= GS_POLICY_COUNT)
        return -EINVAL;
    gs_str_put_c(out, "device ");
    gs_str_put(out, uuid);
    gs_str_put_c(out, " memory=");
    if (dev->limit_bytes == UINT64_MAX)
        gs_str_put_c(out, "none");
    else
        gs_str_put_u64(out, dev->limit_bytes);
    gs_str_put_c(out, " cores=");
    if (dev->core_pct == 100)
        gs_str_put_c(out, "none");
    else
        gs_str_put_u64(out, dev->core_pct);
    gs_str_put_c(out, " policy=");
    gs_str_put_c(out, policy_names[dev->policy]);
    gs_str_put_char(out, '\n');
    return 0;
}

int gs_quota_format(const struct gs_quota *quota, char *buf, size_t cap)
{
    struct gs_str_out out;

    if (quota->n_devices > GS_LEDGER_DEVICES || quota->fail > GS_FAIL_OPEN)
        return -EINVAL;
    gs_str_out_init(&out, buf, cap);
    gs_str_put_c(&out, "gpuslice-quota 1\ngeneration ");
    gs_str_put_u64(&out, quota->generation);
    gs_str_put_c(&out, quota->fail == GS_FAIL_OPEN ? "\nfail open\n" : "\nfail closed\n");
    if (quota->priority != GS_PRIORITY_NONE)
        gs_str_put_c(&out, quota->priority == GS_PRIORITY_HIGH ? "priority 0\n" : "priority 1\n");
    if (quota->oversubscribe)
        gs_str_put_c(&out, "oversubscribe on\n");
    for (uint32_t i = 0; i < quota->n_devices; i++) {
        int rc = format_device(&out, &quota->device[i]);

        if (rc < 0)
            return rc;
    }
    return out.cut || cap == 0 ? -ENOSPC : (int)out.n;
}
