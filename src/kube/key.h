#pragma once
/* Which object: what a watch tells of one besides its content. */

#include "core/str.h"

struct gs_kube_key {
    struct gs_str ns; /**< empty for kinds without namespace */
    struct gs_str name, uid;
};
