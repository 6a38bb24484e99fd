#pragma once
/* Kubernetes quantities as exact integers. "1k" is 1000, "1Ki" 1024, "100m" a tenth, "1e3" 1000. */

#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

/** The quantity as a whole number, as Go's resource.Quantity AsInt64 has it: "16Gi" is 17179869184;
 *  "100m", "1.5", "16.0Gi" and what exceeds int64 have none.
 *  Returns  0; -EINVAL not a quantity; -EDOM a quantity, but no plain integer (AsInt64 says no);
 *  -ERANGE beyond int64.
 *  Source   k8s.io/apimachinery v0.36 pkg/api/resource: grammar in the package's comment. */
GS_WUR int gs_quantity_int(struct gs_str text, int64_t *ret);
/** As gs_quantity_int() but rounded up to a whole number, as Quantity.Value() has it. */
GS_WUR int gs_quantity_ceil(struct gs_str text, int64_t *ret);
