#pragma once
/* gpuslice doctor: what is in order on this machine and what is not, each with what to do. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/cleanup.h"
#include "node/health.h"
#include "node/inventory.h"
#include "node/probe.h"

enum gs_doctor_state {
    GS_DOCTOR_FINE,
    GS_DOCTOR_NOTE,    /**< worth knowing; nothing to do */
    GS_DOCTOR_WARNING, /**< something does less than it could, or may fail */
    GS_DOCTOR_BROKEN,  /**< slices do not work like this */
    GS_DOCTOR_STATES
};

struct gs_doctor_finding {
    enum gs_doctor_state state;
    const char *check; /**< static */
    char text[400];
    char fix[300]; /**< one line; empty: nothing to do */
};

/** Something that changed while the doctor watched. */
struct gs_doctor_change {
    double after_s;
    char text[320];
};

struct gs_doctor {
    /* what is asked */
    const char *root; /**< put before paths of the machine; "" for its own */
    double watch_s;
    struct gs_str device_config, node_config; /**< texts, borrowed; p == NULL: not given */
    const char *node;                         /**< this node's name */
    void (*on_change)(const struct gs_doctor_change *change); /**< NULL: nobody waits for it */
    /* what was found */
    struct gs_doctor_finding *finding; /**< heap */
    size_t n_findings;
    struct gs_doctor_change *change; /**< heap */
    size_t n_changes;
    const struct gs_probe_vendor *vendor; /**< whose cards these are; NULL: none */
    struct gs_inventory inv;
    struct gs_health health;
    struct gs_buf registered, scores;
    bool failed; /**< out of memory */
};

void gs_doctor_fini(struct gs_doctor *doctor);
/** Note a finding. `fix` is one line, or "". */
void gs_doctor_find(struct gs_doctor *doctor, const char *check, enum gs_doctor_state state,
                    const char *fix, const char *fmt, ...) GS_PRINTF(5, 6);
void gs_doctor_changed(struct gs_doctor *doctor, double after_s, const char *text);
enum gs_doctor_state gs_doctor_worst(const struct gs_doctor *doctor);

/** Append the report: one line for each finding with its fix behind it, or one JSON object. */
void gs_doctor_text(const struct gs_doctor *doctor, struct gs_buf *buf);
GS_WUR int gs_doctor_json(const struct gs_doctor *doctor, struct gs_buf *buf);

/** Path of something of the machine. Returns `ret`; cut short it names nothing that exists. */
#define GS_DOCTOR_PATH 4096
const char *gs_doctor_path(const struct gs_doctor *doctor, const char *path,
                           char ret[GS_DOCTOR_PATH]);
/** Content of a small file of the machine; false where it cannot be read. */
bool gs_doctor_read(const struct gs_doctor *doctor, const char *path, struct gs_buf *ret);

/** Driver, cards, how they are, their device nodes, errors in the kernel's log, what the two
 *  configuration files make of them (doctor_cards.c). */
void gs_doctor_cards(struct gs_doctor *doctor);
/** The hook library, what is preloaded, cgroups, security modules (doctor_host.c). */
void gs_doctor_host(struct gs_doctor *doctor);
/** Container runtime, CDI, kubelet (doctor_runtime.c). */
void gs_doctor_runtime(struct gs_doctor *doctor);
