/* A grant of any content. What is read is written back to the same text each time, a pop takes one
 * slot away, and the sums of a collapse stay in range. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/collapse.h"
#include "model/grant.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_shares(const struct gs_grant *grant, struct gs_arena *arena, size_t n_init)
{
    const struct gs_slots slots = {.n_init = n_init}, over = {.n_init = n_init, .inits_done = true};
    struct gs_share_of *all, *apps;
    size_t n_all, n_apps;

    if (gs_collapse(grant, &slots, arena, &all, &n_all) != 0 ||
        gs_collapse(grant, &over, arena, &apps, &n_apps) != 0 || n_apps > n_all)
        abort();
    for (size_t i = 0; i < n_all; i++)
        if (all[i].slots < 1 || all[i].mem_mib < 0 || all[i].cores < 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {0};
    struct gs_buf once = {0}, twice = {0};
    struct gs_grant grant, back;
    struct gs_err err;
    size_t slot;

    if (gs_grant_read((struct gs_str){(const char *)data, size}, &arena, &grant, &err) == 0) {
        gs_grant_write(&grant, &once);
        if (gs_grant_read((struct gs_str){once.p, once.n}, &arena, &back, NULL) != 0 ||
            back.n != grant.n)
            abort();
        gs_grant_write(&back, &twice);
        if (strcmp(gs_buf_text(&once), gs_buf_text(&twice)) != 0)
            abort();
        check_shares(&grant, &arena, size % 5);
        for (size_t left = grant.n + 1; gs_grant_pop(&grant, &slot); left--)
            if (left == 0 || slot >= grant.n || grant.slot[slot].n != 0)
                abort();
    }
    gs_buf_fini(&once);
    gs_buf_fini(&twice);
    gs_arena_fini(&arena);
    return 0;
}
