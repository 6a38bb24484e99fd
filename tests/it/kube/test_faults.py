"""The client over real sockets while the server misbehaves."""

import threading

from fake_api import GONE, LAST, bookmark, frame, pod

MIB = 1 << 20


def named(lines) -> list[str]:
    return [line["name"] for line in lines]


def test_cut_in_the_middle_of_an_object(probe, server):
    server.pods = [pod("a", 5)]
    data = frame("ADDED", pod("b", 11))

    def first(stream):
        stream.send(bookmark(10) + data[:20])
        stream.cut()

    server.scripts = [first, lambda stream: (stream.send(data), server.ending.wait(60))]
    probe.send("watch", "pods", "-")
    probe.wait("trouble")
    assert probe.wait("added", name="b")
    watches = [q for _, q in server.seen if q.get("watch")]
    assert [q["resourceVersion"] for q in watches] == ["10", "10"]
    assert probe.stats()["lists"] == 1


def test_byte_by_byte(probe, server):
    def trickle(stream):
        for byte in frame("ADDED", pod("slow", 11)):
            stream.send(bytes([byte]))
        server.ending.wait(60)

    server.scripts = [trickle]
    probe.send("watch", "pods", "-")
    assert probe.wait("added", name="slow")


def test_gone_with_objects_deleted_meanwhile(probe, server):
    server.pods = [pod("stays", 5), pod("goes", 6), pod("returns", 7)]

    def gap(stream):
        server.pods = [pod("stays", 5), pod("returns", 40, uid="other"), pod("new", 41)]
        server.version = 50
        stream.send(GONE)

    server.scripts = [gap]
    probe.send("watch", "pods", "-")
    probe.wait("relisted")
    assert named(probe.said("added")) == ["stays", "goes", "returns", "returns", "new"]
    assert sorted(named(probe.said("deleted"))) == ["goes", "returns"]
    assert not probe.said("modified")


def test_retry_after(probe, server):
    server.answers = [(429, {"Retry-After": "1"}, {"kind": "Status", "code": 429, "reason": "TooManyRequests"})]
    got = probe.ask("create", "configmaps", "n", {})
    assert (got["rc"], got["tries"]) == (0, 2)
    server.answers = [(503, {}, b"upstream down")] * 2
    assert probe.ask("get", "/version")["tries"] == 3
    server.answers = [(500, {}, b"oops")]
    broken = probe.ask("create", "configmaps", "n", {})
    assert (broken["errno"], broken["message"], broken["tries"]) == ("EIO", "oops", 1)


def writes(server) -> list[str]:
    return [call for call, _ in server.seen if call.startswith(("POST", "PATCH"))]


def test_a_write_that_may_have_arrived_is_not_repeated(probe, server):
    """On a connection that has served a call, libcurl would send it again by itself."""
    assert probe.ask("get", "/version")["rc"] == 0
    server.answers = [None]
    got = probe.ask("bind", "n", "p", "u", "node")
    assert (got["errno"], got["status"], got["tries"], got["did_nothing"]) == ("ECONNRESET", 0, 1, False)
    assert len(writes(server)) == 1
    server.answers = [None]  # on a new connection
    assert probe.ask("bind", "n", "p", "u", "node")["did_nothing"] is False
    assert len(writes(server)) == 2
    server.answers = [(408, {}, {"kind": "Status", "code": 408}), (504, {}, b"")]
    assert [probe.ask("bind", "n", "p", "u", "node")["did_nothing"] for _ in range(2)] == [False, False]


def test_no_connection_after_one_that_broke(probe, server):
    """What is told of the second says nothing of the first."""
    assert probe.ask("get", "/version")["rc"] == 0
    server.answers = [LAST]
    got = probe.ask("bind", "n", "p", "u", "node")
    assert (got["errno"], got["did_nothing"]) == ("ECONNRESET", False)


