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

static void sixty_four_pieces_of_a_mebibyte(void **state)
{
    CUdeviceptr ptr[65];

    (void)state;
    for (int i = 0; i < 64; i++)
        assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr[i], MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr[64], MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr[64], 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].held, 64 * MIB);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr[13]), CUDA_SUCCESS);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr[13], MIB), CUDA_SUCCESS);
    for (int i = 0; i < 64; i++)
        assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr[i]), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 0);
    fake_assert_books_match(0);
}

static void one_of_the_whole_limit(void **state)
{
    CUdeviceptr all, more = 5;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &all, 64 * MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &all, 64 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(more, 5);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, all), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 1), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 2 * MIB);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, more), CUDA_SUCCESS);
    fake_assert_books_match(0);
}

static void sizes_round_up(void **state)
{
    static const struct {
        size_t bytes, charge;
    } rows[] = {
        {1, 2 * MIB},           {MIB, 2 * MIB},     {MIB + 1, 2 * MIB},      {2 * MIB, 2 * MIB},
        {2 * MIB + 1, 4 * MIB}, {3 * MIB, 4 * MIB}, {62 * MIB + 1, 64 * MIB}};
    CUdeviceptr ptr;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, rows[i].bytes), CUDA_SUCCESS);
        assert_int_equal(fake.device[0].held, rows[i].charge);
        fake_assert_books_match(0);
        assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
        assert_int_equal(fake.device[0].held, 0);
    }
}

static void another_granularity(void **state)
{
    CUdeviceptr ptr[9];

    (void)state;
    fake.device[0].granularity = 3 * 64 * 1024; /* not a power of two */
    fake.device[0].limit = 4 * fake.device[0].granularity;
    for (int i = 0; i < 8; i++)
        assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr[i], 96 * 1024), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr[8], 1), CUDA_ERROR_OUT_OF_MEMORY);
    fake_assert_books_match(0);
}

/* The n-th driver call fails, for all n: nothing stays booked that the card did not lose. */
static void driver_fails_at_any_call(void **state)
{
    for (int n = 1; n <= 12; n++) {
        CUdeviceptr ptr[6] = {0};
        CUresult result[6];
        int failed = 0;

        assert_int_equal(fake_setup(state), 0);
        fake.fail_at = n;
        for (int i = 0; i < 6; i++) {
            result[i] = gs_nv_mem_alloc(fake_mem_alloc, &ptr[i], i % 2 == 0 ? 300000 : 5 * MIB);
            failed += result[i] != CUDA_SUCCESS;
            fake_assert_books_match(0);
        }
        for (int i = 0; i < 6; i++) {
            if (result[i] == CUDA_SUCCESS) {
                if (gs_nv_mem_free(fake_mem_free, ptr[i]) != CUDA_SUCCESS) {
                    failed++;
                    fake_assert_books_match(0);
                    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr[i]), CUDA_SUCCESS);
                }
                fake_assert_books_match(0);
            }
        }
        assert_int_equal(failed, 1);
        assert_int_equal(fake.device[0].held, 0);
    }
}

static void unknown_pointers_are_the_drivers(void **state)
{
    CUdeviceptr ptr;

    (void)state;
    assert_int_equal(gs_nv_mem_free(fake_mem_free, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, 0x123456), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.frees, 2);
    assert_int_equal(fake_mem_alloc(&ptr, 3 * MIB), CUDA_SUCCESS); /* not through us */
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 3 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.device[0].held, 0);
}

static void outputs_and_sizes_that_the_driver_refuses(void **state)
{
    CUdeviceptr ptr;
    size_t pitch;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, NULL, MIB), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_alloc_pitch(fake_mem_alloc_pitch, &ptr, NULL, 5, 5, 4),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gs_nv_mem_alloc_pitch(fake_mem_alloc_pitch, &ptr, &pitch, 0, 5, 4),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(gs_nv_mem_alloc_pitch(fake_mem_alloc_pitch, &ptr, &pitch, SIZE_MAX / 2, 5, 4),
                     CUDA_ERROR_OUT_OF_MEMORY);
    fake_make_current(NULL);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, MIB), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(fake.device[0].held, 0);
}

