#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"
#include "vendors/nvidia/sim/fault.h"

static struct gs_fault faults;
static int current = -1;

int gs_fault_current_card(void)
{
    return current;
}

static int setup(void **state)
{
    (void)state;
    memset(&faults, 0, sizeof(faults));
    current = -1;
    gs_fault_attach(&faults);
    return 0;
}

static void only_the_nth_call_of_that_function_fails(void **state)
{
    (void)state;
    assert_int_equal(gs_fault_enter("cuMemAlloc_v2"), 0);
    assert_int_equal(gs_fault_set(&faults, "cuMemAlloc_v2", 2, 999, 0), 0);
    assert_int_equal(gs_fault_enter("cuMemAlloc_v2"), 0);
    assert_int_equal(gs_fault_enter("cuMemAlloc"), 0);
    assert_int_equal(gs_fault_enter("cuMemAlloc_v2"), 999);
    assert_int_equal(gs_fault_enter("cuMemAlloc_v2"), 0);
}

static void without_a_number_every_call_fails_and_twins_too(void **state)
{
    (void)state;
    assert_int_equal(gs_fault_set(&faults, "cuMemcpy_ptds", 0, 1, 0), 0);
    assert_int_equal(gs_fault_enter("cuMemcpy"), 1);
    assert_int_equal(gs_fault_enter("cuMemcpy_ptds"), 1);
    gs_fault_reset(&faults);
    assert_int_equal(gs_fault_enter("cuMemcpy"), 0);
}

static void a_lost_card_fails_its_contexts_only(void **state)
{
    (void)state;
    assert_int_equal(gs_fault_lose(&faults, 64), -EINVAL);
    assert_int_equal(gs_fault_lose(&faults, 1), 0);
    assert_int_equal(gs_fault_enter("cuLaunchKernel"), 0);
    current = 0;
    assert_int_equal(gs_fault_enter("cuLaunchKernel"), 0);
    current = 1;
    assert_int_equal(gs_fault_enter("cuLaunchKernel"), CUDA_ERROR_DEVICE_UNAVAILABLE);
    assert_true(gs_fault_is_lost(1));
    gs_fault_reset(&faults);
    assert_int_equal(gs_fault_enter("cuLaunchKernel"), 0);
}

static void a_full_table_and_long_names_are_refused(void **state)
{
    (void)state;
    char name[GS_FAULT_NAME_MAX + 1];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    assert_int_equal(gs_fault_set(&faults, name, 0, 1, 0), -EINVAL);
    assert_int_equal(gs_fault_set(&faults, "", 0, 1, 0), -EINVAL);
    for (int i = 0; i < GS_FAULT_RULES; i++) {
        (void)snprintf(name, sizeof(name), "cuFunction%d", i);
        assert_int_equal(gs_fault_set(&faults, name, 0, i + 1, 0), 0);
    }
    assert_int_equal(gs_fault_set(&faults, "one more", 0, 1, 0), -ENOSPC);
    assert_int_equal(gs_fault_enter("cuFunction31"), 32);
}

static void xids_are_numbered(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= GS_FAULT_XIDS + 3; i++)
        assert_int_equal(gs_fault_raise_xid(&faults, 2, i, 0), 0);
    assert_int_equal(gs_fault_raise_xid(&faults, 64, 1, 0), -EINVAL);
    assert_int_equal(faults.n_xids, GS_FAULT_XIDS + 3);
    const struct gs_fault_xid *last = &faults.xid[faults.n_xids % GS_FAULT_XIDS];
    assert_int_equal(last->seq, GS_FAULT_XIDS + 3);
    assert_int_equal(last->xid, GS_FAULT_XIDS + 3);
}

static void a_lost_card_returns_by_itself(void **state)
{
    (void)state;
    assert_int_equal(gs_fault_lose(&faults, 1), 0);
    assert_int_equal(gs_fault_lose(&faults, 2), 0);
    assert_int_equal(gs_fault_return(&faults, 1), 0);
    assert_int_equal(gs_fault_return(&faults, 1), 0);
    assert_int_equal(gs_fault_return(&faults, 64), -EINVAL);
    assert_false(gs_fault_is_lost(1));
    assert_true(gs_fault_is_lost(2));
    current = 2;
    assert_int_equal(gs_fault_enter("cuLaunchKernel"), CUDA_ERROR_DEVICE_UNAVAILABLE);
    assert_int_equal(gs_fault_return(&faults, 2), 0);
    assert_int_equal(faults.armed, 0);
}

static void a_stopped_driver_answers_nobody(void **state)
{
    (void)state;
    gs_fault_driver_stop(&faults);
    gs_fault_driver_stop(&faults);
    assert_int_equal(gs_fault_enter("nvmlInit_v2"), NVML_ERROR_DRIVER_NOT_LOADED);
    assert_int_equal(gs_fault_enter("cuInit"), CUDA_ERROR_NO_DEVICE);
    assert_int_equal(faults.driver_starts, 0);
    gs_fault_driver_start(&faults);
    assert_int_equal(gs_fault_enter("cuInit"), 0);
    assert_int_equal(faults.driver_starts, 1);
    assert_int_equal(faults.armed, 0);
    gs_fault_driver_start(&faults); /* loaded anew without a pause */
    assert_int_equal(faults.driver_starts, 2);
    assert_int_equal(faults.armed, 0);
    gs_fault_driver_stop(&faults);
    gs_fault_reset(&faults);
    assert_int_equal(gs_fault_enter("cuInit"), 0);
    assert_int_equal(faults.driver_starts, 3);
}

static void nvml_goes_away_and_lies(void **state)
{
    (void)state;
    assert_int_equal(gs_fault_nvml_absent(&faults), 0);
    assert_int_equal(gs_fault_nvml_absent(&faults), 0);
    assert_int_equal(gs_fault_enter("nvmlDeviceGetCount"), NVML_ERROR_DRIVER_NOT_LOADED);
    assert_int_equal(gs_fault_enter("cuCtxGetDevice"), 0);
    assert_int_equal(gs_fault_pct(5), 5);
    assert_int_equal(gs_fault_nvml_lies(&faults, 101), -EINVAL);
    assert_int_equal(gs_fault_nvml_lies(&faults, 0), 0);
    assert_int_equal(gs_fault_pct(5), 0);
    gs_fault_reset(&faults);
    assert_int_equal(gs_fault_pct(5), 5);
    assert_int_equal(gs_fault_enter("nvmlDeviceGetCount"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(only_the_nth_call_of_that_function_fails, setup),
        cmocka_unit_test_setup(without_a_number_every_call_fails_and_twins_too, setup),
        cmocka_unit_test_setup(a_lost_card_fails_its_contexts_only, setup),
        cmocka_unit_test_setup(a_full_table_and_long_names_are_refused, setup),
        cmocka_unit_test_setup(xids_are_numbered, setup),
        cmocka_unit_test_setup(a_lost_card_returns_by_itself, setup),
        cmocka_unit_test_setup(a_stopped_driver_answers_nobody, setup),
        cmocka_unit_test_setup(nvml_goes_away_and_lies, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
