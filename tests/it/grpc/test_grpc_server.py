"""The gRPC server of src/net with grpcio as its client."""

import errno
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import threading

import grpc
import pytest
from grpc_peers import BUILD, MIB, channel, child, unary, watch

Code = grpc.StatusCode
LIMIT = 4 * MIB


def refused(call):
    with pytest.raises(grpc.RpcError) as error:
        call()
    return error.value.code(), error.value.details()


# ---- messages ----


@pytest.mark.parametrize("size", [0, 1, 16384, 100_000, LIMIT])
def test_messages(serve, path, size):
    serve()
    data = random.Random(size).randbytes(size)
    with channel(path) as c:
        assert unary(c, "/test.Unary/Echo")(data) == data


def test_a_message_beyond_the_limit(serve, path):
    server = serve("--message-limit", 1000)
    with channel(path) as c:
        echo = unary(c, "/test.Unary/Echo")
        assert echo(b"x" * 1000) == b"x" * 1000
        for size in (1001, 100_000, 8 * MIB):
            assert refused(lambda: echo(b"x" * size))[0] == Code.RESOURCE_EXHAUSTED
        assert echo(b"y") == b"y"
    assert server.stats()["calls"] == 2


def test_an_answer_beyond_the_limit(serve, path):
    """What Go's peers would not take is not sent."""
    serve()
    with channel(path) as c:
        big = unary(c, "/test.Unary/Big")
        assert len(big(str(LIMIT).encode())) == LIMIT
        assert refused(lambda: big(str(LIMIT + 1).encode())) == (Code.RESOURCE_EXHAUSTED, "the answer is beyond the limit")


def test_no_message(serve, path):
    serve()
    with channel(path) as c:
        for method in ("/test.Unary/Echo", "/test.Watch/Watch"):
            call = c.stream_unary(method, request_serializer=None, response_deserializer=None)
            assert refused(lambda: call(iter(())))[0] == Code.INVALID_ARGUMENT


def test_a_compressed_message(serve, path):
    serve()
    with channel(path) as c:
        echo = unary(c, "/test.Unary/Echo")
        with pytest.raises(grpc.RpcError) as error:
            echo(b"x" * 10_000, compression=grpc.Compression.Gzip)
        assert error.value.code() == Code.UNIMPLEMENTED
        assert echo(b"x") == b"x"


# ---- statuses ----


@pytest.mark.parametrize("method", ["/test.Unary/None", "/none", "/test.Unary/Echo/", "/test.unary/echo", "/v1beta1.DevicePlugin/"])
def test_wrong_methods(serve, path, method):
    serve()
    with channel(path) as c:
        assert refused(lambda: unary(c, method)(b"")) == (Code.UNIMPLEMENTED, "no such method")


@pytest.mark.parametrize("number,code", [
    (errno.ECANCELED, Code.CANCELLED), (errno.EINVAL, Code.INVALID_ARGUMENT), (errno.ETIMEDOUT, Code.DEADLINE_EXCEEDED),
    (errno.ENOENT, Code.NOT_FOUND), (errno.EEXIST, Code.ALREADY_EXISTS), (errno.EACCES, Code.PERMISSION_DENIED),
    (errno.ENOSPC, Code.RESOURCE_EXHAUSTED), (errno.ENOMEM, Code.RESOURCE_EXHAUSTED), (errno.EBUSY, Code.FAILED_PRECONDITION),
    (errno.EAGAIN, Code.ABORTED), (errno.ENOSYS, Code.UNIMPLEMENTED), (errno.EIO, Code.INTERNAL), (errno.EXDEV, Code.INTERNAL),
    (errno.ECONNREFUSED, Code.UNAVAILABLE), (errno.EPERM, Code.UNAUTHENTICATED)])
def test_statuses(serve, path, number, code):
    serve()
    text = "50 % of what ü said: \"no\""
    with channel(path) as c:
        assert refused(lambda: unary(c, "/test.Unary/Fail")(f"{number} {text}".encode())) == (code, text)


# ---- calls that take their time ----


def test_an_answer_that_comes_later(serve, path):
    server = serve()
    with channel(path) as c:
        later, echo = unary(c, "/test.Unary/Later"), unary(c, "/test.Unary/Echo")
        slow = later.future(b"200")
        assert echo(b"first") == b"first"
        assert slow.result(30) == b"200"
    assert server.until(lambda now: now["open"] == 0)["gone"] == 0


