#include "hook/share.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hook/attach.h"
#include "hook/gate.h"
#include "hook/self.h"
#include "hook/slot.h"
#include "slice.h"

static const struct gs_share_key key = {{11, 22}};

static int setup(void **state)
{
    (void)state;
    slice_setup();
    slice_attach();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slice_teardown();
    return 0;
}

static int publish(void *arg)
{
    (void)arg;
    if (gs_gate_reserve(0, 600, GS_CHARGE_HELD, "t") != 0)
        return 1;
    return gs_share_publish(0, 600, key) >= 0 ? 0 : 2;
}

static int join(void *arg)
{
    (void)arg;
    return gs_share_join(key) >= 0 ? 0 : 1;
}

static void test_key(void **state)
{
    struct gs_share_key a = gs_share_key_of("handle-a", 8), b = gs_share_key_of("handle-b", 8);

    (void)state;
    assert_true(a.w[0] != b.w[0] && a.w[1] != b.w[1] && a.w[0] != a.w[1]);
    b = gs_share_key_of("handle-a", 8);
    assert_memory_equal(&a, &b, sizeof(a));
}

/** Publishing moves the bytes; they count once, and come back with the last holder's leave. */
static void test_alone(void **state)
{
    int id;

    (void)state;
    assert_int_equal(publish(NULL), 0);
    assert_int_equal(gs_gate_used(0), 600);
    assert_int_equal(gs_gate_own(0, GS_CHARGE_HELD), 0);
    assert_int_equal(gs_gate_reserve(0, 401, GS_CHARGE_HELD, "t"), -ENOMEM);
    id = gs_share_publish(0, 600, key);
    assert_true(id >= 0);
    assert_int_equal(gs_gate_used(0), 600); /* the second time changes nothing */
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 0);
    gs_share_leave(id); /* one too many */
    assert_int_equal(gs_gate_used(0), 0);
    assert_int_equal(gs_share_join(key), -ENOENT);
}

static void test_bad_arguments(void **state)
{
    int id;

    (void)state;
    assert_int_equal(gs_share_publish(3, 1, key), -ENODEV);
    gs_share_leave(-1);
    gs_share_leave(5000);
    id =
        gs_share_publish(0, 600, key); /* more than is held: what is not on the books cannot move */
    assert_true(id >= 0);
    assert_int_equal(gs_gate_used(0), 0);
    gs_attach_forget();
    assert_int_equal(gs_share_publish(0, 1, key), -ENODEV);
    assert_int_equal(gs_share_join(key), -ENOENT);
    gs_share_leave(0);
}

/** The exporter dies: the importer is charged, in our books and in HAMi's. */
static void test_exporter_dies(void **state)
{
    const struct gs_hami_region *region = gs_self.region;
    struct gs_slot_use use[4];
    int other = slice_start_other(publish, NULL);
    int id = gs_share_join(key);

    (void)state;
    assert_true(id >= 0);
    assert_int_equal(gs_gate_used(0), 600); /* once */
    assert_int_equal(gs_slot_list(0, use, 4), 2);
    assert_int_equal(use[0].bytes, 0);
    assert_int_equal(use[1].bytes, 600);
    assert_int_equal(use[1].pid, other);
    assert_int_equal(region->slot[1].used[0].total_bytes, 600);
    assert_int_equal(region->slot[0].used[0].total_bytes, 0);
    slice_end(other);
    assert_int_equal(gs_gate_reserve(0, 401, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 400, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_slot_list(0, use, 4), 1);
    assert_int_equal(use[0].pid, gs_self.pid);
    assert_int_equal(use[0].bytes, 1000);
    assert_int_equal(region->slot[0].used[0].total_bytes, 1000);
    assert_int_equal(region->slot[1].used[0].total_bytes, 0);
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 400);
}

static void test_importer_dies(void **state)
{
    int other;

    (void)state;
    assert_int_equal(publish(NULL), 0);
    other = slice_start_other(join, NULL);
    slice_end(other);
    (void)gs_slot_reap();
    assert_int_equal(gs_gate_used(0), 600);
    gs_share_leave(gs_share_publish(0, 600, key));
    assert_int_equal(gs_gate_used(0), 0);
}

static void test_all_die(void **state)
{
    int a = slice_start_other(publish, NULL), b = slice_start_other(join, NULL);

    (void)state;
    slice_end(a);
    (void)gs_slot_reap();
    assert_int_equal(gs_gate_used(0), 600);
    slice_end(b);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
}

static void test_joined_twice(void **state)
{
    int other = slice_start_other(publish, NULL);
    int id = gs_share_join(key);

    (void)state;
    assert_int_equal(gs_share_join(key), id);
    slice_end(other);
    (void)gs_slot_reap();
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 600);
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 0);
}

