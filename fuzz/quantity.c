/* A quantity of any content. A plain integer is its own ceiling, and so is its decimal text. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gs_str text = {(const char *)data, size};
    int64_t plain = 0, up = 0, again = 0;
    int rc = gs_quantity_int(text, &plain), rc_up = gs_quantity_ceil(text, &up);
    char decimal[32];
    int n;

    if (rc == 0 && (rc_up != 0 || up != plain))
        abort();
    if ((rc == -22) != (rc_up == -22))
        abort();
    if (rc_up != 0)
        return 0;
    n = snprintf(decimal, sizeof(decimal), "%lld", (long long)up);
    if (n < 0 || gs_quantity_ceil((struct gs_str){decimal, (size_t)n}, &again) != 0 || again != up)
        abort();
    return 0;
}
