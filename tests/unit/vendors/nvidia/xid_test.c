/* A20, case 8, and NVIDIA's catalog of XIDs. */
#include "vendors/nvidia/node/xid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static unsigned told;
static char last[512];

static void hear(void *user, const char *text)
{
    (void)user;
    told++;
    (void)snprintf(last, sizeof(last), "%s", text);
}

static const struct gs_inventory_tell tell = {hear, NULL};

static bool counts(const char *ignore, const char *heed, uint64_t xid)
{
    struct gs_xid_rule rule;

    gs_xid_rule_make(ignore, heed, &tell, &rule);
    return gs_xid_counts(&rule, xid);
}

static void programs_own_errors_do_not_count(void **state)
{
    static const uint64_t own[] = {13, 31, 43, 45, 68, 109};

    (void)state;
    for (uint64_t xid = 0; xid < 300; xid++) {
        bool is_own = false;

        for (size_t i = 0; i < GS_ARRAY_LEN(own); i++)
            is_own |= own[i] == xid;
        assert_int_equal(counts(NULL, NULL, xid), !is_own);
        assert_int_equal(counts("", "", xid), !is_own);
        assert_int_equal(gs_xid_usual_harm(xid) == GS_HARM_NONE, is_own);
    }
}

static void variables_take_out_and_bring_back(void **state)
{
    (void)state;
    /* A20.8 */
    assert_false(counts("all", NULL, 79));
    assert_false(counts("xids", NULL, 79));
    assert_true(counts(NULL, "all", 13));
    assert_true(counts("11", "11", 11));
    /* k8s-device-plugin, getDisabledHealthCheckXids: what is enabled comes first */
    assert_false(counts("79", NULL, 79));
    assert_true(counts("79", NULL, 48));
    assert_true(counts("all", "48", 48));
    assert_false(counts("all", "48", 79));
    assert_true(counts("all", "all", 79));
    assert_true(counts(NULL, "13", 13));
    assert_false(counts(NULL, "13", 31));
    assert_false(counts(" 1, XIDs ,2", NULL, 79));
    assert_int_equal(told, 0);
}

static void words_that_are_none_are_told(void **state)
{
    (void)state;
    told = 0;
    assert_true(counts("7x,,79 ", NULL, 7));
    assert_int_equal(told, 1);
    assert_string_equal(last,
                        "DP_DISABLE_HEALTHCHECKS: '7x' is neither a number nor `all` nor `xids`");
    assert_false(counts("7x,,79 ", NULL, 79));
    assert_true(counts(NULL, "-1,99999999999999999999", 1));
    assert_int_equal(told, 4);
    for (int i = 0; i < 3; i++) { /* more than there is room for */
        char list[1024] = "";

        for (int k = 0; k < GS_XID_NAMED + i; k++)
            (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%d,", 200 + k);
        told = 0;
        assert_false(counts(list, NULL, 200));
        assert_int_equal(told, i);
    }
}

/* Columns of the catalog: immediate action RESET_GPU or RESTART_BM needs a reset, RESTART_APP and
 * IGNORE do not; with the linkage of XID 154 the driver keeps account. */
static void errors_are_of_the_catalogs_kinds(void **state)
{
    static const struct {
        uint64_t xid;
        enum gs_harm harm;
    } rows[] = {
        {8, GS_HARM_PASSES},          {32, GS_HARM_PASSES},         {46, GS_HARM_RESET},
        {48, GS_HARM_RESET_OR_SAID},  {62, GS_HARM_RESET_OR_SAID},  {63, GS_HARM_PASSES},
        {64, GS_HARM_RESET_OR_SAID},  {69, GS_HARM_PASSES},         {74, GS_HARM_RESET_OR_SAID},
        {79, GS_HARM_RESET_OR_SAID},  {92, GS_HARM_PASSES},         {94, GS_HARM_PASSES},
        {95, GS_HARM_RESET_OR_SAID},  {110, GS_HARM_RESET_OR_SAID}, {119, GS_HARM_RESET},
        {120, GS_HARM_RESET_OR_SAID}, {121, GS_HARM_PASSES},        {137, GS_HARM_PASSES},
        {140, GS_HARM_RESET},         {143, GS_HARM_RESET_OR_SAID}, {154, GS_HARM_PASSES},
        {158, GS_HARM_RESET_OR_SAID}, {999, GS_HARM_PASSES},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        assert_int_equal(gs_xid_harm(rows[i].xid), rows[i].harm);
    assert_string_equal(gs_xid_text(79), "GPU has fallen off the bus");
    assert_null(gs_xid_text(94));
}

static void the_table_is_sorted(void **state)
{
    static const uint64_t number[] = {
#define GS_XID(number, harm, words) number,
#include "vendors/nvidia/node/xid.def"
#undef GS_XID
    };

    (void)state;
    for (size_t i = 1; i < GS_ARRAY_LEN(number); i++)
        assert_true(number[i - 1] < number[i]);
}

static void lines_of_the_kernels_log_are_read(void **state)
{
    char pci[32] = "";
    uint64_t xid = 0;

    (void)state;
    /* NVIDIA, XID Errors, Viewing Xid Error Messages; with kmsg's own head */
    assert_true(gs_xid_read_line("4,1290,51023,-;NVRM: Xid (PCI:0000:03:00): 14, Channel 00000001",
                                 pci, &xid));
    assert_string_equal(pci, "0000:03:00.0");
    assert_int_equal(xid, 14);
    assert_true(
        gs_xid_read_line("[ 12.3] NVRM: Xid (PCI:0008:e5:1c): 119, pid=1, name=x", pci, &xid));
    assert_string_equal(pci, "0008:e5:1c.0");
    assert_int_equal(xid, 119);
    assert_false(gs_xid_read_line("NVRM: GPU at PCI:0000:03:00: GPU-b850f46d", pci, &xid));
    assert_false(gs_xid_read_line("NVRM: Xid (PCI:0000:03:00): x", pci, &xid));
    assert_false(gs_xid_read_line("NVRM: Xid (PCI:zz:03:00): 14", pci, &xid));
    assert_false(gs_xid_read_line("", pci, &xid));
    assert_int_equal(xid, 119);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_own_errors_do_not_count),
        cmocka_unit_test(variables_take_out_and_bring_back),
        cmocka_unit_test(words_that_are_none_are_told),
        cmocka_unit_test(errors_are_of_the_catalogs_kinds),
        cmocka_unit_test(the_table_is_sorted),
        cmocka_unit_test(lines_of_the_kernels_log_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
