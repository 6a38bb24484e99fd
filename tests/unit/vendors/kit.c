#include "kit.h"

#include <errno.h>
#include <string.h>

#include "model/node.h"
#include "model/request.h"
#include "model/usage.h"

void kit_init(struct kit *kit, const struct gs_policy_section *section, const void *conf,
              const char *word)
{
    memset(kit, 0, sizeof(*kit));
    gs_arena_init(&kit->arena);
    gs_buf_init(&kit->text);
    assert_int_equal(section->make(conf, false, &kit->arena, &kit->policies, &kit->err), 0);
    kit->policy = gs_policies_find(&kit->policies, gs_str_of(word));
    assert_non_null(kit->policy);
    kit->pod = (struct gs_pod){.arena = &kit->arena,
                               .ns = GS_STR("default"),
                               .name = GS_STR("pod1"),
                               .uid = GS_STR("uid1"),
                               .container = kit->container};
    kit->device_policy = (struct gs_device_policy){
        .chain = {GS_ORDER_SPREAD}, .n_chain = 1, .w_slot = 1, .w_core = 1, .w_mem = 1};
}

void kit_fini(struct kit *kit)
{
    gs_buf_fini(&kit->text);
    gs_arena_fini(&kit->arena);
}

size_t kit_container(struct kit *kit, const char *name)
{
    assert_true(kit->pod.n_containers < KIT_MAX);
    kit->container[kit->pod.n_containers].name = gs_str_of(name);
    return kit->pod.n_containers++;
}

static void set(struct kit *kit, struct gs_pairs *pairs, const char *key, const char *value)
{
    assert_int_equal(gs_pairs_set(pairs, &kit->arena, gs_str_of(key), gs_str_of(value)), 0);
}

static const char *text_of(struct kit *kit, const struct gs_pairs *pairs, const char *key)
{
    const struct gs_str *value = gs_pairs_find(pairs, gs_str_of(key));

    return value != NULL ? gs_arena_str(&kit->arena, *value).p : NULL;
}

void kit_limit(struct kit *kit, size_t container, const char *name, const char *value)
{
    set(kit, &kit->container[container].limits, name, value);
}

void kit_request(struct kit *kit, size_t container, const char *name, const char *value)
{
    set(kit, &kit->container[container].requests, name, value);
}

void kit_ask_of(struct kit *kit, void (*set_one)(struct kit *, size_t, const char *, const char *),
                const char *prefix, const char *amounts)
{
    struct gs_str rest = gs_str_of(amounts), one, name;

    while (gs_str_cut(&rest, ' ', &one)) {
        gs_str_cut(&one, '=', &name);
        set_one(kit, 0, gs_arena_printf(&kit->arena, "%s%.*s", prefix, (int)name.n, name.p).p,
                gs_arena_str(&kit->arena, one).p);
    }
}

const char *kit_env_of(struct kit *kit, size_t container, const char *name)
{
    return text_of(kit, &kit->container[container].env, name);
}

void kit_annotate_pod(struct kit *kit, const char *key, const char *value)
{
    set(kit, &kit->pod.annotations, key, value);
}

const char *kit_limit_of(struct kit *kit, size_t container, const char *name)
{
    return text_of(kit, &kit->container[container].limits, name);
}

const char *kit_request_of(struct kit *kit, size_t container, const char *name)
{
    return text_of(kit, &kit->container[container].requests, name);
}

const char *kit_annotation_of(struct kit *kit, const char *key)
{
    return text_of(kit, &kit->pod.annotations, key);
}

int kit_admit(struct kit *kit, size_t container)
{
    memset(&kit->err, 0, sizeof(kit->err));
    return kit->policy->ops->admit(kit->policy, &kit->pod, container, &kit->err);
}

struct gs_request kit_ask(struct kit *kit, size_t container)
{
    struct gs_request *r = &kit->request[container];

    kit->policy->ops->request(kit->policy, &kit->pod, container, r);
    return *r;
}

void kit_annotate_node(struct kit *kit, const char *key, const char *value)
{
    set(kit, &kit->node_annotations, key, value);
}

