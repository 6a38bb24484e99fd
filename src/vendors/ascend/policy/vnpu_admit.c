#include <errno.h>
#include <inttypes.h>

#include "model/amount.h"
#include "model/usual.h"
#include "vendors/ascend/policy/vnpu.h"

static bool asks_for_any(const struct gs_vnpu_fleet *fleet, const struct gs_container *c)
{
    for (size_t i = 0; i < fleet->n; i++)
        if (gs_container_amount(c, fleet->count[i]) != NULL)
            return true;
    return false;
}

/* The vendor's runtime shows all NPUs where the variable is missing. HAMi adds it once per chip, to
 * containers that use another chip too. */
static int hide(const struct gs_vnpu_chip *chip, struct gs_pod *pod, size_t container)
{
    if (!chip->overwrites_env || asks_for_any(chip->fleet, &pod->container[container]))
        return 0;
    return gs_pod_edit(pod, GS_EDIT_ENV, container, GS_STR("ASCEND_VISIBLE_DEVICES"),
                       (struct gs_str){"", 0});
}

static int check_cores(const struct gs_policy *policy, const struct gs_container *c,
                       struct gs_err *err)
{
    struct gs_str name = policy->names.core;
    int64_t cores = 0;
    int rc = gs_amount_read(c, name, GS_AMOUNT_BOTH, &cores);

    if (rc < 0 || (rc > 0 && cores < 0))
        return gs_err_set(err, -EINVAL, "%.*s must be a number of percent", (int)name.n, name.p);
    if (cores > 0)
        return gs_err_set(err, -EINVAL, "%.*s is only supported in hami-core (soft split) mode",
                          (int)name.n, name.p);
    return 0;
}

/* MiB of the slice that the container gets, and the text to write for it. */
static int size_up(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                   struct gs_str *ret_text, struct gs_err *err)
{
    const struct gs_vnpu_chip *chip = policy->conf;
    const struct gs_container *c = &pod->container[container];
    struct gs_str name = policy->names.mem;
    const struct gs_str *given = gs_container_amount(c, name);
    const struct gs_vnpu_template *templ;
    int32_t asked = 0, mib;
    int rc = gs_amount_read_i32(c, name, GS_AMOUNT_BOTH, policy->mem_factor, &asked);

    if (rc < 0)
        goto invalid;
    mib = rc == 0 ? chip->allocatable : asked;
    if (rc > 0 && !gs_vnpu_is_soft(pod)) {
        mib = gs_vnpu_trim(chip, asked, &templ);
        if (mib < 0)
            goto invalid;
    }
    *ret_text = rc > 0 && mib == asked
                    ? *given
                    : gs_arena_printf(pod->arena, "%" PRId32, mib / policy->mem_factor);
    return ret_text->n > 0 ? mib : -ENOMEM;
invalid:
    return gs_err_set(
        err, -EINVAL,
        "%.*s %.*s is invalid: a card has %" PRId32 " MiB, ask in units of %" PRId32 " MiB",
        (int)name.n, name.p, (int)given->n, given->p, chip->capacity, policy->mem_factor);
}

static int write_memory(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                        struct gs_str text)
{
    int rc;

    if (policy->names.mem.n == 0)
        return 0;
    rc = gs_pod_edit(pod, GS_EDIT_LIMIT, container, policy->names.mem, text);
    return rc < 0 ? rc : gs_pod_edit(pod, GS_EDIT_REQUEST, container, policy->names.mem, text);
}

/* Dies of a super pod go out in pairs: one whole die becomes two. A slice of one stays alone. */
static int pair_up(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                   int32_t count, int32_t mib)
{
    const struct gs_vnpu_chip *chip = policy->conf;

    if (!chip->is_super_pod || count != 1 || mib != chip->allocatable)
        return 0;
    return gs_usual_set_limit(pod, container, policy->names.count, 2);
}

static int admit_cards(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                       int32_t count, struct gs_err *err)
{
    const struct gs_vnpu_chip *chip = policy->conf;
    bool is_soft = gs_vnpu_is_soft(pod);
    struct gs_str text;
    int rc, mib;

    if (chip->is_super_pod && count > 1 && count % 2 != 0)
        return gs_err_set(err, -EINVAL, "%s device request must be 1 or 2*n, got %" PRId32,
                          policy->word, count);
    rc = gs_vnpu_check_mode(pod, err);
    if (rc == 0 && !is_soft)
        rc = check_cores(policy, &pod->container[container], err);
    if (rc < 0)
        return rc;
    mib = size_up(policy, pod, container, &text, err);
    if (mib < 0)
        return mib;
    if (count > 1 && !is_soft && mib != chip->allocatable)
        return gs_err_set(err, -EINVAL, "vNPU not supported for multiple devices");
    rc = pair_up(policy, pod, container, count, mib);
    if (rc == 0)
        rc = write_memory(policy, pod, container, text);
    if (rc == 0 && pod->runtime_class.n == 0 && chip->runtime_class.n > 0)
        rc = gs_pod_edit(pod, GS_EDIT_RUNTIME_CLASS, container, (struct gs_str){0},
                         chip->runtime_class);
    return rc < 0 ? rc : 1;
}

int gs_vnpu_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                  struct gs_err *err)
{
    struct gs_str name = policy->names.count;
    int32_t count = 0;
    int rc = gs_amount_read_i32(&pod->container[container], name, GS_AMOUNT_LIMITS, 1, &count);

    if (rc < 0)
        return gs_err_set(err, -EINVAL, "%.*s must be an integer of at least 1", (int)name.n,
                          name.p);
    if (count == 0)
        return hide(policy->conf, pod, container);
    return admit_cards(policy, pod, container, count, err);
}