static void pitch_is_charged_by_what_came(void **state)
{
    CUdeviceptr ptr, more;
    size_t pitch;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc_pitch(fake_mem_alloc_pitch, &ptr, &pitch, 513, 65536, 4),
                     CUDA_SUCCESS);
    assert_int_equal(pitch, 1024);
    assert_int_equal(fake.device[0].held, 64 * MIB);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
    /* 1 x 4096 asked for, 512 x 4096 = 2 MiB taken */
    assert_int_equal(gs_nv_mem_alloc_pitch(fake_mem_alloc_pitch, &ptr, &pitch, 1, 4096, 4),
                     CUDA_SUCCESS);
    fake_assert_books_match(0);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 0);
}

static void a_wrong_prediction_is_taken_back(void **state)
{
    CUdeviceptr piece, big, more;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &piece, 1000), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &big, 62 * MIB), CUDA_SUCCESS);
    fake.worst_placement = 1;
    fake.frees = 0;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 1000), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.frees, 1);
    assert_int_equal(fake.device[0].held, 64 * MIB);
    assert_int_equal(fake.device[0].taken, 64 * MIB);
    /* not tried again on this card */
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 1000), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.frees, 1);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, big), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, piece), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 0);
}

static void our_own_table_is_full(void **state)
{
    CUdeviceptr ptr;

    (void)state;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 1), CUDA_SUCCESS); /* context is known */
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
    fake.track_full = 1;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].taken, 0);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(fake.last_reason, GS_REASON_TRACK_FULL);
}

static void no_limit_still_counts(void **state)
{
    CUdeviceptr ptr;

    (void)state;
    fake.device[0].limit = UINT64_MAX;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 512 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 512 * MIB);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, ptr), CUDA_SUCCESS);
}

static void a_card_outside_the_grant(void **state)
{
    CUdeviceptr ptr;

    (void)state;
    fake.granted[0] = -1;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].taken, 0);
}

static void each_card_has_its_limit(void **state)
{
    CUcontext context;
    CUdeviceptr ptr;

    (void)state;
    fake.n_devices = 2;
    fake.visible[0] = 1; /* CUDA_VISIBLE_DEVICES=1,0 */
    fake.visible[1] = 0;
    fake.granted[0] = 2; /* and the ledger in an order of its own */
    fake.granted[1] = 0;
    fake.device[0].limit = 10 * MIB; /* ledger index 0: card 1 = ordinal 0 */
    fake.device[2].limit = 20 * MIB;
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 1), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 12 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.device[2].held, 12 * MIB);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 12 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_ctx_create(fake_ctx_create, &context, 0, 0), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 12 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 10 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 10 * MIB);
}

/* A card of 64 MiB of which the slice may have 100 MiB. */
static void oversubscribed(void)
{
    fake.device[0].physical = 64 * MIB;
    fake.device[0].limit = 100 * MIB;
    fake.oversubscribe = 1;
}

static void beyond_the_card_is_managed(void **state)
{
    CUdeviceptr first, second, small, more = 3;
    size_t pitch = 0;

    (void)state;
    oversubscribed();
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &first, 60 * MIB), CUDA_SUCCESS);
    assert_int_equal(fake.managed_calls, 0);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &second, 30 * MIB - 5), CUDA_SUCCESS);
    assert_int_equal(fake.managed_calls, 1);
    assert_int_equal(fake.last_reason, GS_REASON_OVERSUBSCRIBED);
    assert_int_equal(fake.advice, 1u << CU_MEM_ADVISE_SET_PREFERRED_LOCATION |
                                      1u << CU_MEM_ADVISE_SET_ACCESSED_BY);
    assert_int_equal(fake.device[0].held, 90 * MIB);
    assert_int_equal(fake.device[0].managed, 30 * MIB);
    assert_int_equal(fake.device[0].taken, 60 * MIB);
    /* the limit is the limit */
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 11 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(more, 3);
    assert_int_equal(gs_nv_mem_alloc_pitch(fake_mem_alloc_pitch, &more, &pitch, 1025, 4096, 4),
                     CUDA_SUCCESS);
    assert_int_equal(pitch, 1536);
    assert_int_equal(fake.device[0].managed, 36 * MIB);
    /* a piece: the last 4 MiB of the card, then managed */
    assert_int_equal(gs_nv_mem_free(fake_mem_free, more), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &more, 4 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &small, 1000), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].managed, 30 * MIB + 1024);
    assert_int_equal(fake.device[0].held, 96 * MIB);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, small), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, second), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].managed, 0);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, first), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_free(fake_mem_free, more), CUDA_SUCCESS);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(fake.device[0].taken, 0);
}

