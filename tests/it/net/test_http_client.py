"""The HTTP client against servers it does not know: bare sockets for HTTP/1.1, the h2 package for HTTP/2."""

import errno
import socket
import subprocess
import threading
import time

import pytest
from net_tools import until
from peers import Http1, Http2, reply
from ports import free_port

MIB = 1 << 20


@pytest.fixture
def peer():
    running = []

    def start(kind, answer, *args, **more):
        p = kind(answer, *args, **more)
        running.append(p)
        return p

    yield start
    for p in running:
        p.close()


def hello(method, path, headers, body, s):
    return reply(b"hello")


def hello2(link, stream, headers, body):
    link.head(stream, content_type="text/plain")
    link.data(stream, b"hello " + headers[":path"].encode() + b" " + body, end=True)


def failed(results, number):
    assert [int(r["rc"]) for r in results] == [-number] * len(results), results
    return results


# ---- HTTP/1.1 ----


def test_requests_as_sent(peer, ask):
    p = peer(Http1, hello)
    ask("--method", "PATCH", "--data", '{"a":1}', "--type", "application/merge-patch+json", "--header", "X-One: 1", "--header",
        "Accept: application/json", f"{p.url}/a/b?c=d%20e")
    ask("--method", "POST", f"{p.url}/empty")
    ask("--method", "DELETE", f"{p.url}/gone")
    ask("--method", "DELETE", "--data", "{}", f"{p.url}/gone")
    ask("--method", "HEAD", f"{p.url}/head")
    ask("--user", "me", "--password", "pass word", f"{p.url}/basic")
    method, path, headers, body = p.requests[0]
    assert (method, path, body) == ("PATCH", "/a/b?c=d%20e", b'{"a":1}')
    assert headers["content-type"] == "application/merge-patch+json" and headers["x-one"] == "1"
    assert headers["accept"] == "application/json" and headers["user-agent"] == "gpuslice"
    assert "expect" not in headers and "authorization" not in headers
    assert p.requests[1][0] == "POST" and p.requests[1][2]["content-length"] == "0"
    assert p.requests[2][0] == "DELETE" and "content-length" not in p.requests[2][2]
    assert p.requests[3][3] == b"{}" and p.requests[3][2]["content-type"] == "application/json"
    assert p.requests[5][2]["authorization"] == "Basic bWU6cGFzcyB3b3Jk"


@pytest.mark.parametrize("size", [0, 1, 100_000, 5 * MIB])
def test_bodies(peer, ask, tmp_path, size):
    data = bytes(i % 253 + 1 for i in range(size))
    p = peer(Http1, lambda m, path, h, body, s: reply(body))
    file = tmp_path / "body"
    file.write_bytes(data[:MIB])  # the tool reads so much
    result, = ask("--method", "POST", "--data-file", file, p.url)
    assert (result["rc"], result["status"], int(result["bytes"])) == ("0", "200", min(size, MIB))
    assert p.requests[0][3] == data[:MIB]
    q = peer(Http1, lambda m, path, h, body, s: reply(data))
    assert int(ask(q.url)[0]["bytes"]) == size


def test_connections_are_reused(peer, ask):
    p = peer(Http1, hello)
    results = ask("--repeat", 100, p.url)
    assert p.connections == 1 and [r["reused"] for r in results] == ["0"] + ["1"] * 99
    assert all(r["version"] == "11" for r in results)


def test_a_closed_connection_is_replaced(peer, client):
    def once(method, path, headers, body, s):
        s.sendall(reply(b"bye"))
        return None

    p = peer(Http1, once)
    c = client("--hold", p.url)
    c.wait("done 0 rc=0 status=200")
    c.say(f"go {p.url}/again")
    assert "rc=0 status=200" in c.wait("done 1")
    c.say("quit")
    c.end()
    assert p.connections == 2


