#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

struct row {
    const char *text;
    const char *host; /**< NULL: refused */
    uint16_t port;
};

static void splits_addresses(void **state)
{
    static const struct row rows[] = {
        {":443", "", 443},
        {":0", "", 0},
        {"0.0.0.0:80", "0.0.0.0", 80},
        {"localhost:65535", "localhost", 65535},
        {"[::1]:9443", "::1", 9443},
        {"[fe80::1%eth0]:1", "fe80::1%eth0", 1},
        {"", NULL, 0},
        {":", NULL, 0},
        {"80", NULL, 0},
        {"host:", NULL, 0},
        {"host:65536", NULL, 0},
        {"host:-1", NULL, 0},
        {"host: 80", NULL, 0},
        {"host:80x", NULL, 0},
        {"host:000080", NULL, 0},
        {"::1:80", NULL, 0},
        {"[::1]", NULL, 0},
        {"[::1]80", NULL, 0},
        {"[::1:80", NULL, 0},
        {"[]:80", NULL, 0},
        {"[1.2.3.4]:80", NULL, 0},
        {"a[b:80", NULL, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gs_str host = GS_STR("untouched");
        uint16_t port = 7;
        int rc = gs_addr_split(gs_str_of(rows[i].text), &host, &port);
        if (!rows[i].host) {
            if (rc != -EINVAL || port != 7)
                fail_msg("'%s' was taken: %d", rows[i].text, rc);
            continue;
        }
        if (rc != 0 || !gs_str_eq_c(host, rows[i].host) || port != rows[i].port)
            fail_msg("'%s': %d, '%.*s', %u", rows[i].text, rc, (int)host.n, host.p, port);
    }
}

static void refuses_long_and_binary_hosts(void **state)
{
    char text[300];
    struct gs_str host;
    uint16_t port;

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text + 253, ":80", 3);
    assert_int_equal(gs_addr_split((struct gs_str){text, 256}, &host, &port), 0);
    memset(text, 'a', sizeof(text));
    memcpy(text + 254, ":80", 3);
    assert_int_equal(gs_addr_split((struct gs_str){text, 257}, &host, &port), -EINVAL);
    assert_int_equal(gs_addr_split((struct gs_str){"a\0b:80", 6}, &host, &port), -EINVAL);
}

static void tells_loopback_and_writes_addresses(void **state)
{
    static const struct {
        int family;
        const char *address, *text;
        bool is_loopback;
    } rows[] = {
        {AF_INET, "127.0.0.1", "127.0.0.1:8080", true},
        {AF_INET, "127.255.0.9", "127.255.0.9:8080", true},
        {AF_INET, "128.0.0.1", "128.0.0.1:8080", false},
        {AF_INET, "10.0.0.1", "10.0.0.1:8080", false},
        {AF_INET6, "::1", "[::1]:8080", true},
        {AF_INET6, "::", "[::]:8080", false},
        {AF_INET6, "::ffff:127.0.0.1", "127.0.0.1:8080", true},
        {AF_INET6, "::ffff:10.1.2.3", "10.1.2.3:8080", false},
        {AF_INET6, "2001:db8::7", "[2001:db8::7]:8080", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_storage ss = {.ss_family = (sa_family_t)rows[i].family};
        struct sockaddr_in *v4 = (void *)&ss;
        struct sockaddr_in6 *v6 = (void *)&ss;
        char text[GS_ADDR_TEXT];
        bool is_v4 = rows[i].family == AF_INET;
        assert_int_equal(inet_pton(rows[i].family, rows[i].address,
                                   is_v4 ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr),
                         1);
        if (is_v4)
            v4->sin_port = htons(8080);
        else
            v6->sin6_port = htons(8080);
        gs_addr_put((const struct sockaddr *)&ss, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
        assert_int_equal(gs_addr_port((const struct sockaddr *)&ss), 8080);
        assert_int_equal(gs_addr_is_loopback((const struct sockaddr *)&ss), rows[i].is_loopback);
    }
}

static void says_nothing_of_other_families(void **state)
{
    struct sockaddr sa = {.sa_family = AF_UNIX};
    char text[GS_ADDR_TEXT] = "x";

    (void)state;
    gs_addr_put(&sa, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(gs_addr_port(&sa), 0);
    assert_false(gs_addr_is_loopback(&sa));
}

static void listens_and_says_why_not(void **state)
{
    struct gs_err err = {0};
    struct sockaddr_storage ss;
    socklen_t n = sizeof(ss);
    char text[32];

    (void)state;
    int fd = gs_addr_listen("127.0.0.1:0", 8, &err);
    assert_true(fd >= 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&ss, &n), 0);
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", gs_addr_port((struct sockaddr *)&ss));
    assert_int_equal(gs_addr_listen(text, 8, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, text));
    close(fd);
    int again = gs_addr_listen(text, 8, &err);
    assert_true(again >= 0);
    close(again);
    int everywhere = gs_addr_listen(":0", 8, &err);
    assert_true(everywhere >= 0);
    close(everywhere);
    assert_int_equal(gs_addr_listen("nowhere", 8, &err), -EINVAL);
    /* An address of TEST-NET-1 (RFC 5737) is no machine's own. */
    assert_int_equal(gs_addr_listen("192.0.2.1:0", 8, &err), -EADDRNOTAVAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_addresses),
        cmocka_unit_test(refuses_long_and_binary_hosts),
        cmocka_unit_test(tells_loopback_and_writes_addresses),
        cmocka_unit_test(says_nothing_of_other_families),
        cmocka_unit_test(listens_and_says_why_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
