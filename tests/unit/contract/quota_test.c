#include "contract/quota.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"

#define HEAD "gpuslice-quota 1\ngeneration 7\nfail closed\n"
#define DEV  "device GPU-a memory=4294967296 cores=30 policy=fixed\n"

static void test_good(void **state)
{
    struct gs_quota q;
    uint32_t line;

    (void)state;
    assert_int_equal(
        gs_quota_parse(GS_STR(HEAD DEV "device MIG-b memory=none cores=none policy=off\n"
                                       "device c memory=1 cores=1 policy=elastic\n"),
                       &q, &line),
        0);
    assert_int_equal(q.generation, 7);
    assert_int_equal(q.fail, GS_FAIL_CLOSED);
    assert_int_equal(q.n_devices, 3);
    assert_string_equal(q.device[0].uuid, "GPU-a");
    assert_true(q.device[0].limit_bytes == UINT64_C(4294967296));
    assert_int_equal(q.device[0].core_pct, 30);
    assert_int_equal(q.device[0].policy, GS_POLICY_FIXED);
    assert_true(q.device[1].limit_bytes == UINT64_MAX);
    assert_int_equal(q.device[1].core_pct, 100);
    assert_int_equal(q.device[1].policy, GS_POLICY_OFF);
    assert_int_equal(q.device[2].core_pct, 1);
    assert_int_equal(
        gs_quota_parse(GS_STR("gpuslice-quota 1\ngeneration 0\nfail open\n"), &q, &line), 0);
    assert_int_equal(q.fail, GS_FAIL_OPEN);
    assert_int_equal(q.n_devices, 0);
    assert_int_equal(q.priority, GS_PRIORITY_NONE);
    assert_int_equal(q.oversubscribe, 0);
    assert_int_equal(gs_quota_parse(GS_STR(HEAD "oversubscribe on\npriority 1\n" DEV), &q, &line),
                     0);
    assert_int_equal(q.priority, GS_PRIORITY_LOW);
    assert_int_equal(q.oversubscribe, 1);
    assert_int_equal(q.n_devices, 1);
    assert_int_equal(gs_quota_parse(GS_STR(HEAD "priority 0\n" DEV), &q, &line), 0);
    assert_int_equal(q.priority, GS_PRIORITY_HIGH);
}

static void test_bad(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint32_t line;
    } rows[] = {
        {"", -EINVAL, 1},
        {"gpuslice-quota 1\n", -EINVAL, 2},
        {"gpuslice-quota 2\ngeneration 7\nfail closed\n", -EINVAL, 1},
        {"gpuslice-quota 1 \ngeneration 7\nfail closed\n", -EINVAL, 1},
        {"gpuslice-quota 1\ngeneration -1\nfail closed\n", -EINVAL, 2},
        {"gpuslice-quota 1\ngeneration 99999999999999999999\nfail closed\n", -EINVAL, 2},
        {"gpuslice-quota 1\ngeneration 7\nfail maybe\n", -EINVAL, 3},
        {"gpuslice-quota 1\nfail closed\ngeneration 7\n", -EINVAL, 2},
        {HEAD "priority 2\n" DEV, -EINVAL, 4},
        {HEAD "priority 0\npriority 1\n" DEV, -EINVAL, 5},
        {HEAD "oversubscribe yes\n" DEV, -EINVAL, 4},
        {HEAD "oversubscribe on\noversubscribe on\n" DEV, -EINVAL, 5},
        {HEAD DEV "priority 0\n", -EINVAL, 5},
        {HEAD "\n", -EINVAL, 4},
        {HEAD "# remark\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=12zb cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1e999 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=-5 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=0 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=18446744073709551615 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=010 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory= cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1 cores=0 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1 cores=101 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1 cores=30% policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1 cores=30 policy=fair\n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1 cores=30 policy=fixed \n", -EINVAL, 4},
        {HEAD "device GPU-a memory=1 cores=30\n", -EINVAL, 4},
        {HEAD "device  memory=1 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU-a  memory=1 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD "device GPU\ta memory=1 cores=30 policy=fixed\n", -EINVAL, 4},
        {HEAD DEV DEV, -EEXIST, 5},
        {HEAD "device GPU-a memory=4294967296 cores=30 policy=fixed", -EINVAL, 1}, /* cut short */
        {HEAD "device GPU-a memory=429\r\n", -EINVAL, 4},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        struct gs_quota q;
        uint32_t line = 99;
        int rc = gs_quota_parse(gs_str_of(rows[i].text), &q, &line);

        if (rc != rows[i].rc || line != rows[i].line)
            print_error("for row %zu\n", i);
        assert_int_equal(rc, rows[i].rc);
        assert_int_equal(line, rows[i].line);
    }
}

