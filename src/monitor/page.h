#pragma once
/* GET /metrics of a node's monitor: HAMi's series by name, labels and units, and ours. And the same
 * as one JSON object, for scripts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prom.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "monitor/tenants.h"

struct gs_buf;

struct gs_page_from {
    const struct gs_tenants *tenants;
    const struct gs_tenants_driver *driver; /**< NULL: it has not answered for a while */
    struct gs_str node;
    int64_t unix_s;            /**< now */
    bool has_legacy;           /**< the old names, too */
    bool is_synced;            /**< pods are known, or none are looked for */
    const char *const *boards; /**< UUIDs of the cards whose board this process writes */
    size_t n_boards;
    double look_s; /**< how long the last look took, other work in between included */
    struct gs_prom_process process;
};

/** Append the page. Failures stick to the buffer. */
void gs_page_write(const struct gs_page_from *from, struct gs_buf *buf);
/** Append one line of JSON. Returns 0 or -ENOMEM. */
GS_WUR int gs_page_json(const struct gs_page_from *from, struct gs_buf *buf);
