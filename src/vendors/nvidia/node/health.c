#include "vendors/nvidia/node/health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "node/health.h"
#include "vendors/nvidia/node/nvml.h"
#include "vendors/nvidia/node/xid.h"

/* nvml.h: nvmlEventTypeXidCriticalError, NVML_FI_DEV_GET_GPU_RECOVERY_ACTION with its value _NONE,
 * and what instance ids of an event are that struck no MIG device. */
#define EVENT_XID       0x8ull
#define FIELD_RECOVERY  230
#define RECOVERY_NONE   0
#define INSTANCE_NONE   UINT32_MAX
#define NOTES_KEPT      3
#define ABSENT_PAUSE_MS 1000
#define BROKEN_PAUSE_MS 200

struct part {
    uint32_t instance, compute;
};

struct card {
    char uuid[GS_INVENTORY_UUID];
    struct part part[GS_INVENTORY_PARTS];
    size_t n_parts;
    nvmlDevice_t device;
    bool is_watched; /* its events are in the set */
    bool was_told;   /* that it reports none */
};

struct gs_health_watch {
    struct gs_nvml nvml;
    struct gs_xid_rule rule;
    const struct gs_inventory_tell *tell;
    struct card card[GS_INVENTORY_CARDS];
    uint32_t n;
    unsigned int n_counted; /* by the driver, when last looked */
    bool is_open;
    bool has_set;
    nvmlEventSet_t set;
    uint64_t ask_ns; /* when to ask next */
};

struct notes {
    struct gs_note *p;
    size_t n, max;
};

static void add(struct notes *notes, struct gs_note note)
{
    if (notes->n < notes->max)
        notes->p[notes->n++] = note;
}

static void pause_ms(unsigned ms)
{
    const struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)nanosleep(&t, NULL); /* cut short by a signal: the caller comes again */
}

/* --- the session --- */

static void close_set(struct gs_health_watch *w)
{
    if (w->has_set)
        (void)w->nvml.nvmlEventSetFree(w->set); /* a set that is not freed is lost, no more */
    w->has_set = false;
    for (uint32_t i = 0; i < w->n; i++)
        w->card[i].is_watched = false;
}

static void close_session(struct gs_health_watch *w)
{
    close_set(w);
    gs_nvml_close(&w->nvml);
    w->is_open = false;
}

static bool wants_events(const struct gs_health_watch *w)
{
    return !w->rule.ignores_all || w->rule.heeds_all || w->rule.n_heeded > 0;
}

static void open_set(struct gs_health_watch *w)
{
    const struct gs_nvml *nvml = &w->nvml;

    w->has_set = wants_events(w) && nvml->nvmlEventSetCreate != NULL &&
                 nvml->nvmlEventSetFree != NULL && nvml->nvmlEventSetWait_v2 != NULL &&
                 nvml->nvmlDeviceRegisterEvents != NULL &&
                 nvml->nvmlEventSetCreate(&w->set) == NVML_SUCCESS;
}

static int open_session(struct gs_health_watch *w, struct gs_err *err)
{
    int rc = gs_nvml_open(&w->nvml, err);

    if (rc != 0)
        return rc;
    if (w->nvml.nvmlDeviceGetHandleByUUID == NULL) {
        gs_nvml_close(&w->nvml);
        return gs_err_set(err, -ENOTSUP, "libnvidia-ml.so.1 finds no card by its UUID");
    }
    w->is_open = true;
    w->ask_ns = 0;
    open_set(w);
    return 0;
}

/* Events of a card that answers; one that has none is told once and asked all the same. */
static void watch_card(struct gs_health_watch *w, struct card *card)
{
    unsigned long long types = EVENT_XID;
    nvmlReturn_t got = NVML_ERROR_NOT_SUPPORTED;

    if (!w->has_set || card->is_watched)
        return;
    if (w->nvml.nvmlDeviceGetSupportedEventTypes == NULL ||
        w->nvml.nvmlDeviceGetSupportedEventTypes(card->device, &types) != NVML_SUCCESS ||
        (types & EVENT_XID) != 0)
        got = w->nvml.nvmlDeviceRegisterEvents(card->device, EVENT_XID, w->set);
    card->is_watched = got == NVML_SUCCESS;
    if (!card->is_watched && !card->was_told)
        gs_inventory_say(w->tell, "%s reports no errors (%s): it is only asked whether it is there",
                         card->uuid, gs_nvml_text(&w->nvml, got));
    card->was_told |= !card->is_watched;
}

/* --- asking --- */

static bool is_session_error(nvmlReturn_t got)
{
    return got == NVML_ERROR_UNINITIALIZED || got == NVML_ERROR_DRIVER_NOT_LOADED ||
           got == NVML_ERROR_LIB_RM_VERSION_MISMATCH || got == NVML_ERROR_UNKNOWN;
}

