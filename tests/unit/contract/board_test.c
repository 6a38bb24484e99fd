#include "contract/board.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BEAT 5000000000u

static struct gs_board board;

static int reset(void **state)
{
    (void)state;
    memset(&board, 0, sizeof(board));
    board.magic = GS_BOARD_MAGIC;
    board.version = GS_BOARD_VERSION;
    board.beat_ns = BEAT;
    board.seq = 4;
    board.n_slices = 3;
    for (uint32_t i = 0; i < 3; i++)
        board.slice[i] = (struct gs_board_slice){.ledger_dev = 7,
                                                 .ledger_ino = 100 + i,
                                                 .share_bp = 1000 * (i + 1),
                                                 .flags = i,
                                                 .refund_ns = 50 * i,
                                                 .others = 3 * i};
    return 0;
}

static int find(uint64_t dev, uint64_t ino, uint64_t now, struct gs_board_slice *ret)
{
    memset(ret, 0x55, sizeof(*ret));
    return gs_board_find(&board, dev, ino, now, ret);
}

/** Nothing may be written where there is no answer. */
static void refuse(uint64_t dev, uint64_t ino, uint64_t now, int rc)
{
    struct gs_board_slice got, before;

    memset(&before, 0x55, sizeof(before));
    assert_int_equal(find(dev, ino, now, &got), rc);
    assert_memory_equal(&got, &before, sizeof(got));
}

static void test_finds_its_own_entry(void **state)
{
    struct gs_board_slice got;

    (void)state;
    assert_int_equal(find(7, 102, BEAT, &got), 0);
    assert_int_equal(got.ledger_ino, 102);
    assert_int_equal(got.share_bp, 3000);
    assert_int_equal(got.flags, 2);
    assert_int_equal(got.refund_ns, 100);
    assert_int_equal(got.others, 6);
    refuse(7, 103, BEAT, -ENOENT);
    refuse(8, 102, BEAT, -ENOENT); /* the same number on another file system */
}

static void test_beat_expires(void **state)
{
    struct gs_board_slice got;

    (void)state;
    assert_int_equal(find(7, 100, BEAT + GS_BOARD_STALE_NS, &got), 0);
    refuse(7, 100, BEAT + GS_BOARD_STALE_NS + 1, -ESTALE);
    /* the reader's clock was read before the writer's; more than that is a beat of another boot */
    assert_int_equal(find(7, 100, BEAT - GS_BOARD_STALE_NS, &got), 0);
    refuse(7, 100, BEAT - GS_BOARD_STALE_NS - 1, -ESTALE);
    board.beat_ns = UINT64_MAX;
    refuse(7, 100, BEAT, -ESTALE);
    board.beat_ns = 0;
    refuse(7, 100, UINT64_MAX, -ESTALE);
}

static void test_writer_at_work(void **state)
{
    (void)state;
    board.seq = 5; /* for ever: it died there, and the beat will grow stale */
    refuse(7, 100, BEAT, -EAGAIN);
}

static void test_not_a_board(void **state)
{
    (void)state;
    board.version = GS_BOARD_VERSION + 1;
    refuse(7, 100, BEAT, -ENODATA);
    board.version = GS_BOARD_VERSION;
    board.magic = 0;
    refuse(7, 100, BEAT, -ENODATA);
}

static void test_hostile_content(void **state)
{
    struct gs_board_slice got;

    (void)state;
    board.n_slices = UINT32_MAX;
    refuse(7, 1, BEAT, -ENOENT); /* and nothing beyond the table was read */
    board.n_slices = 3;
    board.slice[0].share_bp = UINT32_MAX;
    board.slice[0].refund_ns = UINT64_MAX;
    assert_int_equal(find(7, 100, BEAT, &got), 0);
    assert_int_equal(got.share_bp, GS_SHARE_ALL_BP);
    assert_true(got.refund_ns == UINT64_MAX); /* a cumulative figure: any number can be one */
    board.slice[1].ledger_dev = board.slice[1].ledger_ino = 0;
    refuse(0, 0, BEAT, -ENOENT); /* a free entry is nobody's */
    board.n_slices = 0;
    refuse(7, 100, BEAT, -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_finds_its_own_entry, reset),
        cmocka_unit_test_setup(test_beat_expires, reset),
        cmocka_unit_test_setup(test_writer_at_work, reset),
        cmocka_unit_test_setup(test_not_a_board, reset),
        cmocka_unit_test_setup(test_hostile_content, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
