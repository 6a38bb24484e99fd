#include "apps/gpuslice/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/slice.h"
#include "base/err.h"
#include "core/size.h"
#include "core/str.h"

/** What is promised on one card. */
struct promise {
    uint64_t bytes;  /**< sum of the limits */
    uint64_t load;   /**< the same with an unlimited slice counted as a whole card: for choosing */
    uint32_t slices; /**< with a limit on this card */
    const char *first; /**< name of one of them */
};

static const char *size_text(uint64_t bytes, char text[GS_APP_SIZE])
{
    return gs_app_size(bytes, text);
}

static void add_device(const struct gs_card *card, const struct gs_slice *slice,
                       const struct gs_quota_device *d, struct promise *p)
{
    uint64_t bytes = d->limit_bytes;

    if (strcmp(d->uuid, card->uuid) != 0)
        return;
    if (bytes == UINT64_MAX) {
        p->load = gs_size_add(p->load, card->total_bytes);
        return;
    }
    /* another user's file may claim anything; more than the card cannot be promised to one slice */
    if (slice->uid != geteuid() && bytes > card->total_bytes)
        bytes = card->total_bytes;
    p->bytes = gs_size_add(p->bytes, bytes);
    p->load = gs_size_add(p->load, bytes);
    p->slices++;
    if (!p->first)
        p->first = slice->name;
}

static struct promise promised(const struct gs_card *card, const struct gs_slices *slices)
{
    struct promise p = {0};

    for (size_t i = 0; i < slices->n; i++) {
        const struct gs_slice *s = slices->p[i];

        if (s->state != GS_SLICE_RUNNING && s->state != GS_SLICE_ORPHAN)
            continue;
        for (uint32_t k = 0; k < s->quota.n_devices; k++)
            add_device(card, s, &s->quota.device[k], &p);
    }
    return p;
}

static bool is_number(struct gs_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    return s.n > 0;
}

/* Position of the card that `word` names by index, UUID, or the beginning of a UUID; -ENODEV none,
 * -EEXIST several. */
static int find_card(const struct gs_probe *probe, struct gs_str word)
{
    uint64_t index = 0;
    int found = -ENODEV;

    if (is_number(word)) {
        if (gs_size_parse_u64(word, &index) != 0)
            return -ENODEV;
        for (size_t i = 0; i < probe->n_cards; i++)
            if (probe->card[i].index == index)
                return (int)i;
        return -ENODEV;
    }
    for (size_t i = 0; i < probe->n_cards && word.n >= 5; i++) {
        const char *uuid = probe->card[i].uuid;

        if (strlen(uuid) < word.n || memcmp(uuid, word.p, word.n) != 0)
            continue;
        if (strlen(uuid) == word.n)
            return (int)i;
        if (found >= 0)
            return -EEXIST;
        found = (int)i;
    }
    return found;
}

static int add_card(struct gs_plan *plan, int card, struct gs_err *err)
{
    for (size_t i = 0; i < plan->n_cards; i++)
        if (plan->card[i] == (uint32_t)card)
            return gs_err_set(err, -EINVAL, "--device names a card twice");
    plan->card[plan->n_cards++] = (uint32_t)card;
    return 0;
}

static int choose_named(const char *text, const struct gs_probe *probe, struct gs_plan *plan,
                        struct gs_err *err)
{
    struct gs_str rest = gs_str_of(text), word;
    int rc = 0;

    if (strcmp(text, "all") == 0) {
        plan->all = true;
        for (size_t i = 0; i < probe->n_cards; i++)
            plan->card[plan->n_cards++] = (uint32_t)i;
        return 0;
    }
    if (rest.n == 0 || rest.p[rest.n - 1] == ',')
        return gs_err_set(err, -EINVAL, "--device '%s': a card is missing in the list", text);
    while (rc == 0 && gs_str_cut(&rest, ',', &word)) {
        int card = find_card(probe, word);

        if (card == -EEXIST)
            return gs_err_set(err, -EINVAL,
                              "--device '%.*s' fits several cards; give more of the UUID",
                              (int)(word.n & 0x7f), word.p);
        if (card < 0)
            return gs_err_set(
                err, -ENODEV,
                "--device '%.*s': no such card; 'gpuslice top --once' lists what there is",
                (int)(word.n & 0x7f), word.p);
        rc = add_card(plan, card, err);
    }
    return rc;
}

/* The cards a variable like CUDA_VISIBLE_DEVICES leaves; as with the driver, an unknown word ends
 * the list. */
static uint64_t visible_mask(const char *visible, const struct gs_probe *probe)
{
    struct gs_str rest = gs_str_of(visible), word;
    uint64_t mask = 0;

    if (!visible)
        return UINT64_MAX;
    while (gs_str_cut(&rest, ',', &word)) {
        int card = find_card(probe, word);

        if (card < 0)
            break;
        mask |= UINT64_C(1) << card;
    }
    return mask;
}

/* The least promised first, the lowest index among equals; cards with room before those without. */
static int choose_free(size_t want, const struct gs_plan_request *request,
                       const struct gs_probe *probe, const struct gs_slices *slices,
                       struct gs_plan *plan, struct gs_err *err)
{
    uint64_t left = visible_mask(request->visible, probe);