/* Some errors are of one card or of the whole session: then nothing can be counted either. */
static bool is_session_dead(const struct gs_health_watch *w, nvmlReturn_t got)
{
    unsigned int n;

    return is_session_error(got) && w->nvml.nvmlDeviceGetCount_v2(&n) != NVML_SUCCESS;
}

static enum gs_answer answer_of(nvmlReturn_t got)
{
    switch (got) {
    case NVML_SUCCESS:
    case NVML_ERROR_NOT_SUPPORTED: /* a card that shares the host's memory has no figure of it */
        return GS_ANSWER_FINE;
    case NVML_ERROR_GPU_IS_LOST:
    case NVML_ERROR_NOT_FOUND:
    case NVML_ERROR_GPU_NOT_FOUND:
        return GS_ANSWER_LOST;
    case NVML_ERROR_RESET_REQUIRED:
        return GS_ANSWER_RESET;
    default:
        return GS_ANSWER_SILENT;
    }
}

/* What the driver says has to be done with a card that answers. */
static enum gs_answer ask_recovery(const struct gs_health_watch *w, const struct card *card)
{
    nvmlFieldValue_t field = {.fieldId = FIELD_RECOVERY};

    if (w->nvml.nvmlDeviceGetFieldValues == NULL ||
        w->nvml.nvmlDeviceGetFieldValues(card->device, 1, &field) != NVML_SUCCESS ||
        field.nvmlReturn != NVML_SUCCESS || field.valueType != NVML_VALUE_TYPE_UNSIGNED_INT)
        return GS_ANSWER_FINE;
    return field.value.uiVal == RECOVERY_NONE ? GS_ANSWER_CLEAN : GS_ANSWER_RESET;
}

static nvmlReturn_t ask_card(struct gs_health_watch *w, struct card *card, enum gs_answer *ret)
{
    nvmlMemory_t memory;
    nvmlReturn_t got = w->nvml.nvmlDeviceGetHandleByUUID(card->uuid, &card->device);

    if (got == NVML_SUCCESS)
        got = w->nvml.nvmlDeviceGetMemoryInfo(card->device, &memory);
    *ret = answer_of(got);
    if (*ret == GS_ANSWER_FINE) {
        *ret = ask_recovery(w, card);
        watch_card(w, card);
    } else {
        card->is_watched = false; /* its handle may be another one when it is back */
    }
    return got;
}

/* Answers of all cards; false where the session turned out to be dead: then there are none. */
static bool ask_all(struct gs_health_watch *w, uint64_t now_ns, struct notes *notes)
{
    unsigned int n = 0;
    size_t before = notes->n;

    w->ask_ns = now_ns + GS_HEALTH_ASK_NS;
    for (uint32_t i = 0; i < w->n; i++) {
        struct gs_note note = {.kind = GS_NOTE_ANSWER, .card = i, .part = -1};
        nvmlReturn_t got = ask_card(w, &w->card[i], &note.answer);

        if (is_session_dead(w, got)) {
            notes->n = before;
            return false;
        }
        add(notes, note);
    }
    if (w->nvml.nvmlDeviceGetCount_v2(&n) == NVML_SUCCESS && n != w->n_counted) {
        w->n_counted = n;
        add(notes, (struct gs_note){.kind = GS_NOTE_OTHER_CARDS, .part = -1});
    }
    return true;
}

/* A new session, and what its cards answer; false where there is none that does. */
static bool reopen(struct gs_health_watch *w, uint64_t now_ns, struct notes *notes)
{
    size_t before = notes->n;

    if (open_session(w, NULL) != 0)
        return false;
    add(notes, (struct gs_note){.kind = GS_NOTE_DRIVER_BACK, .part = -1});
    if (ask_all(w, now_ns, notes))
        return true;
    notes->n = before; /* gone again already */
    close_session(w);
    return false;
}

/* The session is dead. Where a new one begins at once the driver was loaded anew meanwhile. */
static void renew_session(struct gs_health_watch *w, uint64_t now_ns, struct notes *notes)
{
    close_session(w);
    add(notes, (struct gs_note){.kind = GS_NOTE_DRIVER_GONE, .part = -1});
    (void)reopen(w, now_ns, notes);
}

/* --- events --- */

