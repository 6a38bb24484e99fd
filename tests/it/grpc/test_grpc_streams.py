"""Streams of a published value, as ListAndWatch is one."""

import threading

import grpc
import pytest
from grpc_peers import IS_SANITIZED, MIB, channel, watch

LIST = "/v1beta1.DevicePlugin/ListAndWatch"


def publish(server, n, letter):
    assert server.say(f"publish {n} {letter}", "published") == "0"


def test_newest_first_then_each_change(serve, path):
    server = serve()
    publish(server, 10, "a")
    publish(server, 10, "b")
    with channel(path) as c:
        stream = watch(c)
        assert next(stream) == b"b" * 10
        publish(server, 3, "c")
        assert next(stream) == b"ccc"
        publish(server, 0, "d")  # no devices at all
        assert next(stream) == b""
        publish(server, 1, "e")
        assert next(stream) == b"e"
        stream.cancel()
        server.out.take("watched 1")
        server.out.take("watched 0")
    assert server.until(lambda now: now["streams"] == 0)["sent"] == 4


def test_opened_before_there_is_anything(serve, path):
    server = serve()
    with channel(path) as c:
        stream = watch(c)
        server.out.take("watched 1")
        publish(server, 2, "x")
        assert next(stream) == b"xx"


def test_whatever_the_request_says(serve, path):
    server = serve()
    publish(server, 2, "x")
    with channel(path) as c:
        assert next(watch(c, message=b"\xff" * 1000)) == b"xx"


def test_a_slow_reader_gets_the_newest(serve, path):
    """It takes nothing for 400 messages of 1 MiB: what it missed costs neither it nor us anything."""
    server = serve()
    publish(server, MIB, "a")
    with channel(path) as slow, channel(path) as quick:
        stream, witness = watch(slow), watch(quick)
        assert next(witness)[:1] == b"a"
        server.until(lambda now: now["streams"] == 2)
        before = server.memory("VmRSS")
        for i in range(400):
            publish(server, MIB, "bcde"[i % 4])
        publish(server, MIB, "z")
        for message in witness:
            if message[:1] == b"z":
                break
        if not IS_SANITIZED:
            assert server.memory("VmHWM") - before < 24 * MIB
        got = []
        for message in stream:
            got.append(message[:1])
            if message[:1] == b"z":
                break
        assert len(got) < 20, got


def test_a_stuck_reader_does_not_hold_up_a_stop(serve, path):
    server = serve()
    publish(server, 4 * MIB, "a")
    with channel(path) as c:
        stream = watch(c)
        server.until(lambda now: now["sent"] == 1)
        publish(server, 4 * MIB, "b")
        server.say("stop 60000")
        server.out.take("stopped")
        with pytest.raises(grpc.RpcError) as error:
            for _ in stream:
                pass
        assert error.value.code() == grpc.StatusCode.UNAVAILABLE


def test_fifty_readers(serve, path):
    server = serve()
    publish(server, 100_000, "a")
    done = []

    def read():
        with channel(path) as c:
            for message in watch(c):
                if message[:1] == b"z":
                    done.append(len(message))
                    return

    readers = [threading.Thread(target=read) for _ in range(50)]
    for r in readers:
        r.start()
    server.until(lambda now: now["streams"] == 50)
    for letter in "bcdefz":
        publish(server, 50_000, letter)
    for r in readers:
        r.join(60)
    assert done == [50_000] * 50
    server.until(lambda now: now["open"] == 0)


def test_a_thousand_devices(serve, path, apis):
    """As the kubelet reads them: ids, health, topology; and the size that the kubelet has to take."""
    dp = apis.deviceplugin_v1beta1
    server = serve()
    rc, size = server.say("devices 1000 0", "published").split()
    assert rc == "0" and int(size) <= 64 << 10
    with channel(path) as c:
        stream = apis.deviceplugin_v1beta1_grpc.DevicePluginStub(c).ListAndWatch(dp.Empty())
        first = next(stream)
        assert first.ByteSize() == int(size)
        assert [d.ID for d in first.devices] == [f"GPU-{i:04d}" for i in range(1000)]
        assert {d.health for d in first.devices} == {"Healthy"}
        for i, d in enumerate(first.devices):
            assert [n.ID for n in d.topology.nodes] == ([i % 2] if i % 3 else [])
            assert d.HasField("topology") == (i % 3 != 0)
        for sick in (1, 1000):
            server.say(f"devices 1000 {sick}", "published")
            assert [d.health for d in next(stream).devices] == ["Unhealthy"] * sick + ["Healthy"] * (1000 - sick)
        server.say("devices 0 0", "published")
        assert len(next(stream).devices) == 0
