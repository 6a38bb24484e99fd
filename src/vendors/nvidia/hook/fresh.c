#include "vendors/nvidia/hook/fresh.h"

#include <string.h>

#include "contract/ledger.h"

/* So many in a row, none of them long, and no further from each other than that: a program that
 * only begins launches some kernels once, and then its long ones. */
#define FRESH_ENOUGH   64u
#define FRESH_LONG_NS  20000000u
#define FRESH_PAUSE_NS 200000000u
#define FRESH_MEAN_OF  8u

static struct {
    uint64_t mean_ns;
    uint64_t last_ns; /* when the newest was learnt */
    uint32_t count;   /* in a row, saturating */
} fresh[GS_LEDGER_DEVICES][2];

void gs_fresh_learn(uint32_t dev, bool is_graph, uint64_t took_ns, uint64_t now_ns)
{
    uint64_t *mean_ns = &fresh[dev][is_graph].mean_ns, mean = *mean_ns;
    uint32_t count = fresh[dev][is_graph].count, weight;

    if (took_ns >= FRESH_LONG_NS || now_ns - fresh[dev][is_graph].last_ns > FRESH_PAUSE_NS)
        count = 0;
    __atomic_store_n(&fresh[dev][is_graph].last_ns, now_ns, __ATOMIC_RELAXED);
    if (took_ns < FRESH_LONG_NS) {
        count = count < FRESH_ENOUGH ? count + 1 : FRESH_ENOUGH;
        weight = count < FRESH_MEAN_OF ? count : FRESH_MEAN_OF;
        mean = (mean * (weight - 1) + took_ns) / weight;
        __atomic_store_n(mean_ns, mean, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&fresh[dev][is_graph].count, count, __ATOMIC_RELAXED);
}

uint64_t gs_fresh_guess(uint32_t dev, bool is_graph, uint64_t now_ns)
{
    uint64_t last = __atomic_load_n(&fresh[dev][is_graph].last_ns, __ATOMIC_RELAXED);

    if (__atomic_load_n(&fresh[dev][is_graph].count, __ATOMIC_RELAXED) < FRESH_ENOUGH ||
        (now_ns > last && now_ns - last > FRESH_PAUSE_NS))
        return 0;
    return __atomic_load_n(&fresh[dev][is_graph].mean_ns, __ATOMIC_RELAXED) | 1u;
}

void gs_fresh_forget(void)
{
    memset(fresh, 0, sizeof(fresh));
}
