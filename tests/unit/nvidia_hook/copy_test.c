#include "vendors/nvidia/hook/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "vendors/nvidia/hook/bodies.h"

/* Bytes as CUDA's own documentation counts them: sets count elements, boxes bytes, rows and slices.
 */

#define STREAM ((CUstream)(uintptr_t)0x9000)
#define HOST   ((void *)(uintptr_t)0x1000)
#define ARRAY  ((CUarray)(uintptr_t)0x2000)

static struct gs_launch c;

static int fresh(void **state)
{
    (void)state;
    c = (struct gs_launch){.stream = (CUstream)(uintptr_t)0xdead};
    return 0;
}

static void is_copy(bool told, enum gs_copy_way way, uint64_t bytes, CUstream stream)
{
    assert_true(told);
    assert_int_equal(c.handle, way);
    assert_int_equal(c.blocks, bytes);
    assert_ptr_equal(c.stream, stream);
    assert_int_equal(c.shape, GS_LAUNCH_COPY_SHAPE);
    assert_int_equal(c.quarter, gs_cost_quarter(bytes / 4096));
}

static void test_linear_copies_count_bytes(void **state)
{
    (void)state;
    is_copy(gs_nv_memcpy_htod(&c, 1, HOST, 5000), GS_COPY_UP, 5000, NULL);
    is_copy(gs_nv_memcpy_htod_async(&c, 1, HOST, 5000, STREAM), GS_COPY_UP, 5000, STREAM);
    is_copy(gs_nv_memcpy_dtoh(&c, HOST, 1, 7), GS_COPY_DOWN, 7, NULL);
    is_copy(gs_nv_memcpy_dtoh_async(&c, HOST, 1, 7, STREAM), GS_COPY_DOWN, 7, STREAM);
    is_copy(gs_nv_memcpy_dtod(&c, 1, 2, 9), GS_COPY_INSIDE, 9, NULL);
    is_copy(gs_nv_memcpy_dtod_async(&c, 1, 2, 9, STREAM), GS_COPY_INSIDE, 9, STREAM);
    is_copy(gs_nv_memcpy(&c, 1, 2, 11), GS_COPY_ANY, 11, NULL);
    is_copy(gs_nv_memcpy_async(&c, 1, 2, 11, STREAM), GS_COPY_ANY, 11, STREAM);
    is_copy(gs_nv_memcpy_peer(&c, 1, NULL, 2, NULL, 13), GS_COPY_ANY, 13, NULL);
    is_copy(gs_nv_memcpy_peer_async(&c, 1, NULL, 2, NULL, 13, STREAM), GS_COPY_ANY, 13, STREAM);
    is_copy(gs_nv_memcpy_atoa(&c, ARRAY, 100, ARRAY, 200, 15), GS_COPY_INSIDE, 15, NULL);
    is_copy(gs_nv_memcpy_atod(&c, 1, ARRAY, 200, 15), GS_COPY_INSIDE, 15, NULL);
    is_copy(gs_nv_memcpy_dtoa(&c, ARRAY, 200, 1, 15), GS_COPY_INSIDE, 15, NULL);
    is_copy(gs_nv_memcpy_htoa(&c, ARRAY, 200, HOST, 15), GS_COPY_UP, 15, NULL);
    is_copy(gs_nv_memcpy_htoa_async(&c, ARRAY, 200, HOST, 15, STREAM), GS_COPY_UP, 15, STREAM);
    is_copy(gs_nv_memcpy_atoh(&c, HOST, ARRAY, 200, 15), GS_COPY_DOWN, 15, NULL);
    is_copy(gs_nv_memcpy_atoh_async(&c, HOST, ARRAY, 200, 15, STREAM), GS_COPY_DOWN, 15, STREAM);
    is_copy(gs_nv_memcpy_htod_v1(&c, 1, HOST, 5), GS_COPY_UP, 5, NULL);
    is_copy(gs_nv_memcpy_dtoh_async_v1(&c, HOST, 1, UINT32_MAX, STREAM), GS_COPY_DOWN, UINT32_MAX,
            STREAM);
}

