#include "model/order.h"

#include <errno.h>
#include <string.h>

#include "model/number.h"
#include "model/text.h"

#define POLICY_KEY  GS_STR(GS_ORDER_POLICY_KEY)
#define WEIGHTS_KEY GS_STR("hami.io/device-scoring-weights")

static void add_order(struct gs_device_policy *p, enum gs_device_order order)
{
    for (size_t i = 0; i < p->n_chain; i++)
        if (p->chain[i] == order)
            return;
    p->chain[p->n_chain++] = order;
}

/* Is the word known? */
static bool read_word(struct gs_device_policy *p, struct gs_str word)
{
    if (gs_str_eq_c(word, "binpack"))
        add_order(p, GS_ORDER_BINPACK);
    else if (gs_str_eq_c(word, "spread"))
        add_order(p, GS_ORDER_SPREAD);
    else if (gs_str_eq_c(word, "numa"))
        add_order(p, GS_ORDER_NUMA);
    else if (gs_str_eq_c(word, "mutex"))
        p->is_mutex = true;
    else if (gs_str_eq_c(word, "topology-aware"))
        p->is_topology = true;
    else
        return false;
    return true;
}

bool gs_order_knows(struct gs_str text, struct gs_str *ret_word)
{
    struct gs_device_policy p = {0};
    struct gs_str word;
    bool is_last;

    do {
        /* behind a comma at the end is a word, too */
        is_last = text.n == 0 || memchr(text.p, ',', text.n) == NULL;
        word = text;
        (void)gs_str_cut(&text, ',', &word);
        *ret_word = gs_text_trim(word);
        if (!read_word(&p, *ret_word))
            return false;
    } while (!is_last);
    return true;
}

static void read_order(struct gs_device_policy *p, struct gs_str text)
{
    struct gs_str rest = text, word;

    while (gs_str_cut(&rest, ',', &word))
        (void)read_word(p, gs_text_trim(word));
    for (size_t i = 0; i < text.n; i++)
        p->is_chain = p->is_chain || text.p[i] == ',';
    p->is_chain = p->is_chain || gs_str_eq_c(text, "numa");
    if (p->n_chain == 0)
        add_order(p, GS_ORDER_SPREAD);
}

/* "...: BEFORE"KEY"AFTER"; without a key BEFORE alone. */
static int refuse(struct gs_err *err, struct gs_str text, const char *before,
                  const struct gs_str *key, const char *after)
{
    static const char head[] = "invalid hami.io/device-scoring-weights annotation";
    int shown = (int)(text.n < 200 ? text.n : 200);

    if (key == NULL)
        return gs_err_set(err, -EINVAL, "%s \"%.*s\": %s", head, shown, text.p, before);
    return gs_err_set(err, -EINVAL, "%s \"%.*s\": %s\"%.*s\"%s", head, shown, text.p, before,
                      (int)(key->n < 100 ? key->n : 100), key->p, after);
}

struct weights {
    double value[3]; /* slot, core, memory */
    bool seen[3];
};

static int read_weight(struct weights *w, struct gs_str text, struct gs_str part,
                       struct gs_err *err)
{
    static const char *const name[3] = {"slot", "core", "memory"};
    struct gs_str value = part, key = {0};
    int64_t v;
    size_t i = 0;

    if (memchr(part.p, '=', part.n) == NULL || !gs_str_cut(&value, '=', &key))
        return refuse(err, text, "expected key=value entries", NULL, "");
    key = gs_text_trim(key);
    while (i < 3 && !gs_str_eq_c(key, name[i]))
        i++;
    if (i == 3)
        return refuse(err, text, "unknown weight ", &key, "");
    if (w->seen[i])
        return refuse(err, text, "duplicate ", &key, " weight");
    if (gs_number_read(gs_text_trim(value), &v) < 0)
        return refuse(err, text, "", &key, " weight must be an integer");
    if (v < 0)
        return refuse(err, text, "", &key, " weight must not be negative");
    w->seen[i] = true;
    w->value[i] = (double)v;
    return 0;
}