    while (plan->n_cards < want) {
        uint64_t best_load = 0;
        int best = -1;

        for (size_t i = 0; i < probe->n_cards; i++) {
            struct promise p = promised(&probe->card[i], slices);

            if (((left >> i) & 1u) && (best < 0 || p.load < best_load)) {
                best = (int)i;
                best_load = p.load;
            }
        }
        if (best < 0 && plan->n_cards == 0)
            return gs_err_set(err, -EINVAL, "CUDA_VISIBLE_DEVICES leaves no card to use");
        if (best < 0)
            return gs_err_set(err, -EINVAL,
                              "--memory names %zu sizes, but only %zu card%s can be used", want,
                              plan->n_cards, plan->n_cards == 1 ? "" : "s");
        left &= ~(UINT64_C(1) << best);
        plan->card[plan->n_cards++] = (uint32_t)best;
    }
    return 0;
}

static size_t count_words(const char *text)
{
    size_t n = 1;

    for (; *text; text++)
        n += *text == ',';
    return n;
}

static int parse_size(struct gs_str word, const struct gs_card *card, uint64_t *ret,
                      struct gs_err *err)
{
    uint64_t bytes = UINT64_MAX;
    int rc = 0;

    if (!gs_str_eq(word, GS_STR("none"))) {
        rc = gs_size_parse_share(word, card->total_bytes, &bytes);
        if (rc == 0 && bytes == 0)
            return gs_err_set(
                err, -EINVAL,
                "--memory '%.*s' leaves nothing; ask for more, or hide the card with --device",
                (int)(word.n & 0x7f), word.p);
    }
    if (rc != 0 || (bytes == UINT64_MAX && word.n != 4))
        return gs_err_set(
            err, -EINVAL,
            "--memory '%.*s' is not a size; write bytes, or a number with K M G T, Ki Mi Gi Ti "
            "or %% (at most 100), or 'none'",
            (int)(word.n & 0x7f), word.p);
    *ret = bytes;
    return 0;
}

static int parse_cores(const char *text, uint32_t *ret, struct gs_err *err)
{
    uint64_t pct;

    if (gs_size_parse_u64(gs_str_of(text), &pct) != 0 || pct < 1 || pct > 100)
        return gs_err_set(err, -EINVAL, "--cores '%s' is not a percentage from 1 to 100", text);
    *ret = (uint32_t)pct;
    return 0;
}

static int check_room(const struct gs_card *card, uint64_t bytes, const struct gs_slices *slices,
                      struct gs_err *err)
{
    struct promise p = promised(card, slices);
    uint64_t room = p.bytes < card->total_bytes ? card->total_bytes - p.bytes : 0;
    char want[GS_APP_SIZE], total[GS_APP_SIZE], taken[GS_APP_SIZE], left[GS_APP_SIZE];

    if (bytes == UINT64_MAX || bytes <= room)
        return 0;
    (void)size_text(bytes, want);
    (void)size_text(card->total_bytes, total);
    (void)size_text(p.bytes, taken);
    (void)size_text(room, left);
    if (p.slices == 0)
        return gs_err_set(err, -ENOSPC,
                          "card %u has %s (%" PRIu64
                          " bytes), less than the %s asked for; ask for at most that, "
                          "or add --oversubscribe",
                          card->index, total, card->total_bytes, want);
    return gs_err_set(
        err, -ENOSPC,
        "card %u has %s, of which %s are promised to %u slice%s ('%s'%s); %s do not fit into the "
        "%s left (%" PRIu64 " bytes); ask for less, take another --device, end a slice ('gpuslice "
        "ls'), or add --oversubscribe",
        card->index, total, taken, p.slices, p.slices == 1 ? "" : "s", p.first,
        p.slices == 1 ? "" : ", ...", want, left, room);
}

static int fill_quota(const struct gs_plan_request *request, const struct gs_probe *probe,
                      const struct gs_slices *slices, struct gs_plan *plan, struct gs_err *err)
{
    struct gs_str rest = gs_str_of(request->memory), word = gs_str_of("none");
    bool each = request->memory && count_words(request->memory) > 1;
    uint32_t cores = 100;
    int rc = request->cores ? parse_cores(request->cores, &cores, err) : 0;

    if (request->memory && !each)
        word = rest;
    plan->quota.generation = 1;
    plan->quota.fail = GS_FAIL_CLOSED;
    for (size_t i = 0; i < plan->n_cards && rc == 0; i++) {
        const struct gs_card *card = &probe->card[plan->card[i]];
        struct gs_quota_device *d = &plan->quota.device[plan->quota.n_devices++];

        if (each && !gs_str_cut(&rest, ',', &word))
            word = GS_STR("");
        rc = parse_size(word, card, &d->limit_bytes, err);
        if (rc == 0 && !request->oversubscribe)
            rc = check_room(card, d->limit_bytes, slices, err);
        (void)memcpy(d->uuid, card->uuid, sizeof(d->uuid));
        d->core_pct = cores;
        d->policy = request->cores ? GS_POLICY_FIXED : GS_POLICY_OFF;
    }
    return rc;
}

int gs_plan_make(const struct gs_plan_request *request, const struct gs_probe *probe,
                 const struct gs_slices *slices, struct gs_plan *ret_plan, struct gs_err *err)
{
    size_t sizes = request->memory ? count_words(request->memory) : 1;
    int rc;

    memset(ret_plan, 0, sizeof(*ret_plan));
    if (request->device)
        rc = choose_named(request->device, probe, ret_plan, err);
    else
        rc = choose_free(sizes, request, probe, slices, ret_plan, err);
    if (rc == 0 && sizes > 1 && sizes != ret_plan->n_cards)
        rc = gs_err_set(err, -EINVAL,
                        "--memory names %zu sizes for %zu card%s; give one, or one for each card",
                        sizes, ret_plan->n_cards, ret_plan->n_cards == 1 ? "" : "s");
    if (rc == 0)
        rc = fill_quota(request, probe, slices, ret_plan, err);
    return rc;
}
