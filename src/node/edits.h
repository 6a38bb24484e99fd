#pragma once
/* What a container gets besides what its image and pod say: variables, mounts, device nodes,
 * annotations, CDI devices. Collected once, rendered into an answer of Allocate or into a CDI
 * spec (node/cdi.h).
 *
 * Text is copied into the arena; failure is sticky there (gs_arena_check()). Nothing is looked at
 * twice: whoever collects sees to it that a path or a name is one. */

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"
#include "node/kubelet_pb.h"

struct gs_arena;

struct gs_edits {
    struct gs_arena *arena; /**< borrowed */
    struct gs_kubelet_pair *env, *annotation;
    struct gs_kubelet_mount *mount;
    struct gs_kubelet_node *node;
    const char **cdi;
    size_t n_env, n_annotation, n_mount, n_node, n_cdi;
};

void gs_edits_init(struct gs_edits *edits, struct gs_arena *arena);
/** A variable; a later one of a name replaces the earlier one. */
void gs_edits_env(struct gs_edits *edits, const char *name, const char *fmt, ...) GS_PRINTF(3, 4);
/** A path of the host, file or folder, inside the container. A second mount onto the same place
 *  replaces the first. */
void gs_edits_mount(struct gs_edits *edits, const char *host, const char *container,
                    bool is_read_only);
/** A device node, readable and writable, under the same path inside. */
void gs_edits_device(struct gs_edits *edits, const char *host, const char *container);
/** Of the container, for the runtime: the pod does not get it. */
void gs_edits_annotation(struct gs_edits *edits, const char *key, const char *value);
/** A qualified CDI device. */
void gs_edits_cdi(struct gs_edits *edits, const char *qualified);

/** As an answer has it; borrowed from the edits. */
void gs_edits_answer(const struct gs_edits *edits, struct gs_kubelet_edits *ret);
