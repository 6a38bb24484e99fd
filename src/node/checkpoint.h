#pragma once
/* The kubelet's device checkpoint: which container holds which device ids, and what Allocate
 * answered for it. It is written before PreStartContainer is called, and is the one place that
 * names the pod by its UID, init containers included; our answer in it carries the name of the CDI
 * device (node/cdi.h), which tells two containers with the same ids apart.
 *
 *     {"Data": {"PodDeviceEntries": [{"PodUID", "ContainerName", "ResourceName",
 *               "DeviceIDs": {"<NUMA node>": [id, ...]} or [id, ...],
 *               "AllocResp": base64 of v1beta1.ContainerAllocateResponse}],
 *               "RegisteredDevices": {...}}, "Checksum": n}
 *
 * DeviceIDs is a list up to Kubernetes 1.19. The checksum is over Go's print of the structures and
 * not looked at: the file is renamed into place whole.
 * Source  Kubernetes 1.36, pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_err;

#define GS_CHECKPOINT_FILE    "kubelet_internal_checkpoint"
#define GS_CHECKPOINT_BYTES   ((size_t)16 << 20)
#define GS_CHECKPOINT_ENTRIES 65536u
#define GS_CHECKPOINT_IDS     65536u /* of all entries together */

struct gs_checkpoint_entry {
    struct gs_str pod_uid, container;
    struct gs_str *id; /**< ascending */
    size_t n_ids;
    struct gs_str slot; /**< name of our CDI device in the answer; empty: none */
};

struct gs_checkpoint {
    struct gs_checkpoint_entry *entry; /**< of the resource asked for, in the file's order */
    size_t n;
    size_t n_odd; /**< entries of that resource that cannot be read: left out */
};

/** Entries of one resource. Text is in the arena. Hostile bytes: sizes and counts are limited.
 *  Returns  0; -EINVAL no such file's text (err says what); -EFBIG; -E2BIG; -ENOMEM. */
GS_WUR int gs_checkpoint_read(struct gs_str text, struct gs_str resource, struct gs_arena *arena,
                              struct gs_checkpoint *ret, struct gs_err *err);
/** The same of the file in a folder; besides, what gs_file_read() says (-ENOENT: no container has
 *  had a device yet). */
GS_WUR int gs_checkpoint_load(int dirfd, struct gs_str resource, struct gs_arena *arena,
                              struct gs_checkpoint *ret, struct gs_err *err);
/** Does the entry hold exactly these ids? @id ascending, none twice. */
bool gs_checkpoint_holds(const struct gs_checkpoint_entry *entry, const struct gs_str *id,
                         size_t n);
