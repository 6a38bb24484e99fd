#include "model/usual.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "model/amount.h"
#include "model/node.h"
#include "model/request.h"

struct gs_str gs_usual_name(struct gs_arena *arena, const char *given, const char *chart)
{
    return gs_arena_str(arena, gs_str_of(given != NULL ? given : chart));
}

bool gs_usual_is_word(const char *word)
{
    size_t n = word != NULL ? strlen(word) : 0;

    return n > 0 && n <= 40 &&
           strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == n;
}

struct gs_str gs_usual_made(struct gs_arena *arena, const char *before, const char *word,
                            const char *behind)
{
    return gs_arena_printf(arena, "%s%s%s", before, word, behind);
}

struct gs_keys gs_usual_keys(struct gs_arena *arena, const char *word)
{
    return (struct gs_keys){
        .to_allocate = gs_usual_made(arena, "hami.io/", word, "-devices-to-allocate"),
        .allocated = gs_usual_made(arena, "hami.io/", word, "-devices-allocated"),
        .node_register = gs_usual_made(arena, "hami.io/node-register-", word, ""),
        .handshake = gs_usual_made(arena, "hami.io/node-handshake-", word, ""),
        .use_uuid = gs_usual_made(arena, "hami.io/use-", word, "-uuid"),
        .nouse_uuid = gs_usual_made(arena, "hami.io/no-use-", word, "-uuid"),
        .lock = GS_STR(GS_KEY_NODE_LOCK),
    };
}

int gs_usual_add(struct gs_policies *out, struct gs_arena *arena, const struct gs_policy *policy,
                 size_t n)
{
    struct gs_policy *copy = GS_ARENA_ARRAY(arena, n, struct gs_policy);
    int rc = gs_arena_check(arena);

    for (size_t i = 0; rc == 0 && i < n; i++) {
        copy[i] = policy[i];
        rc = gs_policies_add(out, arena, &copy[i]);
    }
    return rc;
}

int gs_usual_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                   struct gs_err *err)
{
    (void)err; /* refuses nothing */
    return gs_amount_is_there(&pod->container[container], policy->names.count, GS_AMOUNT_LIMITS);
}

int gs_usual_refuse(const struct gs_container *c, struct gs_str name, const char *rule,
                    struct gs_err *err)
{
    const struct gs_str *value = gs_container_amount(c, name);

    return gs_err_set(err, -EINVAL, "invalid %.*s value %.*s in container %.*s: %s", (int)name.n,
                      name.p, value != NULL ? (int)value->n : 0, value != NULL ? value->p : "",
                      (int)c->name.n, c->name.p, rule);
}

int gs_usual_check_amounts(const struct gs_policy *policy, const struct gs_container *c,
                           enum gs_amount_from from, struct gs_err *err)
{
    const struct gs_names *names = &policy->names;
    int32_t value;

    if (gs_amount_read_i32(c, names->count, from, 1, &value) < 0)
        return gs_usual_refuse(c, names->count, "must be an integer number of devices below 2^31",
                               err);
    if (gs_amount_read_i32(c, names->mem, from, policy->mem_factor, &value) < 0)
        return gs_usual_refuse(c, names->mem,
                               "must be an integer, in units of the resource, below 2^31 MiB", err);
    if (gs_amount_read_i32(c, names->core, from, 1, &value) < 0)
        return gs_usual_refuse(c, names->core, "must be an integer below 2^31", err);
    return 0;
}

int gs_usual_set_limit(struct gs_pod *pod, size_t container, struct gs_str name, int64_t value)
{
    struct gs_str text = gs_arena_printf(pod->arena, "%" PRId64, value);
    int rc;

    if (text.n == 0)
        return -ENOMEM;
    rc = gs_pod_edit(pod, GS_EDIT_LIMIT, container, name, text);
    if (rc == 0 && gs_pairs_find(&pod->container[container].requests, name) != NULL)
        rc = gs_pod_edit(pod, GS_EDIT_REQUEST, container, name, text);
    return rc;
}

