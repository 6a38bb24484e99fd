/* MIG reservations of any content: what is read is written back to the same. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/grant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {0};
    struct gs_buf once = {0}, twice = {0};
    struct gs_mig_grant *mig, *back;
    size_t n, n_back;
    struct gs_err err;

    if (gs_grant_mig_read((struct gs_str){(const char *)data, size}, &arena, &mig, &n, &err) == 0) {
        gs_grant_mig_write(mig, n, &once);
        if (gs_grant_mig_read((struct gs_str){once.p, once.n}, &arena, &back, &n_back, NULL) != 0 ||
            n_back != n)
            abort();
        gs_grant_mig_write(back, n_back, &twice);
        if (strcmp(gs_buf_text(&once), gs_buf_text(&twice)) != 0)
            abort();
    }
    gs_buf_fini(&once);
    gs_buf_fini(&twice);
    gs_arena_fini(&arena);
    return 0;
}
