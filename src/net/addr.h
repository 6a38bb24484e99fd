#pragma once
/* Addresses as command lines write them: "host:port", ":port", "1.2.3.4:80", "[::1]:443". */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_err;

/** Longest text gs_addr_put() makes, with its NUL. */
#define GS_ADDR_TEXT 64

/** Take an address apart; pure. @ret_host is a view into `text` without brackets, empty for
 *  ":port".
 *  Returns  0; -EINVAL no port, a port beyond 65535, an IPv6 address without brackets, bad
 *           brackets, a host longer than 253 bytes. */
GS_WUR int gs_addr_split(struct gs_str text, struct gs_str *ret_host, uint16_t *ret_port);

/** Open a listening TCP socket: non-blocking, close-on-exec, SO_REUSEADDR. An empty host listens on
 *  every address, IPv6 and IPv4 (IPv4 alone where the machine has no IPv6). Port 0: the kernel
 *  chooses. Names are resolved (this may block: only at start).
 *  Returns  descriptor; -EINVAL bad text; -EADDRINUSE; -EADDRNOTAVAIL also for an unknown name. */
GS_WUR int gs_addr_listen(const char *text, int backlog, struct gs_err *err);

/** "1.2.3.4:80" or "[::1]:443"; IPv4 in IPv6 is written as IPv4; "" for other families. */
void gs_addr_put(const struct sockaddr *sa, char *text, size_t cap);
/** The host alone, so that equal bytes are one host: IPv4 as it is mapped into IPv6, other families
 *  all zero. */
#define GS_ADDR_HOST 16
void gs_addr_host(const struct sockaddr *sa, unsigned char ret_host[GS_ADDR_HOST]);
uint16_t gs_addr_port(const struct sockaddr *sa);
/** 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104. */
bool gs_addr_is_loopback(const struct sockaddr *sa);
