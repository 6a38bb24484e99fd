#include "vendors/registry_policy.h"

#include "vendors/amd/policy/amd.h"
#include "vendors/ascend/policy/ascend.h"
#include "vendors/awsneuron/policy/awsneuron.h"
#include "vendors/biren/policy/biren.h"
#include "vendors/cambricon/policy/cambricon.h"
#include "vendors/enflame/policy/enflame.h"
#include "vendors/hygon/policy/hygon.h"
#include "vendors/iluvatar/policy/iluvatar.h"
#include "vendors/kunlun/policy/kunlun.h"
#include "vendors/metax/policy/metax.h"
#include "vendors/mthreads/policy/mthreads.h"
#include "vendors/nvidia/policy/policy.h"
#include "vendors/vastai/policy/vastai.h"

/* One row a line. */
/* clang-format off */
/* Order of HAMi's own registration: vendors are asked, and their grants written, in it. */
const struct gs_policy_section *const gs_registry_policy[] = {
    /* nvidia, cambricon, hygon, enflame, mthreads, metax, kunlun, awsneuron, amd, vastai, biren,
     * vnpus, iluvatars */
    &gs_nvidia_section,
    &gs_cambricon_section,
    &gs_hygon_section,
    &gs_enflame_section,
    &gs_mthreads_section,
    &gs_metax_section,
    &gs_kunlun_section,
    &gs_awsneuron_section,
    &gs_amd_section,
    &gs_vastai_section,
    &gs_biren_section,
    &gs_ascend_section,
    &gs_iluvatar_section,
    0,
};
/* clang-format on */
const size_t gs_registry_policy_n = sizeof(gs_registry_policy) / sizeof(gs_registry_policy[0]) - 1;
