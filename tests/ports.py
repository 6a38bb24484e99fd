"""Ports for servers of tests that must know theirs before they start, or keep it over a restart."""

import pathlib
import random
import socket

BELOW = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def free_ports(n: int) -> list[int]:
    """Loopback ports nobody listens on at this moment. None that the kernel gives to whoever connects or asks for any: one
    of those may be taken while its server is being started again."""
    held = {}
    try:
        while len(held) < n:
            port = random.randrange(BELOW // 4, BELOW)
            s = socket.socket()
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                s.close()
            else:
                held[port] = s
        return list(held)
    finally:
        for s in held.values():
            s.close()


def free_port() -> int:
    return free_ports(1)[0]
