#include "net/http_room.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/addr.h"

static struct gs_http_room_seat *crowded(struct gs_http_room *room, struct gs_http_room_seat *seat)
{
    return gs_http_room_crowded(room, seat);
}

/** Somebody from 10.0.0.`host`. */
static void enter(struct gs_http_room *room, struct gs_http_room_seat *seat, unsigned host)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000u + host)};

    *seat = (struct gs_http_room_seat){0};
    assert_int_equal(gs_http_room_enter(room, seat, (const struct sockaddr *)&sa), 0);
}

static void leave_all(struct gs_http_room *room, struct gs_http_room_seat *seat, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gs_http_room_leave(room, &seat[i]);
    assert_int_equal(room->n, 0);
    assert_int_equal(room->peers.n, 0);
    assert_null(room->greedy.first);
    for (size_t i = 0; i < GS_HTTP_ROOM_WAITS; i++)
        assert_null(room->all.of[i].first);
    gs_http_room_fini(room);
}

static void nobody_leaves_while_there_is_room(void **state)
{
    struct gs_http_room room;
    struct gs_http_room_seat seat[4];

    (void)state;
    gs_http_room_init(&room, 3, 1);
    for (unsigned i = 0; i < 3; i++) { /* far beyond its share */
        enter(&room, &seat[i], 1);
        assert_null(crowded(&room, &seat[i]));
    }
    enter(&room, &seat[3], 1);
    assert_ptr_equal(crowded(&room, &seat[3]), &seat[0]);
    leave_all(&room, seat, 4);
}

/* No request yet, then between requests, then in the middle of one; of each the longest. */
static void order_of_those_that_wait(void **state)
{
    struct gs_http_room room;
    struct gs_http_room_seat seat[7], late;

    (void)state;
    gs_http_room_init(&room, 7, 100);
    for (unsigned i = 0; i < 7; i++)
        enter(&room, &seat[i], i);
    gs_http_room_wait(&room, &seat[0], GS_HTTP_ROOM_OURS);
    gs_http_room_wait(&room, &seat[2], GS_HTTP_ROOM_PEER);
    gs_http_room_wait(&room, &seat[1], GS_HTTP_ROOM_PEER);
    gs_http_room_wait(&room, &seat[4], GS_HTTP_ROOM_NEXT);
    gs_http_room_wait(&room, &seat[3], GS_HTTP_ROOM_NEXT);
    gs_http_room_wait(&room, &seat[4], GS_HTTP_ROOM_NEXT); /* it was served in between */
    static const unsigned order[] = {5, 6, 3, 4, 2, 1};
    for (size_t i = 0; i < 6; i++) {
        enter(&room, &late, 50);
        assert_ptr_equal(crowded(&room, &late), &seat[order[i]]);
        gs_http_room_leave(&room, &seat[order[i]]);
        gs_http_room_leave(&room, &seat[order[i]]); /* once more: nothing */
        gs_http_room_wait(&room, &seat[order[i]], GS_HTTP_ROOM_NEXT);
        gs_http_room_leave(&room, &late);
        enter(&room, &seat[order[i]], 60);
        gs_http_room_wait(&room, &seat[order[i]], GS_HTTP_ROOM_OURS);
    }
    enter(&room, &late, 50);
    assert_null(crowded(&room, &late)); /* all wait for us */
    gs_http_room_leave(&room, &late);
    leave_all(&room, seat, 7);
}

static void a_greedy_peer_loses_its_own_first(void **state)
{
    struct gs_http_room room;
    struct gs_http_room_seat seat[8], late;

    (void)state;
    gs_http_room_init(&room, 8, 4);
    enter(&room, &seat[0], 1); /* the oldest, and idle: but modest */
    enter(&room, &seat[1], 1);
    for (unsigned i = 2; i < 8; i++)
        enter(&room, &seat[i], 2);
    for (unsigned i = 2; i < 8; i++) /* busy looking is no way out */
        gs_http_room_wait(&room, &seat[i], i < 7 ? GS_HTTP_ROOM_PEER : GS_HTTP_ROOM_NEXT);
    enter(&room, &late, 1);
    assert_ptr_equal(crowded(&room, &late), &seat[7]); /* of the greedy one */
    gs_http_room_leave(&room, &late);
    enter(&room, &late, 2);
    assert_ptr_equal(crowded(&room, &late), &seat[7]);
    gs_http_room_leave(&room, &seat[7]);
    gs_http_room_leave(&room, &late);
    for (unsigned i = 2; i < 7; i++)
        gs_http_room_wait(&room, &seat[i], GS_HTTP_ROOM_OURS);
    enter(&room, &seat[7], 2);
    gs_http_room_wait(&room, &seat[7], GS_HTTP_ROOM_OURS);
    enter(&room, &late, 2); /* greedy, and has nothing to lose but itself */
    assert_ptr_equal(crowded(&room, &late), &seat[0]);
    gs_http_room_leave(&room, &late);
    leave_all(&room, seat, 8);
}

