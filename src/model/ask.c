#include "model/ask.h"

#include <errno.h>
#include <string.h>

#include "model/order.h"
#include "model/text.h"

#define NODE_POLICY_KEY GS_STR("hami.io/node-scheduler-policy")

static int add_line(struct gs_ask *ask, struct gs_arena *arena, size_t *cap,
                    const struct gs_ask_line *line)
{
    if (ask->n_lines >= *cap) {
        size_t more = *cap < 4 ? 8 : *cap * 2;
        struct gs_ask_line *at = GS_ARENA_ARRAY(arena, more, struct gs_ask_line);

        if (at == NULL)
            return -ENOMEM;
        if (ask->n_lines > 0)
            memcpy(at, ask->line, ask->n_lines * sizeof(*at));
        ask->line = at;
        *cap = more;
    }
    ask->line[ask->n_lines++] = *line;
    return 0;
}

/* What would free room in place of taking it is nothing. */
static void tidy(struct gs_request *r)
{
    r->mem_mib = r->mem_mib < 0 ? 0 : r->mem_mib;
    r->cores = r->cores < 0 ? 0 : r->cores;
}

static int read_lines(struct gs_ask *ask, struct gs_arena *arena)
{
    size_t cap = 0;

    for (size_t c = 0; c < ask->pod->n_containers; c++) {
        if (ask->pod->container[c].limits.n == 0 && ask->pod->container[c].requests.n == 0)
            continue;
        for (size_t i = 0; i < ask->policies->n; i++) {
            const struct gs_policy *policy = ask->policies->at[i];
            struct gs_ask_line line = {(uint32_t)c, (uint32_t)i, {0}};
            int rc;

            policy->ops->request(policy, ask->pod, c, &line.request);
            if (line.request.nums <= 0)
                continue;
            tidy(&line.request);
            rc = add_line(ask, arena, &cap, &line);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

int gs_ask_wish(const struct gs_pod *pod, const struct gs_policy *policy, struct gs_arena *arena,
                struct gs_wish *ret)
{
    struct gs_wish wish = {0};
    int rc = gs_select_read(pod, &policy->keys, arena, &wish.select);

    if (rc < 0)
        return rc;
    wish.is_numa_bound = gs_text_is_true(gs_pod_annotation(pod, policy->keys.numa_bind, NULL));
    wish.is_link_bound = gs_text_is_true(gs_pod_annotation(pod, policy->keys.link_bind, NULL));
    if (policy->ops->tag != NULL)
        wish.tag = policy->ops->tag(policy, pod);
    if (policy->ops->wish != NULL) {
        rc = policy->ops->wish(policy, pod, arena, &wish.own);
        if (rc < 0)
            return rc;
    }
    *ret = wish;
    return 0;
}

/* A vendor's lines together; false: it has none. */
static bool sum_up(const struct gs_ask *ask, uint32_t policy, struct gs_ask_vendor *ret)
{
    bool any = false;

    for (size_t i = 0; i < ask->n_lines; i++) {
        const struct gs_request *r = &ask->line[i].request;

        if (ask->line[i].policy != policy)
            continue;
        if (!any || r->mem_mib > ret->most.mem_mib ||
            (r->mem_mib == ret->most.mem_mib && r->nums > ret->most.nums))
            ret->most = *r;
        any = true;
    }
    return any;
}

static int read_vendors(struct gs_ask *ask, struct gs_arena *arena)
{
    ask->vendor = GS_ARENA_ARRAY(arena, ask->policies->n, struct gs_ask_vendor);
    if (ask->vendor == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ask->policies->n; i++) {
        struct gs_ask_vendor *vendor = &ask->vendor[ask->n_vendors];
        int rc;

        if (!sum_up(ask, (uint32_t)i, vendor))
            continue;
        vendor->policy = ask->policies->at[i];
        vendor->word = gs_str_of(vendor->policy->word);
        vendor->policy_index = (uint32_t)i;
        rc = gs_ask_wish(ask->pod, vendor->policy, arena, &vendor->wish);
        if (rc < 0)
            return rc;
        ask->has_scores = ask->has_scores || vendor->policy->ops->score != NULL;
        ask->n_vendors++;
    }
    return 0;
}

bool gs_ask_wants(const struct gs_ask *ask, const struct gs_policy *policy)
{
    for (size_t i = 0; i < ask->n_vendors; i++)
        if (ask->vendor[i].policy == policy)
            return true;
    return false;
}

int gs_ask_read(const struct gs_pod *pod, const struct gs_policies *policies,
                const struct gs_ask_flags *flags, struct gs_arena *arena, struct gs_ask *ret,
                struct gs_err *err)
{
    struct gs_ask ask = {.pod = pod, .policies = policies, .quota = flags->quota};
    struct gs_str text = gs_pod_annotation(pod, NODE_POLICY_KEY, NULL);
    int rc = gs_order_read(pod, flags->device_policy, &ask.device_policy, err);

    if (rc < 0)
        return rc;
    ask.is_node_spread = gs_str_eq_c(text.n > 0 ? text : flags->node_policy, "spread");
    rc = read_lines(&ask, arena);
    if (rc == 0)
        rc = read_vendors(&ask, arena);
    if (rc < 0)
        return gs_err_set(err, rc, "no memory to read what a pod asks");
    *ret = ask;
    return 0;
}
