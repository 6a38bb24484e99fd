/* A quota file of any content. What the parser takes, the formatter writes back to the same thing.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "contract/quota.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gs_quota quota, again;
    static char text[GS_QUOTA_MAX_BYTES + 1];
    uint32_t line;
    int n;

    if (gs_quota_parse((struct gs_str){(const char *)data, size}, &quota, &line) != 0)
        return 0;
    n = gs_quota_format(&quota, text, sizeof(text));
    if (n < 0 || gs_quota_parse((struct gs_str){text, (size_t)n}, &again, &line) != 0 ||
        memcmp(&quota, &again, sizeof(quota)) != 0)
        abort();
    return 0;
}