static int read_weights(struct gs_str text, struct weights *ret, struct gs_err *err)
{
    struct gs_str rest = gs_text_trim(text), part;
    struct weights w = {0};

    while (gs_str_cut(&rest, ',', &part)) {
        int rc = read_weight(&w, text, part, err);

        if (rc < 0)
            return rc;
    }
    if (!w.seen[0] || !w.seen[1] || !w.seen[2])
        return refuse(err, text, "expected slot, core, and memory weights", NULL, "");
    if (w.value[0] <= 0 && w.value[1] <= 0 && w.value[2] <= 0)
        return refuse(err, text, "at least one weight must be positive", NULL, "");
    *ret = w;
    return 0;
}

int gs_order_read(const struct gs_pod *pod, struct gs_str fallback, struct gs_device_policy *ret,
                  struct gs_err *err)
{
    struct gs_device_policy p = {0};
    struct weights weight = {.value = {1, 1, 1}};
    bool is_there;
    struct gs_str text = gs_pod_annotation(pod, WEIGHTS_KEY, &is_there);
    int rc = is_there ? read_weights(text, &weight, err) : 0;

    if (rc < 0)
        return rc;
    text = gs_pod_annotation(pod, POLICY_KEY, NULL);
    read_order(&p, text.n > 0 ? text : fallback);
    p.w_slot = weight.value[0];
    p.w_core = weight.value[1];
    p.w_mem = weight.value[2];
    *ret = p;
    return 0;
}

static float share(int32_t asked, int32_t used, int32_t total)
{
    return (float)((int64_t)asked + used) / (float)total;
}

float gs_order_score(const struct gs_device_policy *p, const struct gs_device *dev,
                     const struct gs_use *use, int32_t asked_slots, int32_t asked_cores,
                     int32_t asked_mem_mib)
{
    if (dev->count == 0 || dev->cores == 0 || dev->mem_mib == 0)
        return 0;
    return 10.0f * ((float)p->w_slot * share(asked_slots, use->slots, dev->count) +
                    (float)p->w_core * share(asked_cores, use->cores, dev->cores) +
                    (float)p->w_mem * share(asked_mem_mib, use->mem_mib, dev->mem_mib));
}

static int by_float(float a, float b)
{
    return (a > b) - (a < b);
}

static int by_int(int32_t a, int32_t b)
{
    return (a > b) - (a < b);
}

static int by_link(enum gs_device_order order, const struct gs_ranked *a, const struct gs_ranked *b)
{
    switch (order) {
    case GS_ORDER_BINPACK:
        return by_float(a->score, b->score);
    case GS_ORDER_SPREAD:
        return by_float(b->score, a->score);
    case GS_ORDER_NUMA:
        break;
    }
    return by_int(a->dev->numa, b->dev->numa);
}

/* One word of policy: HAMi's own rules for each. */
static int by_single(const struct gs_device_policy *p, bool is_numa_bound,
                     const struct gs_ranked *a, const struct gs_ranked *b)
{
    bool is_binpack = p->chain[0] == GS_ORDER_BINPACK;
    int numa = by_int(a->dev->numa, b->dev->numa);
    int score = by_link(p->chain[0], a, b);

    if (p->is_mutex) {
        int used = by_int(b->use->slots, a->use->slots);

        return used != 0 ? used : numa;
    }
    if (is_numa_bound)
        return numa != 0 ? (is_binpack ? -numa : numa) : score;
    return score != 0 ? score : numa;
}

bool gs_order_less(const struct gs_device_policy *p, bool is_numa_bound, const struct gs_ranked *a,
                   const struct gs_ranked *b)
{
    int way = 0;

    if (!p->is_chain) {
        way = by_single(p, is_numa_bound, a, b);
    } else {
        if (is_numa_bound)
            way = by_int(a->dev->numa, b->dev->numa);
        for (size_t i = 0; i < p->n_chain && way == 0; i++)
            way = by_link(p->chain[i], a, b);
    }
    return way != 0 ? way < 0 : a->dev->index < b->dev->index;
}
