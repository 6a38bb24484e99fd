#include "apps/gpuslice/plan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "apps/gpuslice/promise.h"
#include "apps/gpuslice/slice.h"
#include "base/err.h"

#define GIB (UINT64_C(1) << 30)

static struct gs_probe probe;
static struct gs_slice slice[3];
static struct gs_slice *list[3] = {&slice[0], &slice[1], &slice[2]};
static struct gs_slices slices;
static struct gs_plan plan;

/* Three cards of 8, 8 and 16 GiB, no slices. */
static int setup(void **state)
{
    static const uint64_t total[] = {8 * GIB, 8 * GIB, 16 * GIB};

    (void)state;
    memset(&probe, 0, sizeof(probe));
    memset(slice, 0, sizeof(slice));
    for (uint32_t i = 0; i < 3; i++) {
        struct gs_card *c = gs_probe_add_card(&probe);

        c->index = i;
        c->total_bytes = total[i];
        (void)snprintf(c->uuid, sizeof(c->uuid), "GPU-%ccc-%u", i == 2 ? 'b' : 'a', i);
    }
    slices = (struct gs_slices){.p = list, .n = 0};
    return 0;
}

static void promise(uint32_t card, uint64_t bytes, enum gs_slice_state state, uid_t uid)
{
    struct gs_slice *s = &slice[slices.n++];

    (void)snprintf(s->name, sizeof(s->name), "s%zu", slices.n);
    s->state = state;
    s->uid = uid;
    s->quota.n_devices = 1;
    s->quota.device[0].limit_bytes = bytes;
    memcpy(s->quota.device[0].uuid, probe.card[card].uuid, sizeof(probe.card[card].uuid));
}

static int make(const char *memory, const char *device, struct gs_err *err)
{
    struct gs_plan_request r = {.memory = memory, .device = device};

    return gs_plan_make(&r, &probe, &slices, &plan, err);
}