static void test_nul_and_long(void **state)
{
    static const char nul[] = HEAD "device GPU\0a memory=1 cores=30 policy=fixed\n";
    char *big = malloc(GS_QUOTA_MAX_BYTES + 1);
    char uuid[400];
    struct gs_quota q;
    uint32_t line;

    (void)state;
    assert_int_equal(gs_quota_parse((struct gs_str){nul, sizeof(nul) - 1}, &q, &line), -EINVAL);
    memset(big, 'x', GS_QUOTA_MAX_BYTES + 1);
    assert_int_equal(gs_quota_parse((struct gs_str){big, GS_QUOTA_MAX_BYTES + 1}, &q, &line),
                     -EFBIG);
    free(big);
    (void)snprintf(uuid, sizeof(uuid), HEAD "device %096d memory=1 cores=1 policy=off\n", 1);
    assert_int_equal(gs_quota_parse(gs_str_of(uuid), &q, &line), -EINVAL);
    (void)snprintf(uuid, sizeof(uuid), HEAD "device %095d memory=1 cores=1 policy=off\n", 1);
    assert_int_equal(gs_quota_parse(gs_str_of(uuid), &q, &line), 0);
}

/** 64 devices go both ways; the 65th does not. */
static void test_many(void **state)
{
    struct gs_quota q = {
        .generation = UINT64_MAX, .fail = GS_FAIL_OPEN, .n_devices = GS_LEDGER_DEVICES};
    struct gs_quota back;
    char text[GS_QUOTA_MAX_BYTES];
    uint32_t line;
    int n, n2;

    (void)state;
    for (uint32_t i = 0; i < GS_LEDGER_DEVICES; i++) {
        (void)snprintf(q.device[i].uuid, sizeof(q.device[i].uuid), "%090u-%u", 0, i);
        q.device[i].limit_bytes = i % 3 == 0 ? UINT64_MAX : UINT64_MAX - 1 - i;
        q.device[i].core_pct = i + 1;
        q.device[i].policy = i % GS_POLICY_COUNT;
    }
    n = gs_quota_format(&q, text, sizeof(text));
    assert_true(n > 0);
    assert_int_equal(strlen(text), n);
    assert_int_equal(gs_quota_parse((struct gs_str){text, (size_t)n}, &back, &line), 0);
    assert_memory_equal(&q, &back, sizeof(q));
    n2 = snprintf(text + n, sizeof(text) - (size_t)n,
                  "device one-more memory=1 cores=1 policy=off\n");
    assert_int_equal(gs_quota_parse((struct gs_str){text, (size_t)(n + n2)}, &back, &line), -E2BIG);
}

static void test_format_errors(void **state)
{
    struct gs_quota q = {.n_devices = 1, .device = {{"GPU-a", 1, 100, GS_POLICY_FIXED}}};
    char text[128];

    (void)state;
    assert_true(gs_quota_format(&q, text, sizeof(text)) > 0);
    assert_int_equal(gs_quota_format(&q, text, 20), -ENOSPC);
    assert_int_equal(gs_quota_format(&q, text, 0), -ENOSPC);
    q.device[0].limit_bytes = 0;
    assert_int_equal(gs_quota_format(&q, text, sizeof(text)), -EINVAL);
    q.device[0].limit_bytes = 1;
    q.device[0].core_pct = 101;
    assert_int_equal(gs_quota_format(&q, text, sizeof(text)), -EINVAL);
    q.device[0].core_pct = 0;
    assert_int_equal(gs_quota_format(&q, text, sizeof(text)), -EINVAL);
    q.device[0].core_pct = 1;
    q.device[0].policy = GS_POLICY_COUNT;
    assert_int_equal(gs_quota_format(&q, text, sizeof(text)), -EINVAL);
    q.device[0].policy = 0;
    q.device[0].uuid[3] = '\n';
    assert_int_equal(gs_quota_format(&q, text, sizeof(text)), -EINVAL);
    q.n_devices = GS_LEDGER_DEVICES + 1;
    assert_int_equal(gs_quota_format(&q, text, sizeof(text)), -EINVAL);
    assert_string_equal(gs_quota_policy_name(GS_POLICY_ELASTIC), "elastic");
    assert_string_equal(gs_quota_policy_name(9), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),          cmocka_unit_test(test_bad),
        cmocka_unit_test(test_nul_and_long),  cmocka_unit_test(test_many),
        cmocka_unit_test(test_format_errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