def test_a_deadline_that_passes(serve, path):
    server = serve()
    with channel(path) as c:
        assert refused(lambda: unary(c, "/test.Unary/Later")(b"600000", timeout=0.2))[0] == Code.DEADLINE_EXCEEDED
        server.out.take("gone")
    assert server.stats()["active"] == 0


def test_a_cancelled_call(serve, path):
    server = serve()
    with channel(path) as c:
        call = unary(c, "/test.Unary/Later").future(b"600000")
        server.until(lambda now: now["active"] == 1)
        assert call.cancel()
        server.out.take("gone")
        assert unary(c, "/test.Unary/Echo")(b"x") == b"x"
    assert server.stats()["gone"] == 1


def test_two_hundred_calls_at_once(serve, path):
    server = serve()
    with channel(path) as c:
        later = unary(c, "/test.Unary/Later")
        calls = [later.future(b"600000") for _ in range(200)]
        server.until(lambda now: now["active"] == 200)
        some = [later.future(b"%d" % (i % 50)) for i in range(200)]
        assert [f.result(30) for f in some] == [b"%d" % (i % 50) for i in range(200)]
        for call in calls:
            call.cancel()
        assert server.until(lambda now: now["active"] == 0)["gone"] == 200


def test_too_many_calls(serve, path):
    """A peer that keeps to the limit it is told waits; another one is refused."""
    server = serve("--max-calls", 3)
    with channel(path) as c, channel(path) as d:
        calls = [unary(c, "/test.Unary/Later").future(b"600000") for _ in range(4)]
        server.until(lambda now: now["active"] == 3)
        assert refused(lambda: unary(d, "/test.Unary/Echo")(b"")) == (Code.RESOURCE_EXHAUSTED, "too many calls")
        calls[0].cancel()  # the fourth takes its place
        server.until(lambda now: now["calls"] == 4)
        calls[1].cancel()
        server.until(lambda now: now["active"] == 2)
        assert unary(d, "/test.Unary/Echo")(b"x") == b"x"


def test_calls_that_send_nothing_count(serve, path):
    """Opened, with no message yet: they take a place like others, and give it back."""
    server = serve("--max-calls", 3)
    never = threading.Event()

    def silence():
        never.wait(60)
        yield b""

    with channel(path) as c, channel(path) as d:
        calls = [c.stream_unary("/test.Unary/Echo", request_serializer=None, response_deserializer=None).future(silence()) for _ in range(3)]
        server.until(lambda now: now["active"] == 3)
        assert refused(lambda: unary(d, "/test.Unary/Echo")(b"")) == (Code.RESOURCE_EXHAUSTED, "too many calls")
        for call in calls:
            call.cancel()
        server.until(lambda now: now["active"] == 0)
        assert unary(d, "/test.Unary/Echo")(b"x") == b"x"
        never.set()
    assert server.stats()["calls"] == 1


# ---- connections ----


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(str(path))
    return s


def test_too_many_connections(serve, path):
    server = serve("--max-connections", 2)
    a, b = connect(path), connect(path)
    server.until(lambda now: now["open"] == 2)
    c = connect(path)
    assert c.recv(1) == b""  # the others were told something by now, this one nothing
    assert server.stats()["crowded"] == 1
    a.close()
    server.until(lambda now: now["open"] == 1)
    with channel(path) as d:
        assert unary(d, "/test.Unary/Echo")(b"x") == b"x"
    b.close()
    assert "too many connections" in server.err.take("")


def test_no_descriptor_left(serve, path):
    """A connection that cannot be taken now is taken when there is room again."""
    server = serve()
    pid = server.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(set(range(1000)) - taken), before[1]))
    with channel(path) as c:
        waiting = unary(c, "/test.Unary/Echo").future(b"x")
        assert "no connection can be taken for a moment" in server.err.take("")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        assert waiting.result(30) == b"x"
    assert server.stats()["connections"] == 1
    server.err.lines.clear()
    server.err.lines.clear()  # it may have said so more than once


