#include "model/grant.h"

#include <errno.h>
#include <string.h>

#include "model/number.h"

#define DEVICES_MAX 65536u /* in one text: 1,000 containers with 64 cards each */

static bool read_amount(struct gs_str s, int32_t *ret)
{
    int32_t v;

    if (gs_number_read_i32(s, &v) < 0 || v < 0)
        return false;
    *ret = v;
    return true;
}

static int bad_field(struct gs_err *err, const char *which, struct gs_str text)
{
    return gs_err_set(err, -EINVAL, "invalid %s field: \"%.*s\" is not a number from 0 to %d",
                      which, (int)(text.n < 64 ? text.n : 64), text.p, INT32_MAX);
}

static int read_dev(struct gs_str text, struct gs_grant_dev *ret, struct gs_err *err)
{
    struct gs_str field[4];
    size_t n = 0;

    while (n < 4 && gs_str_cut(&text, ',', &field[n]))
        n++;
    if (n < 4)
        return gs_err_set(err, -EINVAL,
                          "pod annotation format error, missing fields, do not use nodeName in "
                          "task spec");
    ret->uuid = field[0];
    ret->type = field[1];
    if (!read_amount(field[2], &ret->mem_mib))
        return bad_field(err, "memory", field[2]);
    if (!read_amount(field[3], &ret->cores))
        return bad_field(err, "core", field[3]);
    return 0;
}

static bool is_device(struct gs_str piece)
{
    return piece.n > 0 && memchr(piece.p, ',', piece.n) != NULL;
}

/* How much room the text needs: an upper bound. */
static int measure(struct gs_str text, size_t *ret_slots, size_t *ret_devs, struct gs_err *err)
{
    size_t slots = 1, devs = 1;

    if (text.n > GS_GRANT_BYTES_MAX)
        return gs_err_set(err, -E2BIG, "grant of %zu bytes, more than %u", text.n,
                          GS_GRANT_BYTES_MAX);
    for (size_t i = 0; i < text.n; i++) {
        slots += text.p[i] == ';';
        devs += text.p[i] == ';' || text.p[i] == ':';
    }
    if (slots > GS_GRANT_SLOTS_MAX || devs > DEVICES_MAX + slots)
        return gs_err_set(err, -E2BIG, "grant of %zu containers and %zu devices", slots, devs);
    *ret_slots = slots;
    *ret_devs = devs;
    return 0;
}

int gs_grant_read(struct gs_str text, struct gs_arena *arena, struct gs_grant *ret,
                  struct gs_err *err)
{
    struct gs_grant grant = {0};
    struct gs_grant_dev *dev;
    struct gs_str slot, piece;
    size_t slots = 0, devs = 0;
    int rc = measure(text, &slots, &devs, err);

    if (rc < 0)
        return rc;
    grant.slot = GS_ARENA_ARRAY(arena, slots, struct gs_grant_slot);
    dev = GS_ARENA_ARRAY(arena, devs, struct gs_grant_dev);
    if (grant.slot == NULL || dev == NULL)
        return gs_err_set(err, -ENOMEM, "no memory for a grant");
    while (gs_str_cut(&text, ';', &slot)) {
        struct gs_grant_slot *to = &grant.slot[grant.n++];

        to->dev = dev;
        while (gs_str_cut(&slot, ':', &piece)) {
            if (!is_device(piece))
                continue;
            rc = read_dev(piece, dev, err);
            if (rc < 0)
                return rc;
            dev++;
            to->n++;
        }
    }
    *ret = grant;
    return 0;
}

void gs_grant_write(const struct gs_grant *grant, struct gs_buf *buf)
{
    for (size_t s = 0; s < grant->n; s++) {
        for (size_t d = 0; d < grant->slot[s].n; d++) {
            const struct gs_grant_dev *dev = &grant->slot[s].dev[d];

            gs_buf_put(buf, dev->uuid);
            gs_buf_adds(buf, ",");
            gs_buf_put(buf, dev->type);
            gs_buf_addf(buf, ",%d,%d:", dev->mem_mib, dev->cores);
        }
        gs_buf_adds(buf, ";");
    }
}

bool gs_grant_pop(struct gs_grant *grant, size_t *ret_slot)
{
    for (size_t s = 0; s < grant->n; s++)
        if (grant->slot[s].n > 0) {
            grant->slot[s].n = 0;
            *ret_slot = s;
            return true;
        }
    return false;
}

/* "[7-9]": digits, a dash, digits. */
static bool is_old_mig_tail(struct gs_str s)
{
    size_t i = 0, first;

    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    if (i == 0 || i >= s.n || s.p[i] != '-')
        return false;
    first = ++i;
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    return i > first && i == s.n;
}

struct gs_str gs_grant_card(struct gs_str uuid)
{
    size_t open = uuid.n;

    if (uuid.n == 0 || uuid.p[uuid.n - 1] != ']')
        return uuid;
    while (open > 0 && uuid.p[open - 1] != '[')
        open--;
    if (open == 0 || !is_old_mig_tail((struct gs_str){uuid.p + open, uuid.n - 1 - open}))
        return uuid;
    return (struct gs_str){uuid.p, open - 1};
}