static void takes_the_least_promised_then_the_lowest(void **state)
{
    (void)state;
    assert_int_equal(make("1Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 0);
    promise(0, 1 * GIB, GS_SLICE_RUNNING, geteuid());
    assert_int_equal(make("1Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 1);
    promise(1, UINT64_MAX, GS_SLICE_ORPHAN, geteuid()); /* no limit: as if the whole card */
    assert_int_equal(make("1Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 2);
    promise(2, 2 * GIB, GS_SLICE_RUNNING, geteuid());
    assert_int_equal(make("1Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 0);
}

static void the_last_byte_fits_and_one_more_does_not(void **state)
{
    struct gs_err err = {0};

    (void)state;
    promise(0, 6 * GIB, GS_SLICE_RUNNING, geteuid());
    assert_int_equal(make("2147483648", "0", NULL), 0);
    assert_int_equal(make("2147483649", "0", &err), -ENOSPC);
    assert_non_null(strstr(err.text, "'s1'"));
    assert_non_null(strstr(err.text, "2147483648 bytes"));
    assert_non_null(strstr(err.text, "--oversubscribe"));
    assert_int_equal(make("8Gi", "1", NULL), 0);
    assert_int_equal(make("9Gi", "1", &err), -ENOSPC);
}

/* What programs outside slices hold, the driver alone knows. */
static void takes_a_card_that_has_the_room_now(void **state)
{
    (void)state;
    probe.card[0].used_bytes = 7 * GIB;
    assert_int_equal(make("2Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 1);
    probe.card[0].used_bytes = 6 * GIB; /* enough; but more is spoken for than on the next */
    assert_int_equal(make("2Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 1);
    promise(1, 7 * GIB, GS_SLICE_RUNNING, geteuid());
    assert_int_equal(make("none", NULL, NULL), 0); /* without a limit, where least is spoken for */
    assert_int_equal(plan.card[0], 2);
    probe.card[2].used_bytes = 15 * GIB;
    assert_int_equal(make("2Gi", NULL, NULL), 0); /* not 1, for it is promised there */
    assert_int_equal(plan.card[0], 0);
    probe.card[0].used_bytes = GS_PROBE_UNKNOWN; /* as if nobody else were there */
    assert_int_equal(make("8Gi", NULL, NULL), 0);
    assert_int_equal(plan.card[0], 0);
}

/* What a slice was promised and has not taken is not free, and what it has taken counts once. */
static void a_promise_waits_for_its_slice(void **state)
{
    struct gs_promise p;
    uint64_t used;

    (void)state;
    promise(0, 3 * GIB, GS_SLICE_RUNNING, geteuid());
    slice[0].used_bytes[0] = 1 * GIB;
    probe.card[0].used_bytes = 5 * GIB; /* 4 of them outside */
    gs_promise_read(&probe.card[0], &slices, NULL, &p);
    assert_int_equal(p.bytes, 3 * GIB);
    assert_int_equal(p.outside, 4 * GIB);
    assert_int_equal(p.load, 7 * GIB);
    assert_int_equal(p.room, 1 * GIB);
    assert_true(gs_promise_is_kept(GIB, &p));
    assert_false(gs_promise_is_kept(GIB + 1, &p));
    assert_true(gs_promise_is_kept(UINT64_MAX, &p));
    gs_promise_read(&probe.card[0], &slices, &slice[0], &p); /* its own is its own */
    assert_int_equal(p.outside, 4 * GIB);
    assert_int_equal(p.room, 4 * GIB);
    slice[0].quota.device[0].limit_bytes = UINT64_MAX; /* what it has */
    assert_int_equal(gs_promise_taken(&probe.card[0], &slice[0], &used), GIB);
    slice[0].quota.device[0].limit_bytes = UINT64_MAX - 1; /* never more than there is */
    assert_int_equal(gs_promise_taken(&probe.card[0], &slice[0], &used), 8 * GIB);
    slice[0].state = GS_SLICE_DEAD;
    gs_promise_read(&probe.card[0], &slices, NULL, &p);
    assert_int_equal(p.room, 3 * GIB);
}

static void dead_slices_promise_nothing(void **state)
{
    (void)state;
    promise(0, 8 * GIB, GS_SLICE_DEAD, geteuid());
    assert_int_equal(make("8Gi", "0", NULL), 0);
}

static void a_stranger_cannot_promise_more_than_a_card(void **state)
{
    struct gs_err err = {0};

    (void)state;
    promise(2, UINT64_MAX - 1, GS_SLICE_RUNNING, geteuid() + 1);
    assert_int_equal(make("1Mi", "2", &err), -ENOSPC);
    assert_non_null(strstr(err.text, "16 GiB are promised"));
}

static void oversubscription_is_a_wish(void **state)
{
    struct gs_plan_request r = {.memory = "100Gi", .device = "0", .oversubscribe = true};

    (void)state;
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.quota.device[0].limit_bytes, 100 * GIB);
}

static void percent_is_of_each_card(void **state)
{
    (void)state;
    assert_int_equal(make("25%", "1,2", NULL), 0);
    assert_int_equal(plan.quota.device[0].limit_bytes, 2 * GIB);
    assert_int_equal(plan.quota.device[1].limit_bytes, 4 * GIB);
}

static void sizes_go_with_cards_in_order(void **state)
{
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(make("1Gi,none", "2,0", NULL), 0);
    assert_string_equal(plan.quota.device[0].uuid, "GPU-bcc-2");
    assert_int_equal(plan.quota.device[0].limit_bytes, GIB);
    assert_int_equal(plan.quota.device[1].limit_bytes, UINT64_MAX);
    assert_int_equal(make("1Gi,1Gi", NULL, NULL), 0);
    assert_int_equal(plan.n_cards, 2);
    assert_int_equal(make("1Gi,1Gi,1Gi,1Gi", NULL, &err), -EINVAL);
    assert_int_equal(make("1Gi,1Gi", "0", &err), -EINVAL);
    assert_int_equal(make("1Gi", "all", NULL), 0);
    assert_true(plan.all);
    assert_int_equal(plan.n_cards, 3);
}

static void names_of_cards(void **state)
{
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(make(NULL, "GPU-bcc-2", NULL), 0);
    assert_int_equal(plan.card[0], 2);
    assert_int_equal(make(NULL, "GPU-b", NULL), 0);
    assert_int_equal(plan.card[0], 2);
    assert_int_equal(make(NULL, "GPU-a", &err), -EINVAL); /* two of them */
    assert_int_equal(make(NULL, "GPU-", &err), -ENODEV);
    assert_int_equal(make(NULL, "3", &err), -ENODEV);
    assert_int_equal(make(NULL, "99999999999999999999", &err), -ENODEV);
    assert_int_equal(make(NULL, "0,0", &err), -EINVAL);
    assert_int_equal(make(NULL, "0,", &err), -EINVAL);
    assert_int_equal(make(NULL, "", &err), -EINVAL);
}

static void visible_cards_limit_the_choice_only(void **state)
{
    struct gs_plan_request r = {.memory = "1Gi", .visible = "2,GPU-acc-1,bad,0"};

    (void)state;
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.card[0], 1);
    r.visible = "";
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), -EINVAL);
    r.device = "0";
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
}

static void bad_sizes_and_shares(void **state)
{
    static const char *const sizes[] = {"",      "0",    "-1", "1e999", "12zb",   "0x10",   "1.5",
                                        "101%",  "1Gi,", ",1", "%",     "Gi",     " 1",     "1 Gi",
                                        "none,", "1",    "2",  "1K",    "1023Ki", "1048575"};
    static const char *const cores[] = {"0", "101", "-5", "5%", "", "1.5", "abc", "30,"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++)
        assert_int_equal(make(sizes[i], strchr(sizes[i], ',') ? "0,1" : "0", NULL), -EINVAL);
    for (size_t i = 0; i < GS_ARRAY_LEN(cores); i++) {
        struct gs_plan_request r = {.cores = cores[i]};

        assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), -EINVAL);
    }
}

static void promise_cores(const char *name, uint32_t card, uint32_t pct, uint32_t policy)
{
    struct gs_slice *s = &slice[slices.n];

    promise(card, UINT64_MAX, GS_SLICE_RUNNING, geteuid());
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    s->quota.device[0].core_pct = pct;
    s->quota.device[0].policy = policy;
}

static int make_cores(const char *cores, const char *policy, bool oversubscribe, struct gs_err *err)
{
    struct gs_plan_request r = {
        .cores = cores, .policy = policy, .device = "0", .oversubscribe = oversubscribe};

    return gs_plan_make(&r, &probe, &slices, &plan, err);
}

static void shares_of_a_card_are_at_most_all_of_it(void **state)
{
    struct gs_err err = {0};

    (void)state;
    promise_cores("a", 0, 60, GS_POLICY_FIXED);
    promise_cores("b", 0, 30, GS_POLICY_ELASTIC);
    promise_cores("c", 0, 90, GS_POLICY_OFF);
    assert_int_equal(make_cores("10", NULL, false, NULL), 0);
    assert_int_equal(make_cores("11", NULL, false, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "'a' 60 %, 'b' 30 %"));
    assert_null(strstr(err.text, "'c'"));
    assert_non_null(strstr(err.text, "10 % left"));
    assert_int_equal(make_cores("11", "off", false, NULL), 0);
    assert_int_equal(make_cores("11", NULL, true, NULL), 0);
    assert_int_equal(plan.quota.oversubscribe, 1);
    assert_int_equal(make_cores("100", NULL, false, NULL), 0);
    assert_int_equal(plan.quota.device[0].policy, GS_POLICY_OFF);
    slice[0].state = GS_SLICE_DEAD;
    assert_int_equal(make_cores("70", "elastic", false, NULL), 0);
    assert_int_equal(plan.quota.device[0].policy, GS_POLICY_ELASTIC);
}

static void shares_go_with_cards_in_order(void **state)
{
    struct gs_plan_request r = {.cores = "30,none", .device = "1,2", .priority = "high"};

    (void)state;
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.quota.device[0].core_pct, 30);
    assert_int_equal(plan.quota.device[1].core_pct, 100);
    assert_int_equal(plan.quota.device[1].policy, GS_POLICY_OFF);
    assert_int_equal(plan.quota.priority, GS_PRIORITY_HIGH);
    r.device = NULL;
    r.cores = "1,2,3";
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.n_cards, 3);
    r.cores = "1,2,3,4";
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), -EINVAL);
    r.cores = "1,2";
    r.memory = "1Gi,1Gi,1Gi";
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), -EINVAL);
}

