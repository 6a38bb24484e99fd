#include "model/ns_quota.h"

#include <errno.h>

#include "toy.h"

/* Quota of a namespace on the toy: limits in units of the resource, use in MiB. */
static struct gs_ns_quota_line line_of(const struct toy *toy, int64_t mem_limit, int64_t mem_used,
                                       int64_t core_limit, int64_t core_used)
{
    return (struct gs_ns_quota_line){&toy->policy, mem_limit, core_limit, mem_used, core_used};
}

/* A18.2 to A18.7. The table leaves out the state; these are the numbers its answers ask for: memory
 * 1000 of 2000 used, cores 200 of 400. */
static void vectors(void **state)
{
    struct toy toy, other;
    struct gs_ns_quota_line line;
    const struct gs_ns_quota quota = {&line, 1};

    (void)state;
    toy_init(&toy);
    toy_init(&other);
    line = line_of(&toy, 2000, 1000, 400, 200);
    assert_true(gs_ns_quota_fits(&quota, &toy.policy, 500, 100));
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, 1500, 100)); /* 2 */
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, 500, 300));  /* 3 */
    toy.policy.quota_factor = 2;
    assert_true(gs_ns_quota_fits(&quota, &toy.policy, 1000, 100)); /* 4 */
    toy.policy.quota_factor = 0;
    assert_true(gs_ns_quota_fits(NULL, &toy.policy, 1000, 100));      /* 6 */
    assert_true(gs_ns_quota_fits(&quota, &other.policy, 5000, 5000)); /* 6 */
    line = line_of(&toy, 0, 0, -1, 0);
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, 500, 0)); /* 7 */
    assert_true(gs_ns_quota_fits(&quota, &toy.policy, 0, 500));
    /* 10 to 14: units of the resource */
    line = line_of(&toy, 100, 0, 50, 20);
    toy.policy.quota_factor = 256;
    assert_true(gs_ns_quota_fits(&quota, &toy.policy, 50 * 256, 0));
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, 200 * 256, 0));
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, 0, 60));
    line = line_of(&toy, 1000, 0, -1, 0);
    toy.policy.quota_factor = 2;
    assert_true(gs_ns_quota_fits(&quota, &toy.policy, 800 * 2, 0));
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, 1200 * 2, 0));
    /* sums beyond int64 are too much, whatever the limit */
    line = line_of(&toy, INT64_MAX, INT64_MAX, -1, 0);
    assert_true(gs_ns_quota_fits(&quota, &toy.policy, 0, 0));
    line = line_of(&toy, 100, INT64_MAX, -1, 0);
    assert_false(gs_ns_quota_fits(&quota, &toy.policy, INT64_MAX, 0));
    toy_fini(&toy);
    toy_fini(&other);
}

static bool pod_fits(struct toy *toy, const struct gs_ns_quota *quota)
{
    int64_t mem, cores;

    gs_ns_quota_of_pod(&toy->policy, &toy->pod, &mem, &cores);
    return gs_ns_quota_fits(quota, &toy->policy, mem, cores);
}

/* A18.8: used 1000 of 2000; A18.15: an init container and an app container, not both at once */
static void whole_pods(void **state)
{
    static const struct {
        int cards, mem;
        bool want;
    } vectors[] = {{1, 100, true}, {1, 1024, false}, {2, 1024, false}, {2, 400, true}};
    struct gs_ns_quota_line line;
    const struct gs_ns_quota quota = {&line, 1};
    struct toy toy;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(vectors); i++) {
        toy_init(&toy);
        line = line_of(&toy, 2000, 1000, -1, 0);
        toy_wants(&toy, toy_container(&toy), vectors[i].cards, vectors[i].mem, -1, -1);
        assert_int_equal(pod_fits(&toy, &quota), vectors[i].want);
        toy_fini(&toy);
    }
    toy_init(&toy);
    toy_wants(&toy, toy_init_container(&toy), 1, 20000, -1, -1);
    toy_wants(&toy, toy_container(&toy), 1, 10000, -1, -1);
    toy_container(&toy); /* asks for nothing */
    line = line_of(&toy, 30000, 0, -1, 0);
    assert_true(pod_fits(&toy, &quota));
    line.mem_used = 20000;
    assert_false(pod_fits(&toy, &quota));
    line.mem_used = 10000;
    assert_true(pod_fits(&toy, &quota));
    toy_fini(&toy);
    /* a sidecar runs beside both */
    toy_init(&toy);
    toy_wants(&toy, toy_sidecar(&toy), 1, 1000, -1, 10);
    toy_wants(&toy, toy_init_container(&toy), 1, 1500, -1, 5);
    toy_wants(&toy, toy_container(&toy), 1, 1200, -1, 20);
    line = line_of(&toy, 2500, 0, 30, 0);
    assert_true(pod_fits(&toy, &quota));
    line.mem_limit = 2499;
    assert_false(pod_fits(&toy, &quota));
    line = line_of(&toy, -1, 0, 29, 0);
    assert_false(pod_fits(&toy, &quota));
    toy_fini(&toy);
}

