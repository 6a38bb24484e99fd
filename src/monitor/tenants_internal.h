#pragma once
/* What the parts of monitor/tenants share. */

#include "monitor/tenants.h"

struct gs_tenants {
    struct gs_tenants_opt opt;
    struct gs_reader *reader;
    struct gs_tenant **at; /**< sorted by name */
    size_t n, cap;
    size_t next;     /**< whose turn it is in the look that goes on */
    int folder_fd;   /**< -1: there is none */
    bool is_crowded; /**< there were more than GS_TENANTS_MAX, and it was told */
};

/** NULL: not there. */
struct gs_tenant *gs_tenants_find(const struct gs_tenants *tenants, struct gs_str uid,
                                  struct gs_str container);
