"""The gRPC client of src/net with grpcio, and with peers that are none, as its server."""

import errno
import random
import signal
import socket
import threading

import grpc
import pytest
from grpc_peers import MIB, child

Code = grpc.StatusCode
JUNK = random.Random(1).randbytes(5000)


def echo(message, context):
    return message


def big(message, context):
    return b"x" * int(message)


@pytest.fixture
def caller(tool, path):
    t = tool()

    def start(limit=0, at=path):
        assert t.say(f"client {at} {limit}", "client") == "0"
        return t

    return start


def fields(done):
    return done["rc"], done["status"], done["bytes"]


@pytest.mark.parametrize("size", [0, 1, 100_000, 4 * MIB])
def test_messages(caller, peer, size):
    peer({"/s/Echo": echo}, max_receive_message_length=16 * MIB)
    t = caller()
    t.say(f"call /s/Echo 30000 {size}")
    assert t.done(0) == {"rc": 0, "status": 0, "bytes": size, "error": ""}


def test_limit_of_an_answer(caller, peer):
    peer({"/s/Big": big})
    t = caller()
    t.say(f"text /s/Big 30000 {4 * MIB}")
    assert t.done(0)["bytes"] == 4 * MIB
    t.say(f"text /s/Big 30000 {4 * MIB + 1}")
    assert fields(t.done(1)) == (-errno.ENOSPC, 8, 0)
    t = caller(limit=16 * MIB)
    t.say(f"text /s/Big 30000 {16 * MIB}")
    assert t.done(2)["bytes"] == 16 * MIB


@pytest.mark.parametrize("code,rc", [
    (Code.CANCELLED, -errno.ECANCELED), (Code.UNKNOWN, -errno.EREMOTEIO), (Code.INVALID_ARGUMENT, -errno.EINVAL),
    (Code.DEADLINE_EXCEEDED, -errno.ETIMEDOUT), (Code.NOT_FOUND, -errno.ENOENT), (Code.ALREADY_EXISTS, -errno.EEXIST),
    (Code.PERMISSION_DENIED, -errno.EACCES), (Code.RESOURCE_EXHAUSTED, -errno.ENOSPC), (Code.FAILED_PRECONDITION, -errno.EBUSY),
    (Code.ABORTED, -errno.EAGAIN), (Code.OUT_OF_RANGE, -errno.ERANGE), (Code.UNIMPLEMENTED, -errno.ENOSYS), (Code.INTERNAL, -errno.EIO),
    (Code.UNAVAILABLE, -errno.ECONNREFUSED), (Code.DATA_LOSS, -errno.EBADMSG), (Code.UNAUTHENTICATED, -errno.EPERM)])
def test_statuses(caller, peer, code, rc):
    def fail(message, context):
        context.abort(code, "so 50 % is it: ü")

    peer({"/s/Fail": fail})
    t = caller()
    t.say("call /s/Fail 30000 0")
    done = t.done(0)
    assert fields(done) == (rc, code.value[0], 0)
    assert done["error"] == f"{code.name}: so 50 % is it: ü"


def test_a_method_that_is_not_there(caller, peer):
    peer({})
    t = caller()
    t.say("call /s/None 30000 0")
    assert t.done(0)["status"] == 12


def test_the_deadline_goes_along(caller, peer):
    left, cancelled = [], threading.Event()

    def wait(message, context):
        left.append(context.time_remaining())
        context.add_callback(cancelled.set)
        threading.Event().wait(2)
        return b""

    peer({"/s/Wait": wait, "/s/Echo": echo})
    t = caller()
    t.say("call /s/Wait 500 0")
    done = t.done(0)
    assert fields(done) == (-errno.ETIMEDOUT, 4, 0) and done["error"].startswith("DEADLINE_EXCEEDED")
    assert 0 < left[0] <= 0.5 and cancelled.wait(30)
    t.say("call /s/Echo 30000 5")
    assert fields(t.done(1)) == (0, 0, 5)
    stats = t.stats()
    assert (stats["client_calls"], stats["client_failed"], stats["client_connections"]) == (2, 1, 2)


