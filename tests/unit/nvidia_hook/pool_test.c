#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/pool_map.h"
#include "vendors/nvidia/hook/pool_ptr.h"

static CUresult alloc(CUdeviceptr *ptr, size_t bytes)
{
    return gs_nv_mem_alloc_async(fake_alloc_async, ptr, bytes, NULL);
}

static CUresult alloc2(CUdeviceptr *ptr, size_t bytes)
{
    return gs_nv_mem_alloc_from_pool_async(fake_alloc_from_pool, ptr, bytes, FAKE_POOL2, NULL);
}

static void create2(CUmemLocationType type)
{
    CUmemPoolProps props = {.location.type = type};
    CUmemoryPool pool;

    assert_int_equal(gs_nv_mem_pool_create(fake_pool_create, &pool, &props), CUDA_SUCCESS);
}

static void charges_what_the_pool_reserved(void **state)
{
    CUdeviceptr a, b;

    (void)state;
    fake_reset(UINT64_MAX);
    assert_int_equal(alloc(&a, 1000), CUDA_SUCCESS);
    assert_int_equal(fake.held, 2 * MIB);
    assert_int_equal(alloc(&b, 1000), CUDA_SUCCESS);
    assert_int_equal(fake.held, 2 * MIB);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, b, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.held, 2 * MIB); /* the pool still has it */
    assert_int_equal(gs_nv_mem_pool_trim_to(fake_trim, FAKE_POOL, 0), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
}