static void test_fills_count_elements(void **state)
{
    (void)state;
    is_copy(gs_nv_memset_d8(&c, 1, 0, 10), GS_COPY_INSIDE, 10, NULL);
    is_copy(gs_nv_memset_d16(&c, 1, 0, 10), GS_COPY_INSIDE, 20, NULL);
    is_copy(gs_nv_memset_d32_async(&c, 1, 0, 10, STREAM), GS_COPY_INSIDE, 40, STREAM);
    is_copy(gs_nv_memset_d32_v1(&c, 1, 0, UINT32_MAX), GS_COPY_INSIDE, 4ull * UINT32_MAX, NULL);
    is_copy(gs_nv_memset_2d_d8(&c, 1, 512, 0, 10, 3), GS_COPY_INSIDE, 30, NULL);
    is_copy(gs_nv_memset_2d_d16(&c, 1, 512, 0, 10, 3), GS_COPY_INSIDE, 60, NULL);
    is_copy(gs_nv_memset_2d_d32_async(&c, 1, 512, 0, 10, 3, STREAM), GS_COPY_INSIDE, 120, STREAM);
    is_copy(gs_nv_memset_d32(&c, 1, 0, SIZE_MAX / 2), GS_COPY_INSIDE, UINT64_MAX, NULL);
}

static void test_boxes_count_rows_and_slices(void **state)
{
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcPitch = 1000,
                          .WidthInBytes = 100,
                          .Height = 20};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .WidthInBytes = 100,
                         .Height = 20,
                         .Depth = 3};
    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .WidthInBytes = SIZE_MAX,
                               .Height = 2,
                               .Depth = 2};
    CUDA_MEMCPY2D_v1 old = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .WidthInBytes = UINT32_MAX,
                            .Height = 2};

    (void)state;
    is_copy(gs_nv_memcpy_2d(&c, &flat), GS_COPY_UP, 2000, NULL);
    is_copy(gs_nv_memcpy_2d_async(&c, &flat, STREAM), GS_COPY_UP, 2000, STREAM);
    is_copy(gs_nv_memcpy_3d(&c, &box), GS_COPY_DOWN, 6000, NULL);
    is_copy(gs_nv_memcpy_3d_async(&c, &box, STREAM), GS_COPY_DOWN, 6000, STREAM);
    is_copy(gs_nv_memcpy_3d_peer_async(&c, &peer, STREAM), GS_COPY_INSIDE, UINT64_MAX, STREAM);
    is_copy(gs_nv_memcpy_2d_v1(&c, &old), GS_COPY_ANY, 2ull * UINT32_MAX, NULL);
}

static void test_nothing_is_paid_where_nothing_moves(void **state)
{
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .WidthInBytes = 100,
                         .Height = 20,
                         .Depth = 3};

    (void)state;
    assert_false(gs_nv_memcpy_3d(&c, &box)); /* the host does it alone */
    box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.Depth = 0;
    assert_false(gs_nv_memcpy_3d(&c, &box));
    assert_false(gs_nv_memcpy_2d(&c, NULL));
    assert_false(gs_nv_memcpy_2d_async_v1(&c, NULL, STREAM));
    assert_false(gs_nv_memcpy_3d_peer(&c, NULL));
    assert_false(gs_nv_memcpy_htod(&c, 1, HOST, 0));
    assert_false(gs_nv_memset_2d_d8(&c, 1, 512, 0, 10, 0));
}

/* Before anything was measured: 12 GB/s over the bus, 500 GB/s inside the card. */
static void test_what_a_copy_is_taken_for(void **state)
{
    (void)state;
    assert_true(gs_nv_memcpy_htod(&c, 1, HOST, 12000000));
    assert_int_equal(c.per_block, 12);
    assert_true(gs_nv_memset_d8(&c, 1, 0, 500000000));
    assert_int_equal(c.per_block, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_linear_copies_count_bytes, fresh),
        cmocka_unit_test_setup(test_fills_count_elements, fresh),
        cmocka_unit_test_setup(test_boxes_count_rows_and_slices, fresh),
        cmocka_unit_test_setup(test_nothing_is_paid_where_nothing_moves, fresh),
        cmocka_unit_test_setup(test_what_a_copy_is_taken_for, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
