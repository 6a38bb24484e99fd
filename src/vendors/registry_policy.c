#include "vendors/registry_policy.h"

#include "vendors/awsneuron/policy/awsneuron.h"
#include "vendors/nvidia/policy/policy.h"

/* Order of HAMi's own registration: vendors are asked, and their grants written, in it. */
const struct gs_policy_section *const gs_registry_policy[] = {
    /* nvidia, cambricon, hygon, enflame, mthreads, metax, kunlun, awsneuron, amd, vastai, biren,
     * vnpus, iluvatars */
    &gs_nvidia_section,
    &gs_awsneuron_section,
    0,
};
const size_t gs_registry_policy_n = sizeof(gs_registry_policy) / sizeof(gs_registry_policy[0]) - 1;
