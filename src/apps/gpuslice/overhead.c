#include "apps/gpuslice/overhead.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "base/aside.h"
#include "base/err.h"
#include "node/probe.h"

/** A driver that takes longer to create a context is not waited for. */
#define MEASURE_MS 20000u

/* In the child. */
static void measure(const void *arg, int out_fd)
{
    const struct gs_card *card = arg;
    uint64_t bytes;

    if (card->vendor->context_bytes(card->uuid, &bytes, NULL) != 0 ||
        write(out_fd, &bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
        _exit(1);
}

/* False where the cost stays unknown. */
static bool ask(const struct gs_card *card, uint64_t *ret_bytes)
{
    return gs_aside_ask(measure, card, MEASURE_MS, ret_bytes, sizeof(*ret_bytes), NULL) ==
           (int)sizeof(*ret_bytes);
}

int gs_overhead_check(const struct gs_card *card, uint64_t limit_bytes, struct gs_err *err)
{
    char cost[GS_APP_SIZE], limit[GS_APP_SIZE];
    uint64_t bytes = 0;

    if (limit_bytes >= GS_OVERHEAD_SURE || !card->vendor->context_bytes || !ask(card, &bytes) ||
        bytes <= limit_bytes)
        return 0;
    (void)gs_app_size(bytes, cost);
    (void)gs_app_size(limit_bytes, limit);
    return gs_err_set(err, -ENOSPC,
                      "card %u: the driver needs %s (%" PRIu64
                      " bytes) for the context of each process, more than "
                      "the limit of %s; ask for more than that with --memory",
                      card->index, cost, bytes, limit);
}
