#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/sim.h"

/* Card that one entry of CUDA_VISIBLE_DEVICES names, or GS_SIM_NONE: an index, or the start of a
 * UUID that fits one card only. Cards here are never partitioned, so MIG names fit none. */
static uint32_t card_named(const char *word, size_t n)
{
    uint32_t found = GS_SIM_NONE;
    if (!n)
        return GS_SIM_NONE;
    if (isdigit((unsigned char)word[0])) {
        uint32_t index = 0;
        for (size_t i = 0; i < n; i++) {
            if (!isdigit((unsigned char)word[i]) || index > GS_SIM_CARDS_MAX)
                return GS_SIM_NONE;
            index = index * 10 + (uint32_t)(word[i] - '0');
        }
        return index < gs_sim_state->n_cards ? index : GS_SIM_NONE;
    }
    if (n < 4 || strncmp(word, "GPU-", 4) != 0)
        return GS_SIM_NONE;
    for (uint32_t card = 0; card < gs_sim_state->n_cards; card++) {
        char uuid[48];
        gs_device_uuid_text(gs_sim_state->card[card].uuid, uuid, sizeof(uuid));
        if (n > strlen(uuid) || strncasecmp(uuid, word, n) != 0)
            continue;
        if (found != GS_SIM_NONE)
            return GS_SIM_NONE;
        found = card;
    }
    return found;
}

/* Cards that the variable leaves visible. The first entry that names none ends the list; a card
 * named twice empties it (as seen on real drivers; nvitop documents the same). All cards are of one
 * speed, so CUDA_DEVICE_ORDER changes nothing. */
static int visible_cards(uint32_t cards[GS_SIM_CARDS_MAX])
{
    const char *p = getenv("CUDA_VISIBLE_DEVICES");
    uint64_t seen = 0;
    int n = 0;
    if (!p) {
        for (uint32_t i = 0; i < gs_sim_state->n_cards; i++)
            cards[n++] = i;
        return n;
    }
    while (n < GS_SIM_CARDS_MAX) {
        p += strspn(p, " \t");
        size_t len = strcspn(p, ",");
        size_t word = len;
        while (word && isspace((unsigned char)p[word - 1]))
            word--;
        uint32_t card = card_named(p, word);
        if (card == GS_SIM_NONE)
            break;
        if (seen >> card & 1)
            return 0;
        seen |= UINT64_C(1) << card;
        cards[n++] = card;
        if (!p[len])
            break;
        p += len + 1;
    }
    return n;
}

CUresult cuInit(unsigned int Flags)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int visible_known;
    GS_SIM_ENTRY;
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (GS_LIKELY(gs_process_is_ready() && __atomic_load_n(&visible_known, __ATOMIC_ACQUIRE)))
        return gs_process_device_count() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    pthread_mutex_lock(&lock);
    int rc = gs_process_join();
    if (!rc && !visible_known) {
        uint32_t cards[GS_SIM_CARDS_MAX];
        int n = visible_cards(cards);
        gs_process_set_visible(cards, n);
        __atomic_store_n(&visible_known, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    switch (rc) {
    case 0:
        return gs_process_device_count() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
    case -ECHILD:
        return CUDA_ERROR_NOT_INITIALIZED;
    case -ENOSPC:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -EINVAL:
    case -EPROTO:
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    default:
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
}
