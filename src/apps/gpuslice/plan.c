#include "apps/gpuslice/plan.h"

#include <errno.h>
#include <string.h>

#include "apps/gpuslice/promise.h"
#include "apps/gpuslice/terms.h"
#include "base/err.h"
#include "core/size.h"
#include "core/str.h"

/* Of a UUID that is cut short. */
#define UUID_LEAST 5u

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
    for (size_t i = 0; i < probe->n_cards && word.n >= UUID_LEAST; i++) {
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

/* Terms that go for the whole slice. */
static int fill_head(const struct gs_plan_request *request, struct gs_quota *quota,
                     struct gs_err *err)
{
    quota->generation = 1;
    quota->fail = GS_FAIL_CLOSED;
    quota->oversubscribe = request->oversubscribe;
    return request->priority ? gs_terms_priority(request->priority, &quota->priority, err) : 0;
}

static int nothing_to_hold(const char *policy, struct gs_err *err)
{
    return gs_err_set(err, -EINVAL,
                      "--policy %s has nothing to hold: say with --cores how large the share is",
                      policy);
}

static int fill_device(const struct gs_plan_request *request, const struct gs_card *card, size_t i,
                       struct gs_quota_device *d, struct gs_err *err)
{
    int rc = gs_terms_memory(gs_terms_word(request->memory, i, "none"), card, &d->limit_bytes, err);

    if (rc == 0)
        rc = gs_terms_cores(gs_terms_word(request->cores, i, "none"), &d->core_pct, err);
    d->policy = d->core_pct < 100 ? GS_POLICY_FIXED : GS_POLICY_OFF;
    if (rc == 0 && request->policy)
        rc = gs_terms_policy(request->policy, &d->policy, err);
    if (rc == 0 && d->policy != GS_POLICY_OFF && !gs_terms_have_share(request->cores))
        rc = nothing_to_hold(request->policy, err);
    (void)memcpy(d->uuid, card->uuid, sizeof(d->uuid));
    return rc;
}

/* Terms of the i-th card, and whether the card has room for them. @d is filled either way. */
static int check_card(const struct gs_plan_request *request, const struct gs_card *card, size_t i,
                      const struct gs_promise *promise, struct gs_quota_device *d,
                      struct gs_err *err)
{
    static const char way[] = ", or add --oversubscribe";
    int rc = fill_device(request, card, i, d, err);

    if (rc != 0 || request->oversubscribe)
        return rc;
    rc = gs_promise_check_memory(card, d->limit_bytes, promise, way, err);
    if (rc == 0 && d->policy != GS_POLICY_OFF)
        rc = gs_promise_check_cores(card, d->core_pct, promise, way, err);
    return rc;
}

/** A card to take, while one is looked for. */
struct choice {
    int card; /**< -1 none */
    bool fits;
    bool is_kept; /**< by the card, now */
    struct gs_promise promise;
};

static bool is_better(const struct choice *a, const struct choice *b)
{
    if (b->card < 0 || a->fits != b->fits)
        return b->card < 0 || a->fits;
    if (a->is_kept != b->is_kept)
        return a->is_kept;
    if (a->promise.load != b->promise.load)
        return a->promise.load < b->promise.load;
    return a->promise.core_pct < b->promise.core_pct;
}

/* For the i-th words of the request: of the cards in `left` on which it fits beside what is
 * promised, if there are such, those with really so much room now; of these the one with the least
 * memory promised or in use outside slices, then the least compute, then the lowest index. Where it
 * fits on none the best of all, which then has the reason to tell. */
static int choose_one(const struct gs_plan_request *request, const struct gs_probe *probe,
                      const struct gs_slices *slices, uint64_t left, size_t i)
{
    struct choice best = {.card = -1};

    for (size_t k = 0; k < probe->n_cards; k++) {
        struct choice c = {.card = (int)k};
        struct gs_quota_device d;

        if (((left >> k) & 1u) == 0)
            continue;
        gs_promise_read(&probe->card[k], slices, NULL, &c.promise);
        c.fits = check_card(request, &probe->card[k], i, &c.promise, &d, NULL) == 0;
        c.is_kept = gs_promise_is_kept(d.limit_bytes, &c.promise);
        if (is_better(&c, &best))
            best = c;
    }
    return best.card;
}

/* As many cards as there are words in the longest list. */
static int choose_free(const struct gs_plan_request *request, const struct gs_probe *probe,
                       const struct gs_slices *slices, struct gs_plan *plan, struct gs_err *err)
{
    uint64_t left = visible_mask(request->visible, probe);
    size_t sizes = gs_terms_count(request->memory), shares = gs_terms_count(request->cores);
    bool by_cores = shares > sizes;
    size_t want = by_cores ? shares : sizes;

    while (plan->n_cards < want) {
        int best = choose_one(request, probe, slices, left, plan->n_cards);

        if (best < 0 && plan->n_cards == 0)
            return gs_err_set(err, -EINVAL, "CUDA_VISIBLE_DEVICES leaves no card to use");
        if (best < 0)
            return gs_err_set(err, -EINVAL, "--%s names %zu %s, but only %zu card%s can be used",
                              by_cores ? "cores" : "memory", want, by_cores ? "shares" : "sizes",
                              plan->n_cards, plan->n_cards == 1 ? "" : "s");
        left &= ~(UINT64_C(1) << best);
        plan->card[plan->n_cards++] = (uint32_t)best;
    }
    return 0;
}

static int fill_quota(const struct gs_plan_request *request, const struct gs_probe *probe,
                      const struct gs_slices *slices, struct gs_plan *plan, struct gs_err *err)
{
    int rc = fill_head(request, &plan->quota, err);

    for (size_t i = 0; i < plan->n_cards && rc == 0; i++) {
        const struct gs_card *card = &probe->card[plan->card[i]];
        struct gs_quota_device *d = &plan->quota.device[plan->quota.n_devices++];
        struct gs_promise promise;

        gs_promise_read(card, slices, NULL, &promise);
        rc = check_card(request, card, i, &promise, d, err);
    }
    return rc;
}

/* A word that no card is called by. */
static bool is_no_card(struct gs_str word)
{
    return !is_number(word) && word.n < UUID_LEAST;
}

/* Nor may the list name one twice by the same word; by two words only cards can tell. */
static int check_named(const char *text, size_t *ret_n, struct gs_err *err)
{
    struct gs_str rest = gs_str_of(text), word, other;

    for (*ret_n = 0; gs_str_cut(&rest, ',', &word); ++*ret_n) {
        struct gs_str others = rest;

        if (word.n == 0)
            break;
        if (is_no_card(word))
            return gs_err_set(err, -EINVAL,
                              "--device '%.*s' is neither an index nor a UUID, or so much of one "
                              "that it can be told; 'gpuslice top --once' lists the cards",
                              (int)(word.n & 0x7f), word.p);
        while (gs_str_cut(&others, ',', &other))
            if (gs_str_eq(word, other))
                return gs_err_set(err, -EINVAL, "--device names a card twice");
    }
    if (*ret_n < gs_terms_count(text))
        return gs_err_set(err, -EINVAL, "--device '%s': a card is missing in the list", text);
    return 0;
}

int gs_plan_check(const struct gs_plan_request *request, struct gs_err *err)
{
    size_t sizes = gs_terms_count(request->memory), shares = gs_terms_count(request->cores);
    size_t n_cards = sizes > shares ? sizes : shares;
    bool all = request->device && strcmp(request->device, "all") == 0;
    uint32_t policy = GS_POLICY_OFF;
    int rc =
        gs_terms_check(request->memory, request->cores, request->policy, request->priority, err);

    if (rc == 0 && request->policy)
        rc = gs_terms_policy(request->policy, &policy, err);
    if (rc == 0 && policy != GS_POLICY_OFF && !gs_terms_have_share(request->cores))
        rc = nothing_to_hold(request->policy, err);
    if (rc == 0 && request->device && !all)
        rc = check_named(request->device, &n_cards, err);
    if (rc == 0)
        rc = gs_terms_check_count("memory", "sizes", request->memory, n_cards, err);
    if (rc == 0)
        rc = gs_terms_check_count("cores", "shares", request->cores, n_cards, err);
    return rc;
}

int gs_plan_make(const struct gs_plan_request *request, const struct gs_probe *probe,
                 const struct gs_slices *slices, struct gs_plan *ret_plan, struct gs_err *err)
{
    int rc;

    memset(ret_plan, 0, sizeof(*ret_plan));
    if (request->device)
        rc = choose_named(request->device, probe, ret_plan, err);
    else
        rc = choose_free(request, probe, slices, ret_plan, err);
    if (rc == 0)
        rc = gs_terms_check_count("memory", "sizes", request->memory, ret_plan->n_cards, err);
    if (rc == 0)
        rc = gs_terms_check_count("cores", "shares", request->cores, ret_plan->n_cards, err);
    if (rc == 0)
        rc = fill_quota(request, probe, slices, ret_plan, err);
    return rc;
}