static void holds_the_limit_to_the_byte(void **state)
{
    CUdeviceptr p;

    (void)state;
    fake_reset(64 * MIB);
    for (int i = 0; i < 8; i++)
        assert_int_equal(alloc(&p, 8 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 64 * MIB);
    assert_int_equal(alloc(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.pool_reserved, 64 * MIB);
    assert_int_equal(fake.refusals, 1);
    assert_int_equal(fake.forwards, 8);
}

static void uses_holes_then_trims_then_refuses(void **state)
{
    CUdeviceptr a, b, c;

    (void)state;
    fake_reset(64 * MIB);
    assert_int_equal(alloc(&a, 48 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.held, 48 * MIB);
    assert_int_equal(alloc(&a, 50 * MIB), CUDA_SUCCESS); /* no room beside the 48 it keeps */
    assert_int_equal(fake.trims, 1);
    assert_int_equal(fake.refusals, 0); /* nothing was refused, nothing is logged */
    assert_int_equal(fake.held, 50 * MIB);
    assert_int_equal(alloc(&b, 14 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_SUCCESS);
    /* the other allocators get what the pool does not use */
    assert_int_equal(gs_pool_reserve(0, 50 * MIB, GS_CHARGE_HELD, "test"), 0);
    assert_int_equal(fake.trims, 2);
    assert_int_equal(fake.refusals, 0);
    assert_int_equal(fake.held, 64 * MIB);
    assert_int_equal(alloc(&c, MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.refusals, 1);
}

/* The fake places pointers far apart, so a chunk is as large as a card only here. */
static void a_hole_beside_a_live_pointer_needs_no_room(void **state)
{
    CUdeviceptr p[5];

    (void)state;
    fake_reset(64 * MIB);
    fake.pool_step = 32 * MIB;
    fake.dense = true;
    for (int i = 0; i < 4; i++)
        assert_int_equal(alloc(&p[i], 16 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 64 * MIB);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, p[3], NULL), CUDA_SUCCESS);
    fake.next_dense = p[3];
    assert_int_equal(alloc(&p[4], 16 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.trims, 0);
    assert_int_equal(alloc(&p[4], 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.held, 64 * MIB);
}

/* A chunk is trimmed, and another one comes to lie across its addresses without being seen to
 * begin. The sizes add up, yet the space in front of the pointer is nobody's. */
static void a_chunk_that_is_gone_has_no_holes(void **state)
{
    const struct gs_meter pool = {GS_OBJ_POOL, (uint64_t)(uintptr_t)FAKE_POOL};
    const struct gs_device card = {.ledger = 0};
    const CUdeviceptr old = 0x700000a00000, young = old - 6 * MIB;
    uint64_t start;

    (void)state;
    fake_reset(64 * MIB);
    gs_pool_map_grew(pool, old, 32 * MIB);
    assert_int_equal(gs_pool_ptr_note(old, 10 * MIB, pool, &card), 0);
    assert_true(gs_pool_map_has_hole(pool, 32 * MIB, 22 * MIB));
    assert_int_equal(gs_pool_ptr_note(young, 5 * MIB, pool, &card), 0); /* in no chunk */
    assert_false(gs_pool_map_has_hole(pool, 32 * MIB, 7 * MIB));

    fake_reset(64 * MIB);
    gs_pool_map_grew(pool, old, 32 * MIB);
    assert_int_equal(gs_pool_ptr_note(old + 28 * MIB, 5 * MIB, pool, &card),
                     0); /* across the end */
    assert_false(gs_pool_map_has_hole(pool, 32 * MIB, 7 * MIB));

    fake_reset(64 * MIB);
    gs_pool_map_grew(pool, old, 32 * MIB);
    gs_pool_map_grew(pool, old + 64 * MIB, 32 * MIB);
    assert_int_equal(gs_pool_ptr_note(old + 64 * MIB, MIB, pool, &card), 0);
    gs_pool_map_shrank(pool);
    assert_int_equal(gs_pool_map_chunk(pool, old, &start), 0);
    assert_int_equal(gs_pool_map_chunk(pool, old + 64 * MIB, &start), 32 * MIB);
}

static void a_wrong_guess_is_undone_and_not_repeated(void **state)
{
    CUdeviceptr p[4], c;

    (void)state;
    fake_reset(64 * MIB);
    fake.pool_step = 32 * MIB;
    fake.dense = true;
    for (int i = 0; i < 4; i++)
        assert_int_equal(alloc(&p[i], 16 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, p[3], NULL), CUDA_SUCCESS);
    fake.pool_used += 16 * MIB; /* the driver cannot use it yet: another stream's */
    assert_int_equal(alloc(&c, 8 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.held, 64 * MIB);
    assert_int_equal(fake.pool_reserved, 64 * MIB);
    fake.forwards = 0;
    assert_int_equal(alloc(&c, 8 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.forwards, 0);
}

static void sees_what_the_driver_gave_back(void **state)
{
    CUdeviceptr a;

    (void)state;
    fake_reset(64 * MIB);
    assert_int_equal(alloc(&a, 48 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_SUCCESS);
    fake.pool_reserved = 0; /* a synchronisation */
    gs_pool_reconcile(0);
    assert_int_equal(fake.held, 0);
    fake.attribute_reads = 0;
    gs_pool_reconcile(0);
    assert_int_equal(fake.attribute_reads, 0); /* nothing more to look for */
}

static void undoes_what_the_driver_refused(void **state)
{
    CUdeviceptr a = 7;

    (void)state;
    fake_reset(64 * MIB);
    fake.fail = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(alloc(&a, MIB), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.n_full, 0);
    fake.fail = CUDA_ERROR_OUT_OF_MEMORY; /* the card's, within the limit */
    assert_int_equal(alloc(&a, MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 1);
    assert_int_equal(fake.full_bytes, MIB);
    assert_int_equal(fake.full_held, 0);
    assert_int_equal(alloc(&a, MIB), CUDA_SUCCESS);
    fake.fail = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.held, 2 * MIB);
    assert_int_equal(gs_nv_mem_alloc_async(fake_alloc_async, &a, 0, NULL), CUDA_SUCCESS);
}

static void takes_back_an_unforeseen_step(void **state)
{
    CUdeviceptr a;

    (void)state;
    fake_reset(20 * MIB);
    fake.pool_step = 32 * MIB; /* a real card's */
    assert_int_equal(alloc(&a, MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.pool_reserved, 0);
    fake.limit = 64 * MIB;
    assert_int_equal(alloc(&a, MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 32 * MIB);
    /* learnt now: not asked for what cannot fit */
    fake.forwards = 0;
    assert_int_equal(gs_pool_reserve(0, 32 * MIB, GS_CHARGE_HELD, "test"), 0);
    assert_int_equal(alloc(&a, 32 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.forwards, 0);
}

static void a_capture_takes_nothing(void **state)
{
    CUdeviceptr a;

    (void)state;
    fake_reset(64 * MIB);
    fake.capturing = true;
    assert_int_equal(alloc(&a, 32 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
    assert_int_equal(alloc(&a, 65 * MIB), CUDA_ERROR_OUT_OF_MEMORY); /* could never run */
}

static void host_pools_are_not_charged(void **state)
{
    CUdeviceptr a;

    (void)state;
    fake_reset(64 * MIB);
    create2(CU_MEM_LOCATION_TYPE_HOST);
    assert_int_equal(alloc2(&a, 256 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
}

static void a_destroyed_pool_is_charged_until_its_last_pointer(void **state)
{
    CUdeviceptr a, b;

    (void)state;
    fake_reset(64 * MIB);
    create2(CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(alloc2(&a, 8 * MIB), CUDA_SUCCESS);
    assert_int_equal(alloc2(&b, 8 * MIB), CUDA_SUCCESS);
    fake.fail = CUDA_ERROR_INVALID_VALUE;
    assert_int_equal(gs_nv_mem_pool_destroy(fake_pool_destroy, FAKE_POOL2),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.held, 16 * MIB);
    assert_int_equal(gs_nv_mem_pool_destroy(fake_pool_destroy, FAKE_POOL2), CUDA_SUCCESS);
    assert_int_equal(fake.held, 16 * MIB);
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.held, 16 * MIB);
    assert_int_equal(gs_nv_mem_free(fake_free, b), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
}

static void an_exported_pointer_outlives_its_exporter(void **state)
{
    CUmemPoolPtrExportData data;
    CUdeviceptr a, other;

    (void)state;
    fake_reset(64 * MIB);
    create2(CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(alloc2(&a, 8 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_pool_export_pointer(fake_export_pointer, &data, a), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.shared, 8 * MIB);
    assert_int_equal(gs_nv_mem_pool_import_pointer(fake_import_pointer, &other, FAKE_POOL, &data),
                     CUDA_SUCCESS);
    assert_int_equal(fake.held + fake.shared, 8 * MIB); /* once */
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, a, NULL), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_pool_trim_to(fake_trim, FAKE_POOL2, 0), CUDA_SUCCESS);
    assert_int_equal(fake.held, 0);
    assert_int_equal(fake.shared, 8 * MIB); /* the importer's now */
    assert_int_equal(gs_nv_mem_free_async(fake_free_async, other, NULL), CUDA_SUCCESS);
    assert_int_equal(fake.shared, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(charges_what_the_pool_reserved),
        cmocka_unit_test(holds_the_limit_to_the_byte),
        cmocka_unit_test(uses_holes_then_trims_then_refuses),
        cmocka_unit_test(sees_what_the_driver_gave_back),
        cmocka_unit_test(undoes_what_the_driver_refused),
        cmocka_unit_test(a_capture_takes_nothing),
        cmocka_unit_test(host_pools_are_not_charged),
        cmocka_unit_test(a_destroyed_pool_is_charged_until_its_last_pointer),
        cmocka_unit_test(an_exported_pointer_outlives_its_exporter),
        cmocka_unit_test(a_hole_beside_a_live_pointer_needs_no_room),
        cmocka_unit_test(a_chunk_that_is_gone_has_no_holes),
        cmocka_unit_test(a_wrong_guess_is_undone_and_not_repeated),
        cmocka_unit_test(takes_back_an_unforeseen_step), /* last three: what they learn stays */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
