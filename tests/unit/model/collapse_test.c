#include "model/collapse.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* "uuid slots mem cores;" of each share. */
static void want(const char *text, const struct gs_slots *slots, const char *expected)
{
    struct gs_arena arena = {0};
    struct gs_buf buf = {0};
    struct gs_share_of *share = NULL;
    struct gs_grant grant;
    size_t n = 99;

    assert_int_equal(gs_grant_read(gs_str_of(text), &arena, &grant, NULL), 0);
    assert_int_equal(gs_collapse(&grant, slots, &arena, &share, &n), 0);
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&buf, "%.*s %d/%d/%d;", (int)share[i].uuid.n, share[i].uuid.p, share[i].mem_mib,
                    share[i].cores, share[i].slots);
    assert_string_equal(gs_buf_text(&buf), expected);
    gs_buf_fini(&buf);
    gs_arena_fini(&arena);
}

/* Both columns of a vector: collapsed, and with the init containers over. */
static void vector(const char *text, size_t n_init, const char *all, const char *apps)
{
    want(text, &(struct gs_slots){.n_init = n_init}, all);
    want(text, &(struct gs_slots){.n_init = n_init, .inits_done = true}, apps);
}

static void vectors(void **state)
{
    (void)state;
    /* A9.1 */
    vector("gpu0,T,100,10:;gpu0,T,200,20:;", 0, "gpu0 300/30/2;", "gpu0 300/30/2;");
    /* A9.2 */
    vector("gpu0,T,100,10:;gpu0,T,200,30:;", 2, "gpu0 200/30/1;", "");
    /* A9.3 */
    vector("gpu0,T,500,50:;gpu0,T,100,10:;", 1, "gpu0 500/50/1;", "gpu0 100/10/1;");
    /* A9.5 */
    vector("gpu0,T,100,10:;gpu0,T,300,30:;gpu0,T,200,20:;gpu0,T,50,5:;", 3, "gpu0 300/30/1;",
           "gpu0 50/5/1;");
    /* A9.6 */
    vector("gpu0,T,1000,80:;gpu0,T,200,20:;", 1, "gpu0 1000/80/1;", "gpu0 200/20/1;");
    /* A9.7 */
    vector("gpu0,T,100,10:;gpu0,T,100,10:;gpu0,T,100,10:;", 0, "gpu0 300/30/3;", "gpu0 300/30/3;");
    /* A9.9 */
    vector("gpu0,T,200,20:gpu1,T,300,30:;gpu0,T,100,10:gpu1,T,150,15:;", 1,
           "gpu0 200/20/1;gpu1 300/30/1;", "gpu0 100/10/1;gpu1 150/15/1;");
    /* memory from the init container, cores from the app container */
    vector("gpu0,T,500,5:;gpu0,T,100,10:;", 1, "gpu0 500/10/1;", "gpu0 100/10/1;");
    vector("", 0, "", "");
    vector(";;", 1, "", "");
}

/* A sidecar runs beside what comes after it: the init container, and the app container. */
static void sidecars(void **state)
{
    static const bool is_app[3] = {true, false, true};
    const char *text = "gpu0,T,100,10:;gpu0,T,500,20:;gpu0,T,200,30:;";

    (void)state;
    want(text, &(struct gs_slots){.n_init = 2, .is_app = is_app}, "gpu0 600/40/2;");
    want(text, &(struct gs_slots){.n_init = 2, .is_app = is_app, .inits_done = true},
         "gpu0 300/40/2;");
}

static void old_mig_names(void **state)
{
    (void)state;
    /* 1.6: up to v2.9 the UUID carried [template-slot]; the card is what is used */
    vector("GPU-1[7-9],T,100,10:;GPU-1[7-8],T,100,10:;", 0, "GPU-1 200/20/2;", "GPU-1 200/20/2;");
    vector("GPU-1[7],T,1,1:;GPU-2[-8],T,1,1:;[1-2],T,1,1:;", 0,
           " 1/1/1;GPU-1[7] 1/1/1;GPU-2[-8] 1/1/1;", " 1/1/1;GPU-1[7] 1/1/1;GPU-2[-8] 1/1/1;");
}

static void stays_in_range(void **state)
{
    (void)state;
    vector("g,T,2147483647,2147483647:;g,T,2147483647,1:;", 0, "g 2147483647/2147483647/2;",
           "g 2147483647/2147483647/2;");
}

static void no_memory(void **state)
{
    struct gs_arena arena = {.failed = true};
    struct gs_share_of *share;
    struct gs_grant grant = {0};
    size_t n;

    (void)state;
    assert_int_equal(gs_collapse(&grant, &(struct gs_slots){0}, &arena, &share, &n), -ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),       cmocka_unit_test(sidecars),
        cmocka_unit_test(old_mig_names), cmocka_unit_test(stays_in_range),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
