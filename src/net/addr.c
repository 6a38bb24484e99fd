#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"

/** Longest DNS name as text (RFC 1035, section 2.3.4). */
#define HOST_MAX 253u

static int parse_port(struct gs_str text, uint16_t *ret_port)
{
    unsigned port = 0;

    if (text.n == 0 || text.n > 5)
        return -EINVAL;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return -EINVAL;
        port = port * 10 + (unsigned)(text.p[i] - '0');
    }
    if (port > UINT16_MAX)
        return -EINVAL;
    *ret_port = (uint16_t)port;
    return 0;
}

int gs_addr_split(struct gs_str text, struct gs_str *ret_host, uint16_t *ret_port)
{
    struct gs_str host = text, port;
    uint16_t number;

    if (text.n > 0 && text.p[0] == '[') {
        const char *end = memchr(text.p, ']', text.n);
        if (!end || (size_t)(end - text.p) + 1 >= text.n || end[1] != ':')
            return -EINVAL;
        host = (struct gs_str){text.p + 1, (size_t)(end - text.p) - 1};
        port = (struct gs_str){end + 2, text.n - host.n - 3};
        if (host.n == 0 || !memchr(host.p, ':', host.n))
            return -EINVAL;
    } else {
        if (!gs_str_cut(&text, ':', &host) || text.p == host.p + host.n)
            return -EINVAL;
        port = text;
    }
    if (host.n > HOST_MAX || memchr(host.p, '\0', host.n) || memchr(host.p, '[', host.n))
        return -EINVAL;
    if (parse_port(port, &number) < 0)
        return -EINVAL;
    *ret_host = host;
    *ret_port = number;
    return 0;
}

/** A socket that listens on one address, or negative errno. */
static int open_one(const struct sockaddr *sa, socklen_t len, int backlog)
{
    int on = 1, off = 0;
    GS_CLEANUP(gs_file_close) int fd = -1;

    fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return -errno;
    if (sa->sa_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
        return -errno;
    if (bind(fd, sa, len) < 0 || listen(fd, backlog) < 0)
        return -errno;
    int ret = fd;
    fd = -1;
    return ret;
}

static int listen_anywhere(uint16_t port, int backlog)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = open_one((const struct sockaddr *)&v6, sizeof(v6), backlog);

    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)
        fd = open_one((const struct sockaddr *)&v4, sizeof(v4), backlog);
    return fd;
}

static int listen_named(struct gs_str host, uint16_t port, int backlog)
{
    char name[HOST_MAX + 1], service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int rc = -EADDRNOTAVAIL;

    if (gs_str_to_field(host, name, sizeof(name)) < 0)
        return -EINVAL;
    (void)snprintf(service, sizeof(service), "%u", port);
    int gai = getaddrinfo(name, service, &hints, &found);
    if (gai != 0)
        return gai == EAI_MEMORY ? -ENOMEM : -EADDRNOTAVAIL;
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        rc = open_one(a->ai_addr, a->ai_addrlen, backlog);
        if (rc >= 0)
            break;
    }
    freeaddrinfo(found);
    return rc;
}

int gs_addr_listen(const char *text, int backlog, struct gs_err *err)
{
    struct gs_str host;
    uint16_t port;

    if (gs_addr_split(gs_str_of(text), &host, &port) < 0)
        return gs_err_set(err, -EINVAL, "'%.64s' is no address: host:port, :port or [v6]:port",
                          text);
    int fd = host.n ? listen_named(host, port, backlog) : listen_anywhere(port, backlog);
    if (fd < 0)
        return gs_err_set(err, fd, "cannot listen on '%.64s': %s", text, strerror(-fd));
    return fd;
}

static bool is_mapped(const struct sockaddr *sa)
{
    return sa->sa_family == AF_INET6 &&
           IN6_IS_ADDR_V4MAPPED(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}

/** The IPv4 address of an AF_INET or mapped address, network order. */
static struct in_addr ipv4_of(const struct sockaddr *sa)
{
    struct in_addr v4;

    if (sa->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)sa)->sin_addr;
    memcpy(&v4, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr.s6_addr[12],
           sizeof(v4));
    return v4;
}

uint16_t gs_addr_port(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)(const void *)sa)->sin_port);
    if (sa->sa_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)sa)->sin6_port);
    return 0;
}

void gs_addr_put(const struct sockaddr *sa, char *text, size_t cap)
{
    char host[INET6_ADDRSTRLEN] = "";

    if (cap == 0)
        return;
    text[0] = '\0';
    if (sa->sa_family == AF_INET || is_mapped(sa)) {
        struct in_addr v4 = ipv4_of(sa);
        if (inet_ntop(AF_INET, &v4, host, sizeof(host)))
            (void)snprintf(text, cap, "%s:%u", host, gs_addr_port(sa));
    } else if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)sa;
        if (inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
            (void)snprintf(text, cap, "[%s]:%u", host, gs_addr_port(sa));
    }
}

void gs_addr_host(const struct sockaddr *sa, unsigned char ret_host[GS_ADDR_HOST])
{
    memset(ret_host, 0, GS_ADDR_HOST);
    if (sa->sa_family == AF_INET6) {
        memcpy(ret_host, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, GS_ADDR_HOST);
    } else if (sa->sa_family == AF_INET) {
        struct in_addr v4 = ipv4_of(sa);
        memset(&ret_host[10], 0xff, 2); /* RFC 4291, 2.5.5.2 */
        memcpy(&ret_host[12], &v4, sizeof(v4));
    }
}

bool gs_addr_is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET || is_mapped(sa))
        return ntohl(ipv4_of(sa).s_addr) >> 24 == IN_LOOPBACKNET;
    return sa->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr);
}