def test_statuses_are_no_errors(peer, ask):
    answers = {"/404": reply(b"no", "404 Not Found"), "/429": reply(b"", "429 Too Many", "Retry-After: 17"),
               "/date": reply(b"", "503 No", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"),
               "/500": reply(b"x", "500 Oops"), "/204": b"HTTP/1.1 204 No Content\r\n\r\n",
               "/100": b"HTTP/1.1 103 Early Hints\r\nRetry-After: 1\r\n\r\n" + reply(b"late", "200 OK", "Content-Type: text/x")}
    p = peer(Http1, lambda m, path, h, b, s: answers[path])
    results = ask(*(f"{p.url}{path}" for path in answers))
    assert [(r["rc"], r["status"], r["retry"]) for r in results] == [
        ("0", "404", "-1"), ("0", "429", "17"), ("0", "503", "-1"), ("0", "500", "-1"), ("0", "204", "-1"), ("0", "200", "-1")]
    assert results[5]["type"] == "text/x"


def test_redirects_are_not_followed(peer, ask):
    p = peer(Http1, lambda m, path, h, b, s: reply(b"", "302 Found", f"Location: {p.url}/elsewhere"))
    assert ask("--token", "secret", p.url)[0]["status"] == "302"
    assert [r[1] for r in p.requests] == ["/"]


def test_other_schemes_are_refused(ask, client):
    for url in ("file:///etc/passwd", "ftp://localhost/", "gopher://localhost/", "localhost/", "", "http://", "http://a b/"):
        c = client(url)
        assert "rc=-22" in c.wait("refused 0"), url


def test_stream_of_chunks(peer, client):
    go = threading.Event()

    def answer(method, path, headers, body, s):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"}\r\n")
        go.wait(20)
        s.sendall(b"6\r\n{\"bc\"}\r\n0\r\n\r\n")
        return b""

    p = peer(Http1, answer)
    c = client("--stream", p.url)
    assert c.wait("chunk 0 200 5 ") == 'chunk 0 200 5 {"a"}'  # before the answer is whole
    go.set()
    assert c.wait("chunk 0 200 6 ") == 'chunk 0 200 6 {"bc"}'
    result, = c.end()
    assert (result["rc"], result["bytes"]) == ("0", "0")


def test_errors_of_a_stream_are_collected(peer, client):
    """A watch that is refused has its Status object in `body`, not in pieces."""
    p = peer(Http1, lambda m, path, h, b, s: reply(b'{"code":410}', "410 Gone"))
    c = client("--stream", "--body", p.url)
    assert c.wait("body") == 'body {"code":410}'
    assert c.end()[0]["status"] == "410"


