#pragma once
/* XID errors: which count, and what they mean for a card. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "node/health.h"

#define GS_XID_NAMED 64

/** Which XIDs count. Those of programs do not: 13, 31, 43, 45, 68, 109, as in NVIDIA's plugin. */
struct gs_xid_rule {
    uint64_t ignored[GS_XID_NAMED], heeded[GS_XID_NAMED];
    size_t n_ignored, n_heeded;
    bool ignores_all; /**< but for those heeded */
    bool heeds_all;
};

/** As DP_DISABLE_HEALTHCHECKS and DP_ENABLE_HEALTHCHECKS say (either may be NULL): numbers between
 *  commas, or `all` or `xids`; what is heeded comes first. Words that are neither are told.
 *  Source   HAMi and NVIDIA k8s-device-plugin, internal/rm/health.go. */
void gs_xid_rule_make(const char *ignore, const char *heed, const struct gs_inventory_tell *tell,
                      struct gs_xid_rule *ret);
/** Does an error of this number count? */
bool gs_xid_counts(const struct gs_xid_rule *rule, uint64_t xid);
/** What it means for a card, where it counts. */
enum gs_harm gs_xid_harm(uint64_t xid);
/** The same where no variable says otherwise: GS_HARM_NONE of the programs' own. */
enum gs_harm gs_xid_usual_harm(uint64_t xid);
/** A line of the kernel's log, "NVRM: Xid (PCI:0000:65:00): 79, pid=..." and what stands before it.
 *  Source   NVIDIA, "XID Errors", Viewing Xid Error Messages. */
bool gs_xid_read_line(const char *line, char ret_pci[32], uint64_t *ret_xid);
/** A few words; NULL for what is not in the table of those that need a reset. */
const char *gs_xid_text(uint64_t xid);
