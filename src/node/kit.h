#pragma once
/* What a vendor contributes to handing out its cards: what a container has to get so that programs
 * in it find their part of a card, and nothing else. The vendor knows names and files; whose
 * container it is and when it is asked is the engine's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/grant.h"

struct gs_edits;
struct gs_grants_container;
struct gs_inventory;
struct gs_publish_vendor;
struct gs_quota;

/** How programs come to load the hook library. */
enum gs_kit_inject {
    GS_KIT_INJECT_FILE = 1, /**< /etc/ld.so.preload */
    GS_KIT_INJECT_ENV = 2,  /**< LD_PRELOAD, what the pod says of it kept behind ours */
    GS_KIT_INJECT_BOTH = 3,
};

/** How a container is told its cards; several at once. */
enum gs_kit_list {
    GS_KIT_LIST_ENV = 1,
    GS_KIT_LIST_MOUNTS = 2,
    GS_KIT_LIST_CDI_ANNOTATIONS = 4,
    GS_KIT_LIST_CDI_CRI = 8,
};

/** How things lie on this node. Paths are the host's unless said otherwise; "" is none. */
struct gs_kit_place {
    const char *hook_path; /**< HOOK_PATH; the hook's folder is "vgpu" in it, here and there */
    const char *library;   /**< the hook library */
    const char *preload;   /**< a file with one line, the library's path in containers */
    enum gs_kit_inject inject;
    unsigned list;        /**< of enum gs_kit_list */
    bool by_index;        /**< cards are named by their index, not their UUID */
    bool passes_nodes;    /**< device nodes are given by us */
    bool gives_driver;    /**< and the driver's files: no runtime of the vendor's does it */
    bool scales_memory;   /**< more memory is promised than there is: filled in by the vendor */
    const char *dev_root; /**< put before "/dev", in our namespace */
    const char *driver_root, *driver_root_here; /**< on the host; the same in our namespace */
    const char *cdi_prefix;                     /**< of annotations of the runtime */
    bool has_gdrcopy, has_gds, has_mofed;
    const char *imex_channels; /**< "0,1" */
};

/** What the administrator has set, as the vendor reads it; texts as in node/publish.h. */
struct gs_kit_conf_from {
    struct gs_str device_config, node_config, node;
};

/** A container that is to get a part of cards. */
struct gs_kit_slot {
    const struct gs_inventory *inv;
    const struct gs_grant_slot *grant;
    const struct gs_grants_container *container; /**< its variables */
    const char *ledger, *quota;                  /**< folders of its own, on the host */
    const char *ledger_name;                     /**< of the file in the first */
};

/** A container of whole parts of cards, by the ids that the kubelet gave. */
struct gs_kit_parts {
    const struct gs_inventory *inv;
    const struct gs_str *id;
    size_t n;
};

struct gs_kit_conf;

struct gs_kit_vendor {
    const struct gs_publish_vendor *publish;
    struct gs_str to_allocate, allocated; /**< annotations of pods */
    const char *endpoint;                 /**< our socket's file name begins so */
    const char *rival;      /**< socket of the vendor's or HAMi's own plugin; never beside ours */
    const char *const *env; /**< variables of containers that edits and limits look at */

    /** 0; -EINVAL; -ENOMEM. In the arena. */
    int (*configure)(const struct gs_kit_conf_from *from, struct gs_arena *arena,
                     const struct gs_kit_conf **ret, struct gs_err *err);
    /** The count resource's name; whether the kubelet hears of NUMA nodes, and asks which ids are
     *  best. */
    struct gs_str (*resource)(const struct gs_kit_conf *conf);
    bool (*tells_numa)(const struct gs_kit_conf *conf);
    bool (*prefers)(const struct gs_kit_conf *conf);

    /** What any container gets before it is known whose it is: the hook, and no card. */
    void (*edit_early)(const struct gs_kit_conf *conf, const struct gs_kit_place *place,
                       struct gs_edits *edits);
    /** All the rest. -ENODEV the grant names a card that is not here; -EINVAL; -ENOMEM. */
    int (*edit)(const struct gs_kit_conf *conf, const struct gs_kit_place *place,
                const struct gs_kit_slot *slot, struct gs_edits *edits, struct gs_err *err);
    /** The limits. `generation` is left alone. As edit(). */
    int (*limit)(const struct gs_kit_conf *conf, const struct gs_kit_slot *slot,
                 struct gs_quota *ret, struct gs_err *err);
    /** A container of whole parts (MIG): nobody has to be asked. -ENODEV an id is none of a part.
     */
    int (*edit_parts)(const struct gs_kit_place *place, const struct gs_kit_parts *parts,
                      struct gs_edits *edits, struct gs_err *err);
};

/** A vendor on this node. */
struct gs_kit {
    const struct gs_kit_vendor *vendor;
    const struct gs_kit_place *place;
    const struct gs_kit_conf *conf;
    const struct gs_inventory *inv; /**< the newest; NULL: the driver has not answered yet */
};