static void queries_show_the_limit_beyond_the_card(void **state)
{
    size_t free_bytes, total;
    CUdeviceptr ptr;

    (void)state;
    oversubscribed();
    fake.oversubscribe = 0;
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 64 * MIB);
    fake.oversubscribe = 1;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 70 * MIB), CUDA_SUCCESS);
    assert_int_equal(gs_nv_mem_get_info(fake_mem_get_info, &free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, 100 * MIB);
    assert_int_equal(free_bytes, 30 * MIB);
    assert_int_equal(gs_nv_device_total_mem(fake_total_mem, &total, 0), CUDA_SUCCESS);
    assert_int_equal(total, 100 * MIB);
    fake.device[0].limit = UINT64_MAX; /* no limit: the card's own numbers */
    assert_int_equal(gs_nv_device_total_mem(fake_total_mem, &total, 0), CUDA_SUCCESS);
    assert_int_equal(total, 64 * MIB);
}

static void the_cards_refusal_stands(void **state)
{
    CUdeviceptr ptr = 9;

    (void)state;
    oversubscribed();
    fake.oversubscribe = 0; /* not asked for */
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 70 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 1);
    assert_int_equal(fake.full_bytes, 70 * MIB);
    assert_int_equal(fake.full_held, 0); /* given back by then */
    fake.oversubscribe = 1;
    fake.fail_at = fake.calls + 2; /* managed memory is not to be had either */
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 70 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 2);
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 101 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.n_full, 2); /* that was the limit */
    assert_int_equal(ptr, 9);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(fake.managed_calls, 0);
    fake.fail_at = 0;
    fake.track_full = 1; /* our own table */
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 70 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.device[0].held, 0);
    assert_int_equal(fake.device[0].managed, 0);
    assert_int_equal(fake.frees, 1);
}

static void a_card_that_cannot_migrate(void **state)
{
    CUdeviceptr ptr;
    size_t total;

    (void)state;
    oversubscribed();
    fake.no_migration = 1;
    fake.granted[0] = 3; /* a ledger index nobody has asked about */
    fake.device[3].limit = 100 * MIB;
    assert_int_equal(gs_nv_mem_alloc(fake_mem_alloc, &ptr, 70 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.last_reason, GS_REASON_OVERSUBSCRIBE_CANNOT);
    assert_int_equal(gs_nv_device_total_mem(fake_total_mem, &total, 0), CUDA_SUCCESS);
    assert_int_equal(total, 64 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(sixty_four_pieces_of_a_mebibyte, fake_setup),
        cmocka_unit_test_setup(one_of_the_whole_limit, fake_setup),
        cmocka_unit_test_setup(sizes_round_up, fake_setup),
        cmocka_unit_test_setup(another_granularity, fake_setup),
        cmocka_unit_test_setup(driver_fails_at_any_call, fake_setup),
        cmocka_unit_test_setup(unknown_pointers_are_the_drivers, fake_setup),
        cmocka_unit_test_setup(outputs_and_sizes_that_the_driver_refuses, fake_setup),
        cmocka_unit_test_setup(pitch_is_charged_by_what_came, fake_setup),
        cmocka_unit_test_setup(a_wrong_prediction_is_taken_back, fake_setup),
        cmocka_unit_test_setup(our_own_table_is_full, fake_setup),
        cmocka_unit_test_setup(no_limit_still_counts, fake_setup),
        cmocka_unit_test_setup(a_card_outside_the_grant, fake_setup),
        cmocka_unit_test_setup(each_card_has_its_limit, fake_setup),
        cmocka_unit_test_setup(beyond_the_card_is_managed, fake_setup),
        cmocka_unit_test_setup(queries_show_the_limit_beyond_the_card, fake_setup),
        cmocka_unit_test_setup(the_cards_refusal_stands, fake_setup),
        cmocka_unit_test_setup(a_card_that_cannot_migrate, fake_setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
