/* Device configurations of any content: policies with words and amounts that may be multiplied by,
 * or a text that says what is wrong. */

#include <stdint.h>
#include <stdlib.h>

#include "control/policies.h"
#include "vendors/registry_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void unknown(void *user, const char *what)
{
    (void)user;
    if (what == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const enabled[] = {"ascend", "iluvatar", NULL};
    struct gs_arena arena = {0};
    struct gs_policies policies = {0};
    struct gs_err err = {0};
    const struct gs_policies_conf conf = {
        .section = gs_registry_policy,
        .n_sections = gs_registry_policy_n,
        .enabled = enabled,
        .text = {(const char *)data, size},
        .unknown = &(struct gs_yaml_unknown){unknown, NULL},
    };
    int rc = gs_policies_read(&conf, &arena, &policies, &err);

    if (rc < 0 && err.text[0] == '\0')
        abort();
    for (size_t i = 0; rc == 0 && i < policies.n; i++)
        if (policies.at[i]->word == NULL || policies.at[i]->ops == NULL)
            abort();
    gs_arena_fini(&arena);
    return 0;
}