static void takes_a_card_on_which_all_fits(void **state)
{
    struct gs_plan_request r = {.memory = "1Gi", .cores = "50"};
    struct gs_err err = {0};

    (void)state;
    promise_cores("a", 0, 60, GS_POLICY_FIXED);
    slice[0].quota.device[0].limit_bytes = GIB;
    promise(1, 7 * GIB + 1, GS_SLICE_RUNNING, geteuid());
    promise(2, 8 * GIB, GS_SLICE_RUNNING, geteuid());
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.card[0], 2); /* no compute is left on 0, no memory on 1 */
    r.memory = "9Gi";                  /* on none: the first choice says why */
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "card 0 has 8 GiB"));
    r.memory = "7Gi";
    r.cores = "none";
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.card[0], 0);
    r.memory = "12Gi";
    r.oversubscribe = true; /* all fits */
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.card[0], 0);
}

/** Long names of many slices are cut, not run over. */
static void many_names(void **state)
{
    struct gs_err err = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        char name[64];

        memset(name, 'a' + i, 63);
        name[63] = '\0';
        promise_cores(name, 0, 30, GS_POLICY_FIXED);
    }
    assert_int_equal(make_cores("11", NULL, false, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "...)"));
}

static void no_memory_option_is_no_limit(void **state)
{
    struct gs_plan_request r = {.cores = "30"};

    (void)state;
    assert_int_equal(gs_plan_make(&r, &probe, &slices, &plan, NULL), 0);
    assert_int_equal(plan.quota.device[0].limit_bytes, UINT64_MAX);
    assert_int_equal(plan.quota.device[0].core_pct, 30);
    assert_int_equal(plan.quota.device[0].policy, GS_POLICY_FIXED);
    assert_int_equal(plan.quota.fail, GS_FAIL_CLOSED);
}

#define T(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(takes_the_least_promised_then_the_lowest),
        T(the_last_byte_fits_and_one_more_does_not),
        T(takes_a_card_that_has_the_room_now),
        T(a_promise_waits_for_its_slice),
        T(dead_slices_promise_nothing),
        T(a_stranger_cannot_promise_more_than_a_card),
        T(oversubscription_is_a_wish),
        T(percent_is_of_each_card),
        T(sizes_go_with_cards_in_order),
        T(names_of_cards),
        T(visible_cards_limit_the_choice_only),
        T(bad_sizes_and_shares),
        T(shares_of_a_card_are_at_most_all_of_it),
        T(shares_go_with_cards_in_order),
        T(takes_a_card_on_which_all_fits),
        T(many_names),
        T(no_memory_option_is_no_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