@pytest.mark.parametrize("junk", [b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000,
                                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", random.Random(1).randbytes(5000)],
                         ids=["end", "nul", "http1", "preface", "settings", "junk"])
def test_peers_that_speak_something_else(serve, path, junk):
    server = serve()
    with channel(path) as c:
        echo = unary(c, "/test.Unary/Echo")
        assert echo(b"before") == b"before"
        for _ in range(5):
            s = connect(path)
            s.sendall(junk)
            s.close()
        assert echo(b"after") == b"after"
        server.until(lambda now: now["open"] == 1 and now["connections"] == 6)


def test_a_killed_peer(serve, path):
    server = serve()
    assert server.say("publish 10 p", "published") == "0"
    peer = child("""
from grpc_peers import *
with channel(sys.argv[1]) as c:
    call = unary(c, "/test.Unary/Later").future(b"600000")
    stream = watch(c)
    print(next(stream), flush=True)
    time.sleep(600)
""", path)
    server.until(lambda now: now["active"] == 1 and now["streams"] == 1)
    peer.send_signal(signal.SIGKILL)
    peer.wait()
    server.out.take("gone")
    server.out.take("watched 0")
    server.until(lambda now: now["open"] == 0 and now["active"] == 0 and now["streams"] == 0)


# ---- stopping, and the socket's file ----


def test_a_stop_finishes_what_runs(serve, path):
    server = serve()
    with channel(path) as c:
        running = unary(c, "/test.Unary/Later").future(b"500")
        stream = watch(c)
        server.until(lambda now: now["active"] == 1 and now["streams"] == 1)
        server.say("stop 60000")
        with pytest.raises(grpc.RpcError) as error:
            next(stream)
        assert error.value.code() == Code.UNAVAILABLE
        assert not path.exists()
        assert running.result(30) == b"500"
        server.out.take("stopped")
        assert refused(lambda: unary(c, "/test.Unary/Echo")(b""))[0] == Code.UNAVAILABLE


def test_a_stop_cuts_what_takes_too_long(serve, path):
    server = serve()
    with channel(path) as c:
        running = unary(c, "/test.Unary/Later").future(b"600000")
        server.until(lambda now: now["active"] == 1)
        server.say("stop 100")
        server.out.take("gone")
        server.out.take("stopped")
        assert refused(running.result)[0] == Code.UNAVAILABLE


def test_killed_and_started_again(serve, path):
    first = serve()
    with channel(path, initial_reconnect_backoff_ms=100, max_reconnect_backoff_ms=200) as c:
        echo = unary(c, "/test.Unary/Echo")
        running = unary(c, "/test.Unary/Later").future(b"600000")
        first.until(lambda now: now["active"] == 1)
        first.kill()
        assert refused(running.result)[0] == Code.UNAVAILABLE
        assert path.exists()  # nobody could remove it
        serve()
        assert echo(b"again", wait_for_ready=True, timeout=30) == b"again"


def test_mode_of_the_socket(serve, path):
    serve()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == [path.name]


def test_the_socket_is_removed_or_made_anew(serve, path):
    server = serve()
    assert server.say("check", "check") == "0"
    path.unlink()
    assert server.say("check", "check") == str(-errno.ENOENT)
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(path))
    assert server.say("check", "check") == str(-errno.ESTALE)
    with channel(path) as c:
        assert refused(lambda: unary(c, "/test.Unary/Echo")(b"", timeout=10))[0] == Code.UNAVAILABLE
    assert server.say("relisten", "relisten").startswith("0")
    assert server.say("check", "check") == "0"
    with channel(path) as c:
        assert unary(c, "/test.Unary/Echo")(b"x") == b"x"
    other.close()


def test_a_newer_server_takes_over(tool, path):
    """Calls and streams of the old one go on until it stops; its stop leaves the new one's socket alone."""
    old = tool("--serve", path)
    with channel(path) as c:
        running = unary(c, "/test.Unary/Later").future(b"1000")
        old.until(lambda now: now["active"] == 1)
        new = tool("--serve", path)
        assert old.say("check", "check") == str(-errno.ESTALE)
        old.say("stop 60000")
        assert running.result(30) == b"1000"
        old.out.take("stopped")
    assert new.say("check", "check") == "0"
    with channel(path) as c:
        assert unary(c, "/test.Unary/Echo")(b"x") == b"x"
    assert new.stats()["connections"] == 1


def test_a_place_that_is_taken(path):
    path.write_text("a file")
    done = subprocess.run([BUILD / "tests" / "it" / "grpc" / "grpc_tool", "--serve", path], capture_output=True, text=True)
    assert done.returncode == 1 and "something else than a socket" in done.stderr
    assert path.read_text() == "a file"
