#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int gs_err_set(struct gs_err *err, int rc, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return rc;
    err->code = rc;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* a cut text is still a text */
    va_end(ap);
    return rc;
}

int gs_err_wrap(struct gs_err *err, int rc, const char *fmt, ...)
{
    char cause[GS_ERR_TEXT];
    va_list ap;
    size_t n;

    if (!err)
        return rc;
    (void)snprintf(cause, sizeof(cause), "%s", err->text[0] ? err->text : strerror(-rc));
    err->code = rc;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap);
    va_end(ap);
    n = strlen(err->text);
    (void)snprintf(err->text + n, sizeof(err->text) - n, ": %s", cause);
    return rc;
}
