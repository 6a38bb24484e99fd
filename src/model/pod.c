#include "model/pod.h"

#include <errno.h>
#include <string.h>

#include "contract/annotations.h"
#include "contract/names.h"

/* A fence or a stamp with its key is far below; a longer one is somebody else's doing. */
#define MARK_MAX 256

const struct gs_str *gs_pairs_find(const struct gs_pairs *pairs, struct gs_str key)
{
    for (size_t i = pairs->n; i > 0; i--)
        if (gs_str_eq(pairs->at[i - 1].key, key))
            return &pairs->at[i - 1].value;
    return NULL;
}

/* Room for one more in an arena's array: the old one stays behind, so grow by doubling. */
static void *grown(struct gs_arena *arena, const void *old, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap < 4 ? 8 : *cap * 2;
    void *at = gs_arena_take(arena, more, size);

    if (at == NULL)
        return NULL;
    if (n > 0)
        memcpy(at, old, n * size);
    *cap = more;
    return at;
}

int gs_pairs_set(struct gs_pairs *pairs, struct gs_arena *arena, struct gs_str key,
                 struct gs_str value)
{
    for (size_t i = pairs->n; i > 0; i--)
        if (gs_str_eq(pairs->at[i - 1].key, key)) {
            pairs->at[i - 1].value = value;
            return 0;
        }
    if (pairs->n >= pairs->cap) {
        struct gs_pair *at = grown(arena, pairs->at, pairs->n, &pairs->cap, sizeof(*at));

        if (at == NULL)
            return -ENOMEM;
        pairs->at = at;
    }
    pairs->at[pairs->n++] = (struct gs_pair){key, value};
    return 0;
}

static bool removed(struct gs_pairs *pairs, struct gs_str key)
{
    size_t kept = 0;

    for (size_t i = 0; i < pairs->n; i++)
        if (!gs_str_eq(pairs->at[i].key, key))
            pairs->at[kept++] = pairs->at[i];
    if (kept == pairs->n)
        return false;
    pairs->n = kept;
    return true;
}

static bool is_mark(struct gs_str key, struct gs_str value)
{
    return key.n + value.n <= MARK_MAX &&
           (gs_str_eq_c(key, GS_NAME_FENCE) || gs_str_eq_c(key, GS_NAME_ROOM_SEEN));
}

/* As the API server counts annotations, but for marks. */
static size_t size_of(const struct gs_pairs *pairs)
{
    size_t n = 0; /* text that lies in memory: no overflow */

    for (size_t i = 0; i < pairs->n; i++)
        if (!is_mark(pairs->at[i].key, pairs->at[i].value))
            n += pairs->at[i].key.n + pairs->at[i].value.n;
    return n;
}

size_t gs_pod_grant_room(const struct gs_pairs *grant)
{
    return 2 * size_of(grant) + GS_ANNOTATIONS_MARKS;
}

int gs_pod_check_room(const struct gs_pod *pod, size_t more, struct gs_err *err)
{
    size_t n = size_of(&pod->annotations);

    if (more <= GS_ANNOTATIONS_MAX && n <= GS_ANNOTATIONS_MAX - more)
        return 0;
    return gs_err_set(err, -EINVAL,
                      "the pod's annotations have %zu bytes: with a grant, which takes %zu, they "
                      "would be more than %u, the most that can be",
                      n, more, GS_ANNOTATIONS_MAX);
}

struct gs_str gs_pod_annotation(const struct gs_pod *pod, struct gs_str key, bool *ret_is_there)
{
    const struct gs_str *value = key.n > 0 ? gs_pairs_find(&pod->annotations, key) : NULL;

    if (ret_is_there != NULL)
        *ret_is_there = value != NULL;
    return value != NULL ? *value : (struct gs_str){0};
}

const struct gs_str *gs_container_amount(const struct gs_container *c, struct gs_str name)
{
    const struct gs_str *amount;

    if (name.n == 0)
        return NULL;
    amount = gs_pairs_find(&c->limits, name);
    return amount != NULL ? amount : gs_pairs_find(&c->requests, name);
}

static struct gs_pairs *pairs_of(struct gs_pod *pod, enum gs_edit_kind kind, size_t container)
{
    switch (kind) {
    case GS_EDIT_LIMIT:
        return &pod->container[container].limits;
    case GS_EDIT_REQUEST:
        return &pod->container[container].requests;
    case GS_EDIT_ENV:
        return &pod->container[container].env;
    case GS_EDIT_ANNOTATION:
    case GS_EDIT_NO_ANNOTATION:
        return &pod->annotations;
    case GS_EDIT_NO_LABEL:
        return &pod->labels;
    case GS_EDIT_RUNTIME_CLASS:
    case GS_EDIT_SCHEDULER:
        break;
    }
    return NULL;
}

/* Write the change into the view. 1: something changed, 0: it was so, -ENOMEM. */
static int apply(struct gs_pod *pod, enum gs_edit_kind kind, size_t container, struct gs_str key,
                 struct gs_str value)
{
    struct gs_pairs *pairs = pairs_of(pod, kind, container);
    struct gs_str *field =
        kind == GS_EDIT_RUNTIME_CLASS ? &pod->runtime_class : &pod->scheduler_name;
    const struct gs_str *was;
    int rc;

    if (pairs == NULL) {
        if (gs_str_eq(*field, value))
            return 0;
        *field = value;
        return 1;
    }
    if (kind == GS_EDIT_NO_ANNOTATION || kind == GS_EDIT_NO_LABEL)
        return removed(pairs, key) ? 1 : 0;
    was = gs_pairs_find(pairs, key);
    if (was != NULL && gs_str_eq(*was, value))
        return 0;
    rc = gs_pairs_set(pairs, pod->arena, key, value);
    return rc < 0 ? rc : 1;
}

int gs_pod_edit(struct gs_pod *pod, enum gs_edit_kind kind, size_t container, struct gs_str key,
                struct gs_str value)
{
    int rc;

    key = gs_arena_str(pod->arena, key);
    value = gs_arena_str(pod->arena, value);
    rc = gs_arena_check(pod->arena);
    if (rc == 0)
        rc = apply(pod, kind, container, key, value);
    if (rc <= 0)
        return rc;
    if (pod->n_edits >= pod->cap_edits) {
        struct gs_edit *at =
            grown(pod->arena, pod->edit, pod->n_edits, &pod->cap_edits, sizeof(*at));

        if (at == NULL)
            return -ENOMEM;
        pod->edit = at;
    }
    pod->edit[pod->n_edits++] = (struct gs_edit){kind, container, key, value};
    return 0;
}