def test_a_write_that_did_nothing(make_probe, server):
    probe = make_probe(timeout_ms=3000)
    refused = {"kind": "Status", "code": 403, "reason": "Forbidden"}
    server.answers = [(429, {"Retry-After": "1"}, {"kind": "Status", "code": 429}), (403, {}, refused)]
    got = probe.ask("bind", "n", "p", "u", "node")
    assert (got["status"], got["tries"], got["did_nothing"]) == (403, 2, True)
    server.answers = [(503, {"Retry-After": "1"}, b""), None]
    got = probe.ask("bind", "n", "p", "u", "node")
    assert (got["tries"], got["did_nothing"]) == (2, False)
    server.close()
    got = probe.ask("bind", "n", "p", "u", "node")
    assert (got["status"], got["did_nothing"]) == (0, True)


def test_huge_objects(make_probe, server):
    probe = make_probe(max_object=2 * MIB)
    large, larger = "x" * MIB, "x" * (3 * MIB)

    def flood(stream):
        stream.send(frame("ADDED", pod("large", 11, pad=large)))
        stream.send(frame("ADDED", pod("larger", 12, pad=larger)))
        server.ending.wait(60)

    server.scripts = [flood]
    probe.send("watch", "pods", "-")
    assert probe.wait("added", name="large")["pad"] == MIB
    assert "too large" in probe.wait("trouble")["err"]
    probe.wait("relisted")


def test_silent_server(make_probe, server):
    probe = make_probe(try_ms=200, timeout_ms=700)
    gate = threading.Event()
    listed = server.list
    server.list = lambda handler, query: gate.wait(30)
    got = probe.ask("get", "/version")
    assert got["errno"] == "ETIMEDOUT" and got["tries"] >= 2
    gate.set()
    server.list = listed


def test_a_watch_that_does_not_begin(make_probe, server):
    probe = make_probe(try_ms=300)
    gate = threading.Event()
    watched = server.watch

    def hang(handler, query):
        server.watch = watched
        gate.wait(30)

    server.watch = hang
    server.scripts = [lambda stream: (stream.send(frame("ADDED", pod("late", 11))), server.ending.wait(60))]
    probe.send("watch", "pods", "-")
    assert "no answer began" in probe.wait("trouble")["err"]
    assert probe.wait("added", name="late")
    gate.set()


def test_nobody_listens(make_probe, server):
    probe = make_probe(timeout_ms=600)
    server.close()
    got = probe.ask("create", "configmaps", "n", {})
    assert got["errno"] == "ECONNREFUSED" and got["tries"] >= 2  # nothing was sent: even a create is tried again
    assert probe.stats()["in_flight"] == 0


def test_memory_of_many_pods(make_probe, server):
    """40,000 pods of 2 KiB leave names behind, not objects."""
    probe = make_probe(quiet=1)
    probe.ask("get", "/version")
    before = probe.resident_kib()
    server.pods = [pod(f"pod-{i:06}-abcdef", i + 1, uid=f"0e5a4b1c-93a1-4f6c-9d7c-{i:012}", pad="y" * 2048)
                   for i in range(40_000)]
    probe.send("watch", "pods", "-")
    probe.wait("synced", timeout=120)
    stats = probe.stats()
    assert stats["objects"] == 40_000 and stats["bytes"] < 10 * MIB
    assert probe.resident_kib() - before < 40 * 1024


def test_no_growth_over_a_million_events(make_probe, server):
    probe = make_probe(quiet=1)
    go = threading.Event()
    rounds = 1000
    chunks = [b"".join(frame(kind, pod(f"p{k}", 100 + i, uid=f"{i}-{k}"))
                       for k in range(250) for kind in ("ADDED", "MODIFIED", "MODIFIED", "DELETED")) for i in range(10)]

    def storm(stream):
        for i in range(rounds):
            stream.send(chunks[i % len(chunks)])
            if i == rounds // 10:
                stream.send(bookmark(7))
                go.wait(60)
        stream.send(bookmark(8))
        server.ending.wait(60)

    def wait_for(bookmarks):
        while probe.stats()["bookmarks"] < bookmarks:
            threading.Event().wait(0.05)

    server.scripts = [storm]
    probe.send("watch", "pods", "-")
    wait_for(1)
    before = probe.resident_kib()
    go.set()
    wait_for(2)
    stats = probe.stats()
    assert (stats["events"], stats["objects"], stats["bad"]) == (rounds * 1000, 0, 0)
    assert probe.resident_kib() - before < 1024
