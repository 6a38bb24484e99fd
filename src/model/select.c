#include "model/select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/policy.h"
#include "model/text.h"

#define TYPES_KEPT 8 /* models of one vendor in a cluster: a few */

/* Answers for the types asked for last: with long lists each costs. */
struct gs_select_memo {
    struct gs_str type[TYPES_KEPT];
    bool answer[TYPES_KEPT];
    size_t n, next; /* types known; where the next one goes */
};

int gs_select_list(struct gs_str text, struct gs_arena *arena, struct gs_list *ret)
{
    struct gs_list list = {.is_given = gs_text_trim(text).n > 0};
    struct gs_str rest = text, part, *at;
    size_t cap = 1;

    if (!list.is_given) {
        *ret = list;
        return 0;
    }
    for (size_t i = 0; i < text.n; i++)
        cap += text.p[i] == ',';
    at = GS_ARENA_ARRAY(arena, cap, struct gs_str);
    if (at == NULL)
        return -ENOMEM;
    while (gs_str_cut(&rest, ',', &part)) {
        part = gs_text_trim(part);
        if (part.n > 0)
            at[list.n++] = part;
    }
    qsort(at, list.n, sizeof(*at), gs_str_order);
    list.at = at;
    *ret = list;
    return 0;
}

int gs_select_read(const struct gs_pod *pod, const struct gs_keys *keys, struct gs_arena *arena,
                   struct gs_selection *ret)
{
    struct gs_selection s = {0};
    const struct {
        struct gs_str key;
        struct gs_list *list;
    } read[] = {
        {keys->use_uuid, &s.use_uuid},     {keys->use_uuid2, &s.use_uuid2},
        {keys->nouse_uuid, &s.nouse_uuid}, {keys->nouse_uuid2, &s.nouse_uuid2},
        {keys->use_type, &s.use_type},     {keys->nouse_type, &s.nouse_type},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(read); i++) {
        int rc = gs_select_list(gs_pod_annotation(pod, read[i].key, NULL), arena, read[i].list);

        if (rc < 0)
            return rc;
    }
    if (s.use_type.is_given || s.nouse_type.is_given) {
        s.memo = GS_ARENA_NEW(arena, struct gs_select_memo);
        if (s.memo == NULL)
            return -ENOMEM;
    }
    *ret = s;
    return 0;
}

bool gs_select_has(const struct gs_list *list, struct gs_str word)
{
    return list->n > 0 && bsearch(&word, list->at, list->n, sizeof(word), gs_str_order) != NULL;
}

bool gs_select_takes_uuid(const struct gs_selection *s, struct gs_str uuid)
{
    return !(s->use_uuid.is_given && !gs_select_has(&s->use_uuid, uuid)) &&
           !(s->use_uuid2.is_given && !gs_select_has(&s->use_uuid2, uuid)) &&
           !gs_select_has(&s->nouse_uuid, uuid) && !gs_select_has(&s->nouse_uuid2, uuid);
}

static bool has_part_of(const struct gs_list *list, struct gs_str type)
{
    for (size_t i = 0; i < list->n; i++)
        if (gs_text_contains(type, list->at[i]))
            return true;
    return false;
}

bool gs_select_takes_type(const struct gs_selection *s, struct gs_str type)
{
    struct gs_select_memo *memo = s->memo;
    bool answer;

    if (!s->use_type.is_given && !s->nouse_type.is_given)
        return true;
    for (size_t i = 0; memo != NULL && i < memo->n; i++)
        if (gs_str_eq(memo->type[i], type))
            return memo->answer[i];
    answer = !(s->use_type.is_given && !has_part_of(&s->use_type, type)) &&
             !has_part_of(&s->nouse_type, type);
    if (memo == NULL)
        return answer;
    memo->type[memo->next] = type;
    memo->answer[memo->next] = answer;
    memo->next = (memo->next + 1) % TYPES_KEPT;
    memo->n += memo->n < TYPES_KEPT;
    return answer;
}