void kit_label_node(struct kit *kit, const char *key, const char *value)
{
    set(kit, &kit->node_labels, key, value);
}

void kit_capacity(struct kit *kit, const char *name, const char *value)
{
    set(kit, &kit->capacity, name, value);
}

int kit_read_node(struct kit *kit)
{
    const struct gs_node_view view = {.name = GS_STR("node1"),
                                      .annotations = &kit->node_annotations,
                                      .labels = &kit->node_labels,
                                      .capacity = &kit->capacity,
                                      .allocatable = &kit->capacity};
    struct gs_device *dev = NULL;
    int rc;

    kit->group = (struct gs_group){.policy = kit->policy};
    memset(&kit->err, 0, sizeof(kit->err));
    rc = gs_node_read(kit->policy, &view, &kit->arena, &dev, &kit->group, &kit->err);
    if (rc < 0)
        return rc;
    assert_true(kit->group.n <= KIT_MAX);
    kit->node = (struct gs_node){.name = view.name,
                                 .dev = dev,
                                 .use = kit->use,
                                 .n_dev = kit->group.n,
                                 .group = &kit->group,
                                 .n_groups = 1};
    memset(kit->use, 0, sizeof(kit->use));
    for (uint32_t i = 0; i < kit->group.n; i++)
        kit->order[i] = i;
    kit_unfit(kit);
    return rc;
}

struct gs_device *kit_device(struct kit *kit, size_t at)
{
    struct gs_device *dev = gs_arena_take(&kit->arena, kit->node.n_dev, sizeof(*dev));

    assert_non_null(dev);
    assert_true(at < kit->node.n_dev);
    memcpy(dev, kit->node.dev, kit->node.n_dev * sizeof(*dev));
    kit->node.dev = dev;
    return &dev[at];
}

void kit_unfit(struct kit *kit)
{
    memcpy(kit->fit_use, kit->use, sizeof(kit->use));
    memset(kit->n_picks, 0, sizeof(kit->n_picks));
    kit->n_taken = 0;
}

int kit_fit(struct kit *kit, size_t container)
{
    struct gs_pick *pick = kit->pick[container];
    struct gs_fit fit = {.pod = &kit->pod,
                         .container = container,
                         .request = &kit->request[container],
                         .node = &kit->node,
                         .group = &kit->group,
                         .use = kit->fit_use,
                         .order = kit->order,
                         .policy = &kit->device_policy,
                         .wish = &kit->wish,
                         .taken = kit->taken,
                         .n_taken = kit->n_taken,
                         .arena = &kit->arena,
                         .reasons = &kit->reasons};
    int n;

    assert_true(kit->request[container].nums >= 1 && kit->request[container].nums <= KIT_MAX);
    assert_int_equal(gs_ask_wish(&kit->pod, kit->policy, &kit->arena, &kit->wish), 0);
    gs_reasons_reset(&kit->reasons, kit->group.n);
    n = kit->policy->ops->fit != NULL
            ? kit->policy->ops->fit(kit->policy, &fit, pick)
            : gs_fit_walk(kit->policy, kit->policy->ops->rules, &fit, pick);
    if (n < 0)
        return n;
    kit->n_picks[container] = (size_t)n;
    for (int i = 0; i < n; i++) {
        gs_usage_book(kit->policy, &kit->node.dev[pick[i].dev], &kit->fit_use[pick[i].dev],
                      &pick[i]);
        kit->taken[kit->n_taken++] =
            (struct gs_taken){.policy = kit->policy, .container = container, .pick = pick[i]};
    }
    return n;
}

int kit_fit_for(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores)
{
    kit_unfit(kit);
    kit->request[0] =
        (struct gs_request){.nums = n, .mem_mib = mem, .mem_pct = pct, .cores = cores};
    return kit_fit(kit, 0);
}

void kit_want_fit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores,
                  const char *chosen)
{
    assert_int_equal(kit_fit_for(kit, n, mem, pct, cores), n);
    assert_string_equal(kit_chosen(kit, 0), chosen);
}

void kit_want_unfit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores,
                    const char *reasons)
{
    assert_int_equal(kit_fit_for(kit, n, mem, pct, cores), -ENOSPC);
    assert_string_equal(kit_reasons(kit), reasons);
}