static void note_event(struct gs_health_watch *w, const nvmlEventData_t *event, struct notes *notes)
{
    struct gs_note note = {.kind = GS_NOTE_ERROR, .part = -1, .code = event->eventData};

    if (event->eventType != EVENT_XID || !gs_xid_counts(&w->rule, event->eventData))
        return;
    w->ask_ns = 0; /* whatever it was, look at the cards */
    note.harm = gs_xid_harm(event->eventData);
    while (note.card < w->n && w->card[note.card].device != event->device)
        note.card++;
    if (note.card == w->n)
        return; /* of a card that is not ours to watch */
    for (size_t i = 0; event->gpuInstanceId != INSTANCE_NONE && i < w->card[note.card].n_parts; i++)
        if (w->card[note.card].part[i].instance == event->gpuInstanceId &&
            (event->computeInstanceId == INSTANCE_NONE ||
             w->card[note.card].part[i].compute == event->computeInstanceId))
            note.part = (int32_t)i;
    add(notes, note);
}

static void wait_for_events(struct gs_health_watch *w, unsigned ms, uint64_t now_ns,
                            struct notes *notes)
{
    nvmlEventData_t event;
    nvmlReturn_t got = w->nvml.nvmlEventSetWait_v2(w->set, &event, ms);

    while (got == NVML_SUCCESS) {
        note_event(w, &event, notes);
        if (notes->n + NOTES_KEPT + w->n > notes->max)
            return; /* what a session that ends has to say needs room, too */
        got = w->nvml.nvmlEventSetWait_v2(w->set, &event, 0);
    }
    if (got == NVML_ERROR_TIMEOUT)
        return;
    if (is_session_dead(w, got)) {
        renew_session(w, now_ns, notes);
        return;
    }
    /* A set with a lost card in it may answer nothing else any more: begin one without. */
    close_set(w);
    open_set(w);
    w->ask_ns = 0;
    if (notes->n == 0)
        pause_ms(ms < BROKEN_PAUSE_MS ? ms : BROKEN_PAUSE_MS);
}

static size_t watch_wait(struct gs_health_watch *w, unsigned timeout_ms, struct gs_note *ret,
                         size_t max)
{
    struct notes notes = {.p = ret, .max = max};
    uint64_t now_ns = gs_clock_mono_ns(gs_clock_real()), left_ms;

    if (!w->is_open) {
        if (!reopen(w, now_ns, &notes))
            pause_ms(timeout_ms < ABSENT_PAUSE_MS ? timeout_ms : ABSENT_PAUSE_MS);
        return notes.n;
    }
    if (now_ns >= w->ask_ns) {
        if (!ask_all(w, now_ns, &notes))
            renew_session(w, now_ns, &notes);
        return notes.n;
    }
    left_ms = (w->ask_ns - now_ns + 999999) / 1000000;
    if (left_ms < timeout_ms)
        timeout_ms = (unsigned)left_ms;
    if (w->has_set)
        wait_for_events(w, timeout_ms, now_ns, &notes);
    else
        pause_ms(timeout_ms);
    return notes.n;
}

/* --- */

static void keep_card(const struct gs_inventory_card *from, struct card *to)
{
    memcpy(to->uuid, from->uuid, sizeof(to->uuid));
    to->n_parts = from->n_parts;
    for (size_t i = 0; i < from->n_parts; i++)
        to->part[i] = (struct part){from->part[i].instance, from->part[i].compute};
}

static struct gs_health_watch *watch_free(struct gs_health_watch *w)
{
    if (w != NULL)
        close_session(w);
    free(w);
    return NULL;
}

static int watch_new(const struct gs_inventory *inv, const struct gs_health_conf *conf,
                     struct gs_health_watch **ret, struct gs_err *err)
{
    struct gs_health_watch *w = calloc(1, sizeof(*w));
    nvmlReturn_t got;
    int rc;

    if (w == NULL)
        return gs_err_set(err, -ENOMEM, "out of memory");
    w->tell = conf->tell;
    gs_xid_rule_make(conf->ignore, conf->heed, conf->tell, &w->rule);
    w->n = (uint32_t)inv->n;
    for (size_t i = 0; i < inv->n; i++)
        keep_card(&inv->card[i], &w->card[i]);
    rc = open_session(w, err);
    if (rc == 0) {
        got = w->nvml.nvmlDeviceGetCount_v2(&w->n_counted);
        if (got != NVML_SUCCESS)
            rc = gs_err_set(err, -EIO, "NVML cannot count the cards: %s",
                            gs_nvml_text(&w->nvml, got));
    }
    /* Events count from now on, not from the first time somebody waits. */
    for (uint32_t i = 0; rc == 0 && i < w->n; i++)
        if (w->nvml.nvmlDeviceGetHandleByUUID(w->card[i].uuid, &w->card[i].device) == NVML_SUCCESS)
            watch_card(w, &w->card[i]);
    if (rc != 0) {
        (void)watch_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

const struct gs_health_vendor gs_nvidia_health = {
    .error_word = "XID",
    .watch_new = watch_new,
    .watch_wait = watch_wait,
    .watch_free = watch_free,
    .error_text = gs_xid_text,
    .usual_harm = gs_xid_usual_harm,
    .read_log_line = gs_xid_read_line,
};
