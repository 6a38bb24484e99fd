"""What the HTTP server says on the wire, seen by curl, http.client and bare sockets."""

import socket
import subprocess
import threading

import pytest
from net_tools import read_reply, readable, wait_closed

MIB = 1 << 20


def curl(*args):
    return subprocess.run(["curl", "-s", "--noproxy", "*", *map(str, args)], capture_output=True, text=True, timeout=60)


def test_routes(serve):
    server = serve()
    base = f"http://127.0.0.1:{server.port}"
    assert curl(f"{base}/hello").stdout == "hello\n"
    head = curl("-I", f"{base}/hello").stdout
    assert head.startswith("HTTP/1.1 200") and "Content-Length: 6" in head and "hello" not in head
    assert server.get("/nope")[0] == 404
    status, _, reply = server.get("/echo", method="DELETE")
    assert status == 405 and reply.headers["Allow"] == "POST, PUT"
    status, _, reply = server.get("/hello", method="POST", body=b"x")
    assert status == 405 and reply.headers["Allow"] == "GET, HEAD"
    status, body, reply = server.get("/fail")
    assert status == 500 and b"must not" not in body
    status, body, reply = server.get("/busy")
    assert status == 429 and reply.headers["Retry-After"] == "7" and body == b""
    assert b"path=/tree/a/b " in server.get("/tree/a/b")[1]
    assert server.get("/tree")[0] == 404 and server.get("/hello/")[0] == 404


def test_views(serve):
    server = serve()
    text = server.get("/who?a=1%202&b", headers={"X-Test": "q"})[1].decode()
    assert "verified=0 cn= o= loopback=1 tls=0 peer=127.0.0.1:" in text
    assert " path=/who x=q a=1 2\n" in text


def test_bodies(serve):
    server = serve()
    for n in (0, 1, 1023, 65536, 100_000, 3 * MIB + 1):
        data = bytes(i % 251 for i in range(n))
        assert server.get("/echo", method="POST", body=data)[1] == data
    done = subprocess.run(["curl", "-s", "-T", "-", "-H", "Transfer-Encoding: chunked", f"http://127.0.0.1:{server.port}/echo"],
                          input=b"chunk" * 100_000, capture_output=True, timeout=60)
    assert done.stdout == b"chunk" * 100_000
    assert server.stats()["body"] == 0


def test_connection_is_kept(serve):
    server = serve()
    c = server.http()
    for i in range(500):
        c.request("POST", "/echo", str(i).encode())
        assert c.getresponse().read() == str(i).encode()
    c.request("GET", "/stats")
    assert b'"accepted":1,' in c.getresponse().read()


