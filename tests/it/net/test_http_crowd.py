"""Peers that open connections and do nothing with them keep nobody else out."""

import json
import resource
import socket
import ssl
import time

import pytest
from net_tools import read_reply, readable, until, wait_closed

HELLO = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_HEAD = b"GET /hello HTTP/1.1\r\nHost: x\r\n"
HALF_BODY = b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"
SLOW_READER = b"GET /big?n=5000000 HTTP/1.1\r\nHost: x\r\n\r\n"
AT_ONCE_S = 5  # nobody would be served for 15 s else; mostly it is milliseconds


@pytest.fixture(autouse=True, scope="module")
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Crowd:
    """Connections from addresses of 127.0.0.0/8 that are kept open, whatever the server does."""

    def __init__(self, server):
        self.server, self.socks = server, []

    def grow(self, n, hosts, start=b"", context=None):
        for i in range(n):
            s = socket.socket()
            s.bind((hosts[i % len(hosts)], 0))
            s.settimeout(AT_ONCE_S)
            s.connect((self.server.host, self.server.port))
            try:
                if context:
                    s = context.wrap_socket(s, server_hostname="localhost")
                if start:
                    s.sendall(start)
            except OSError:
                pass  # it had to leave for a later one
            self.socks.append(s)

    def close(self):
        for s in self.socks:
            s.close()


@pytest.fixture
def crowd():
    crowds = []

    def make(server):
        crowds.append(Crowd(server))
        return crowds[-1]

    yield make
    for one in crowds:
        one.close()


class Good:
    """A client with a kept connection, and one that comes anew each time."""

    def __init__(self, server, context=None):
        self.server, self.context, self.slowest = server, context, 0.0
        self.kept = server.http(context, AT_ONCE_S)
        self.ask_kept()

    def ask_kept(self):
        start = time.monotonic()
        self.kept.request("GET", "/hello")
        assert self.kept.getresponse().read() == b"hello\n"
        self.slowest = max(self.slowest, time.monotonic() - start)

    def ask_anew(self):
        start = time.monotonic()
        c = self.server.http(self.context, AT_ONCE_S)
        c.request("POST", "/echo", b"anew")
        assert c.getresponse().read() == b"anew"
        c.close()
        self.slowest = max(self.slowest, time.monotonic() - start)


def hosts_of(n):
    return [f"127.0.{1 + i // 200}.{1 + i % 200}" for i in range(n)]


@pytest.mark.parametrize("hosts", [1, 3, 60])
def test_thousands_of_idle_connections(serve, crowd, hosts):
    """As many as by default; from one address, from few that are greedy, from many that are not."""
    server, names = serve(), hosts_of(hosts)
    good, idle = Good(server), crowd(server)
    connection = good.kept.sock
    for _ in range(12):
        idle.grow(500, names)
        good.ask_kept()
        good.ask_anew()
    assert good.kept.sock is connection  # it had sent a request, others had not
    stats = server.stats()
    assert stats["crowded"] >= 6000 - 4096 and stats["timeouts"] == 0
    assert stats["open"] <= 4096 + 16
    assert server.until(lambda now: now["open"] <= 4096)["open"] > 4000
    told = server.err.wait('{"ts"')
    assert "too many connections" in told and '"last_peer":"127.0.1.' in told
    assert sum("too many" in line for line in server.err.lines) == 1  # not each second
    print(f"slowest answer {good.slowest * 1000:.0f} ms")


@pytest.mark.parametrize("hosts", [1, 60])
@pytest.mark.parametrize("start", [HELLO, HALF_HEAD, HALF_BODY, SLOW_READER], ids=["idle", "head", "body", "reader"])
def test_connections_in_the_middle_of_something(serve, crowd, hosts, start):
    """Those that began a request are pushed out as well, for they could do so for ever."""
    server, names = serve("--connections", 60), hosts_of(hosts)
    good, idle = Good(server), crowd(server)
    for _ in range(6):
        idle.grow(40, names, start)
        good.ask_anew()
        if hosts == 1:  # of greedy peers only the greedy one's are closed
            good.ask_kept()
    assert server.stats()["crowded"] >= 150


