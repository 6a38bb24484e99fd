/* A register annotation of any content, text or JSON. What is read is written back, in both forms,
 * to the same devices. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "model/register.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct gs_device *a, const struct gs_device *b)
{
    return gs_str_eq(a->id, b->id) && gs_str_eq(a->type, b->type) && gs_str_eq(a->mode, b->mode) &&
           a->index == b->index && a->count == b->count && a->mem_mib == b->mem_mib &&
           a->cores == b->cores && a->numa == b->numa && a->is_healthy == b->is_healthy;
}

static void check_back(struct gs_buf *buf, const struct gs_device *dev, size_t n)
{
    struct gs_arena arena = {0};
    struct gs_device *back = NULL;
    size_t n_back = 0;

    if (gs_register_read((struct gs_str){buf->p, buf->n}, NULL, &arena, &back, &n_back, NULL) !=
            0 ||
        n_back != n)
        abort();
    for (size_t i = 0; i < n; i++)
        if (!is_same(&dev[i], &back[i]))
            abort();
    gs_arena_fini(&arena);
}

/* May a text of commas and colons hold it? */
static bool is_plain(const struct gs_device *dev, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct gs_str part[3] = {dev[i].id, dev[i].type, dev[i].mode};

        for (size_t k = 0; k < 3; k++)
            for (size_t c = 0; c < part[k].n; c++)
                if (part[k].p[c] == ',' || part[k].p[c] == ':')
                    return false;
    }
    /* what begins like JSON, or with a blank, would be read as that */
    return n > 0 && dev[0].id.n > 0 && dev[0].id.p[0] > ' ' && dev[0].id.p[0] != '[' &&
           dev[0].id.p[0] != '{';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {0};
    struct gs_buf buf = {0};
    struct gs_device *dev;
    struct gs_err err;
    size_t n;

    if (gs_register_read((struct gs_str){(const char *)data, size}, NULL, &arena, &dev, &n, &err) ==
        0) {
        if (is_plain(dev, n)) {
            gs_register_write_text(dev, n, &buf);
            check_back(&buf, dev, n);
            gs_buf_clear(&buf);
        }
        gs_register_write_json(dev, n, NULL, &buf);
        if (data[0] == '[') /* text need not be UTF-8 */
            check_back(&buf, dev, n);
    }
    gs_buf_fini(&buf);
    gs_arena_fini(&arena);
    return 0;
}
