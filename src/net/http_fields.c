#include "net/http_fields.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "core/str.h"

struct look {
    const char *end; /**< of the line before, in the text that was received; NULL: not looked at */
    struct gs_str length;
    bool has_coding, has_host;
    const char *fault;
};

/* RFC 9110, 5.6.2 */
static bool is_token(struct gs_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return s.n > 0;
}

static bool is_name(struct gs_str s, const char *name)
{
    return s.n == strlen(name) && strncasecmp(s.p, name, s.n) == 0;
}

/** Nothing but the end of `n` lines, which libmicrohttpd has overwritten by zeros. */
static bool is_line_end(const char *from, const char *to, ptrdiff_t n)
{
    if (to - from < n || to - from > 2 * n)
        return false;
    for (; from < to; from++) {
        if (*from)
            return false;
    }
    return true;
}

static const char *see_framing(struct look *look, struct gs_str name, struct gs_str value)
{
    if (is_name(name, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        if (look->length.p && !gs_str_eq(look->length, value))
            return "two different lengths of one body\n";
        look->length = value;
    } else if (is_name(name, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        if (look->has_coding || !is_name(value, "chunked"))
            return "a transfer coding other than chunked\n";
        look->has_coding = true;
    } else if (is_name(name, MHD_HTTP_HEADER_HOST)) {
        if (look->has_host)
            return "two hosts\n";
        look->has_host = true;
    }
    return NULL;
}

static enum MHD_Result see(void *user, enum MHD_ValueKind kind, const char *key, size_t key_n,
                           const char *text, size_t text_n)
{
    struct look *look = user;
    struct gs_str name = {key, key_n}, value = {text ? text : "", text ? text_n : 0};

    (void)kind;
    if (!is_token(name))
        look->fault = "a header without a proper name\n";
    else if (memchr(value.p, '\r', value.n) || memchr(value.p, '\n', value.n))
        look->fault = "a line break inside a header\n";
    else if (look->end && !is_line_end(look->end, name.p, 1))
        look->fault = "a header that goes on on the next line, or has a zero inside\n";
    else
        look->fault = see_framing(look, name, value);
    if (look->end)
        look->end = value.p + value.n;
    return look->fault ? MHD_NO : MHD_YES;
}

/** Before 1.0 libmicrohttpd hangs a continuation on to the *name* of its header and ends a value at
 *  a zero, and neither shows in what it tells. It shows in the text as it was received, which it
 *  works on in place: header by header, each has to begin where the one before ended. 1.0 refuses
 *  both by itself. May go when that is the oldest one built with (issue 5). */
static bool has_text_in_place(void)
{
    return MHD_get_version()[0] == '0';
}

const char *gs_http_fields_fault(struct MHD_Connection *mhd, const char *method,
                                 const char *version)
{
    struct look look = {.end = has_text_in_place() ? version + strlen(version) : NULL};
    const union MHD_ConnectionInfo *info;

    (void)MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, see, &look);
    if (look.fault)
        return look.fault;
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (look.end && info && !is_line_end(look.end, method + info->header_size, 2))
        return "a header with a zero inside\n";
    if (look.has_coding && look.length.p)
        return "a length and a transfer coding\n";
    if (look.has_coding && strcmp(version, MHD_HTTP_VERSION_1_1) != 0)
        return "a transfer coding in HTTP/1.0\n";
    return NULL;
}