static void test_full(void **state)
{
    (void)state;
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    for (uint64_t i = 0; i < GS_LEDGER_SHARES; i++)
        assert_int_equal(gs_share_publish(0, i < 900, (struct gs_share_key){{i, i}}), i);
    assert_int_equal(gs_share_publish(0, 1, (struct gs_share_key){{5000, 5000}}), -ENOSPC);
    assert_int_equal(gs_gate_own(0, GS_CHARGE_HELD), 100); /* and the charge stays */
    assert_int_equal(gs_gate_used(0), 1000);
    gs_share_leave(3);
    assert_int_equal(gs_gate_used(0), 999);
    assert_int_equal(gs_share_publish(0, 1, (struct gs_share_key){{5000, 5000}}), 3);
}

/** What a reaper finds when a publisher was killed in each state of an entry. */
static void test_reap_states(void **state)
{
    struct gs_ledger_share *s = &gs_self.ledger->share[0];

    (void)state;
    for (uint64_t kind = GS_SHARE_CLAIMED; kind <= GS_SHARE_DYING;
         kind += GS_SHARE_DYING - GS_SHARE_CLAIMED) {
        int other = slice_start_other(publish, NULL);
        uint32_t slot = 1;

        s->state = (s->state & ~UINT64_C(0xffffff)) | (slot + 1) << 8 | kind;
        assert_int_equal(gs_share_join(key), -ENOENT);
        slice_end(other);
        (void)gs_slot_reap();
        assert_int_equal(s->state & 0xff, GS_SHARE_FREE);
        assert_int_equal(gs_gate_used(0), 0);
        assert_int_equal(s->holders[0], 0);
    }
}

/** A leaver killed after it took its bit off leaves an entry that nobody holds. */
static void test_reap_unheld(void **state)
{
    struct gs_ledger_share *s = &gs_self.ledger->share[0];
    int other = slice_start_other(publish, NULL);

    (void)state;
    s->holders[0] = 0;
    slice_end(other);
    (void)gs_slot_reap();
    assert_int_equal(s->state & 0xff, GS_SHARE_FREE);
    assert_int_equal(gs_gate_used(0), 0);
}

static const struct gs_share_key other_key = {{33, 44}};

static int publish_and_name(void *arg)
{
    int id, other;

    if (publish(arg) != 0)
        return 1;
    id = gs_share_publish(0, 600, key);
    other = gs_share_name(id, other_key);
    return other >= 0 && other != id ? 0 : 3;
}

/** A second name adds no bytes, and what it names lives as long as the name is held. */
static void test_name(void **state)
{
    int id, other;

    (void)state;
    assert_int_equal(publish(NULL), 0);
    id = gs_share_publish(0, 600, key);
    assert_int_equal(gs_share_name(id, key), id); /* the share's own */
    other = gs_share_name(id, other_key);
    assert_true(other >= 0 && other != id);
    assert_int_equal(gs_share_name(id, other_key), other);
    assert_int_equal(gs_gate_used(0), 600);
    gs_share_leave(other);
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 600); /* one reference to the name is left */
    gs_share_leave(other);
    assert_int_equal(gs_gate_used(0), 0);
    assert_int_equal(gs_share_join(other_key), -ENOENT);
    assert_int_equal(gs_share_name(id, other_key), -ENOENT); /* not held */
    assert_int_equal(gs_share_name(-1, other_key), -ENOENT);
    assert_int_equal(gs_share_name(5000, other_key), -ENOENT);
}

/** Joined by the second name: the importer is charged when the exporter dies. */
static void test_name_joined(void **state)
{
    int other = slice_start_other(publish_and_name, NULL);
    int id = gs_share_join(other_key);

    (void)state;
    assert_true(id >= 0);
    assert_int_equal(gs_share_join(other_key), id);
    slice_end(other);
    assert_int_equal(gs_gate_reserve(0, 401, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_used(0), 600);
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 600);
    gs_share_leave(id);
    assert_int_equal(gs_gate_used(0), 0);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(gs_self.ledger->share[i].state & 0xff, GS_SHARE_FREE);
}

/** A name whose share is gone, or gave its place to another, opens nothing. */
static void test_name_stale(void **state)
{
    struct gs_ledger_share *s = gs_self.ledger->share;
    int other = slice_start_other(publish_and_name, NULL);

    (void)state;
    s[0].state += UINT64_C(1) << 24;
    assert_int_equal(gs_share_join(other_key), -ENOENT);
    s[1].device = GS_SHARE_NAME | GS_LEDGER_SHARES; /* hostile */
    s[1].creator = (uint32_t)(s[0].state >> 24);
    gs_share_leave(gs_share_join(other_key));
    slice_end(other);
    (void)gs_slot_reap();
    assert_int_equal(gs_gate_used(0), 0);
    assert_int_equal(s[0].state & 0xff, GS_SHARE_FREE);
    assert_int_equal(s[1].state & 0xff, GS_SHARE_FREE);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_key),           CASE(test_alone),         CASE(test_bad_arguments),
        CASE(test_exporter_dies), CASE(test_importer_dies), CASE(test_all_die),
        CASE(test_joined_twice),  CASE(test_full),          CASE(test_reap_states),
        CASE(test_reap_unheld),   CASE(test_name),          CASE(test_name_joined),
        CASE(test_name_stale),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
