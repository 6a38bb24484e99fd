#include "apps/gpuslice/terms.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "contract/quota.h"
#include "core/size.h"
#include "node/probe.h"

/** Words come from the user and go into a message: for "%.*s". */
static int shown(struct gs_str word)
{
    return (int)(word.n & 0x7f);
}

size_t gs_terms_count(const char *list)
{
    size_t n = 1;

    for (; list && *list; list++)
        n += *list == ',';
    return n;
}

struct gs_str gs_terms_word(const char *list, size_t i, const char *fallback)
{
    struct gs_str rest = gs_str_of(list ? list : fallback), word = rest;

    if (gs_terms_count(list) == 1)
        return rest;
    for (size_t at = 0; at <= i; at++)
        if (!gs_str_cut(&rest, ',', &word))
            return GS_STR("");
    return word;
}

bool gs_terms_have_share(const char *cores)
{
    struct gs_str rest = gs_str_of(cores), word;

    while (cores && gs_str_cut(&rest, ',', &word))
        if (!gs_str_eq(word, GS_STR("none")))
            return true;
    return false;
}

int gs_terms_check_count(const char *option, const char *things, const char *list, size_t n_cards,
                         struct gs_err *err)
{
    size_t n = gs_terms_count(list);

    if (n == 1 || n == n_cards)
        return 0;
    return gs_err_set(err, -EINVAL,
                      "--%s names %zu %s for %zu card%s; give one, or one for each card", option, n,
                      things, n_cards, n_cards == 1 ? "" : "s");
}

int gs_terms_memory(struct gs_str word, const struct gs_card *card, uint64_t *ret_bytes,
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
                shown(word), word.p);
    }
    if (rc != 0 || (bytes == UINT64_MAX && word.n != 4))
        return gs_err_set(
            err, -EINVAL,
            "--memory '%.*s' is not a size; write bytes, or a number with K M G T, Ki Mi Gi Ti "
            "or %% (at most 100), or 'none'",
            shown(word), word.p);
    *ret_bytes = bytes;
    return 0;
}

int gs_terms_cores(struct gs_str word, uint32_t *ret_pct, struct gs_err *err)
{
    uint64_t pct = 100;

    if (!gs_str_eq(word, GS_STR("none")) &&
        (gs_size_parse_u64(word, &pct) != 0 || pct < 1 || pct > 100))
        return gs_err_set(
            err, -EINVAL,
            "--cores '%.*s' is not a share; write a whole percentage of the card from "
            "1 to 100, or 'none'",
            shown(word), word.p);
    *ret_pct = (uint32_t)pct;
    return 0;
}

int gs_terms_policy(const char *word, uint32_t *ret_policy, struct gs_err *err)
{
    for (uint32_t i = 0; i < GS_POLICY_COUNT; i++) {
        if (strcmp(word, gs_quota_policy_name(i)) == 0) {
            *ret_policy = i;
            return 0;
        }
    }
    return gs_err_set(err, -EINVAL,
                      "--policy '%s' is not known; write 'fixed' (never more than the share), "
                      "'elastic' (idle shares are lent) or 'off' (not held)",
                      word);
}

int gs_terms_priority(const char *word, uint32_t *ret_priority, struct gs_err *err)
{
    if (strcmp(word, "high") != 0 && strcmp(word, "low") != 0)
        return gs_err_set(err, -EINVAL, "--priority '%s' is not known; write 'high' or 'low'",
                          word);
    *ret_priority = word[0] == 'h' ? GS_PRIORITY_HIGH : GS_PRIORITY_LOW;
    return 0;
}

int gs_terms_check(const char *memory, const char *cores, const char *policy, const char *priority,
                   struct gs_err *err)
{
    /* so large that no part of it above 0 comes to nothing */
    static const struct gs_card any = {.total_bytes = UINT64_C(1) << 60};
    uint64_t bytes;
    uint32_t n;
    int rc = 0;

    for (size_t i = 0; memory && rc == 0 && i < gs_terms_count(memory); i++)
        rc = gs_terms_memory(gs_terms_word(memory, i, ""), &any, &bytes, err);
    for (size_t i = 0; cores && rc == 0 && i < gs_terms_count(cores); i++)
        rc = gs_terms_cores(gs_terms_word(cores, i, ""), &n, err);
    if (rc == 0 && policy)
        rc = gs_terms_policy(policy, &n, err);
    if (rc == 0 && priority)
        rc = gs_terms_priority(priority, &n, err);
    return rc;
}

const char *gs_terms_priority_name(uint32_t priority)
{
    return priority == GS_PRIORITY_HIGH ? "high" : priority == GS_PRIORITY_LOW ? "low" : "none";
}