/* Within its share a peer is as good as any. */
static void shares_end_with_greed(void **state)
{
    struct gs_http_room room;
    struct gs_http_room_seat seat[6], late;

    (void)state;
    gs_http_room_init(&room, 6, 3);
    enter(&room, &seat[0], 1);
    for (unsigned i = 1; i < 6; i++)
        enter(&room, &seat[i], 2);
    enter(&room, &late, 3);
    assert_ptr_equal(crowded(&room, &late), &seat[1]);
    gs_http_room_leave(&room, &seat[5]); /* 4 left: still one too many */
    enter(&room, &seat[5], 4);
    assert_ptr_equal(crowded(&room, &late), &seat[1]);
    gs_http_room_leave(&room, &seat[4]);
    enter(&room, &seat[4], 5);
    assert_ptr_equal(crowded(&room, &late), &seat[0]);
    gs_http_room_leave(&room, &late);
    leave_all(&room, seat, 6);
}

static void hosts(void **state)
{
    static const struct {
        const char *a, *b;
        bool is_same;
    } rows[] = {
        {"10.0.0.1", "10.0.0.1", true},        {"10.0.0.1", "10.0.0.2", false},
        {"::ffff:10.0.0.1", "10.0.0.1", true}, {"::ffff:10.0.0.1", "10.0.0.2", false},
        {"2001:db8::1", "2001:db8::1", true},  {"2001:db8::1", "2001:db8::2", false},
        {"::a00:1", "10.0.0.1", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned char host[2][GS_ADDR_HOST];
        for (int k = 0; k < 2; k++) {
            const char *text = k == 0 ? rows[i].a : rows[i].b;
            struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = (in_port_t)k};
            struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = (in_port_t)k};
            bool is_v6 = strchr(text, ':') != NULL;
            assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, text,
                                       is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr),
                             1);
            gs_addr_host(is_v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4,
                         host[k]);
        }
        assert_int_equal(memcmp(host[0], host[1], GS_ADDR_HOST) == 0, rows[i].is_same);
    }
}

/* Whatever happens, one that is told to leave waits for its peer, and there is always one where
 * any such is. */
static void many_steps(void **state)
{
    enum { N = 64 };
    struct gs_http_room room;
    struct gs_http_room_seat seat[N] = {0};
    unsigned seed = 1;

    (void)state;
    gs_http_room_init(&room, N / 2, 5);
    for (int step = 0; step < 200000; step++) {
        seed = seed * 1103515245u + 12345u;
        struct gs_http_room_seat *at = &seat[seed >> 16 & (N - 1)];
        unsigned what = seed >> 24 & 7;
        if (!at->peer) {
            enter(&room, at, what);
            struct gs_http_room_seat *out = crowded(&room, at);
            size_t able = 0;
            for (size_t i = 0; i < N; i++)
                able += seat[i].peer && &seat[i] != at && seat[i].wait != GS_HTTP_ROOM_OURS;
            assert_int_equal(out != NULL, room.n > N / 2 && able > 0);
            if (out) {
                assert_ptr_not_equal(out, at);
                assert_int_not_equal(out->wait, GS_HTTP_ROOM_OURS);
                gs_http_room_leave(&room, out);
            }
        } else if (what == 7) {
            gs_http_room_leave(&room, at);
        } else {
            gs_http_room_wait(&room, at, (enum gs_http_room_wait)(what & 3));
        }
    }
    leave_all(&room, seat, N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_leaves_while_there_is_room),
        cmocka_unit_test(order_of_those_that_wait),
        cmocka_unit_test(a_greedy_peer_loses_its_own_first),
        cmocka_unit_test(shares_end_with_greed),
        cmocka_unit_test(hosts),
        cmocka_unit_test(many_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
