#include "contract/reason.h"

#include <errno.h>

#include "core/cleanup.h"
#include "core/size.h"

static const struct {
    const char *name;
    const char *text;
} reasons[] = {
#define X(name, text) {#name, text},
#include "contract/reason.def"
#undef X
};

static const struct {
    int number;
    const char *name;
} errors[] = {
    {EPERM, "not permitted"},
    {ENOENT, "no such file"},
    {EIO, "input/output error"},
    {EACCES, "permission denied"},
    {EBUSY, "busy"},
    {EEXIST, "exists"},
    {ENOTDIR, "not a folder"},
    {EISDIR, "is a folder"},
    {EINVAL, "invalid"},
    {ENOMEM, "no memory"},
    {EMFILE, "too many open files"},
    {ENFILE, "too many open files in the system"},
    {EFBIG, "file too large"},
    {ENOSPC, "no space left"},
    {EDQUOT, "disk quota used up"},
    {EROFS, "read-only file system"},
    {ELOOP, "is a symbolic link"},
    {ENOLCK, "file locks are not supported here"},
    {ETIMEDOUT, "timed out"},
    {ENAMETOOLONG, "name too long"},
};

const char *gs_reason_name(uint32_t reason)
{
    return reason < GS_REASON_COUNT ? reasons[reason].name : "UNKNOWN";
}

static void put_error(struct gs_str_out *out, uint64_t number)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(errors); i++) {
        if ((uint64_t)errors[i].number == number) {
            gs_str_put_c(out, errors[i].name);
            return;
        }
    }
    gs_str_put_c(out, "error ");
    gs_str_put_u64(out, number);
}

/** Bytes of a terminal escape or a newline in a hostile ledger must not reach a person's screen. */
static void put_safe(struct gs_str_out *out, struct gs_str s)
{
    for (size_t i = 0; i < s.n; i++)
        gs_str_put_char(out, s.p[i] >= ' ' && s.p[i] <= '~' ? s.p[i] : '?');
}

static void put_field(struct gs_str_out *out, struct gs_str field,
                      const struct gs_ledger_event *event)
{
    if (gs_str_eq_c(field, "what")) {
        struct gs_str what = gs_str_of_field(event->what, sizeof(event->what));

        put_safe(out, what.n > 0 ? what : GS_STR("driver call"));
    } else if (gs_str_eq_c(field, "dev")) {
        gs_str_put_u64(out, event->device);
    } else {
        uint64_t arg = event->arg[(field.p[0] - '0') & 3];

        if (field.n == 1)
            gs_str_put_u64(out, arg);
        else if (field.p[1] == 'e')
            put_error(out, arg);
        else if (arg == UINT64_MAX)
            gs_str_put_c(out, "no limit");
        else
            gs_size_put(out, arg);
    }
}

void gs_reason_put(struct gs_str_out *out, const struct gs_ledger_event *event)
{
    struct gs_str rest, part, field;

    if (event->reason >= GS_REASON_COUNT) {
        gs_str_put_c(out, "unknown reason ");
        gs_str_put_u64(out, event->reason);
        return;
    }
    rest = gs_str_of(reasons[event->reason].text);
    while (gs_str_cut(&rest, '{', &part)) {
        gs_str_put(out, part);
        if (rest.n > 0 && gs_str_cut(&rest, '}', &field))
            put_field(out, field, event);
        else
            break;
        /* the text after a field up to the next '{' is the next part */
        if (rest.n == 0)
            break;
    }
}
