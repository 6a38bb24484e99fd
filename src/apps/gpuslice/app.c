#include "apps/gpuslice/app.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/table.h"
#include "core/size.h"

void gs_app_say(const char *fmt, ...)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf line = {0};
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* a message that long is cut */
    va_end(ap);
    gs_buf_adds(&line, "gpuslice: ");
    gs_table_clean(&line, text);
    gs_buf_adds(&line, "\n");
    /* one write, so that lines of several processes do not mix; a closed stderr is not our business
     */
    if (write(STDERR_FILENO, gs_buf_text(&line), line.n) < 0)
        return;
}

/* Write to standard output. Returns 0 or negative errno (-EPIPE: nobody reads any more). */
static int write_out(const struct gs_buf *buf)
{
    if (gs_buf_check(buf) != 0)
        return -ENOMEM;
    return gs_file_write_all(STDOUT_FILENO, gs_buf_text(buf), buf->n);
}

int gs_app_finish(const struct gs_buf *buf)
{
    int rc = write_out(buf);

    if (rc == 0)
        return 0;
    if (rc != -EPIPE)
        gs_app_say("cannot write the output: %s", strerror(-rc));
    return GS_EXIT_FAILED;
}

const char *gs_app_size(uint64_t bytes, char ret_text[GS_APP_SIZE])
{
    struct gs_str_out out;

    gs_str_out_init(&out, ret_text, GS_APP_SIZE);
    if (bytes == UINT64_MAX)
        gs_str_put_c(&out, "none");
    else
        gs_size_put(&out, bytes);
    return ret_text;
}
