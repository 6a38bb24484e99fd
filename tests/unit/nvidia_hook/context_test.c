#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contract/reason.h"
#include "fake_card.h"
#include "vendors/nvidia/hook/bodies.h"

#define MIB (1ull << 20)

static void known_cost_is_reserved_before(void **state)
{
    CUcontext context;

    (void)state;
    fake.device[0].overhead = 30 * MIB;
    fake.device[0].context_bytes = 30 * MIB;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 30 * MIB);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.calls, 2); /* the driver was not asked for the third */
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, context), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 30 * MIB);
    fake_assert_books_match(0);
}

static void closed_gives_none(void **state)
{
    CUcontext context = NULL;

    (void)state;
    fake.closed = 1; /* contexts cost nothing here */
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_primary_ctx_retain(fake_primary_retain, &context, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.calls, 0); /* the driver was not asked */
    assert_int_equal(fake.last_reason, GS_REASON_CONTEXT_CLOSED);
    fake.closed = 0; /* nothing stays locked */
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
}

static void the_first_one_teaches(void **state)
{
    CUcontext context;

    (void)state;
    fake.device[0].overhead = 10 * MIB;
    fake.device[0].context_bytes = 0;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].context_bytes, 10 * MIB);
    assert_int_equal(fake.device[0].extra, 10 * MIB);
    fake_assert_books_match(0);

    /* nothing to learn is learnt too */
    assert_int_equal(fake_setup(state), 0);
    fake.device[0].context_bytes = 0;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_not_equal(fake.device[0].context_bytes, 0);
    assert_int_equal(fake.device[0].extra, 0);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);

    /* in a pid namespace: by the card's use */
    assert_int_equal(fake_setup(state), 0);
    fake.nvml_knows_pid = 0;
    fake.device[0].overhead = 10 * MIB;
    fake.device[0].context_bytes = 0;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 10 * MIB);

    /* without NVML nothing is known */
    assert_int_equal(fake_setup(state), 0);
    fake.no_nvml = 1;
    fake.device[0].overhead = 10 * MIB;
    fake.device[0].context_bytes = 0;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);
    assert_int_equal(fake.device[0].context_bytes, 0);
}

static void a_limit_below_the_cost(void **state)
{
    CUcontext context = NULL;

    (void)state;
    fake.device[0].overhead = 100 * MIB;
    fake.device[0].context_bytes = 0;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].taken, 0);
    assert_int_equal(fake.device[0].extra, 0);
    assert_int_equal(fake.last_reason, GS_REASON_CONTEXT_OVER_LIMIT);
    assert_int_equal(gs_nv_primary_ctx_retain(fake_primary_retain, &context, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].primary_refs, 0);
    assert_int_equal(fake.device[0].taken, 0);
}

static void destroying_returns_what_was_in_it(void **state)
{
    CUcontext context;
    CUdeviceptr ptr;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    for (int i = 0; i < 600; i++)
        assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 512), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 5 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 10 * MIB);
    fake_assert_books_match(0);
    fake.fail_at = fake.calls + 1;
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, context), CUDA_ERROR_LAUNCH_FAILED);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, context), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 2 * MIB);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, context), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, NULL), CUDA_ERROR_INVALID_CONTEXT);
    fake_assert_books_match(0);
}

/* The driver gives the handle of a dead context again, for another card. */
static void a_handle_comes_back(void **state)
{
    CUcontext first, second;
    CUdeviceptr ptr;

    (void)state;
    fake.n_devices = 2;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &first, 0, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, first), CUDA_SUCCESS);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &second, 0, 1), CUDA_SUCCESS);
    assert_ptr_equal(first, second);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 2 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(fake.device[1].held, 2 * MIB);
    fake_assert_books_match(1);
}

static void a_primary_context_is_charged_once(void **state)
{
    CUcontext context;
    CUdeviceptr ptr;

    (void)state;
    fake.device[0].overhead = 10 * MIB;
    fake.device[0].context_bytes = 10 * MIB;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gs_nv_primary_ctx_retain(fake_primary_retain, &context, 0), CUDA_SUCCESS);
        assert_int_equal(fake.device[0].extra, 10 * MIB);
    }
    fake_make_current(context);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 3 * MIB), CUDA_SUCCESS);
    fake_assert_books_match(0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gs_nv_primary_ctx_release(fake_primary_release, 0), CUDA_SUCCESS);
        assert_int_equal(fake.device[0].extra, 10 * MIB);
    }
    fake.fail_at = fake.calls + 1;
    assert_int_equal(gs_nv_primary_ctx_release(fake_primary_release, 0), CUDA_ERROR_LAUNCH_FAILED);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_primary_ctx_release(fake_primary_release, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra + fake.device[0].held, 0);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_primary_ctx_release(fake_primary_release, 0),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(gs_nv_primary_ctx_retain(fake_primary_retain, &context, 0), CUDA_SUCCESS);
    fake_make_current(context);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 3 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_primary_ctx_reset(fake_primary_reset, 0), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra + fake.device[0].held, 0);
    fake_assert_books_match(0);
}

static void the_driver_fails_to_make_one(void **state)
{
    CUcontext context;

    (void)state;
    fake.device[0].overhead = 10 * MIB;
    fake.device[0].context_bytes = 10 * MIB;
    fake.fail_at = 1;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.device[0].extra, 0);
    fake.fail_at = 2;
    assert_int_equal(gs_nv_primary_ctx_retain(fake_primary_retain, &context, 0),
                     CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.device[0].extra, 0);
    fake.device[0].physical = 5 * MIB;
    assert_int_equal(fake.n_full, 0);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].extra, 0);
    assert_int_equal(fake.n_full, 1);
    assert_int_equal(fake.full_bytes, 10 * MIB);
    assert_int_equal(gs_nv_primary_ctx_retain(fake_primary_retain, &context, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 2);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 9), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, -1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(fake.device[0].extra, 0);
}

static void heaps_are_charged_as_they_grow(void **state)
{
    CUcontext context;

    (void)state;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, 18 * MIB),
                     CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 10 * MIB);
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, 512 * MIB),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.heap_limit, 18 * MIB);
    assert_int_equal(
        gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, 18 * MIB + 1),
        CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 10 * MIB + 4096); /* as the driver rounded it */
    fake.fail_at = fake.calls + 1;
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, 20 * MIB),
                     CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.device[0].extra, 10 * MIB + 4096);
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, 10 * MIB),
                     CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 2 * MIB);
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, MIB),
                     CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);
    /* 4 processors x 1024 threads x 128 KiB of stack = 512 MiB */
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_STACK_SIZE, 129 * 1024),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_ctx_set_limit(fake_ctx_set_limit, CU_LIMIT_MALLOC_HEAP_SIZE, 20 * MIB),
                     CUDA_SUCCESS);
    assert_int_equal(gs_nv_ctx_destroy(fake_ctx_destroy, context), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].extra, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(known_cost_is_reserved_before, fake_setup),
        cmocka_unit_test_setup(closed_gives_none, fake_setup),
        cmocka_unit_test_setup(the_first_one_teaches, fake_setup),
        cmocka_unit_test_setup(a_limit_below_the_cost, fake_setup),
        cmocka_unit_test_setup(destroying_returns_what_was_in_it, fake_setup),
        cmocka_unit_test_setup(a_handle_comes_back, fake_setup),
        cmocka_unit_test_setup(a_primary_context_is_charged_once, fake_setup),
        cmocka_unit_test_setup(the_driver_fails_to_make_one, fake_setup),
        cmocka_unit_test_setup(heaps_are_charged_as_they_grow, fake_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
