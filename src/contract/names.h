#pragma once
/* Names in the API that scheduler, plugin and monitor share, whatever the vendor. HAMi's but for
 * those under gpuslice.io. Names of one vendor are in its policy. */

#define GS_NAME_NODE       "hami.io/vgpu-node" /**< pod, annotation and label: where its grant is */
#define GS_NAME_TIME       "hami.io/vgpu-time" /**< pod: Unix seconds of the decision */
#define GS_NAME_BIND_TIME  "hami.io/bind-time" /**< pod: Unix seconds of the Binding */
#define GS_NAME_BIND_PHASE "hami.io/bind-phase" /**< pod: allocating, then success or failed */
#define GS_NAME_LOCK       "hami.io/mutex.lock" /**< node: "<RFC3339>,<namespace>,<pod>" */

/** pod: JSON of MIG reservations; the plugin adds to it what it made of them */
#define GS_NAME_PLACEMENTS "hami.io/vgpu-mig-allocations"
/** pod: "1:" and HMAC-SHA256 of the grant in hex; docs/protocol/grant.md */
#define GS_NAME_SIGNATURE "gpuslice.io/grant-signature"

/** node: "prestart" where the plugin finds a container's pod by itself, so that no lock is needed.
 */
#define GS_NAME_IDENTITY          "gpuslice.io/identity"
#define GS_NAME_IDENTITY_PRESTART "prestart"

/** node: JSON list of the UUIDs of cards that somebody uses without a grant of the scheduler. */
#define GS_NAME_UNTRACKED "gpuslice.io/untracked"
/** node: JSON map from the UID of a pod that is gone to the annotations of its grant, while its
 *  containers still hold their cards. */
#define GS_NAME_HELD "gpuslice.io/held"

/** pod: Unix milliseconds at which room for it was seen. Written to a waiting pod so that
 *  kube-scheduler tries it again. */
#define GS_NAME_ROOM_SEEN "gpuslice.io/room-seen"

/** pod: "<who>.<number>", never the same twice. Written to a waiting pod so that a Binding sent for
 *  it before, which the API server may still have, is refused. With GS_NAME_FENCE_OPEN at its end
 *  one may be sent for the pod as it is then: control/fence.h. */
#define GS_NAME_FENCE      "gpuslice.io/fence"
#define GS_NAME_FENCE_OPEN "+"

/** pod, label: "memory" where a container of it was found to use more of a card than its slice. */
#define GS_NAME_BREACH        "gpuslice.io/breach"
#define GS_NAME_BREACH_MEMORY "memory"