def test_pipelined_requests_are_answered_in_order(serve):
    server = serve()
    s = server.connect()
    ask = b"".join(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n%02d" % i for i in range(20))
    s.sendall(ask + b"GET /later?ms=20 HTTP/1.1\r\nHost: x\r\n\r\n" + b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
    data = b""
    while not data.endswith(b"hello\n"):
        more = s.recv(65536)
        assert more
        data += more
    bodies = [part.split(b"HTTP/1.1")[0] for part in data.split(b"\r\n\r\n")[1:]]
    assert bodies == [b"%02d" % i for i in range(20)] + [b"later\n", b"hello\n"]


def test_http10_and_close(serve):
    server = serve()
    s = server.connect()
    s.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
    assert read_reply(s)[2] == b"hello\n"
    wait_closed(s)
    s = server.connect()
    s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert read_reply(s)[2] == b"hello\n"
    wait_closed(s)


def test_answers_later(serve):
    server = serve()
    assert server.get("/later?ms=30")[1] == b"later\n"
    assert server.get("/later?now=1")[1] == b"later\n"
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(server.get("/later?ms=100")[1])) for _ in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert replies == [b"later\n"] * 50
    assert server.stats()["pending"] == 0


@pytest.mark.parametrize("blind", [0, 1])
def test_peer_leaves_while_an_answer_is_pending(serve, blind):
    server = serve()
    s = server.connect()
    s.sendall(b"POST /later?ms=300&blind=%d HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody" % blind)
    server.until(lambda now: now["pending"] == 1)
    s.close()
    server.until(lambda now: now["pending"] == 0 and now["open"] == 1)
    if not blind:
        server.out.wait("gone")
    # The blind one answers a token whose peer is gone: dropped. Its answer is due before this one's.
    assert server.get("/later?ms=600")[1] == b"later\n"


def test_peer_resets_while_an_answer_is_pending(serve):
    server = serve()
    s = server.connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    s.sendall(b"GET /later?ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
    server.until(lambda now: now["pending"] == 1)
    s.close()
    server.out.wait("gone")


# ---- limits ----


def test_largest_body(serve):
    """64 MiB is the default: exactly so much passes, one byte more does not."""
    server = serve()
    status, body, _ = server.get("/size", method="POST", body=b"\0" * (64 * MIB))
    assert (status, body) == (200, b"%d 0\n" % (64 * MIB))
    status, _, reply = server.get("/size", method="POST", body=b"\0" * (64 * MIB + 1))
    assert status == 413 and reply.headers["Connection"] == "close"
    stats = server.stats()
    assert stats["body"] == 0 and stats["size"] == 1


def test_too_large_is_said_before_it_is_sent(serve, tmp_path):
    """curl asks for leave to send (Expect: 100-continue) and gets the refusal instead."""
    server = serve("--body-limit", 1000)
    big = tmp_path / "big"
    big.write_bytes(b"x" * 2_000_000)
    done = curl("-w", "%{http_code} %{size_upload}", "-o", tmp_path / "out", "-H", "Expect: 100-continue", "--data-binary", f"@{big}",
                f"http://127.0.0.1:{server.port}/size")
    assert done.stdout == "413 0"


def test_chunked_body_beyond_the_limit(serve):
    server = serve("--body-limit", 1000)
    s = server.connect()
    s.sendall(b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\ny\r\n0\r\n\r\n")
    status, headers, _, _ = read_reply(s)
    assert " 413 " in status and headers["connection"] == "close"
    wait_closed(s)
    s = server.connect()
    s.sendall(b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
    with pytest.raises(OSError):  # endless: cut without an answer
        for _ in range(1_000_000):
            s.sendall(chunk)
    assert server.get("/hello")[0] == 200


def test_refused_bodies_are_not_kept(serve):
    server = serve()
    for path, method, status in (("/nope", "POST", 404), ("/hello", "POST", 405)):
        c = server.http()
        c.request(method, path, b"x" * (20 * MIB))
        assert c.getresponse().status == status
        c.close()
    assert server.rss_mib() < 20 or "asan" in str(server.process.args[0])


def test_all_bodies_together_are_limited(serve):
    server = serve("--body-limit", 1000, "--bodies-limit", 1500)
    first, second = server.connect(), server.connect()
    ask = b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    first.sendall(ask + b"x" * 999)
    server.until(lambda now: now["body"] == 999)
    second.sendall(ask + b"y" * 1000)
    status, headers, _, _ = read_reply(second)
    assert " 503 " in status and headers["retry-after"] == "1"
    first.sendall(b"x")
    assert " 200 " in read_reply(first)[0]
    server.until(lambda now: now["body"] == 0)


def test_announcing_costs_no_memory(serve):
    server = serve()
    before = server.rss_mib()
    idle = []
    for _ in range(200):
        s = server.connect()
        s.sendall(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\nx")
        idle.append(s)
    server.until(lambda now: now["body"] == 200)
    assert server.rss_mib() - before < 40 or "asan" in str(server.process.args[0])


@pytest.mark.parametrize("junk", [
    b"\r\n\r\n\r\n\0\0\0\0",
    b"GET\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
    b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    b"POST /size HTTP/1.1\r\nHost: x\r\ncontent-length: 5\r\nX: y\r\nContent-Length: 3\r\n\r\nabcde",
    b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /size HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n",
    b"GET /hello HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /hello HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"GET /hello HTTP/9.9\r\nHost: x\r\n\r\n",
], ids=range(14))
def test_junk(serve, junk):
    """Whatever comes: an error or a closed connection, and the next one is served."""
    server = serve("--header-ms", 500, "--request-ms", 500)
    s = server.connect()
    try:
        s.sendall(junk)
        s.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    data = b""
    try:
        while more := s.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    assert data == b"" or data.split(b" ")[1][:1] in (b"4", b"5"), data[:100]
    assert server.get("/hello")[1] == b"hello\n"


# ---- time ----


@pytest.mark.parametrize("start", [
    b"", b"GET /hel", b"GET /hello HTTP/1.1\r\nHost: x\r\nX: ",
])
def test_slow_headers_are_cut(serve, start):
    server = serve("--header-ms", 500)
    s = server.connect()
    if start:
        s.sendall(start)
    assert server.get("/hello")[0] == 200  # others are served meanwhile
    assert wait_closed(s) < 5
    assert server.stats()["timeouts"] == 1


def test_dripping_headers_are_cut(serve):
    """Each byte resets an idle timer, not a deadline."""
    server = serve("--header-ms", 1000)
    s = server.connect()
    s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n")
    with pytest.raises(OSError):
        for _ in range(200):
            s.sendall(b"X: y\r\n")
            s.settimeout(0.1)
            try:
                if not s.recv(1):
                    raise ConnectionResetError
            except socket.timeout:
                pass


def test_slow_body_is_cut(serve):
    server = serve("--request-ms", 500)
    s = server.connect()
    s.sendall(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345")
    assert wait_closed(s) < 5
    assert server.stats() | {"requests": 0, "accepted": 0} == {
        "accepted": 0, "open": 1, "requests": 0, "pending": 0, "access": 0, "size": 0, "timeouts": 1, "crowded": 0,
        "reloads": 0, "failures": 0, "body": 0}


def test_slow_reader_is_cut(serve):
    server = serve("--request-ms", 500)
    s = server.connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.sendall(b"GET /big?n=50000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    server.until(lambda now: now["timeouts"] == 1)
    server.until(lambda now: now["open"] == 1)


def test_pending_answers_are_not_cut(serve):
    server = serve("--header-ms", 200, "--request-ms", 200, "--idle-ms", 200)
    assert server.get("/later?ms=2500")[1] == b"later\n"


def test_idle_connections_end(serve):
    server = serve("--idle-ms", 500)
    s = server.connect()
    s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_reply(s)[2] == b"hello\n"
    assert not readable(s)
    assert wait_closed(s) < 5
    assert server.stats()["timeouts"] == 0  # nobody's fault


# ---- many ----


def test_thousand_connections(serve):
    server = serve()
    socks = [server.connect() for _ in range(1000)]
    for round in range(3):
        for i, s in enumerate(socks):
            s.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n%04d" % i)
        for i, s in enumerate(socks):
            assert read_reply(s)[2] == b"%04d" % i
    assert server.until(lambda now: now["open"] == 1001)["requests"] >= 3000
    for s in socks:
        s.close()
    server.until(lambda now: now["open"] == 1)


def test_listeners(serve, pki):
    server = serve("--cert", pki.server[0], "--key", pki.server[1], "--plain", ":0", listeners=2)
    assert server.get("/who", pki.context())[1].count(b"tls=1") == 1
    port = server.addresses[1][1]
    for host in ("127.0.0.1", "[::1]"):
        assert " tls=0 " in curl(f"http://{host}:{port}/who").stdout
        assert "loopback=1" in curl(f"http://{host}:{port}/who").stdout


def test_bad_addresses(serve):
    with pytest.raises(AssertionError):
        serve(address="127.0.0.1")
