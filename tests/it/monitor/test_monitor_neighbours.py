"""Containers that do as they like to their files, programs that slip past the hook, priorities, boards, many containers."""

import os
import random
import struct
import time

import pytest

from conftest import MIB
from monitor_node import Node, pod, read_words, until, write_region

SLICE = "%s,NVIDIA,1000,30:"


@pytest.fixture
def node(make_sim):
    made = Node(make_sim(cards=1, memory="8Gi"))
    yield made
    made.close()


def scribble(path):
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        for at in range(0, size, 65536):
            file.seek(at)
            file.write(random.Random(at).randbytes(min(65536, size - at)))


def cut(path):
    os.truncate(path, 3000)


def empty(path):
    os.truncate(path, 0)


def link(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def directory(path):
    path.unlink()
    path.mkdir()


def second(path):
    (path.parent / "other.cache").write_bytes(b"x")


def crowd(path):
    for i in range(500):
        (path.parent / f"file-{i}").write_text("")


def all_slots(path):
    """Owners in every slot, and a mark that says so: as much work as a ledger can make."""
    with open(path, "r+b") as file:
        file.seek(2011136 + 32)
        file.write(struct.pack("<Q", 2**64 - 1))
        for slot in range(1024):
            file.seek(2011136 + 4096 + 128 * slot)
            file.write(struct.pack("<Q", os.getpid() << 32 | 1))


@pytest.mark.parametrize("spoil", [scribble, cut, empty, link, fifo, directory, second, crowd, all_slots])
def test_spoilt_files_hurt_nobody_else(node, spoil):
    (uuid,) = node.uuids()
    node.api.pods = [pod("good", "aa-1", SLICE % uuid), pod("bad", "bb-1", SLICE % uuid)]
    good, bad = node.client("aa-1"), node.client("bb-1")
    assert good.ask("alloc(100)") == 0 and bad.ask("alloc(100)") == 0
    node.start().ready()
    node.settled("gpuslice_container_processes", 1, pod="bad")
    bad.kill()  # the hook maps the file: what it does to itself is another test's matter
    spoil(node.folder("bb-1") / "slice.cache")
    if spoil not in (empty, all_slots):  # an empty one is a new one, and the last is whole
        node.settled("gpuslice_container_ledger_damaged", 1, pod="bad")
        assert len(node.lines("counts for nothing")) == 1
    assert good.ask("alloc(100)") == 0
    s = node.until(lambda s: s.one("hami_vgpu_memory_used_bytes", pod="good") >= 200 * MIB and s, "the neighbour is not seen")
    assert s.one("gpuslice_container_ledger_damaged", pod="good") == 0
    assert s.one("hami_vgpu_memory_limit_bytes", pod="bad") == 1000 * MIB
    assert node.get("/healthz") == (200, "ok\n") and node.monitor.poll() is None


def test_cards_that_a_tenant_makes_up(node):
    """No series for names that it writes into its file: the grant names its card."""
    (uuid,) = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % uuid)]
    write_region(node.folder("aa-1") / "x.cache", "GPU-made-up\n", used=77)
    node.start().ready()
    s = node.scrape()
    assert {x.labels["device_uuid"] for x in s.sample["hami_vgpu_memory_used_bytes"]} == {uuid}
    assert "made-up" not in s.text


def test_a_program_past_the_hook(node):
    """Somebody unset LD_PRELOAD: found by the driver's account of the container's processes."""
    (uuid,) = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % uuid), pod("good", "bb-1", SLICE % uuid)]
    good, loose = node.client("bb-1"), node.client("aa-1", hook=False)
    assert good.ask("alloc(900)") == 0 and loose.ask("alloc(500)") == 0
    node.start().ready()
    node.settled("gpuslice_container_unheld_processes", 1, pod="app")
    s = node.settled("gpuslice_container_held", 1, pod="app", held="none")
    assert s.one("gpuslice_container_without_ledger", pod="app") == 1
    assert s.one("gpuslice_container_excess_bytes", pod="app") == 0  # within its slice so far
    assert loose.ask("alloc(1000)") == 0
    begun = time.monotonic()
    s = node.settled("gpuslice_container_breaches_total", 1, pod="app")
    assert s.one("gpuslice_container_excess_bytes", pod="app") >= 500 * MIB
    assert s.one("gpuslice_container_breaches_total", pod="good") == 0
    assert time.monotonic() - begun < 5
    writes = until(lambda: len(node.writes()) >= 2 and node.writes(), "no event and label")
    assert len(writes) == 2  # nobody is evicted
    (event,) = [b for what, b in writes if what == "POST /api/v1/namespaces/team/events"]
    assert event["reason"] == "SliceExceeded" and event["type"] == "Warning" and event["involvedObject"]["uid"] == "aa-1"
    (patch,) = [b for what, b in writes if what == "PATCH /api/v1/namespaces/team/pods/app"]
    assert patch["metadata"] == {"uid": "aa-1", "labels": {"gpuslice.io/breach": "memory"}}
    (line,) = node.lines("uses more of a card than its slice")
    assert (line["namespace"], line["pod"], line["container"], line["device"]) == ("team", "app", "main", uuid)
    assert line["slice_bytes"] == 1000 * MIB and line["used_bytes"] >= 1500 * MIB
    assert loose.ask("free()") == 0
    node.settled("gpuslice_container_excess_bytes", 0, pod="app")
    assert node.scrape().one("gpuslice_container_breaches_total", pod="app") == 1


