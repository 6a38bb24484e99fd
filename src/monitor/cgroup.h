#pragma once
/* Which container a process of the node is in, by /proc/<pid>/cgroup: what neither the process nor
 * its container can choose. Forms: kubelet with the systemd and the cgroupfs driver, cgroup v1 and
 * v2, containerd, CRI-O and docker.
 * Source  Kubernetes 1.36 pkg/kubelet/cm/cgroup_manager_linux.go (names of pods' groups);
 *         containerd 1.7, CRI-O 1.30, cri-dockerd 0.3 (names of containers' groups). */

#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_cgroup {
    char pod_uid[64];
    char container_id[80]; /**< as behind "containerd://" in a pod's status; empty: none below the
                              pod's group */
};

/** @text  of the file: a line for each hierarchy.
 *  Returns  0; -ENOENT not in a pod.
 *  Threads  pure. */
GS_WUR int gs_cgroup_parse(struct gs_str text, struct gs_cgroup *ret);

/** Which container a process is in. @proc_fd of /proc, or where the node's is seen.
 *  Returns  0; -ENOENT in none, or no such process; -errno. */
GS_WUR int gs_cgroup_read(int proc_fd, uint32_t pid, struct gs_cgroup *ret);
/** Is a process in the pod? Looks at all of them. 1, 0, or -errno. */
GS_WUR int gs_cgroup_has_pod(int proc_fd, struct gs_str pod_uid);
