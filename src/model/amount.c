#include "model/amount.h"

#include <errno.h>

#include "model/quantity.h"

static const struct gs_str *find(const struct gs_container *c, struct gs_str name,
                                 enum gs_amount_from from)
{
    if (name.n == 0)
        return NULL;
    return from == GS_AMOUNT_LIMITS ? gs_pairs_find(&c->limits, name)
                                    : gs_container_amount(c, name);
}

bool gs_amount_is_there(const struct gs_container *c, struct gs_str name, enum gs_amount_from from)
{
    return find(c, name, from) != NULL;
}

int gs_amount_read(const struct gs_container *c, struct gs_str name, enum gs_amount_from from,
                   int64_t *ret)
{
    const struct gs_str *text = find(c, name, from);
    int64_t value;

    if (text == NULL)
        return 0;
    if (gs_quantity_int(*text, &value) < 0)
        return -EINVAL;
    *ret = value;
    return 1;
}

int gs_amount_read_i32(const struct gs_container *c, struct gs_str name, enum gs_amount_from from,
                       int32_t factor, int32_t *ret)
{
    int64_t value = 0;
    int rc = gs_amount_read(c, name, from, &value);

    if (rc <= 0)
        return rc;
    if (value < 0 || value > INT32_MAX)
        return -EINVAL;
    value *= factor > 1 ? factor : 1; /* both below 2^31 */
    if (value > INT32_MAX)
        return -EINVAL;
    *ret = (int32_t)value;
    return 1;
}
