#include "node/edits.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

#define FIRST 8u

void gs_edits_init(struct gs_edits *edits, struct gs_arena *arena)
{
    *edits = (struct gs_edits){.arena = arena};
}

/* Room for one more behind n; NULL: no memory, and the arena remembers that. */
static void *grow(struct gs_arena *arena, void *old, size_t n, size_t size)
{
    void *more;

    if (n != 0 && (n < FIRST || (n & (n - 1)) != 0))
        return old;
    more = gs_arena_take(arena, n == 0 ? FIRST : 2 * n, size);
    if (more != NULL && n > 0)
        memcpy(more, old, n * size);
    return more;
}

static const char *keep(struct gs_edits *edits, const char *text)
{
    return gs_arena_str(edits->arena, gs_str_of(text)).p;
}

static void put_pair(struct gs_edits *edits, struct gs_kubelet_pair **list, size_t *n,
                     struct gs_kubelet_pair pair)
{
    struct gs_kubelet_pair *more;

    for (size_t i = 0; i < *n; i++) {
        if (strcmp((*list)[i].key, pair.key) == 0) {
            (*list)[i].value = pair.value;
            return;
        }
    }
    more = grow(edits->arena, *list, *n, sizeof(*more));
    if (more == NULL)
        return;
    *list = more;
    more[(*n)++] = (struct gs_kubelet_pair){keep(edits, pair.key), pair.value};
}

void gs_edits_env(struct gs_edits *edits, const char *name, const char *fmt, ...)
{
    char text[4096];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args); /* cut: no value of ours is that long */
    va_end(args);
    put_pair(edits, &edits->env, &edits->n_env, (struct gs_kubelet_pair){name, keep(edits, text)});
}

void gs_edits_mount(struct gs_edits *edits, const char *host, const char *container,
                    bool is_read_only)
{
    struct gs_kubelet_mount mount = {keep(edits, container), keep(edits, host), is_read_only};
    struct gs_kubelet_mount *more;

    if (mount.container_path == NULL || mount.host_path == NULL)
        return;
    for (size_t i = 0; i < edits->n_mount; i++) {
        if (strcmp(edits->mount[i].container_path, container) == 0) {
            edits->mount[i] = mount;
            return;
        }
    }
    more = grow(edits->arena, edits->mount, edits->n_mount, sizeof(*more));
    if (more == NULL)
        return;
    edits->mount = more;
    more[edits->n_mount++] = mount;
}

void gs_edits_device(struct gs_edits *edits, const char *host, const char *container)
{
    struct gs_kubelet_node *more;

    for (size_t i = 0; i < edits->n_node; i++)
        if (strcmp(edits->node[i].container_path, container) == 0)
            return;
    more = grow(edits->arena, edits->node, edits->n_node, sizeof(*more));
    if (more == NULL)
        return;
    edits->node = more;
    more[edits->n_node++] =
        (struct gs_kubelet_node){keep(edits, container), keep(edits, host), "rw"};
}

void gs_edits_annotation(struct gs_edits *edits, const char *key, const char *value)
{
    put_pair(edits, &edits->annotation, &edits->n_annotation,
             (struct gs_kubelet_pair){key, keep(edits, value)});
}

void gs_edits_cdi(struct gs_edits *edits, const char *qualified)
{
    const char **more = grow(edits->arena, (void *)edits->cdi, edits->n_cdi, sizeof(*more));

    if (more == NULL)
        return;
    edits->cdi = more;
    more[edits->n_cdi++] = keep(edits, qualified);
}

void gs_edits_answer(const struct gs_edits *edits, struct gs_kubelet_edits *ret)
{
    *ret = (struct gs_kubelet_edits){
        .envs = edits->env,
        .annotations = edits->annotation,
        .mounts = edits->mount,
        .nodes = edits->node,
        .cdi = {edits->cdi, edits->n_cdi},
        .n_envs = edits->n_env,
        .n_annotations = edits->n_annotation,
        .n_mounts = edits->n_mount,
        .n_nodes = edits->n_node,
    };
}
