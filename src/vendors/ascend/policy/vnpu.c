#include "vendors/ascend/policy/vnpu.h"

#include <errno.h>
#include <inttypes.h>

#include "model/fit.h"
#include "model/json_out.h"

#define MODE_KEY "huawei.com/vnpu-mode"

int32_t gs_vnpu_trim(const struct gs_vnpu_chip *chip, int64_t mem_mib,
                     const struct gs_vnpu_template **ret_templ)
{
    *ret_templ = NULL;
    for (size_t i = 0; i < chip->n_templ; i++)
        if (chip->templ[i].mem_mib >= mem_mib) {
            *ret_templ = &chip->templ[i];
            return chip->templ[i].mem_mib;
        }
    return mem_mib <= chip->capacity ? chip->allocatable : -ERANGE;
}

bool gs_vnpu_is_soft(const struct gs_pod *pod)
{
    return gs_str_eq_c(gs_pod_annotation(pod, GS_STR(MODE_KEY), NULL), "hami-core");
}

int gs_vnpu_check_mode(const struct gs_pod *pod, struct gs_err *err)
{
    struct gs_str mode = gs_pod_annotation(pod, GS_STR(MODE_KEY), NULL);

    if (mode.n == 0 || gs_vnpu_is_soft(pod))
        return 0;
    return gs_err_set(err, -EINVAL,
                      MODE_KEY " %.*s is not supported: hami-core for a soft split, none for "
                               "templates",
                      (int)mode.n, mode.p);
}

/* {"UUID":"device-0","temp":"vir08","memory":8738,"core":1}, what is empty or 0 left out. */
static bool add_device(yyjson_mut_doc *doc, yyjson_mut_val *list, struct gs_str uuid,
                       const struct gs_vnpu_template *templ, const struct gs_pick *pick)
{
    yyjson_mut_val *one = yyjson_mut_arr_add_obj(doc, list);
    bool ok = one != NULL;

    if (ok && uuid.n > 0)
        ok = yyjson_mut_obj_add_strn(doc, one, "UUID", uuid.p, uuid.n);
    if (ok && templ != NULL)
        ok = yyjson_mut_obj_add_strn(doc, one, "temp", templ->name.p, templ->name.n);
    if (ok && pick->mem_mib != 0)
        ok = yyjson_mut_obj_add_int(doc, one, "memory", pick->mem_mib);
    if (ok && pick->cores != 0)
        ok = yyjson_mut_obj_add_int(doc, one, "core", pick->cores);
    return ok;
}

/* The devices of all containers in one list, for the plugin; an empty view when out of memory. */
static struct gs_str list_devices(const struct gs_vnpu_chip *chip, const struct gs_assignment *a,
                                  struct gs_arena *arena)
{
    yyjson_alc alc = gs_json_out_alc(arena);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(&alc);
    yyjson_mut_val *list = doc != NULL ? yyjson_mut_arr(doc) : NULL;
    bool is_soft = a->wish->own != NULL;

    if (list == NULL)
        return (struct gs_str){0};
    yyjson_mut_doc_set_root(doc, list);
    for (size_t c = 0; c < a->pod->n_containers; c++)
        for (size_t i = 0; i < a->n_picks[c]; i++) {
            const struct gs_pick *pick = &a->pick[c][i];
            const struct gs_vnpu_template *templ = NULL;

            if (!is_soft && gs_vnpu_trim(chip, pick->mem_mib, &templ) < 0)
                templ = NULL; /* more than the configuration knows of: a whole card */
            if (!add_device(doc, list, a->node->dev[pick->dev].id, templ, pick))
                return (struct gs_str){0};
        }
    return gs_json_out_text(doc, arena);
}

int gs_vnpu_annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                     struct gs_arena *arena, struct gs_pairs *ret)
{
    struct gs_str key = gs_arena_printf(arena, "huawei.com/%s", policy->word);
    struct gs_str devices = list_devices(policy->conf, a, arena);
    struct gs_str now = gs_arena_printf(arena, "%" PRId64, a->now_s);
    int rc;

    if (devices.n == 0 || gs_arena_check(arena) < 0)
        return -ENOMEM;
    rc = gs_pairs_set(ret, arena, key, devices);
    return rc < 0 ? rc : gs_pairs_set(ret, arena, GS_STR("predicate-time"), now);
}
