#include "vendors/nvidia/hook/room.h"

#include <stdbool.h>
#include <string.h>

#include "hook/limiter.h"
#include "vendors/nvidia/hook/inflight.h"
#include "vendors/nvidia/hook/settle.h"

/* Launches of unknown length that may be in flight, each of another kind. */
#define UNKNOWN_MOST 2u
/* How long launches wait for the queue to shrink until one of them goes all the same: the kernel
 * they wait for may itself wait for something that the program does after that. Half as long for
 * each that went since the card was last seen to get on, down to 2^-PATIENCE_HALVES, where it has
 * not begun with any. */
#define PATIENCE_NS     1000000000u
#define PATIENCE_HALVES 6u
/* Naps of such a wait. Those who are not first nap longer, for there may be hundreds: an eighth of
 * what they have waited, a quantum at most. */
#define NAP_LEAST_NS 50000u
#define NAP_MOST_NS  2000000u
/* Of threads that wait for room the one that came first takes it, as long as it has looked within
 * this time: it may be stopped, or have left by a jump. */
#define FIRST_STALE_NS 20000000u

/* What impatience let go. */
static struct {
    uint64_t ns;     /* when the last one went */
    uint64_t end_ns; /* the end of the last work seen done then */
    uint32_t count;  /* since that */
} let_go[GS_LEDGER_DEVICES];

/* Who of those that wait for room came first. Each word may be of another thread than the others
 * for a moment: then somebody else goes first once. */
static struct {
    uint64_t since_ns; /* 0 nobody waits */
    uint64_t seen_ns;
    uintptr_t who;
} first[GS_LEDGER_DEVICES];

/* Must the launch wait for the card to get on? *ret_for_room: until there is room, and not until
 * it is known how long others take. */
static bool is_full(const struct gs_room *l, uint64_t *ret_excess_ns, bool *ret_for_room)
{
    uint64_t window = gs_limiter_window_ns(l->dev), inflight = gs_inflight_ns(l->dev);
    uint64_t est = __atomic_load_n(&l->cost->est_ns, __ATOMIC_RELAXED);
    uint64_t cost = est != 0 ? est : l->prior_ns;

    *ret_excess_ns = inflight + cost > window ? inflight + cost - window : NAP_LEAST_NS;
    *ret_for_room = false;
    if (est == 0 && (gs_inflight_is_tried(l->cost) || gs_inflight_unknown(l->dev) >= UNKNOWN_MOST))
        return true;
    *ret_for_room = true;
    /* Always room for one. Two, where we need not make way, so that a slice of long kernels that
     * has card time at hand is not without work from the end of one until we see it. */
    return inflight + cost > window &&
           gs_inflight_count(l->dev) >= (window == 0 || est == 0 ? 1u : 2u);
}

/* One goes, not all that wait: what the next ones wait for is then this one, too. */
static bool is_impatient(uint32_t dev, uint64_t start_ns, uint64_t now_ns)
{
    uint64_t seen = __atomic_load_n(&let_go[dev].ns, __ATOMIC_RELAXED);
    uint64_t end = gs_settle_last_end_ns(dev);
    uint32_t count = __atomic_load_n(&let_go[dev].count, __ATOMIC_RELAXED);
    uint64_t waited;

    if (__atomic_load_n(&let_go[dev].end_ns, __ATOMIC_RELAXED) != end)
        count = 0;
    waited = now_ns - (start_ns > seen ? start_ns : seen);
    if (waited < PATIENCE_NS >> (count < PATIENCE_HALVES ? count : PATIENCE_HALVES) ||
        (waited < PATIENCE_NS && gs_inflight_is_at_work(dev)) ||
        !__atomic_compare_exchange_n(&let_go[dev].ns, &seen, now_ns, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return false;
    __atomic_store_n(&let_go[dev].end_ns, end, __ATOMIC_RELAXED);
    __atomic_store_n(&let_go[dev].count, count + 1, __ATOMIC_RELAXED);
    return true;
}

static uintptr_t this_thread(void)
{
    static _Thread_local char own __attribute__((tls_model("initial-exec")));

    return (uintptr_t)&own;
}

/* Does somebody wait for room who came before? Not whom a signal's handler interrupts. */
static bool is_another_first(uint32_t dev, uint64_t start_ns)
{
    uint64_t since = __atomic_load_n(&first[dev].since_ns, __ATOMIC_RELAXED), now;

    if (GS_LIKELY(since == 0) || (start_ns != 0 && since >= start_ns) ||
        __atomic_load_n(&first[dev].who, __ATOMIC_RELAXED) == this_thread())
        return false;
    now = gs_limiter_clock();
    return now < __atomic_load_n(&first[dev].seen_ns, __ATOMIC_RELAXED) + FIRST_STALE_NS;
}

/* Say that we wait, unless somebody does who came before: false. */
static bool claim_first(uint32_t dev, uint64_t start_ns, uint64_t now_ns)
{
    if (is_another_first(dev, start_ns))
        return false;
    __atomic_store_n(&first[dev].who, this_thread(), __ATOMIC_RELAXED);
    __atomic_store_n(&first[dev].seen_ns, now_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&first[dev].since_ns, start_ns, __ATOMIC_RELAXED);
    return true;
}

static void leave_first(uint32_t dev)
{
    if (__atomic_load_n(&first[dev].who, __ATOMIC_RELAXED) == this_thread())
        __atomic_store_n(&first[dev].since_ns, 0, __ATOMIC_RELAXED);
}

static uint64_t nap_ns(uint64_t excess, uint64_t waited, bool is_behind)
{
    if (is_behind)
        return waited / 8 > NAP_MOST_NS ? waited / 8 : NAP_MOST_NS;
    /* a length that is not known yet: seen to end a sixteenth late at most */
    if (excess < waited / 16)
        excess = waited / 16;
    return excess < NAP_LEAST_NS ? NAP_LEAST_NS : excess < NAP_MOST_NS ? excess : NAP_MOST_NS;
}

void gs_room_await(const struct gs_room *l)
{
    uint64_t start = 0, now, excess;
    bool for_room, behind;

    while (is_full(l, &excess, &for_room) || is_another_first(l->dev, start)) {
        if (gs_inflight_harvest())
            continue;
        now = gs_limiter_clock();
        if (start == 0)
            start = now;
        if (is_impatient(l->dev, start, now))
            break;
        behind = for_room && !claim_first(l->dev, start, now);
        gs_limiter_pause(l->dev, nap_ns(excess, now - start, behind), GS_WAIT_QUEUE, l->what);
    }
    if (GS_UNLIKELY(start != 0))
        leave_first(l->dev);
}

void gs_room_forget(void)
{
    memset(let_go, 0, sizeof(let_go));
    memset(first, 0, sizeof(first));
}
