#include "node/grants.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A pod of containers that ask ('1') or do not ('0'), with a grant. */
static struct gs_grants_pod make_pod(const char *asks, const char *grant, struct gs_arena *arena)
{
    static const char *const name[] = {"a", "b", "c", "d"};
    struct gs_grants_pod pod = {.has_grant = true, .is_trusted = true};

    pod.n_containers = strlen(asks);
    pod.container = GS_ARENA_ARRAY(arena, pod.n_containers, struct gs_grants_container);
    for (size_t i = 0; i < pod.n_containers; i++)
        pod.container[i] =
            (struct gs_grants_container){.name = gs_str_of(name[i]), .asks = asks[i] == '1'};
    assert_int_equal(gs_grant_read(gs_str_of(grant), arena, &pod.grant, NULL), 0);
    return pod;
}

/* The UUID of a container's first card, or the error. */
static void want(const char *asks, const char *grant, const char *container, const char *uuid,
                 int error)
{
    struct gs_arena arena = {0};
    struct gs_grants_pod pod = make_pod(asks, grant, &arena);
    const struct gs_grant_slot *slot = NULL;
    int rc = gs_grants_slot(&pod, gs_str_of(container), &slot, NULL);

    assert_int_equal(rc, error);
    if (rc == 0) {
        assert_int_equal(slot->dev[0].uuid.n, strlen(uuid));
        assert_memory_equal(slot->dev[0].uuid.p, uuid, strlen(uuid));
    }
    gs_arena_fini(&arena);
}

#define X "x,V,1,1:;"
#define Y "y,V,1,1:;"

static void in_their_places(void **state)
{
    (void)state;
    want("11", X Y, "a", "x", 0);
    want("11", X Y, "b", "y", 0);
    want("010", ";" X ";", "b", "x", 0);
    want("010", ";" X ";", "a", NULL, -ENODEV);
    want("1", X, "z", NULL, -ENOENT);
    want("1", "", "a", NULL, -EINVAL);
}

/* HAMi v2.10 writes no slot for a container without cards that comes first (1.6 of its formats). */
static void without_padding(void **state)
{
    (void)state;
    want("01", X, "b", "x", 0);
    want("0101", X Y, "b", "x", 0);
    want("0101", X Y, "d", "y", 0);
    want("01", X, "a", NULL, -EINVAL);
    want("01", X Y, "b", "x", 0); /* one slot too many belongs to nobody */
}

static void not_believed(void **state)
{
    struct gs_arena arena = {0};
    struct gs_grants_pod pod = make_pod("1", X, &arena);
    const struct gs_grant_slot *slot;

    (void)state;
    pod.is_trusted = false;
    assert_int_equal(gs_grants_slot(&pod, GS_STR("a"), &slot, NULL), -EPERM);
    pod.has_grant = false;
    assert_int_equal(gs_grants_slot(&pod, GS_STR("a"), &slot, NULL), -ENODATA);
    gs_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_their_places),
        cmocka_unit_test(without_padding),
        cmocka_unit_test(not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
