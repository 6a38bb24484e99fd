/* Any text as an object, read by every view; and as a stream of lines cut into chunks. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "base/arena.h"
#include "kube/json.h"
#include "kube/lines.h"
#include "kube/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile size_t sink; /* every view is looked at, so that a bad one is found */

static void look(const struct gs_kube_pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++)
        for (size_t k = 0; k < pairs->at[i].value.n; k++)
            sink += (unsigned char)pairs->at[i].value.p[k];
}

static void read_all(yyjson_val *root, struct gs_arena *arena)
{
    struct gs_kube_pod pod;
    struct gs_kube_node node;
    struct gs_kube_quota quota;
    struct gs_kube_pdb pdb;
    struct gs_kube_lease_view lease;
    struct gs_err err = {0};

    if (gs_kube_view_pod(root, arena, &pod, &err) == 0) {
        look(&pod.meta.annotations);
        for (size_t i = 0; i < pod.n_containers; i++)
            look(&pod.container[i].limits);
    }
    if (gs_kube_view_node(root, arena, &node, &err) == 0)
        look(&node.capacity);
    if (gs_kube_view_quota(root, arena, &quota, &err) == 0)
        look(&quota.hard);
    if (gs_kube_view_pdb(root, arena, &pdb, &err) == 0)
        sink += gs_kube_selector_matches(&pdb.selector, &pdb.meta.labels);
    if (gs_kube_view_lease(root, arena, &lease, &err) == 0)
        sink += lease.holder.n;
}

static bool on_line(void *arg, struct gs_str line)
{
    (void)arg;
    for (size_t i = 0; i < line.n; i++)
        sink += (unsigned char)line.p[i];
    return line.n % 7 != 6;
}

static void feed(const char *text, size_t size)
{
    struct gs_kube_lines lines = {.max = 64};
    size_t step = size > 0 ? 1 + (unsigned char)text[0] % 40 : 1;

    for (size_t at = 0; at < size; at += step)
        if (gs_kube_lines_feed(&lines, text + at, at + step > size ? size - at : step, on_line,
                               NULL) != 1)
            break;
    gs_kube_lines_fini(&lines);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yyjson_doc *doc = NULL;
    struct gs_arena arena;
    char *text = malloc(size + 1); /* exactly as large: an overrun is seen */

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    gs_arena_init(&arena);
    if (gs_kube_json_read((struct gs_str){text, size}, 1 << 20, &doc, NULL) == 0)
        read_all(yyjson_doc_get_root(doc), &arena);
    gs_kube_json_free(doc);
    gs_arena_fini(&arena);
    feed(text, size);
    free(text);
    return 0;
}
