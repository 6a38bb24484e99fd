#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fake_card.h"
#include "hook/engine.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"

#define MIB (1ull << 20)

static void the_current_context_names_the_card(void **state)
{
    struct gs_device_here here;
    CUcontext context;
    uint64_t serial;

    (void)state;
    fake.n_devices = 2;
    fake.visible[0] = 1;
    fake.visible[1] = 0;
    fake.granted[1] = 3;
    assert_int_equal(fake_ctx_create(&context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(gs_device_current(&here), 0);
    assert_int_equal(here.device->ledger, 3);
    assert_int_equal(here.device->ordinal, 0);
    assert_string_equal(here.device->uuid, "GPU-a1000000-0000-0000-0000-00000000000f");
    assert_int_equal(here.device->physical_bytes, 1024 * MIB);
    serial = here.serial;
    assert_int_equal(gs_device_current(&here), 0);
    assert_int_equal(here.serial, serial);
    fake_make_current(NULL);
    assert_int_equal(gs_device_current(&here), -ENXIO);
}

static void unknown_ordinals(void **state)
{
    (void)state;
    assert_null(gs_device_by_ordinal(-1));
    assert_null(gs_device_by_ordinal(1));
    assert_null(gs_device_by_ordinal(INT32_MAX));
    assert_null(gs_device_known(0));
    assert_non_null(gs_device_by_ordinal(0));
    assert_non_null(gs_device_known(0));
    assert_null(gs_device_known(UINT32_MAX));
}

static void instances_of_a_divided_card(void **state)
{
    const struct gs_device *device;

    (void)state;
    fake.mig = 1;
    device = gs_device_by_ordinal(0);
    assert_int_equal(device->ledger, 0);
    assert_string_equal(device->uuid, "MIG-a0000000-0000-0000-0000-00000000000f");
    fake.granted[0] = -1;
    gs_device_forget();
    assert_int_equal(gs_device_by_ordinal(0)->ledger, GS_DEVICE_NONE);
}

static void cards_are_listed_as_nvml_counts_them(void **state)
{
    struct gs_hook_card cards[4];

    (void)state;
    fake.n_devices = 3;
    fake.visible[0] = 2; /* no matter what CUDA shows */
    assert_int_equal(gs_device_enumerate(cards, 4), 3);
    assert_string_equal(cards[0].uuid, "GPU-a0000000-0000-0000-0000-00000000000f");
    assert_string_equal(cards[2].uuid, "GPU-a2000000-0000-0000-0000-00000000000f");
    assert_int_equal(cards[2].physical_bytes, 1024 * MIB);
    assert_int_equal(gs_device_enumerate(cards, 2), 2);
    assert_int_equal(gs_device_by_nvml((nvmlDevice_t)(uintptr_t)2), 1);
}

static void sizes_round(void **state)
{
    struct gs_device device = {.granularity = 2 * MIB};

    (void)state;
    assert_int_equal(gs_device_round(&device, 0), 0);
    assert_int_equal(gs_device_round(&device, 1), 2 * MIB);
    assert_int_equal(gs_device_round(&device, 2 * MIB), 2 * MIB);
    assert_int_equal(gs_device_round(&device, UINT64_MAX), UINT64_MAX);
    device.granularity = 3000;
    assert_int_equal(gs_device_round(&device, 3001), 6000);
    assert_int_equal(gs_device_round(&device, UINT64_MAX), UINT64_MAX);
}

static void answers_agree(void **state)
{
    size_t free_bytes, total, of_device;
    CUdeviceptr ptr;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 10 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 64 * MIB);
    assert_int_equal(free_bytes, 54 * MIB);
    assert_int_equal(gs_nv_device_total_mem(fake_total_mem, &of_device, 0), CUDA_SUCCESS);
    assert_int_equal(of_device, total);
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, NULL, &total), CUDA_SUCCESS);
    assert_int_equal(total, 64 * MIB);
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, NULL), CUDA_SUCCESS);
    assert_int_equal(free_bytes, 54 * MIB);

    fake.device[0].taken = 1014 * MIB; /* neighbours left 10 MiB */
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(free_bytes, 10 * MIB);
    fake.device[0].taken = 10 * MIB;
    fake.device[0].limit = 4 * MIB; /* lowered below what is used */
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(free_bytes, 0);
    assert_int_equal(total, 4 * MIB);
    fake.device[0].limit = 5000 * MIB; /* larger than the card */
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 1024 * MIB);
    assert_int_equal(free_bytes, 1014 * MIB);
    assert_int_equal(gs_nv_device_total_mem(fake_total_mem, &of_device, 0), CUDA_SUCCESS);
    assert_int_equal(of_device, 1024 * MIB);
    fake.device[0].limit = UINT64_MAX;
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 1024 * MIB);
    fake_make_current(NULL);
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total),
                     CUDA_ERROR_INVALID_CONTEXT);
}

/* The forms of CUDA 2 have 32 bits. */
static CUresult old_info(unsigned int *ret_free, unsigned int *ret_total)
{
    *ret_free = 1;
    *ret_total = 2;
    return CUDA_SUCCESS;
}

static CUresult old_total(unsigned int *ret_total, CUdevice dev)
{
    (void)dev;
    *ret_total = 2;
    return CUDA_SUCCESS;
}

static void old_forms_saturate(void **state)
{
    unsigned int free_bytes, total;

    (void)state;
    fake.device[0].physical = 80ull << 30;
    fake.device[0].limit = 8ull << 30;
    assert_int_equal(gs_nv_mem_get_info_v1(old_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(free_bytes, UINT32_MAX);
    assert_int_equal(total, UINT32_MAX);
    assert_int_equal(gs_nv_device_total_mem_v1(old_total, &total, 0), CUDA_SUCCESS);
    assert_int_equal(total, UINT32_MAX);
    fake.device[0].limit = 3 * MIB;
    assert_int_equal(gs_nv_mem_get_info_v1(old_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(free_bytes, 3 * MIB);
    assert_int_equal(total, 3 * MIB);
    assert_int_equal(gs_nv_device_total_mem_v1(old_total, &total, 0), CUDA_SUCCESS);
    assert_int_equal(total, 3 * MIB);
    fake.device[0].limit = UINT64_MAX;
    assert_int_equal(gs_nv_mem_get_info_v1(old_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_current_context_names_the_card, fake_setup),
        cmocka_unit_test_setup(unknown_ordinals, fake_setup),
        cmocka_unit_test_setup(instances_of_a_divided_card, fake_setup),
        cmocka_unit_test_setup(cards_are_listed_as_nvml_counts_them, fake_setup),
        cmocka_unit_test_setup(sizes_round, fake_setup),
        cmocka_unit_test_setup(answers_agree, fake_setup),
        cmocka_unit_test_setup(old_forms_saturate, fake_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