int gs_usual_pass_priority(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                           const char *variable, struct gs_err *err)
{
    const struct gs_container *c = &pod->container[container];
    int32_t priority = 0;
    struct gs_str text;
    int rc = gs_amount_read_i32(c, policy->names.priority, GS_AMOUNT_LIMITS, 1, &priority);

    if (rc < 0)
        return gs_usual_refuse(c, policy->names.priority, "must be an integer below 2^31", err);
    if (rc == 0)
        return 0;
    text = gs_arena_printf(pod->arena, "%" PRId32, priority);
    if (text.n == 0)
        return -ENOMEM;
    return gs_pod_edit(pod, GS_EDIT_ENV, container, gs_str_of(variable), text);
}

void gs_usual_request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                      struct gs_request *ret)
{
    const struct gs_container *c = &pod->container[container];
    struct gs_request r = {.cores = policy->default_cores};

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, policy->names.count, GS_AMOUNT_BOTH, 1, &r.nums) <= 0 ||
        gs_amount_read_i32(c, policy->names.mem, GS_AMOUNT_BOTH, policy->mem_factor, &r.mem_mib) <
            0 ||
        gs_amount_read_i32(c, policy->names.core, GS_AMOUNT_BOTH, 1, &r.cores) < 0)
        return;
    r.mem_pct = r.mem_mib == 0 ? 100 : 0;
    *ret = r;
}

enum gs_reason gs_usual_count_alone(const struct gs_policy *p, const struct gs_fit *fit,
                                    const struct gs_device *dev, struct gs_pick *pick)
{
    (void)p;
    (void)fit;
    (void)dev;
    pick->mem_mib = 0;
    pick->cores = 0;
    return GS_REASON_COUNT;
}

int gs_usual_read_register(const struct gs_policy *policy, const struct gs_node_view *node,
                           struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                           struct gs_err *err)
{
    const struct gs_register_own own = {.more = policy->ops->read_device};
    const struct gs_str *text = gs_pairs_find(node->annotations, policy->keys.node_register);
    struct gs_device *dev = NULL;
    size_t n = 0;
    int rc;

    if (text == NULL)
        return -ENOENT;
    rc = gs_register_read(*text, &own, arena, &dev, &n, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "annotation %.*s", (int)policy->keys.node_register.n,
                           policy->keys.node_register.p);
    *ret_dev = dev;
    ret->n = (uint32_t)n;
    return 0;
}

struct gs_str gs_usual_last_indexes(const struct gs_assignment *a, struct gs_arena *arena)
{
    size_t c = a->pod->n_containers, room;
    struct gs_str_out out;
    char *text;

    while (c > 0 && a->n_picks[c - 1] == 0)
        c--;
    if (c == 0)
        return (struct gs_str){0};
    room = a->n_picks[c - 1] * 11 + 1; /* a comma and ten digits each */
    text = gs_arena_take(arena, room, 1);
    if (text == NULL)
        return (struct gs_str){0};
    gs_str_out_init(&out, text, room);
    for (size_t i = 0; i < a->n_picks[c - 1]; i++) {
        if (i > 0)
            gs_str_put_char(&out, ',');
        gs_str_put_u64(&out, a->node->dev[a->pick[c - 1][i].dev].index);
    }
    return (struct gs_str){out.p, out.n};
}

int gs_usual_read_capacity(const struct gs_policy *policy, const struct gs_node_view *node,
                           const struct gs_device *like, struct gs_arena *arena,
                           struct gs_device **ret_dev, struct gs_err *err)
{
    struct gs_device *dev;
    int64_t n = 0;
    int rc = gs_node_amount(node->capacity, policy->names.count, &n);

    if (rc == 0)
        return -ENOENT;
    if (rc < 0 || n > GS_REGISTER_DEVICES_MAX)
        return gs_err_set(err, -EINVAL, "capacity of %.*s is no possible number of devices",
                          (int)policy->names.count.n, policy->names.count.p);
    dev = GS_ARENA_ARRAY(arena, (size_t)n, struct gs_device);
    if (dev == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < (uint32_t)n; i++) {
        dev[i] = *like;
        dev[i].index = i;
        dev[i].is_healthy = true;
        dev[i].id = gs_arena_printf(arena, "%.*s-%.*s-%u", (int)node->name.n, node->name.p,
                                    (int)like->id.n, like->id.p, i);
    }
    rc = gs_arena_check(arena);
    if (rc < 0)
        return rc;
    *ret_dev = dev;
    return (int)n;
}
