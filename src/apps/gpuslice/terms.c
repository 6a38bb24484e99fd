#include "apps/gpuslice/terms.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "contract/quota.h"
#include "core/size.h"
#include "node/probe.h"

/** Of a word of the user's, in a message. */
#define SHOWN 128

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

/* Less holds no program's context on any card. */
#define MEMORY_LEAST (UINT64_C(1) << 20)
/* A bare number up to this is one of GiB that somebody forgot to say. */
#define MEANT_GIB 128u

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Cut `letter` in either case from the end. */
static bool cut_letter(struct gs_str *s, char letter)
{
    if (s->n < 2 || lower(s->p[s->n - 1]) != letter)
        return false;
    s->n--;
    return true;
}

/* The size that somebody who wrote `word` may have meant, as we want it written: units of other
 * programs (2GB, 2g, 2048MiB), or none. Empty where nobody can tell. */
static void guess(struct gs_str word, char ret[SHOWN])
{
    bool has_byte = cut_letter(&word, 'b'), is_binary = cut_letter(&word, 'i');
    char unit = word.n > 1 ? word.p[word.n - 1] : '\0';
    struct gs_str number = word;
    struct gs_str_out out;
    uint64_t bytes, n;

    gs_str_out_init(&out, ret, SHOWN);
    if (gs_size_parse_u64(word, &n) == 0) {
        if (has_byte || is_binary)
            return;
        gs_str_put(&out, word);
        gs_str_put_c(&out, n <= MEANT_GIB ? "Gi" : "Mi");
    } else if (unit != '\0') {
        number.n--;
        while (number.n > 1 && number.p[number.n - 1] == ' ')
            number.n--;
        gs_str_put(&out, number);
        gs_str_put_char(&out, (char)(lower(unit) - 'a' + 'A'));
        /* where a small letter alone is a unit it is one of 1024 */
        if (is_binary || (!has_byte && unit == lower(unit)))
            gs_str_put_c(&out, "i");
    }
    if (out.cut || gs_size_parse(gs_str_of(ret), &bytes) != 0 || bytes < MEMORY_LEAST)
        ret[0] = '\0';
}

static int refuse_small(struct gs_str word, uint64_t bytes, struct gs_err *err)
{
    char meant[SHOWN];

    guess(word, meant);
    return gs_err_set(err, -EINVAL,
                      "--memory '%.*s' is %" PRIu64
                      " byte%s, in which no program has room: %s%s%s1Mi is the least",
                      shown(word), word.p, bytes, bytes == 1 ? "" : "s",
                      meant[0] ? "did you mean " : "", meant, meant[0] ? "? " : "");
}

static int refuse_word(struct gs_str word, struct gs_err *err)
{
    char meant[SHOWN];

    guess(word, meant);
    return gs_err_set(err, -EINVAL,
                      "--memory '%.*s' is not a size%s%s%s; write bytes, or a number with K M G T, "
                      "Ki Mi Gi Ti or %% (at most 100), or 'none'",
                      shown(word), word.p, meant[0] ? "; did you mean '" : "", meant,
                      meant[0] ? "'?" : "");
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
        return refuse_word(word, err);
    if (bytes < MEMORY_LEAST)
        return refuse_small(word, bytes, err);
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

bool gs_terms_is_held(const struct gs_quota *quota, const struct gs_quota_device *device)
{
    return (device->core_pct < 100 && device->policy != GS_POLICY_OFF) ||
           quota->priority != GS_PRIORITY_NONE || quota->oversubscribe;
}

uint32_t gs_terms_priority_of(const struct gs_quota *quota, const struct gs_quota_device *device)
{
    if (quota->priority == GS_PRIORITY_NONE && gs_terms_is_held(quota, device))
        return GS_PRIORITY_LOW;
    return quota->priority;
}