/* One Fit with these containers against a limit of 2048 MiB. */
static int fit(const int *init, size_t n_init, const int *app, size_t n_app)
{
    struct gs_ns_quota_line line;
    const struct gs_ns_quota quota = {&line, 1};
    struct toy toy;
    int rc;

    toy_init(&toy);
    toy.rules.checks_quota = true;
    line = line_of(&toy, 2048, 0, -1, 0);
    toy.flags.quota = &quota;
    toy_device(&toy, "uuid1");
    for (size_t i = 0; i < n_init; i++)
        toy_wants(&toy, toy_init_container(&toy), 1, init[i], -1, -1);
    for (size_t i = 0; i < n_app; i++)
        toy_wants(&toy, toy_container(&toy), 1, app[i], -1, -1);
    rc = toy_place(&toy);
    if (rc < 0)
        assert_string_equal(toy_reasons(&toy), "1/1 ResourceQuotaNotFit");
    toy_fini(&toy);
    return rc;
}

/* A18.16 and A18.18 */
static void in_fit(void **state)
{
    (void)state;
    assert_int_equal(fit(NULL, 0, (int[]){100}, 1), 0);
    assert_true(fit(NULL, 0, (int[]){3000}, 1) < 0);
    assert_int_equal(fit(NULL, 0, (int[]){1024, 100}, 2), 0);
    assert_true(fit(NULL, 0, (int[]){1024, 2000}, 2) < 0);
    assert_true(fit(NULL, 0, (int[]){1024, 1024, 100}, 3) < 0);
    assert_true(fit((int[]){2100}, 1, (int[]){100}, 1) < 0);
    assert_int_equal(fit((int[]){2048}, 1, (int[]){1024, 1024}, 2), 0);
    assert_int_equal(fit((int[]){2048, 2048}, 2, (int[]){100}, 1), 0);
}

/* An init container and the sidecar before it count together; two init containers do not. */
static void sidecars_in_fit(void **state)
{
    struct gs_ns_quota_line line;
    const struct gs_ns_quota quota = {&line, 1};

    (void)state;
    for (int limit = 1499; limit <= 1500; limit++) {
        struct toy toy;

        toy_init(&toy);
        toy.rules.checks_quota = true;
        line = line_of(&toy, limit, 0, 60, 0);
        toy.flags.quota = &quota;
        toy_device(&toy, "a");
        toy_wants(&toy, toy_sidecar(&toy), 1, 1000, -1, 40);
        toy_wants(&toy, toy_init_container(&toy), 1, 500, -1, 20);
        toy_wants(&toy, toy_init_container(&toy), 1, 400, -1, 20);
        toy_wants(&toy, toy_container(&toy), 1, 100, -1, 20);
        assert_int_equal(toy_place(&toy), limit == 1500 ? 0 : -ENOSPC);
        line.core_limit = 59;
        assert_int_equal(toy_place(&toy), -ENOSPC);
        assert_string_equal(toy_reasons(&toy), "1/1 ResourceQuotaNotFit");
        toy_fini(&toy);
    }
}

/* The books count each card's own peak: an init container on one card and an app container on the
 * other hold both, until the pod ends. */
static void as_the_books_count(void **state)
{
    struct gs_ns_quota_line line;
    const struct gs_ns_quota quota = {&line, 1};
    struct toy toy;

    (void)state;
    for (int limit = 1099; limit <= 1100; limit++) {
        toy_init(&toy);
        toy.rules.checks_quota = true;
        line = line_of(&toy, limit, 0, -1, 0);
        toy.flags.quota = &quota;
        toy.flags.device_policy = GS_STR("binpack");
        toy_device(&toy, "idle");
        toy_device(&toy, "full");
        toy_used(&toy, 1, 7500, 0);
        toy_wants(&toy, toy_init_container(&toy), 1, 600, -1, -1);
        toy_wants(&toy, toy_container(&toy), 1, 500, -1, -1);
        if (limit == 1100) {
            assert_int_equal(toy_place(&toy), 0);
            assert_string_equal(toy_given(&toy), "idle;full;");
        } else {
            /* the app container may still share the init container's card */
            assert_int_equal(toy_place(&toy), 0);
            assert_string_equal(toy_given(&toy), "idle;idle;");
        }
        toy_fini(&toy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(whole_pods),
        cmocka_unit_test(in_fit),
        cmocka_unit_test(sidecars_in_fit),
        cmocka_unit_test(as_the_books_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
