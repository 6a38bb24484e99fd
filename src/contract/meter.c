#include "contract/meter.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/size.h"

#define BIN_MASK   ((UINT64_C(1) << GS_LEDGER_HISTORY_BITS) - 1)
#define EPOCH_MASK (UINT64_MAX >> GS_LEDGER_HISTORY_BITS)
#define BINS_1S    (UINT64_C(1000000000) / GS_LEDGER_HISTORY_NS)

_Static_assert(10 * BINS_1S < GS_LEDGER_HISTORY, "ten seconds are kept");

/** The last `n` full bins: the one of this moment is not, and an older one may hold a round ago. */
static uint64_t sum_bins(const uint64_t *history, uint64_t now_ns, uint64_t n)
{
    uint64_t epoch = now_ns / GS_LEDGER_HISTORY_NS, sum = 0;

    for (uint64_t i = 1; i <= n && i <= epoch; i++) {
        uint64_t word = history[(epoch - i) % GS_LEDGER_HISTORY];

        if (word >> GS_LEDGER_HISTORY_BITS == ((epoch - i) & EPOCH_MASK))
            sum = gs_size_add(sum, word & BIN_MASK);
    }
    return sum;
}

static int add_processes(int fd, const struct gs_ledger_snapshot *snapshot, uint64_t device_at,
                         uint64_t now_ns, struct gs_meter *m)
{
    for (uint32_t i = 0; i < snapshot->n_slots && i < GS_LEDGER_SLOTS; i++) {
        struct gs_ledger_use use;
        int rc;

        if (!snapshot->is_live[i])
            continue;
        rc = gs_ledger_pread(fd, &use, offsetof(struct gs_ledger_use, bin),
                             device_at + offsetof(struct gs_ledger_device, use) + i * sizeof(use));
        if (rc < 0)
            return rc;
        m->managed_bytes = gs_size_add(m->managed_bytes, use.managed_bytes);
        if (use.wait_since_ns != 0 && use.wait_since_ns < now_ns)
            m->waited_ns = gs_size_add(m->waited_ns, now_ns - use.wait_since_ns);
    }
    return 0;
}

int gs_meter_read(int fd, const struct gs_ledger_snapshot *snapshot, uint32_t dev, uint64_t now_ns,
                  struct gs_meter *ret)
{
    uint64_t at = gs_ledger_file_bytes(dev);
    uint64_t history[GS_LEDGER_HISTORY];
    struct gs_ledger_meter meter;
    struct gs_meter m = {0};
    int rc =
        gs_ledger_pread(fd, &meter, sizeof(meter), at + offsetof(struct gs_ledger_device, meter));

    if (rc == 0)
        rc = gs_ledger_pread(fd, history, sizeof(history),
                             at + offsetof(struct gs_ledger_device, history));
    if (rc < 0)
        return rc;
    m.used_1s_ns = sum_bins(history, now_ns, BINS_1S);
    m.used_10s_ns = sum_bins(history, now_ns, 10 * BINS_1S);
    m.used_ns = meter.used_ns;
    m.waits = meter.waits;
    m.waited_ns = meter.waited_ns;
    rc = add_processes(fd, snapshot, at, now_ns, &m);
    if (rc == 0)
        *ret = m;
    return rc;
}