@pytest.mark.parametrize("cut", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345",
                                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
                                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n12"], ids=range(5))
def test_cut_connections(peer, ask, pki, cut):
    def answer(method, path, headers, body, s):
        s.sendall(cut)
        return None

    for pair in (None, pki.server):
        p = peer(Http1, answer, pair)
        failed(ask("--ca", pki.ca.cert, p.url), errno.ECONNRESET)
        failed(ask("--ca", pki.ca.cert, "--stream", p.url), errno.ECONNRESET)


@pytest.mark.parametrize("junk", [b"hello there\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"], ids=range(2))
def test_junk(peer, ask, junk):
    def answer(method, path, headers, body, s):
        s.sendall(junk)
        return None

    result, = ask(peer(Http1, answer).url)
    assert int(result["rc"]) in (-errno.EPROTO, -errno.ECONNRESET, -errno.EIO) and result["error"]


def test_endless_headers(peer, ask):
    def answer(method, path, headers, body, s):
        s.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(20_000):
            s.sendall(b"X: " + b"y" * 1000 + b"\r\n")
        return b"\r\n"

    result, = ask("--timeout", 20_000, peer(Http1, answer).url)
    assert int(result["rc"]) != 0


def test_body_limit(peer, ask):
    p = peer(Http1, lambda m, path, h, b, s: reply(b"x" * 1001))
    failed(ask("--limit", 1000, p.url), errno.EFBIG)
    assert ask("--limit", 1001, p.url)[0]["bytes"] == "1001"

    def endless(method, path, headers, body, s):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            s.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n")

    failed(ask("--limit", 1_000_000, peer(Http1, endless).url), errno.EFBIG)


def test_lie_about_length(peer, ask):
    """A huge Content-Length is refused by its number, and reserves nothing."""
    def answer(method, path, headers, body, s):
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nx")
        s.recv(1)
        return None

    failed(ask(peer(Http1, answer).url), errno.EFBIG)


def test_time_limits(peer, ask):
    def silent(method, path, headers, body, s):
        if path != "/none":
            s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        s.recv(1)
        return None

    p = peer(Http1, silent)
    start = time.monotonic()
    assert failed(ask("--timeout", 200, f"{p.url}/none"), errno.ETIMEDOUT)[0]["error"] == "timeout"
    assert failed(ask("--deadline", 200, f"{p.url}/none"), errno.ETIMEDOUT)[0]["error"] == "deadline"
    assert failed(ask("--idle", 200, "--stream", p.url), errno.ETIMEDOUT)[0]["error"] == "the server fell silent"
    assert time.monotonic() - start < 10
    assert failed(ask("--idle", 100, "--timeout", 400, f"{p.url}/none"), errno.ETIMEDOUT)[0]["error"] == "timeout"


def test_bytes_keep_a_stream_alive(peer, ask):
    def drip(method, path, headers, body, s):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(12):
            s.sendall(b"1\r\nx\r\n")
            threading.Event().wait(0.1)
        return b"0\r\n\r\n"

    assert ask("--idle", 600, "--stream", peer(Http1, drip).url)[0]["rc"] == "0"


def test_nobody_there(ask):
    s = socket.create_server(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    failed(ask(f"http://127.0.0.1:{port}/"), errno.ECONNREFUSED)
    failed(ask("http://name.invalid/"), errno.EHOSTUNREACH)


def test_connect_timeout(ask):
    """A port whose queue is full: the handshake does not come to an end."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(0)
    held = []
    for _ in range(3):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(s.getsockname())
        held.append(c)
    failed(ask("--connect", 300, f"http://127.0.0.1:{s.getsockname()[1]}/"), errno.ETIMEDOUT)


def test_cancel(peer, client):
    def silent(method, path, headers, body, s):
        s.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        while s.recv(1):
            pass
        p.closed.set()
        return None

    p = peer(Http1, silent)
    c = client("--stream", "--hold", p.url)
    c.wait("chunk")
    c.say("cancel")
    c.wait("cancelled 0")
    assert p.closed.wait(20)  # the connection is gone at once
    c.say("quit")
    assert c.end() == []  # no word


def test_cancel_inside_a_chunk(peer, client):
    p = peer(Http1, lambda m, path, h, b, s: reply(b"x" * 100_000))
    c = client("--stream", "--cancel-after", 1, p.url)
    c.wait("cancelled 0")
    assert c.end() == []


def test_client_goes_with_calls_running(peer, client):
    def silent(method, path, headers, body, s):
        s.recv(1)
        return None

    p = peer(Http1, silent)
    c = client("--parallel", 3, p.url, p.url, p.url)
    until(lambda: len(p.requests) == 3)
    c.say("quit")
    assert c.process.wait(20) == 0
    assert [line.split()[2] for line in c.out.lines if line.startswith("done")] == [f"rc=-{errno.ECANCELED}"] * 3


# ---- identity ----


def test_token(peer, client, tmp_path):
    p = peer(Http1, hello)
    file = tmp_path / "token"
    file.write_text("first\n")
    c = client("--token-file", file, "--hold", p.url)
    c.wait("done 0")
    file.write_text("second")
    c.say(f"go {p.url}")
    c.wait("done 1")
    file.write_text("")  # half written: the old one serves on
    c.say(f"go {p.url}")
    c.wait("done 2")
    file.unlink()
    c.say(f"go {p.url}")
    c.wait("done 3")
    c.say("quit")
    c.end()
    assert [r[2]["authorization"] for r in p.requests] == ["Bearer first", "Bearer second", "Bearer second", "Bearer second"]
    c = client("--token", "one", "--hold", p.url)
    c.wait("done 0")
    c.say("token two")
    c.say(f"go {p.url}")
    c.wait("done 1")
    c.say("quit")
    c.end()
    assert [r[2]["authorization"] for r in p.requests[4:]] == ["Bearer one", "Bearer two"]


def test_bad_tokens(peer, client, tmp_path):
    p = peer(Http1, hello)
    for text in ("a\r\nX-Evil: 1", "a\nb", "\n", ""):
        file = tmp_path / "token"
        file.write_text(text)
        assert "rc=-13" in client("--token-file", file, p.url).wait("refused 0")
    assert "rc=-13" in client("--token-file", tmp_path / "absent", p.url).wait("refused 0")
    assert "rc=-22" in client("--header", "X: 1\r\nY: 2", p.url).wait("refused 0")
    assert "rc=-22" in client("--method", "GET /x", p.url).wait("refused 0")
    assert p.requests == []


def test_server_certificates(peer, ask, pki):
    p = peer(Http1, hello, pki.server)
    address = p.url.replace("localhost", "127.0.0.1")
    assert ask("--ca", pki.ca.cert, p.url, address)[1]["rc"] == "0"
    assert ask("--ca-pem", pki.ca.cert, p.url)[0]["rc"] == "0"
    failed(ask("--ca", pki.other.cert, p.url), errno.EKEYREJECTED)
    failed(ask("--ca-pem", pki.other.cert, p.url), errno.EKEYREJECTED)
    failed(ask(p.url), errno.EKEYREJECTED)  # the machine's CAs
    assert ask("--insecure", p.url)[0]["rc"] == "0"
    named = peer(Http1, hello, pki.ca.issue("named", "/CN=api", names="DNS:kubernetes.default"))
    failed(ask("--ca", pki.ca.cert, named.url), errno.EKEYREJECTED)
    assert ask("--ca", pki.ca.cert, "--name", "kubernetes.default", named.url + "/x")[0]["rc"] == "0"
    assert named.requests[-1][1] == "/x" and named.requests[-1][2]["host"] == f"localhost:{named.port}"
    late = peer(Http1, hello, pki.ca.issue("late", days=-1))
    failed(ask("--ca", pki.ca.cert, late.url), errno.EKEYREJECTED)


def test_old_tls_is_refused(ask, pki, tmp_path):
    """openssl s_server that speaks 1.1 at most."""
    port = free_port()
    server = subprocess.Popen(["openssl", "s_server", "-accept", str(port), "-cert", str(pki.server[0]), "-key", str(pki.server[1]),
                               "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", "-www", "-quiet"], stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0 and time.monotonic() < end:
            time.sleep(0.02)
        failed(ask("--ca", pki.ca.cert, f"https://localhost:{port}/"), errno.EPROTO)
    finally:
        server.kill()
        server.wait()


def test_client_certificates(peer, client, ask, pki):
    p = peer(Http1, hello, pki.server, client_ca=pki.ca.cert)
    trust = ("--ca", pki.ca.cert)
    assert ask(*trust, "--cert", pki.client[0], "--key", pki.client[1], p.url)[0]["rc"] == "0"
    assert ask(*trust, "--cert-pem", pki.client[0], "--key-pem", pki.client[1], p.url)[0]["rc"] == "0"
    assert int(ask(*trust, p.url)[0]["rc"]) in (-errno.EPROTO, -errno.ECONNRESET)
    assert p.peer_names == ["kube-scheduler"] * 2
    second = pki.ca.issue("second", "/CN=renewed", "clientAuth")
    c = client(*trust, "--cert-pem", pki.client[0], "--key-pem", pki.client[1], "--hold", p.url)
    c.wait("done 0 rc=0")
    c.say(f"go {p.url}")
    c.wait("done 1 rc=0")
    c.say(f"cert {second[0]} {second[1]}")
    c.wait("cert rc=0")
    c.say(f"go {p.url}")
    c.wait("done 2 rc=0")
    c.say("quit")
    assert [r["reused"] for r in c.end()] == ["0", "1", "0"]
    assert p.peer_names[2:] == ["kube-scheduler", "renewed"]


# ---- HTTP/2 ----


def test_http2(peer, ask, client, pki):
    p = peer(Http2, hello2, pki.server)
    trust = ("--ca", pki.ca.cert)
    c = client(*trust, "--body", "--method", "POST", "--data", "{}", "--token", "t", "--header", "X-One: 1", f"{p.url}/a?b=c")
    assert c.wait("body") == "body hello /a?b=c {}"
    result, = c.end()
    assert (result["rc"], result["status"], result["version"], result["type"]) == ("0", "200", "20", "text/plain")
    method, path, headers, body = p.requests[0]
    assert headers["authorization"] == "Bearer t" and headers["x-one"] == "1" and headers["content-type"] == "application/json"


def test_http2_shares_one_connection(peer, ask, pki):
    """100 calls at once, answered in reverse order when all are there."""
    waiting = []

    def answer(link, stream, headers, body):
        waiting.append(stream)
        if len(waiting) % 100 == 0:
            for s in reversed(waiting[-100:]):
                link.head(s)
                link.data(s, b"x" * 100, end=True)

    p = peer(Http2, answer, pki.server)
    results = ask("--ca", pki.ca.cert, "--parallel", 100, "--repeat", 300, p.url)
    assert len(results) == 300 and all(r["rc"] == "0" and r["bytes"] == "100" and r["version"] == "20" for r in results)
    assert p.connections == 1


def test_http2_watch_beside_calls(peer, client, pki):
    streams = {}

    def answer(link, stream, headers, body):
        link.head(stream)
        if headers[":path"] == "/watch":
            streams["watch"] = (link, stream)
            link.data(stream, b"event1\n")
        else:
            link.data(stream, b"ok", end=True)

    p = peer(Http2, answer, pki.server)
    c = client("--ca", pki.ca.cert, "--stream", "--parallel", 8, "--hold", f"{p.url}/watch")
    c.wait("chunk 0 200 7 event1|")
    c.say(f"go {p.url}/other")
    c.wait("done 1 rc=0")
    link, stream = streams["watch"]
    link.data(stream, b"event2\n")
    c.wait("chunk 0 200 7 event2|")
    c.say("cancel")
    c.wait("cancelled 0")
    c.say(f"go {p.url}/more")
    assert "reused=1" in c.wait("done 2 rc=0")
    until(lambda: stream in link.gone)  # RST_STREAM, on a connection that lives on; libcurl 7.88 sends it with the next call
    c.say("quit")
    c.end()
    assert p.connections == 1


def test_http2_cuts(peer, ask, pki):
    def reset(link, stream, headers, body):
        link.head(stream)
        link.data(stream, b"part")
        link.reset(stream)

    def close(link, stream, headers, body):
        link.head(stream)
        link.data(stream, b"part")
        link.sock.shutdown(socket.SHUT_RDWR)

    for answer in (reset, close):
        p = peer(Http2, answer, pki.server)
        result, = ask("--ca", pki.ca.cert, p.url)
        assert int(result["rc"]) in (-errno.ECONNRESET, -errno.EPROTO), result


def test_http2_goaway_starts_a_new_connection(peer, client, pki):
    def answer(link, stream, headers, body):
        hello2(link, stream, headers, body)
        link.goaway()

    p = peer(Http2, answer, pki.server)
    c = client("--ca", pki.ca.cert, "--hold", p.url)
    c.wait("done 0 rc=0")
    c.say(f"go {p.url}")
    c.wait("done 1 rc=0")
    c.say("quit")
    c.end()
    assert p.connections == 2


def test_http1_where_asked(peer, ask, pki):
    p = peer(Http1, hello, pki.server, alpn=("h2", "http/1.1"))
    assert ask("--http1", "--ca", pki.ca.cert, p.url)[0]["version"] == "11"


def test_our_own_server(serve, ask, pki):
    """Both ends together: TLS, a client certificate, 2,000 calls, 50 at a time."""
    server = serve("--cert", pki.server[0], "--key", pki.server[1], "--ca", pki.ca.cert, "--required")
    results = ask("--ca", pki.ca.cert, "--cert", pki.client[0], "--key", pki.client[1], "--parallel", 50, "--repeat", 2000, "--method", "POST",
                  "--data", "x" * 5000, f"https://localhost:{server.port}/echo")
    assert len(results) == 2000 and all(r["rc"] == "0" and r["bytes"] == "5000" for r in results)
