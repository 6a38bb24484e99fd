/* One sentence for a pod that found no room: the form that the issue asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "control/shortage.h"

static const struct gs_device cards[] = {{.id = {"GPU-a", 5}}, {.id = {"GPU-b", 5}}};
static struct gs_node node = {.dev = cards, .n_dev = 2};

static struct gs_reasons lacks(enum gs_reason reason, uint32_t n)
{
    struct gs_reasons r;

    memset(&r, 0, sizeof(r));
    r.of = 2;
    r.count[reason] = n;
    return r;
}

static void add(struct gs_shortage *s, const char *name, const struct gs_reasons *r)
{
    const struct gs_shortage_lack lack = gs_shortage_lack(r);

    node.name = gs_str_of(name);
    gs_shortage_add(s, &node, &lack);
}

static void want(const struct gs_shortage *s, const char *text)
{
    struct gs_buf buf = {0};

    gs_shortage_write(s, &buf);
    assert_string_equal(gs_buf_text(&buf), text);
    gs_buf_fini(&buf);
}

static void test_nodes(void **state)
{
    struct gs_shortage s = {0};
    struct gs_reasons mem = lacks(GS_REASON_CARD_INSUFFICIENT_MEMORY, 2),
                      type = lacks(GS_REASON_CARD_TYPE_MISMATCH, 2);

    (void)state;
    mem.need_mib = 8192;
    mem.best_free_mib = 4096;
    add(&s, "n1", &mem);
    mem.best_free_mib = 6144;
    mem.best_device = 1;
    add(&s, "n2", &mem);
    mem.best_free_mib = 1;
    mem.best_device = 0;
    add(&s, "n3", &mem);
    add(&s, "n4", &type);
    s.unregistered = 1;
    want(&s, "1 node: no card of a type that the pod takes (use-gputype, nouse-gputype); "
             "3 nodes: needs 8192 MiB, best card GPU-b on n2 has 6144 free; "
             "1 node: no devices registered");
}

/* Most cards decide; a full card beside one of the wrong type is still of the wrong type. */
static void test_chief(void **state)
{
    struct gs_shortage s = {0};
    struct gs_reasons r = lacks(GS_REASON_CARD_INSUFFICIENT_CORE, 3);

    (void)state;
    r.count[GS_REASON_CARD_NOT_HEALTH] = 1;
    r.need_cores = 50;
    r.best_free_cores = 20;
    assert_int_equal(gs_shortage_lack(&r).reason, GS_REASON_CARD_INSUFFICIENT_CORE);
    add(&s, "n1", &r);
    want(&s, "1 node: needs 50 cores, best card GPU-a on n1 has 20 free");
    /* some cards fit, too few */
    r = lacks(GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST, 2);
    r.asked = 3;
    r.collected = 2;
    add(&s, "n2", &r);
    want(&s, "1 node: needs 50 cores, best card GPU-a on n1 has 20 free; "
             "1 node: needs 3 cards, best node n2 has 2 that fit");
}

static void test_one_node(void **state)
{
    struct gs_reasons r = lacks(GS_REASON_CARD_INSUFFICIENT_MEMORY, 2);
    struct gs_buf buf = {0};

    (void)state;
    r.need_mib = 100;
    r.best_free_mib = 7;
    r.best_device = 1;
    gs_shortage_write_node(&r, &buf); /* HAMi's form first (3.2) */
    assert_string_equal(gs_buf_text(&buf), "2/2 CardInsufficientMemory (needs 100 MiB, at most 7 "
                                           "free on a card)");
    gs_buf_clear(&buf);
    gs_shortage_write_words(&node, &r, &buf);
    assert_string_equal(gs_buf_text(&buf), "needs 100 MiB, best card GPU-b has 7 free");
    gs_buf_clear(&buf);
    r.best_free_mib = -7; /* more is held than the card has */
    gs_shortage_write_words(&node, &r, &buf);
    assert_string_equal(gs_buf_text(&buf), "needs 100 MiB, best card GPU-b has 0 free");
    gs_buf_clear(&buf);
    r = lacks(GS_REASON_NODE_INSUFFICIENT_DEVICE, 1);
    r.asked = 4;
    gs_shortage_write_words(&node, &r, &buf);
    assert_string_equal(gs_buf_text(&buf), "needs 4 cards, 2 fit");
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nodes), cmocka_unit_test(test_chief),
                                       cmocka_unit_test(test_one_node)};

    return cmocka_run_group_tests_name("control_shortage", tests, NULL, NULL);
}
