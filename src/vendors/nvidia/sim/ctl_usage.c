/* gpuslice-sim usage: what each slice had of each card, sampled. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vendors/nvidia/sim/ctl.h"
#include "vendors/nvidia/sim/process.h"

static struct gs_clock_use groups[GS_SIM_CARDS_MAX][GS_CLOCK_GROUPS];

static int read_number(const char *text, double max, double *ret)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v > 0) || v > max)
        return -EINVAL;
    *ret = v;
    return 0;
}

static void print_use(const struct gs_clock_use *use)
{
    printf("\"busy_ns\":%llu,\"kernels\":%llu", (unsigned long long)use->busy_ns,
           (unsigned long long)use->kernels);
}

/* The dead go first, so that they do not hold the card while only we look. */
static void print_sample(void)
{
    const struct gs_sim_state *s = gs_sim_state;
    uint64_t t[GS_SIM_CARDS_MAX];
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 0);
    uint32_t n = s->n_groups;
    gs_state_unlock();
    for (uint32_t i = 0; i < s->n_cards; i++)
        t[i] = gs_clock_groups(gs_state_clock(i), groups[i], n, NULL);
    printf("{\"now_ns\":%llu,\"groups\":[", (unsigned long long)t[0]);
    for (uint32_t g = 0; g < n; g++) {
        printf("%s{\"name\":", g ? "," : "");
        gs_ctl_print_text(s->group[g].name);
        printf(",\"cards\":[");
        for (uint32_t i = 0; i < s->n_cards; i++) {
            printf("%s{\"index\":%u,\"t_ns\":%llu,", i ? "," : "", i, (unsigned long long)t[i]);
            print_use(&groups[i][g]);
            printf("}");
        }
        printf("]}");
    }
    printf("]}\n");
}

int gs_ctl_usage(int argc, char **argv)
{
    double interval_ms = 100, duration_s = 1e6;
    int json = 0;
    for (int i = 0; i < argc; i++) {
        int rc = -EINVAL;
        if (!strcmp(argv[i], "--json"))
            rc = !(json = 1);
        else if (!strcmp(argv[i], "--every") && i + 1 < argc)
            rc = read_number(argv[++i], 60000, &interval_ms);
        else if (!strcmp(argv[i], "--duration-s") && i + 1 < argc)
            rc = read_number(argv[++i], 1e6, &duration_s);
        if (rc)
            return rc;
    }
    if (!json)
        return -EINVAL;
    /* Sampling moments stay on their grid, however late one of them was. */
    uint64_t start = gs_clock_now(), step = (uint64_t)(interval_ms * 1e6);
    uint64_t n = (uint64_t)(duration_s * 1e9) / step;
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t due = start + i * step, now = gs_clock_now();
        if (due + step < now && i < n)
            continue;
        struct timespec ts = {.tv_sec = (time_t)(due / 1000000000u),
                              .tv_nsec = (long)(due % 1000000000u)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
            ;
        print_sample();
        if (fflush(stdout))
            return -EIO;
    }
    return 0;
}
