#include "node/probe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

int gs_probe_read(const struct gs_probe_vendor *const *vendors, size_t n,
                  struct gs_probe *ret_probe, struct gs_err *err)
{
    struct gs_err first = {0};
    int rc = -ENODEV;

    memset(ret_probe, 0, sizeof(*ret_probe));
    for (size_t i = 0; i < n; i++) {
        struct gs_err why = {0};
        int got = vendors[i]->read(ret_probe, &why);

        if (got != 0 && first.code == 0) {
            first = why;
            rc = got;
        }
    }
    if (ret_probe->n_cards > 0)
        return 0;
    return gs_err_set(err, rc, "%s", first.text[0] ? first.text : "no accelerator found");
}

void gs_probe_fini(struct gs_probe *probe)
{
    if (!probe)
        return;
    free(probe->process);
    memset(probe, 0, sizeof(*probe));
}

struct gs_card *gs_probe_add_card(struct gs_probe *probe)
{
    if (probe->n_cards == GS_PROBE_CARDS)
        return NULL;
    return &probe->card[probe->n_cards++];
}

static struct gs_card_process *find(const struct gs_probe *probe, uint32_t card, uint32_t pid)
{
    for (size_t i = 0; i < probe->n_processes; i++)
        if (probe->process[i].card == card && probe->process[i].pid == pid)
            return &probe->process[i];
    return NULL;
}

/* The larger of two reports, where unknown is less than any number. */
static uint64_t larger(uint64_t a, uint64_t b)
{
    if (a == GS_PROBE_UNKNOWN || b == GS_PROBE_UNKNOWN)
        return a == GS_PROBE_UNKNOWN ? b : a;
    return a > b ? a : b;
}

int gs_probe_add_process(struct gs_probe *probe, const struct gs_card_process *process)
{
    struct gs_card_process *known = find(probe, process->card, process->pid), *p;

    if (known) {
        known->used_bytes = larger(known->used_bytes, process->used_bytes);
        known->util_pct = larger(known->util_pct, process->util_pct);
        return 0;
    }
    if (probe->n_processes == probe->cap_processes) {
        size_t cap = probe->cap_processes ? probe->cap_processes * 2 : 64;

        p = realloc(probe->process, cap * sizeof(*p));
        if (!p)
            return -ENOMEM;
        probe->process = p;
        probe->cap_processes = cap;
    }
    probe->process[probe->n_processes++] = *process;
    return 0;
}

const struct gs_card_process *gs_probe_find_process(const struct gs_probe *probe, uint32_t card,
                                                    uint32_t pid)
{
    return find(probe, card, pid);
}

int gs_probe_find_card(const struct gs_probe *probe, const char *uuid)
{
    for (size_t i = 0; i < probe->n_cards; i++)
        if (strcmp(probe->card[i].uuid, uuid) == 0)
            return (int)i;
    return -ENODEV;
}