void kit_want_cordoned(struct kit *kit, size_t container)
{
    struct gs_buf ids = {0};

    for (size_t i = 0; i < kit->node.n_dev; i++)
        gs_buf_addf(&ids, "%.*s, ", (int)kit->node.dev[i].id.n, kit->node.dev[i].id.p);
    kit_annotate_node(kit, "hami.io/device-cordon",
                      gs_arena_printf(&kit->arena, "%s", gs_buf_text(&ids)).p);
    gs_buf_fini(&ids);
    assert_int_equal(kit_read_node(kit), 0);
    assert_int_equal(kit_fit(kit, container), -ENOSPC);
    assert_string_equal(
        kit_reasons(kit),
        gs_arena_printf(&kit->arena, "%u/%u CardCordoned", kit->group.n, kit->group.n).p);
    kit_annotate_node(kit, "hami.io/device-cordon", "");
    assert_int_equal(kit_read_node(kit), 0);
}

const char *kit_reasons(struct kit *kit)
{
    gs_buf_clear(&kit->text);
    gs_reasons_write(&kit->reasons, &kit->text);
    return gs_buf_text(&kit->text);
}

const char *kit_chosen(struct kit *kit, size_t container)
{
    gs_buf_clear(&kit->text);
    for (size_t i = 0; i < kit->n_picks[container]; i++)
        gs_buf_addf(&kit->text, "%s%u", i > 0 ? "," : "",
                    kit->node.dev[kit->pick[container][i].dev].index);
    return gs_buf_text(&kit->text);
}

/* Points into the kit and into `pick`. */
static struct gs_assignment assignment(struct kit *kit, const struct gs_pick **pick, int64_t now_ns)
{
    for (size_t i = 0; i < KIT_MAX; i++)
        pick[i] = kit->pick[i];
    assert_int_equal(gs_ask_wish(&kit->pod, kit->policy, &kit->arena, &kit->wish), 0);
    return (struct gs_assignment){.pod = &kit->pod,
                                  .node = &kit->node,
                                  .group = &kit->group,
                                  .wish = &kit->wish,
                                  .pick = pick,
                                  .n_picks = kit->n_picks,
                                  .request = kit->request,
                                  .now_s = now_ns / 1000000000,
                                  .now_ns = now_ns};
}

double kit_score(struct kit *kit, bool is_spread)
{
    const struct gs_pick *pick[KIT_MAX];
    struct gs_assignment a = assignment(kit, pick, 0);

    return kit->policy->ops->score == NULL ? 0
                                           : kit->policy->ops->score(kit->policy, &a, is_spread);
}

struct gs_pairs kit_write(struct kit *kit, int64_t now_ns)
{
    const struct gs_pick *pick[KIT_MAX];
    struct gs_assignment a = assignment(kit, pick, now_ns);
    struct gs_pairs pairs = {0};

    assert_non_null(kit->policy->ops->annotate);
    assert_int_equal(kit->policy->ops->annotate(kit->policy, &a, &kit->arena, &pairs), 0);
    return pairs;
}

const char *kit_written(struct kit *kit, const struct gs_pairs *pairs, const char *key)
{
    return text_of(kit, pairs, key);
}

void kit_no_memory(struct kit *kit, const struct gs_policy_section *section)
{
    const struct gs_pick *pick[KIT_MAX];
    struct gs_assignment a = assignment(kit, pick, 1);
    size_t n = kit->policies.n;
    struct gs_pairs pairs = {0};
    struct gs_arena full;

    gs_arena_init(&full);
    full.failed = true;
    assert_int_equal(section->make(NULL, false, &full, &kit->policies, NULL), -ENOMEM);
    assert_int_equal(kit->policies.n, n);
    if (kit->n_taken > 0 && kit->policy->ops->annotate != NULL)
        assert_int_equal(kit->policy->ops->annotate(kit->policy, &a, &full, &pairs), -ENOMEM);
    kit->arena.failed = true;
    assert_int_equal(kit_read_node(kit), -ENOMEM);
    kit->arena.failed = false;
}
