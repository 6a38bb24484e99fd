#include "core/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/hash.h"

#define ENTRIES 6u

struct entry {
    GS_LINK(struct entry) a;
    GS_LINK(struct entry) b;
};

struct lists {
    GS_LIST(struct entry) a;
    GS_LIST(struct entry) b;
};

/** A list `a` is what an array says, read from either end. */
static void assert_is(const struct lists *l, struct entry *const *want, size_t n)
{
    const struct entry *e = l->a.first;

    for (size_t i = 0; i < n; i++, e = e->a.next)
        assert_ptr_equal(e, want[i]);
    assert_null(e);
    e = l->a.last;
    for (size_t i = n; i > 0; i--, e = e->a.prev)
        assert_ptr_equal(e, want[i - 1]);
    assert_null(e);
}

/** Every place of every list of up to six: entries come in at any place and leave from any, against
 *  an array that is moved by hand. Steps are drawn from a hash, the same in each run. */
static void test_any_order(void **state)
{
    struct entry entry[ENTRIES] = {0}, *want[ENTRIES];
    struct lists l = {0};
    size_t n = 0;

    (void)state;
    for (uint64_t step = 0; step < 20000; step++) {
        uint64_t dice = gs_hash_u64(step);
        struct entry *e = &entry[dice % ENTRIES];
        size_t at = 0;

        while (at < n && want[at] != e)
            at++;
        if (at < n) {
            GS_LIST_REMOVE(&l.a, e, a);
            assert_null(e->a.next);
            assert_null(e->a.prev);
            for (n--; at < n; at++)
                want[at] = want[at + 1];
        } else {
            at = (size_t)(dice >> 32) % (n + 1);
            if (at == 0 && (dice & 64) != 0)
                GS_LIST_PUSH(&l.a, e, a);
            else if (at == n && (dice & 64) != 0)
                GS_LIST_APPEND(&l.a, e, a);
            else
                GS_LIST_INSERT(&l.a, at > 0 ? want[at - 1] : NULL, e, a);
            for (size_t i = n++; i > at; i--)
                want[i] = want[i - 1];
            want[at] = e;
        }
        assert_is(&l, want, n);
    }
}

/** An entry in two lists leaves one of them only. */
static void test_two_lists(void **state)
{
    struct entry x = {0}, y = {0};
    struct lists l = {0};

    (void)state;
    GS_LIST_APPEND(&l.a, &x, a);
    GS_LIST_APPEND(&l.a, &y, a);
    GS_LIST_PUSH(&l.b, &x, b);
    GS_LIST_PUSH(&l.b, &y, b);
    GS_LIST_REMOVE(&l.a, &x, a);
    assert_is(&l, (struct entry *[]){&y}, 1);
    assert_ptr_equal(l.b.first, &y);
    assert_ptr_equal(l.b.last, &x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_two_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