def test_eviction(node):
    (uuid,) = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % uuid)]
    loose = node.client("aa-1", hook=False)
    assert loose.ask("alloc(1500)") == 0
    node.start("--evict-breaches").ready()
    what = "POST /api/v1/namespaces/team/pods/app/eviction"
    body = until(lambda: [b for w, b in node.writes() if w == what], "it is not evicted")[0]
    assert body["kind"] == "Eviction" and body["deleteOptions"]["preconditions"]["uid"] == "aa-1"


def test_feedback_for_hamis_programs(node):
    """Priority 0 computes: priority 1 is blocked, until it is idle. Only the two words change."""
    (uuid,) = node.uuids()
    high, low = node.folder("aa-1") / "x.cache", node.folder("bb-1") / "x.cache"
    node.api.pods = [pod("high", "aa-1", SLICE % uuid, env=[("CUDA_TASK_PRIORITY", "0")]), pod("low", "bb-1", SLICE % uuid)]
    write_region(high, uuid, priority=0, recent=1000, used=4096, host_pid=4000001)
    write_region(low, uuid, priority=0, recent=0)  # it says so itself; its pod does not
    before = high.read_bytes(), low.read_bytes()
    node.start().ready()
    until(lambda: read_words(low) == (1, -1), "the one of low priority is not blocked")
    assert read_words(high)[0] == 0 and 900 < read_words(high)[1] < 1000
    for path, old in zip((high, low), before):
        new = path.read_bytes()
        assert new[:2008900] + new[2008908:] == old[:2008900] + old[2008908:]
    with open(high, "r+b") as file:
        file.seek(2008904)
        file.write(struct.pack("<i", 0))
    until(lambda: read_words(low) == (0, 0), "the one of low priority stays blocked")
    s = node.scrape()
    assert s.one("hami_vgpu_memory_used_bytes", pod="high") == 4096
    assert s.one("hami_vgpu_memory_buffer_bytes", pod="high") == 2048
    assert s.one("hami_container_device_utilization_ratio", pod="high") == 25
    assert s.one("gpuslice_container_held", pod="high", held="hook") == 1


def read_board(path, ino):
    """(beat, share, flags) of a slice by the layout of docs/protocol/board.md and contract/board.h; None: not on it."""
    data = path.read_bytes()
    magic, _, n = struct.unpack_from("<QII", data, 0)
    assert magic == 0x3144524F42475347 and len(data) == 256 + 256 * 56
    beat = struct.unpack_from("<Q", data, 24)[0]
    for i in range(n):
        _, entry, share, flags = struct.unpack_from("<QQII", data, 256 + 56 * i)
        if entry == ino:
            return beat, share, flags
    return None


def test_the_board(node):
    """The monitor writes it for containers, by their pods' grants, for all to read; and the next one goes on with it."""
    (uuid,) = node.uuids()
    board = node.hook_path / "board" / uuid
    node.api.pods = [pod("app", "aa-1", SLICE % uuid, env=[("GPU_CORE_UTILIZATION_POLICY", "default")])]
    client = node.client("aa-1", CUDA_DEVICE_SM_LIMIT="100", GPUSLICE_BOARD_DIR=node.hook_path / "board")
    ino = (node.folder("aa-1") / "slice.cache").stat().st_ino
    node.start().ready()
    node.settled("gpuslice_monitor_board_written", 1, device_uuid=uuid)
    beat, share, flags = until(lambda: read_board(board, ino), "the slice is not on the board")
    assert 3000 <= share <= 10000 and flags == 0
    until(lambda: read_board(board, ino)[0] > beat, "the board stands still")
    assert board.stat().st_mode & 0o777 == 0o644 and board.parent.stat().st_mode & 0o777 == 0o755
    node.monitor.kill()
    node.monitor.wait(30)
    last = read_board(board, ino)[0]
    node.start().ready()
    until(lambda: (read_board(board, ino) or (0,))[0] > last, "nobody writes the board")
    board.write_bytes(b"spoilt")
    until(lambda: board.stat().st_size == 256 + 256 * 56 and read_board(board, ino), "the board is not mended")
    client.kill()


def test_many_containers(node):
    """A hundred: one page tells of all, in little memory."""
    (uuid,) = node.uuids()
    node.api.pods = [pod(f"app-{i}", f"aa-{i}", SLICE % uuid) for i in range(100)]
    client = node.client("aa-0")
    assert client.ask("alloc(1)") == 0
    whole = (node.folder("aa-0") / "slice.cache").read_bytes()
    for i in range(1, 100):
        (node.folder(f"aa-{i}") / "slice.cache").write_bytes(whole)
    node.start().ready()
    s = node.until(lambda s: len(s.find("gpuslice_container_held", held="hook")) == 100 and s, "not all are shown")
    assert len(s.find("hami_vgpu_memory_used_bytes")) == 100
    for _ in range(50):
        node.scrape()
    assert node.rss_bytes() <= 20 * MIB
