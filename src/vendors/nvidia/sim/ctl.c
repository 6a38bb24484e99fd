/* gpuslice-sim: look at and steer a set of simulated cards from outside. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/ctl.h"
#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/process.h"

void gs_ctl_print_text(const char *text)
{
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20)
            printf("\\u%04x", *p);
        else if (*p == '"' || *p == '\\')
            printf("\\%c", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

/* Managed memory: allocated, and how much of it lies on the card now. */
static void print_managed(const struct gs_sim_state *s, uint32_t card)
{
    const struct gs_sim_card_state *c = &s->card[card];
    uint64_t allocated = 0, resident = 0;
    for (uint32_t i = 0; i < s->object_top; i++) {
        const struct gs_sim_object *o = &s->object[i];
        if (o->kind != GS_SIM_MANAGED || o->card != card)
            continue;
        allocated += o->units << c->shift;
        resident += o->bytes;
    }
    printf(",\"managed\":{\"allocated_bytes\":%llu,\"resident_bytes\":%llu,"
           "\"migrated_bytes\":%llu,\"evicted_bytes\":%llu}",
           (unsigned long long)allocated, (unsigned long long)resident,
           (unsigned long long)c->migrated_bytes, (unsigned long long)c->evicted_bytes);
}

/* What slices had of the cards' time: read before the tables, so that lines agree. */
static struct gs_clock_use had[GS_SIM_CARDS_MAX][GS_CLOCK_GROUPS];
static struct gs_clock_use had_all[GS_SIM_CARDS_MAX];
static uint64_t moment[GS_SIM_CARDS_MAX];

static void read_clocks(const struct gs_sim_state *s)
{
    for (uint32_t i = 0; i < s->n_cards; i++)
        moment[i] = gs_clock_groups(gs_state_clock(i), had[i], s->n_groups, &had_all[i]);
}

static void print_use(const struct gs_clock_use *use)
{
    printf(",\"busy_ns\":%llu,\"kernels\":%llu", (unsigned long long)use->busy_ns,
           (unsigned long long)use->kernels);
}

static void print_cards(const struct gs_sim_state *s)
{
    char uuid[48];
    for (uint32_t i = 0; i < s->n_cards; i++) {
        const struct gs_sim_card_state *c = &s->card[i];
        gs_device_uuid_text(c->uuid, uuid, sizeof(uuid));
        printf("%s{\"index\":%u,\"name\":", i ? "," : "", i);
        gs_ctl_print_text(c->name);
        printf(",\"uuid\":\"%s\",\"total_bytes\":%llu,\"used_bytes\":%llu,\"peak_bytes\":%llu,"
               "\"granularity_bytes\":%llu,\"lost\":%s,\"t_ns\":%llu",
               uuid, (unsigned long long)c->memory_bytes, (unsigned long long)c->used_bytes,
               (unsigned long long)c->peak_bytes, (unsigned long long)c->granularity,
               gs_fault_is_lost(i) ? "true" : "false", (unsigned long long)moment[i]);
        print_use(&had_all[i]);
        print_managed(s, i);
        printf("}");
    }
}

static void print_groups(const struct gs_sim_state *s)
{
    for (uint32_t g = 0; g < s->n_groups; g++) {
        printf("%s{\"name\":", g ? "," : "");
        gs_ctl_print_text(s->group[g].name);
        printf(",\"cards\":[");
        for (uint32_t i = 0; i < s->n_cards; i++) {
            printf("%s{\"index\":%u,\"used_bytes\":%llu,\"peak_bytes\":%llu", i ? "," : "", i,
                   (unsigned long long)s->group[g].card[i].used_bytes,
                   (unsigned long long)s->group[g].card[i].peak_bytes);
            print_use(&had[i][g]);
            printf("}");
        }
        printf("]}");
    }
}

static void print_processes(const struct gs_sim_state *s)
{
    const char *comma = "";
    for (uint32_t slot = 0; slot < s->proc_top; slot++) {
        const struct gs_sim_proc *proc = &s->proc[slot];
        if (proc->state != 1)
            continue;
        char comm[sizeof(proc->comm) + 1] = "";
        memcpy(comm, proc->comm, sizeof(proc->comm));
        printf("%s{\"pid\":%d,\"name\":", comma, proc->pid);
        gs_ctl_print_text(comm);
        printf(",\"group\":");
        gs_ctl_print_text(s->group[proc->group].name);
        printf(",\"contexts\":%u,\"cards\":[", proc->contexts);
        const char *inner = "";
        for (uint32_t i = 0; i < s->n_cards; i++) {
            if (!proc->used_bytes[i] && !(proc->card_mask >> i & 1))
                continue;
            printf("%s{\"index\":%u,\"used_bytes\":%llu", inner, i,
                   (unsigned long long)proc->used_bytes[i]);
            const struct gs_clock_proc *p = &gs_state_clock(i)->proc[slot];
            print_use(&(struct gs_clock_use){p->busy_ns, p->kernels});
            printf("}");
            inner = ",";
        }
        printf("]}");
        comma = ",";
    }
}

