#include "vendors/nvidia/node/xid.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/str.h"

static const struct {
    uint64_t xid;
    enum gs_harm harm;
    const char *text;
} known[] = {
#define GS_XID(number, harm, words) {number, GS_HARM_##harm, words},
#include "vendors/nvidia/node/xid.def"
#undef GS_XID
};

static const uint64_t of_programs[] = {13, 31, 43, 45, 68, 109};

static bool is_in(const uint64_t *list, size_t n, uint64_t xid)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == xid)
            return true;
    return false;
}

static struct gs_str trimmed(struct gs_str s)
{
    while (s.n > 0 && strchr(" \t\n", s.p[0]) != NULL)
        s = (struct gs_str){s.p + 1, s.n - 1};
    while (s.n > 0 && strchr(" \t\n", s.p[s.n - 1]) != NULL)
        s.n--;
    return s;
}

static bool is_word(struct gs_str s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static bool read_number(struct gs_str s, uint64_t *ret)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9' || v > UINT64_MAX / 10 - 1)
            return false;
        v = v * 10 + (uint64_t)(s.p[i] - '0');
    }
    *ret = v;
    return s.n > 0;
}

/* Numbers of one variable; true where it names all. */
static bool read_list(const char *name, const char *text, const struct gs_inventory_tell *tell,
                      uint64_t *list, size_t *n)
{
    struct gs_str rest = gs_str_of(text), word;
    uint64_t xid;

    while (gs_str_cut(&rest, ',', &word)) {
        word = trimmed(word);
        if (is_word(word, "all") || is_word(word, "xids"))
            return true;
        if (word.n == 0)
            continue;
        if (!read_number(word, &xid))
            gs_inventory_say(tell, "%s: '%.*s' is neither a number nor `all` nor `xids`", name,
                             (int)(word.n < 40 ? word.n : 40), word.p);
        else if (*n == GS_XID_NAMED)
            gs_inventory_say(tell, "%s: more than %d numbers: %llu is left out", name, GS_XID_NAMED,
                             (unsigned long long)xid);
        else
            list[(*n)++] = xid;
    }
    return false;
}

void gs_xid_rule_make(const char *ignore, const char *heed, const struct gs_inventory_tell *tell,
                      struct gs_xid_rule *ret)
{
    *ret = (struct gs_xid_rule){0};
    ret->ignores_all =
        read_list("DP_DISABLE_HEALTHCHECKS", ignore, tell, ret->ignored, &ret->n_ignored);
    ret->heeds_all = read_list("DP_ENABLE_HEALTHCHECKS", heed, tell, ret->heeded, &ret->n_heeded);
}

bool gs_xid_counts(const struct gs_xid_rule *rule, uint64_t xid)
{
    if (rule->heeds_all || is_in(rule->heeded, rule->n_heeded, xid))
        return true;
    return !rule->ignores_all && !is_in(rule->ignored, rule->n_ignored, xid) &&
           !is_in(of_programs, GS_ARRAY_LEN(of_programs), xid);
}

enum gs_harm gs_xid_harm(uint64_t xid)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
        if (known[i].xid == xid)
            return known[i].harm;
    return GS_HARM_PASSES;
}

const char *gs_xid_text(uint64_t xid)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
        if (known[i].xid == xid)
            return known[i].text;
    return NULL;
}

enum gs_harm gs_xid_usual_harm(uint64_t xid)
{
    const struct gs_xid_rule rule = {0};

    return gs_xid_counts(&rule, xid) ? gs_xid_harm(xid) : GS_HARM_NONE;
}

bool gs_xid_read_line(const char *line, char ret_pci[32], uint64_t *ret_xid)
{
    unsigned domain, bus, device;
    unsigned long long xid;
    const char *at = strstr(line, "NVRM: Xid (PCI:");

    if (at == NULL ||
        sscanf(at, "NVRM: Xid (PCI:%8x:%2x:%2x): %19llu", &domain, &bus, &device, &xid) != 4)
        return false;
    (void)snprintf(ret_pci, 32, "%04x:%02x:%02x.0", domain, bus, device);
    *ret_xid = xid;
    return true;
}
