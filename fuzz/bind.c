/* Bodies of bind: read with all four names, or refused with a text. */

#include <stdint.h>
#include <stdlib.h>

#include "control/extender.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {0};
    struct gs_extender_binding binding;
    struct gs_err err = {0};
    int rc =
        gs_extender_read_binding((struct gs_str){(const char *)data, size}, &arena, &binding, &err);

    if (rc == 0
            ? binding.pod.n == 0 || binding.ns.n == 0 || binding.uid.n == 0 || binding.node.n == 0
            : err.text[0] == '\0')
        abort();
    if (rc < 0) {
        char *text;
        size_t n;

        if (gs_extender_write_error(err.text, &text, &n) != 0)
            abort();
        free(text);
    }
    gs_arena_fini(&arena);
    return 0;
}
