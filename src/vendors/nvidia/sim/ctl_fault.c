/* gpuslice-sim: faults. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/ctl.h"
#include "vendors/nvidia/sim/errors.h"
#include "vendors/nvidia/sim/state.h"

int gs_ctl_read_number(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno || *end || *ret > max ? -EINVAL : 0;
}

/* A number, or the name of a CUDA result. */
static int read_code(const char *text, uint64_t *ret)
{
    for (CUresult c = 0; c < 1000; c++) {
        const char *name = gs_errors_name(c);
        if (name && !strcmp(name, text)) {
            *ret = (uint64_t)c;
            return 0;
        }
    }
    return gs_ctl_read_number(text, 999, ret);
}

static int read_card(const char *text, uint64_t *ret)
{
    return gs_ctl_read_number(text, gs_sim_state->n_cards - 1, ret);
}

/* A program that may not time what it runs. */
static int events_unavailable(struct gs_fault *f)
{
    static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuEventRecordWithFlags"};
    int rc = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(names) && !rc; i++)
        rc = gs_fault_set(f, names[i], 0, CUDA_ERROR_NOT_SUPPORTED, 0);
    return rc;
}

/* Faults with a name of their own. */
static int named_fault(const char *name)
{
    static const char lies[] = "nvml-lies=";
    struct gs_fault *f = &gs_sim_state->fault;
    uint64_t pct;
    if (!strcmp(name, "nvml-absent"))
        return gs_fault_nvml_absent(f);
    if (!strcmp(name, "events-unavailable"))
        return events_unavailable(f);
    if (!strncmp(name, lies, sizeof(lies) - 1) &&
        !gs_ctl_read_number(name + sizeof(lies) - 1, 100, &pct))
        return gs_fault_nvml_lies(f, (uint32_t)pct);
    return -EINVAL;
}

/* A function as it is exported, without the suffix of its twin for per-thread streams. What the
 * drivers only answer "not supported" for never looks for faults. */
static int check_function(const char *name)
{
    static const char *const names[] = {
#define CUDA_HOOK(symbol, class, body, ret, params, args) #symbol,
#define CUDA_CALL(symbol, ret, params, reason)            #symbol,
#define NVML_HOOK(symbol, class, body, ret, params, args) #symbol,
#define NVML_CALL(symbol, ret, params, reason)            #symbol,
#include "vendors/nvidia/abi/api.def"
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (!strcmp(names[i], name))
            return 0;
    return -ENOENT;
}

int gs_ctl_fault(int argc, char **argv)
{
    uint64_t nth = 0, code = 0;
    if (argc == 1)
        return named_fault(argv[0]);
    if (argc < 3)
        return -EINVAL;
    if (check_function(argv[0]))
        return -ENOENT;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return -EINVAL;
        if (!strcmp(argv[i], "--nth")     ? gs_ctl_read_number(argv[i + 1], INT64_MAX, &nth)
            : !strcmp(argv[i], "--error") ? read_code(argv[i + 1], &code)
                                          : -EINVAL)
            return -EINVAL;
    }
    return code ? gs_fault_set(&gs_sim_state->fault, argv[0], nth, (int32_t)code, 0) : -EINVAL;
}

int gs_ctl_slow(int argc, char **argv)
{
    uint64_t ms;
    if (argc != 2 || gs_ctl_read_number(argv[1], 3600000, &ms))
        return -EINVAL;
    if (check_function(argv[0]))
        return -ENOENT;
    return gs_fault_set(&gs_sim_state->fault, argv[0], 0, 0, ms * 1000000);
}

int gs_ctl_lose(int argc, char **argv)
{
    uint64_t card;
    if (argc != 1 || read_card(argv[0], &card))
        return -EINVAL;
    return gs_fault_lose(&gs_sim_state->fault, (uint32_t)card);
}

int gs_ctl_return(int argc, char **argv)
{
    uint64_t card;
    if (argc != 1 || read_card(argv[0], &card))
        return -EINVAL;
    return gs_fault_return(&gs_sim_state->fault, (uint32_t)card);
}

int gs_ctl_xid(int argc, char **argv)
{
    uint64_t card, xid, part = 0;
    if (argc < 2 || argc > 3 || read_card(argv[0], &card) ||
        gs_ctl_read_number(argv[1], UINT32_MAX, &xid))
        return -EINVAL;
    if (argc == 3) {
        if (gs_ctl_read_number(argv[2], GS_LAYOUT_PARTS - 1, &part) ||
            part >= gs_sim_state->seat[card].n_parts)
            return -EINVAL;
        part++;
    }
    return gs_fault_raise_xid(&gs_sim_state->fault, (uint32_t)card, xid, (uint32_t)part);
}

int gs_ctl_reset(int argc, char **argv)
{
    (void)argv;
    if (argc)
        return -EINVAL;
    gs_fault_reset(&gs_sim_state->fault);
    return 0;
}
