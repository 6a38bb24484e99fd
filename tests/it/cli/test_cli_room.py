"""Cards on which programs outside any slice have taken the room: what is promised, what is told, what the log says."""

import subprocess
import sys

import pytest

from cli_tools import CLIENT, Client, cli, end, make_cli, read_line  # noqa: F401 (fixtures)

MIB = 1 << 20


class Stranger(Client):
    """A plain program in no slice, with so much of card 0."""

    def __init__(self, cli, mib, card="0"):
        self.p = subprocess.Popen([sys.executable, "-c", CLIENT, "pass"], env={**cli.env, "CUDA_VISIBLE_DEVICES": card},
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        cli.started.append(self.p)
        self.pid = int(read_line(self.p.stdout))
        assert self.ask(f"alloc({mib})") == 0


def card_of(cli, name):
    uuid = cli.slice(name)["devices"][0]["uuid"]
    return [c["index"] for c in cli.top()["cards"] if c["uuid"] == uuid][0]


def test_a_card_with_room_is_taken(make_cli):
    cli = make_cli(cards=2)
    Stranger(cli, 7 << 10)
    p = Client(cli, "--memory", "2Gi", "--name", "a")
    assert card_of(cli, "a") == 1
    assert p.ask("alloc(2000)") == 0
    p.p.stdin.close()
    assert p.p.wait(30) == 0 and p.p.stderr.read() == ""


def test_what_others_may_still_take_is_no_room(make_cli):
    """Card 0 has 5 GiB free, 4 GiB of which are promised to a slice that has taken none yet."""
    cli = make_cli(cards=2)
    Stranger(cli, 3 << 10)
    Stranger(cli, 4 << 10, card="1")
    cli.start("--memory", "4Gi", "--device", "0", "--name", "early")
    cli.start("--memory", "2Gi", "--name", "late")
    assert card_of(cli, "late") == 1


def test_a_promise_that_cannot_be_kept_now_is_told_and_made(cli):
    stranger = Stranger(cli, 7 << 10)
    p = Client(cli, "--memory", "2Gi", "--name", "o1")
    assert p.ask("alloc(512)") == 0
    assert p.ask("alloc(1024)") == 2  # CUDA_ERROR_OUT_OF_MEMORY: the card's
    log = cli.ok("log", "o1")
    assert "cuMemAlloc: refused by the driver, not by the limit (in use 512 MiB, limit 2 GiB): the card has no room for 1 GiB" in log
    assert p.ask("alloc(2048)") == 2  # the limit's
    assert "asked for 2 GiB, but 512 MiB of the slice's 2 GiB are in use" in cli.ok("log", "o1")
    assert end(stranger) == 0
    assert p.ask("alloc(1024)") == 0
    p.p.stdin.close()
    assert p.p.wait(30) == 0
    said = p.p.stderr.read().splitlines()
    assert len(said) == 2 and "2 requests for memory were refused; see 'gpuslice log o1'" in said[1]
    for part in ("card 0 has room for 1 GiB of its 8 GiB now, not for the 2 GiB promised", f"(pid {stranger.pid}, outside any slice)", "7 GiB"):
        assert part in said[0], said


def test_slices_that_hold_the_rest_are_named(cli):
    """One without a limit promises nothing, and has it all the same."""
    Client(cli, "--name", "wide").ask("alloc(7168)")
    out = cli("run", "--memory", "2Gi", "--device", "0", "true")
    assert out.returncode == 0 and "7 GiB slice 'wide'" in out.stderr and "pid" not in out.stderr
    out = cli("run", "--memory", "2Gi", "--oversubscribe", "true")  # the host serves what the card lacks
    assert (out.returncode, out.stderr) == (0, "")


def test_growing_beyond_the_room_is_told(cli):
    Stranger(cli, 5 << 10)
    p = Client(cli, "--memory", "2Gi", "--name", "g")
    assert p.ask("alloc(1024)") == 0
    out = cli("resize", "--memory", "3Gi", "g")  # what it has is its own
    assert (out.returncode, out.stderr) == (0, "")
    out = cli("resize", "--memory", "4Gi", "g")
    assert out.returncode == 0 and "has room for 3 GiB of its 8 GiB now, not for the 4 GiB promised" in out.stderr


@pytest.mark.parametrize("oversubscribe", [[], ["--oversubscribe"]])
def test_the_log_tells_of_every_kind_of_memory(cli, oversubscribe):
    """Arrays, pools and virtual memory stay on the card, with --oversubscribe too."""
    Stranger(cli, 8000)
    p = Client(cli, "--memory", "4Gi", "--name", "k", *oversubscribe)
    p.tell("[setattr(sys.modules['__main__'], 'q', C.c_uint64()), c.cuMemAllocAsync(C.byref(q), C.c_size_t(1 << 30), None)][1]")
    assert p.answer() == 2
    p.tell("(lambda d: c.cuArrayCreate_v2(C.byref(q), (C.c_size_t * 4)(32768, 8192, 0x100000020, 0)))(0)")
    assert p.answer() == 2
    p.tell("c.cuMemCreate(C.byref(q), C.c_size_t(1 << 30), (C.c_int * 8)(1, 0, 1, 0), C.c_ulonglong(0))")
    assert p.answer() == 2
    log = cli.ok("log", "k")
    for what in ("cuMemAllocAsync", "cuArrayCreate", "cuMemCreate"):
        assert f"{what}: refused by the driver, not by the limit" in log, log