def test_cancelled(caller, peer):
    begun, cancelled = threading.Event(), threading.Event()

    def wait(message, context):
        context.add_callback(cancelled.set)
        begun.set()
        cancelled.wait(30)
        return b""

    peer({"/s/Wait": wait, "/s/Echo": echo})
    t = caller()
    t.say("call /s/Wait 30000 0")
    assert begun.wait(30)
    t.say("cancel 0", "cancelled")
    assert cancelled.wait(30)
    t.say("call /s/Echo 30000 5")
    assert fields(t.done(1)) == (0, 0, 5)
    t.until(lambda now: now["client_active"] == 0)
    assert not [line for line in t.out.lines if line.startswith("done 0")]


def test_two_hundred_at_once(caller, peer):
    """None is answered before all are there: they do run at once, on one connection."""
    all_there = threading.Barrier(200)

    def meet(message, context):
        all_there.wait(60)
        return message

    peer({"/s/Meet": meet})
    t = caller()
    for i in range(200):
        t.say(f"call /s/Meet 60000 {i}")
    for i in range(200):
        assert fields(t.done(i)) == (0, 0, i)
    assert t.stats()["client_connections"] == 1


def test_nobody_there_yet(caller, peer, path):
    t = caller()
    t.say("call /s/Echo 30000 1")
    done = t.done(0)
    assert fields(done) == (-errno.ENOENT, 14, 0) and str(path) in done["error"]
    peer({"/s/Echo": echo})
    t.say("call /s/Echo 30000 1")
    assert fields(t.done(1)) == (0, 0, 1)


def test_a_server_that_comes_back(caller, peer):
    """Its going is seen by itself: the next call does not fail for it."""
    first = peer({"/s/Echo": echo})
    t = caller()
    t.say("call /s/Echo 30000 1")
    t.done(0)
    for i in range(1, 6):
        first.close()
        first = peer({"/s/Echo": echo})
        t.say("stats", "stats")  # a round of its loop
        t.say("call /s/Echo 30000 1")
        assert fields(t.done(i)) == (0, 0, 1)
    assert t.stats()["client_connections"] == 6


def test_a_killed_server(caller, path):
    server = child("""
from grpc_peers import *
def wait(message, context):
    print("asked", flush=True)
    time.sleep(600)
p = Peer(sys.argv[1], {"/s/Wait": wait})
print("ready", flush=True)
time.sleep(600)
""", path)
    t = caller()
    t.say("call /s/Wait 600000 0")
    assert server.stdout.readline() == "asked\n"
    server.kill()
    server.wait()
    assert fields(t.done(0))[1] == 14
    t.say("call /s/Wait 600000 0")
    assert fields(t.done(1)) == (-errno.ECONNREFUSED, 14, 0)  # its socket is still there


def test_a_server_that_stands_still(caller, peer, path):
    """The deadline holds, and the next call is on a new connection: here, to another server."""
    server = child("""
from grpc_peers import *
p = Peer(sys.argv[1], {"/s/Echo": lambda message, context: message})
print("ready", flush=True)
time.sleep(600)
""", path)
    t = caller()
    t.say("call /s/Echo 30000 1")
    assert fields(t.done(0)) == (0, 0, 1)
    server.send_signal(signal.SIGSTOP)
    t.say("call /s/Echo 300 1")
    assert fields(t.done(1)) == (-errno.ETIMEDOUT, 4, 0)
    path.unlink()
    peer({"/s/Echo": echo})
    t.say("call /s/Echo 30000 1")
    assert fields(t.done(2)) == (0, 0, 1)
    server.kill()
    server.wait()


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\xff" * 100, JUNK],
                         ids=["silence", "end", "http1", "ones", "junk"])
def test_peers_that_are_none(caller, path, answer):
    """None: says nothing and keeps the line open. Often, because who is first is a matter of luck."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(8)
    kept = []

    def serve():
        while True:
            try:
                s = listener.accept()[0]
            except OSError:
                return
            if answer is None:
                kept.append(s)
                continue
            if answer:
                s.sendall(answer)
            s.close()

    threading.Thread(target=serve, daemon=True).start()
    t = caller()
    for i in range(3 if answer is None else 50):
        t.say("call /s/Echo 300 1")
        rc, status, size = fields(t.done(i))
        assert rc < 0 and status in ((4,) if answer is None else (13, 14)) and size == 0
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_a_compressed_answer(caller, path, peer):
    def compressed(message, context):
        context.set_compression(grpc.Compression.Gzip)
        return b"x" * 10_000

    peer({"/s/Zip": compressed})
    t = caller()
    t.say("call /s/Zip 30000 0")
    assert t.done(0)["status"] in (12, 13)