/* The lock is held while printing: one moment of the cards. */
static int status(int argc, char **argv)
{
    if (argc != 1 || strcmp(argv[0], "--json") != 0)
        return -EINVAL;
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
    const struct gs_sim_state *s = gs_sim_state;
    read_clocks(s);
    printf("{\"version\":1,\"cards\":[");
    print_cards(s);
    printf("],\"groups\":[");
    print_groups(s);
    printf("],\"processes\":[");
    print_processes(s);
    printf("],\"reaped\":%llu,\"repairs\":%llu}\n", (unsigned long long)s->reaped,
           (unsigned long long)s->repairs);
    gs_state_unlock();
    return fflush(stdout) ? -EIO : 0;
}

static int reset_peak(int argc, char **argv)
{
    (void)argv;
    if (argc)
        return -EINVAL;
    struct gs_sim_state *s = gs_sim_state;
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
    for (uint32_t i = 0; i < s->n_cards; i++) {
        s->card[i].peak_bytes = s->card[i].used_bytes;
        for (uint32_t g = 0; g < s->n_groups; g++)
            s->group[g].card[i].peak_bytes = s->group[g].card[i].used_bytes;
    }
    gs_state_unlock();
    return 0;
}

static const struct gs_ctl_command commands[] = {
    {"status", "--json", "cards, memory in use and at most per group, card time, processes",
     status},
    {"usage", "--json [--every MILLISECONDS] [--duration-s SECONDS]",
     "card time and kernels of each group so far, a line per sample until stopped", gs_ctl_usage},
    {"reset-peak", "", "set every peak to what is in use now", reset_peak},
    {"fault", "FUNCTION [--nth N] --error CODE | nvml-absent | nvml-lies=PCT | events-unavailable",
     "the N-th call from now fails (no --nth: every call); NVML cannot be initialised; NVML says "
     "PCT "
     "of every use; no events",
     gs_ctl_fault},
    {"slow", "FUNCTION MILLISECONDS", "every call waits first", gs_ctl_slow},
    {"lose", "CARD", "the card falls off the bus", gs_ctl_lose},
    {"return", "CARD", "a lost card is there again", gs_ctl_return},
    {"xid", "CARD NUMBER [MIG]", "the card, or a MIG device of it, reports an XID error",
     gs_ctl_xid},
    {"recovery", "CARD none | reset | reboot | drain-p2p | drain-reset",
     "what NVML says has to be done with the card", gs_ctl_recovery},
    {"driver", "stop | start",
     "unload the driver; load it anew: sessions of NVML from before are void", gs_ctl_driver},
    {"near", "CARD CARD board | single | multiple | hostbridge | node | system",
     "how far apart two cards sit; node as they are made", gs_ctl_near},
    {"link", "CARD CARD|switch N [--one-way]", "N NVLinks between two cards, or to the switch",
     gs_ctl_link},
    {"mig", "CARD off | on | PROFILE...",
     "MIG mode, and devices such as 1g.5gb in it; NVML alone tells of them", gs_ctl_mig},
    {"reset", "", "forget all faults and bring lost cards and the driver back", gs_ctl_reset},
};

static void usage(FILE *out)
{
    (void)fprintf(out, "usage: gpuslice-sim COMMAND [ARGUMENT...]\n\n"
                       "Cards in $GPUSLICE_SIM_DIR (default /dev/shm/gpuslice-sim-<uid>).\n\n");
    for (size_t i = 0; i < GS_ARRAY_LEN(commands); i++)
        (void)fprintf(out, "  %s %s\n      %s\n", commands[i].name, commands[i].arguments,
                      commands[i].help);
}

int main(int argc, char **argv)
{
    const struct gs_ctl_command *command = NULL;
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        usage(stdout);
        return 0;
    }
    for (size_t i = 0; argc > 1 && i < GS_ARRAY_LEN(commands); i++)
        if (!strcmp(argv[1], commands[i].name))
            command = &commands[i];
    if (!command) {
        usage(stderr);
        return 2;
    }
    int rc = gs_state_open();
    if (rc) {
        if (rc != -EINVAL) /* else told already */
            (void)fprintf(stderr, "gpuslice-sim: cannot open the cards: %s\n", strerror(-rc));
        return 1;
    }
    rc = command->run(argc - 2, argv + 2);
    if (rc == -EINVAL)
        (void)fprintf(stderr, "usage: gpuslice-sim %s %s\n", command->name, command->arguments);
    else if (rc == -ENOENT)
        (void)fprintf(stderr, "gpuslice-sim: %s: the drivers serve no '%s'\n", command->name,
                      argv[2]);
    else if (rc)
        (void)fprintf(stderr, "gpuslice-sim: %s: %s\n", command->name, strerror(-rc));
    return rc == -EINVAL ? 2 : rc ? 1 : 0;
}
