/* The shipped limiter (src/hook/limiter.c and what it stands on) in virtual time.
 *
 *     limiter_model           the cases below; fails where a figure is out of bounds
 *     limiter_model --grid    print every cell of the accuracy grid
 *
 * Shares are of card time as the modelled card counts it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contract/quota.h"
#include "core/cleanup.h"
#include "model/limiter_program.h"
#include "model/limiter_world.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static struct program programs[WORLD_THREADS];
static uint32_t n_slices;
static bool verbose;
static int failures;

static void expect(bool ok, const char *what, double figure, double bound)
{
    if (!ok || verbose)
        printf("%s  %-58s %8.3f  bound %.3f\n", ok ? "ok  " : "FAIL", what, figure, bound);
    failures += !ok;
}

static void begin(uint64_t seed)
{
    world_reset(seed);
    program_reset();
    world_harvest = program_harvest;
    memset(programs, 0, sizeof(programs));
    n_slices = 0;
}

static uint32_t slice(uint32_t pct, uint32_t policy)
{
    n_slices++;
    return world_slice(pct, policy);
}

/** The controller that writes the board, in a slice that does nothing else. */
static void monitor(void)
{
    (void)world_process(world_slice(100, GS_POLICY_OFF), program_monitor, &n_slices);
}

/** Points by which `slice` missed its share between two moments. */
static double miss(uint32_t of, uint64_t from, uint64_t to, double target)
{
    uint64_t before;

    world_run(from);
    before = world_used(of);
    world_run(to);
    return 100.0 * (double)(world_used(of) - before) / (double)(to - from) - target;
}

static double absolute(double x)
{
    return x < 0 ? -x : x;
}

/* ---- the accuracy grid ---- */

static const struct kind {
    const char *name;
    uint64_t ns[PROGRAM_KERNELS];
    uint64_t burst_ns, pause_ns, longest_ns;
} kinds[] = {
    {"20us", {20000}, 0, 0, 20000},
    {"1ms", {MS}, 0, 0, MS},
    {"50ms", {50 * MS}, 0, 0, 50 * MS},
    {"bursty", {20000, 100000, 500000, 2 * MS, 10 * MS, 50 * MS}, 20 * MS, 3 * MS, 50 * MS},
    {"1s", {S}, 0, 0, S},
};

/** 1 s windows, one every 100 ms, and the 10 s from half a second on. */
static void judge_short(const char *name, const struct kind *k, uint32_t pct)
{
    double bound = k->longest_ns <= MS ? 3.0 : 100.0 * (double)k->longest_ns / (double)S + 1.0;
    uint64_t used[111];
    int bad = 0;
    char what[96];

    for (uint32_t i = 0; i < GS_ARRAY_LEN(used); i++) {
        world_run(500 * MS + i * 100 * MS);
        used[i] = world_used(0);
    }
    for (uint32_t i = 0; i + 10 < GS_ARRAY_LEN(used); i++)
        bad += absolute(100.0 * (double)(used[i + 10] - used[i]) / (double)S - pct) > bound;
    for (uint32_t i = 0; i < 11; i += 5) {
        double error = 100.0 * (double)(used[i + 100] - used[i]) / (10.0 * (double)S) - pct;

        (void)snprintf(what, sizeof(what), "%s 10 s from %u ms", name, 500 + i * 100);
        expect(absolute(error) <= 1.0, what, error, 1.0);
    }
    (void)snprintf(what, sizeof(what), "%s windows of 1 s out of bounds, %%", name);
    expect(bad <= 5, what, bad * 100.0 / 101, 5.0);
}

/** Ends of kernels 3 and 23 of the slice. */
static void judge_long(const char *name, uint32_t pct)
{
    uint64_t at[24] = {0}, t = 0;
    double error;

    for (uint32_t n = 1; n < GS_ARRAY_LEN(at); n++) {
        while (world_used(0) < n * S) {
            t += 5 * MS;
            world_run(t);
        }
        at[n] = t;
    }
    for (uint32_t n = 1; verbose && n < GS_ARRAY_LEN(at); n++)
        printf(n == 23 ? " %.2f\n" : " %.2f", (double)at[n] / (double)S);
    error = 100.0 * 20 * (double)S / (double)(at[23] - at[3]) - pct;
    expect(absolute(error) <= 1.0, name, error, 1.0);
    for (uint32_t n = 3; n + 3 < GS_ARRAY_LEN(at); n++) {
        error = 100.0 * 3 * (double)S / (double)(at[n + 3] - at[n]) - pct;
        if (absolute(error) > 3.0)
            printf("      %s: kernels %u to %u: off by %.2f\n", name, n, n + 3, error);
        failures += absolute(error) > 3.0;
    }
}

static void cell(const struct kind *k, uint32_t pct, bool sync, uint32_t n)
{
    char name[96];

    begin(pct * 10 + n);
    (void)slice(pct, GS_POLICY_FIXED);
    monitor();
    for (uint32_t i = 0; i < n; i++) {
        memcpy(programs[i].kernel_ns, k->ns, sizeof(k->ns));
        programs[i].sync = sync;
        programs[i].burst_ns = k->burst_ns;
        programs[i].pause_ns = k->pause_ns;
        (void)world_process(0, program_run, &programs[i]);
    }
    (void)snprintf(name, sizeof(name), "%s %u %% %s, %u processes", k->name, pct,
                   sync ? "sync" : "stream", n);
    if (k->longest_ns >= S)
        judge_long(name, pct);
    else
        judge_short(name, k, pct);
}

static void test_grid(void)
{
    static const uint32_t shares[] = {10, 30, 50, 70, 90}, counts[] = {1, 2, 4};

    for (size_t k = 0; k < GS_ARRAY_LEN(kinds); k++) {
        for (size_t s = 0; s < GS_ARRAY_LEN(shares); s++) {
            for (size_t c = 0; c < GS_ARRAY_LEN(counts); c++) {
                cell(&kinds[k], shares[s], false, counts[c]);
                cell(&kinds[k], shares[s], true, counts[c]);
            }
        }
    }
}

/* ---- what changes while programs run ---- */

static uint32_t hungry(uint32_t of, uint64_t ns, bool sync)
{
    static uint32_t next;
    struct program *p = &programs[next++ % WORLD_THREADS];

    memset(p, 0, sizeof(*p));
    p->kernel_ns[0] = ns;
    p->sync = sync;
    return world_process(of, program_run, p);
}

/** The share of slice `of` between two moments is within a point of `target` percent. */
static void expect_share(const char *what, uint32_t of, uint64_t from, uint64_t to, double target)
{
    double error = miss(of, from, to, target);

    expect(absolute(error) <= 1.0, what, error, 1.0);
}

static void test_resize(void)
{
    begin(1);
    (void)slice(20, GS_POLICY_FIXED);
    monitor();
    (void)hungry(0, MS, false);
    (void)hungry(0, 20000, true);
    expect_share("20 % before", 0, S, 4 * S, 20);
    world_resize(0, 80);
    expect_share("80 % 200 ms after", 0, 4 * S + 200 * MS, 6 * S, 80);
    world_resize(0, 5);
    expect_share("5 % 500 ms after", 0, 6 * S + 500 * MS, 9 * S, 5);
    world_resize(0, 100);
    expect_share("no limit 200 ms after", 0, 9 * S + 200 * MS, 11 * S, 100);
}

int main(int argc, char **argv)
{
    verbose = argc > 1 && strcmp(argv[1], "--grid") == 0;
    test_resize();
    test_grid();
    if (failures != 0)
        printf("%d out of bounds\n", failures);
    return failures != 0;
}
