#include "apps/gpuslice/terms.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "contract/quota.h"
#include "node/probe.h"

static const struct gs_card card = {.total_bytes = UINT64_C(8) << 30};

static int parse(const char *word, struct gs_err *err)
{
    uint64_t bytes;

    return gs_terms_memory(gs_str_of(word), &card, &bytes, err);
}

/* Forms of other programs, and what they mean there: docker's g and m and HAMi's are of 1024, GB
 * of 1000 (IEC 80000-13), MiB is Mi. */
static void a_wrong_size_names_the_right_one(void **state)
{
    static const struct {
        const char *word, *meant;
    } t[] = {
        {"2GB", "'2G'?"},         {"2gb", "'2G'?"},       {"2gi", "'2Gi'?"},
        {"2g", "'2Gi'?"},         {"2048m", "'2048Mi'?"}, {"1500MiB", "'1500Mi'?"},
        {"1500mib", "'1500Mi'?"}, {"1.5gb", "'1.5G'?"},   {"2 Gi", "'2Gi'?"},
        {"4096KB", "'4096K'?"},   {"1tb", "'1T'?"},       {"2", "mean 2Gi?"},
        {"24", "mean 24Gi?"},     {"512", "mean 512Mi?"}, {"8000", "mean 8000Mi?"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
        struct gs_err err = {0};
        const char *said;

        assert_int_equal(parse(t[i].word, &err), -EINVAL);
        said = strstr(err.text, "did you mean ");
        if (!said || !strstr(said, t[i].meant))
            fail_msg("%s: %s", t[i].word, err.text);
    }
}

static void what_nobody_can_guess_is_not_guessed(void **state)
{
    static const char *const words[] = {"",   "i",    "b",   "ib",           "Gi",  "gb",
                                        "-1", "-1gb", "2xb", "12i",          "12b", "12ib",
                                        "1K", "1e3",  "g2",  "99999999999g", "0",   "1023Ki"};
    char all[300];

    (void)state;
    memset(all, '9', sizeof(all) - 2);
    all[sizeof(all) - 2] = 'g';
    all[sizeof(all) - 1] = '\0';
    for (size_t i = 0; i <= sizeof(words) / sizeof(words[0]); i++) {
        const char *word = i < sizeof(words) / sizeof(words[0]) ? words[i] : all;
        struct gs_err err = {0};

        assert_int_equal(parse(word, &err), -EINVAL);
        if (strstr(err.text, "did you mean"))
            fail_msg("%s: %s", word, err.text);
    }
}

static void the_least_size_is_a_mebibyte(void **state)
{
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(parse("1048576", NULL), 0);
    assert_int_equal(parse("1Mi", NULL), 0);
    assert_int_equal(parse("1048575", &err), -EINVAL);
    assert_non_null(strstr(err.text, "1048575 bytes"));
    assert_non_null(strstr(err.text, "1Mi is the least"));
    assert_int_equal(parse("1%", NULL), 0);
}

static void a_share_without_a_priority_is_low(void **state)
{
    struct gs_quota q = {.n_devices = 1};
    struct gs_quota_device *d = &q.device[0];

    (void)state;
    *d = (struct gs_quota_device){.core_pct = 100, .policy = GS_POLICY_OFF};
    assert_string_equal(gs_quota_priority_name(gs_terms_priority_of(&q, d)), "none");
    d->core_pct = 60;
    assert_string_equal(gs_quota_priority_name(gs_terms_priority_of(&q, d)), "none");
    d->policy = GS_POLICY_FIXED;
    assert_string_equal(gs_quota_priority_name(gs_terms_priority_of(&q, d)), "low");
    q.priority = GS_PRIORITY_HIGH;
    assert_string_equal(gs_quota_priority_name(gs_terms_priority_of(&q, d)), "high");
    d->policy = GS_POLICY_OFF;
    q.priority = GS_PRIORITY_LOW;
    assert_string_equal(gs_quota_priority_name(gs_terms_priority_of(&q, d)), "low");
    assert_string_equal(gs_quota_priority_name(99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_size_names_the_right_one),
        cmocka_unit_test(what_nobody_can_guess_is_not_guessed),
        cmocka_unit_test(the_least_size_is_a_mebibyte),
        cmocka_unit_test(a_share_without_a_priority_is_low),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