@pytest.mark.parametrize("hosts", [1, 20])
def test_idle_tls_connections(serve, pki, crowd, hosts):
    """Without a handshake, with half of one, with a whole one, with a request."""
    server, names = serve("--cert", pki.server[0], "--key", pki.server[1], "--connections", 200), hosts_of(hosts)
    context = pki.context()
    good, idle = Good(server, context), crowd(server)
    connection = good.kept.sock
    for _ in range(10):
        idle.grow(200, names)
        idle.grow(100, names, b"\x16\x03\x01\x02\x00\x01\x00")
        idle.grow(20, names, context=context)
        if hosts == 1:
            idle.grow(20, names, HELLO, context)
        good.ask_kept()
        good.ask_anew()
    assert good.kept.sock is connection
    assert server.stats(context)["crowded"] >= 3000
    print(f"slowest answer {good.slowest * 1000:.0f} ms")


def test_two_listeners_fill_apart(serve, crowd):
    server = serve("--connections", 50, "--plain", "127.0.0.1:0", listeners=2)
    idle = crowd(server)
    idle.grow(200, hosts_of(5))
    with socket.create_connection(server.addresses[1], AT_ONCE_S) as s:
        s.sendall(HELLO)
        assert read_reply(s)[2] == b"hello\n"


def test_the_longest_idle_one_goes(serve):
    server = serve("--connections", 10)
    socks = [server.connect() for _ in range(10)]
    for s in [*socks, socks[0]]:
        s.sendall(HELLO)
        assert read_reply(s)[2] == b"hello\n"
    late = server.connect()
    late.sendall(HELLO)
    assert read_reply(late)[2] == b"hello\n"
    wait_closed(socks[1])  # the first one had asked again
    assert not any(readable(s) for s in [socks[0], *socks[2:], late])


def test_a_share_counts_only_when_it_is_full(serve, crowd):
    """kube-apiserver and kube-scheduler come from one address with as many as they like."""
    server = serve("--connections", 100, "--per-peer", 10)
    many = crowd(server)
    many.grow(99, ["127.0.0.9"], HELLO)
    assert server.until(lambda now: now["open"] == 100)["crowded"] == 0
    for s in many.socks:
        assert read_reply(s)[2] == b"hello\n"
        assert not readable(s)


def pending(address):
    """Of the first listener, asked at the second."""
    with socket.create_connection(address, AT_ONCE_S) as s:
        s.sendall(b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n")
        return json.loads(read_reply(s)[2])["pending"]


def test_requests_that_wait_for_us_stay(serve):
    """Only these can fill a listener: then a new one waits, and is served when it is its turn."""
    server = serve("--connections", 10, "--plain", "127.0.0.1:0", listeners=2)
    waiting = []
    for i in range(26):  # so many the library has at most
        s = server.connect()
        s.sendall(b"GET /later?ms=%d HTTP/1.1\r\nHost: x\r\n\r\n" % (4000 if i == 0 else 6000))
        waiting.append(s)
        until(lambda: pending(server.addresses[1]) == len(waiting))
    late = server.connect()
    late.sendall(HELLO)
    late.settimeout(0.5)
    with pytest.raises(socket.timeout):
        late.recv(1)
    late.settimeout(20)
    assert read_reply(waiting[0])[2] == b"later\n"
    waiting[0].close()
    assert read_reply(late)[2] == b"hello\n"
    for s in waiting[1:]:
        assert read_reply(s)[2] == b"later\n"


def test_stop_in_a_crowd(serve, crowd):
    server = serve("--connections", 50, "--stop-idle-ms", 200)
    idle = crowd(server)
    idle.grow(300, hosts_of(7))
    good = server.connect()
    good.sendall(b"GET /later?ms=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
    # its connection is new; those behind it are not enough to push it out
    server.until(lambda now: now["pending"] == 1)
    idle.grow(20, hosts_of(7))
    server.process.terminate()
    assert read_reply(good)[2] == b"later\n"
    server.out.wait("stopped 0")


def test_first_request_has_a_deadline(serve, pki):
    """TLS: from connecting to the end of the first headers, whatever part of it is done."""
    server = serve("--cert", pki.server[0], "--key", pki.server[1], "--header-ms", 1000)
    raw, half = server.connect(), server.connect()
    half.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    done = pki.context().wrap_socket(server.connect(), server_hostname="localhost")
    for s in (raw, half):
        assert wait_closed(s) < 10
    done.settimeout(10)
    try:
        assert done.recv(1) == b""
    except (ssl.SSLError, ConnectionResetError):
        pass
    assert server.until(lambda now: now["timeouts"] == 3, pki.context())["open"] == 1
